/* SPDX-License-Identifier: MIT */
/*
 * Whose is the other end of a TCP connection on this host? The kernel says: by sock_diag, or, where
 * a sandbox allows no netlink, in /proc/net/tcp and tcp6. Both answer with user ids as this
 * process's user namespace sees them, as SO_PEERCRED does; a user that it doesn't know shows as the
 * overflow id there, which stands for many and never matches anything.
 */
#include "base/log.h"
#include "base/prefix.h"
#include "base/rawsys.h"
#include "link/shm/shm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OVERFLOW_UID 65534u
#define LINE 512 /* of /proc/net/tcp6: less than 200 */

static enum xs_shm_owner verdict(unsigned state, unsigned long inode)
{
	if (state == TCP_LISTEN || state == TCP_TIME_WAIT || state == TCP_CLOSE)
		return XS_OWNER_ABSENT;
	return inode ? XS_OWNER_FOUND : XS_OWNER_LATER;
}

/* --- sock_diag -------------------------------------------------------------------------------- */
struct question {
	struct nlmsghdr h;
	struct inet_diag_req_v2 req;
};

struct answer {
	struct nlmsghdr h;
	union {
		struct nlmsgerr err;
		struct inet_diag_msg msg;
	} u;
	char rest[512];
};

static void fill(struct question *q, const struct xs_wire_addr *theirs,
		 const struct xs_wire_addr *ours)
{
	bool four = xs_prefix_four(theirs->ip);
	size_t skip = four ? 12 : 0;
	struct inet_diag_sockid *id = &q->req.id;

	memset(q, 0, sizeof(*q));
	q->h = (struct nlmsghdr){.nlmsg_len = sizeof(*q),
				 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
				 .nlmsg_flags = NLM_F_REQUEST};
	q->req.sdiag_family = four ? AF_INET : AF_INET6;
	q->req.sdiag_protocol = IPPROTO_TCP;
	q->req.idiag_states = UINT32_MAX;
	id->idiag_sport = htons(theirs->port);
	id->idiag_dport = htons(ours->port);
	memcpy(id->idiag_src, theirs->ip + skip, sizeof(theirs->ip) - skip);
	memcpy(id->idiag_dst, ours->ip + skip, sizeof(ours->ip) - skip);
	id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
}

/* Without such a connection the kernel answers with the listener. */
static bool same_ports(const struct inet_diag_msg *m, const struct xs_wire_addr *theirs,
		       const struct xs_wire_addr *ours)
{
	return m->id.idiag_sport == htons(theirs->port) && m->id.idiag_dport == htons(ours->port);
}

static enum xs_shm_owner ask(int fd, const struct xs_wire_addr *theirs,
			     const struct xs_wire_addr *ours, uid_t *uid)
{
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	struct question q;
	struct answer a;
	long r;

	fill(&q, theirs, ours);
	if (xs_sys(__NR_sendto, fd, &q, sizeof(q), 0, &kernel, sizeof(kernel)) < 0)
		return XS_OWNER_HIDDEN;
	r = xs_sys(__NR_recvfrom, fd, &a, sizeof(a), MSG_DONTWAIT, NULL, NULL);
	if (r < (long)(sizeof(a.h) + sizeof(a.u.err.error)))
		return XS_OWNER_HIDDEN;
	if (a.h.nlmsg_type == NLMSG_ERROR)
		return a.u.err.error == -ENOENT ? XS_OWNER_ABSENT : XS_OWNER_HIDDEN;
	if (a.h.nlmsg_type != SOCK_DIAG_BY_FAMILY || r < (long)(sizeof(a.h) + sizeof(a.u.msg)))
		return XS_OWNER_HIDDEN;
	if (!same_ports(&a.u.msg, theirs, ours))
		return XS_OWNER_ABSENT;
	*uid = a.u.msg.idiag_uid;
	return verdict(a.u.msg.idiag_state, a.u.msg.idiag_inode);
}

static enum xs_shm_owner owner_diag(const struct xs_wire_addr *theirs,
				    const struct xs_wire_addr *ours, uid_t *uid)
{
	long fd = xs_sys(__NR_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	enum xs_shm_owner got;

	if (fd < 0)
		return XS_OWNER_HIDDEN;
	got = ask((int)fd, theirs, ours, uid);
	xs_sys(__NR_close, fd);
	return got;
}

/* --- /proc ------------------------------------------------------------------------------------ */
/* An address as the tables print it: words of the machine's byte order. */
static int print_end(char *out, size_t room, const struct xs_wire_addr *a, bool four)
{
	uint32_t w[4];

	memcpy(w, a->ip, sizeof(w));
	if (four)
		return snprintf(out, room, "%08X:%04X", w[3], a->port);
	return snprintf(out, room, "%08X%08X%08X%08X:%04X", w[0], w[1], w[2], w[3], a->port);
}

/* "  sl: LOCAL REMOTE st tx:rx tr:when retrnsmt uid timeout inode ..." */
static enum xs_shm_owner read_line(const char *line, const char *needle, uid_t *uid)
{
	const char *at = strstr(line, needle);
	unsigned state, user;
	unsigned long inode;

	if (!at || sscanf(at + strlen(needle), "%x %*x:%*x %*x:%*x %*x %u %*d %lu", &state, &user,
			  &inode) != 3)
		return XS_OWNER_ABSENT;
	*uid = user;
	return verdict(state, inode);
}

/* One line of buf, which holds n bytes, at the end of the file maybe less than a line. */
static enum xs_shm_owner read_table(int fd, const char *needle, uid_t *uid)
{
	enum xs_shm_owner got = XS_OWNER_ABSENT;
	char buf[16384];
	size_t n = 0;
	long r;

	while (got == XS_OWNER_ABSENT) {
		char *line = buf, *end;

		r = xs_sys(__NR_read, fd, buf + n, sizeof(buf) - 1 - n);
		if (r <= 0)
			return r < 0 ? XS_OWNER_HIDDEN : XS_OWNER_ABSENT;
		n += (size_t)r;
		buf[n] = 0;
		while (got == XS_OWNER_ABSENT && (end = strchr(line, '\n')) != NULL) {
			*end = 0;
			got = read_line(line, needle, uid);
			line = end + 1;
		}
		n -= (size_t)(line - buf);
		if (n >= sizeof(buf) - LINE)
			return XS_OWNER_HIDDEN;
		memmove(buf, line, n);
	}
	return got;
}

static enum xs_shm_owner search(const char *path, bool four, const struct xs_wire_addr *theirs,
				const struct xs_wire_addr *ours, uid_t *uid)
{
	enum xs_shm_owner got;
	char needle[128];
	long fd = xs_sys(__NR_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	int n;

	if (fd < 0)
		return XS_OWNER_HIDDEN;
	n = print_end(needle, sizeof(needle) - 1, theirs, four);
	needle[n++] = ' ';
	n += print_end(needle + n, sizeof(needle) - 1 - (size_t)n, ours, four);
	needle[n++] = ' ';
	needle[n] = 0;
	got = read_table((int)fd, needle, uid);
	xs_sys(__NR_close, fd);
	return got;
}

enum xs_shm_owner xs_shm_owner_proc(const struct xs_wire_addr *theirs,
				    const struct xs_wire_addr *ours, uid_t *uid)
{
	enum xs_shm_owner six = search("/proc/thread-self/net/tcp6", false, theirs, ours, uid);
	enum xs_shm_owner four;

	if (six == XS_OWNER_FOUND || six == XS_OWNER_LATER || !xs_prefix_four(theirs->ip))
		return six;
	four = search("/proc/thread-self/net/tcp", true, theirs, ours, uid);
	return four == XS_OWNER_ABSENT ? six : four;
}

/* --- the answer ------------------------------------------------------------------------------- */
/* Without its module the kernel finds nothing, as if there were no such connection. */
enum xs_shm_owner xs_shm_owner(const struct xs_wire_addr *theirs, const struct xs_wire_addr *ours,
			       uid_t *uid)
{
	static bool works; /* progress thread */
	enum xs_shm_owner got = owner_diag(theirs, ours, uid);

	if (got == XS_OWNER_FOUND)
		works = true;
	if (got == XS_OWNER_HIDDEN || (got == XS_OWNER_ABSENT && !works))
		got = xs_shm_owner_proc(theirs, ours, uid);
	return got;
}

enum xs_reason xs_shm_owns(struct xs_conduit *c, const struct xs_wire_addr *theirs,
			   const struct xs_wire_addr *ours)
{
	uid_t uid = OVERFLOW_UID;

	switch (xs_shm_owner(theirs, ours, &uid)) {
	case XS_OWNER_LATER:
		return XS_R_NOT_ACCEPTED;
	case XS_OWNER_ABSENT:
		return XS_R_TUPLE;
	case XS_OWNER_HIDDEN:
		/* Who runs as we do could do to us what it likes. */
		return c->uid == geteuid() && c->uid != OVERFLOW_UID ? XS_R_NONE : XS_R_NO_DIAG;
	default:
		break;
	}
	if (uid == OVERFLOW_UID || c->uid == OVERFLOW_UID)
		return XS_R_USERNS;
	if (uid == c->uid)
		return XS_R_NONE;
	XS_LOG(WARN, "shm: user %u asks for a connection of user %u", c->uid, uid);
	return XS_R_UNTRUSTED;
}
