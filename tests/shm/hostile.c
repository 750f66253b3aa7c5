/* SPDX-License-Identifier: MIT */
/*
 * A program that speaks the library's protocol and has no business here:
 *
 *   hostile UID squat PORT        takes the rendezvous' name first; says what it's sent
 *   hostile UID forge PORT PEER   asks for the connection of 127.0.0.1:PEER to 127.0.0.1:PORT,
 * which is somebody else's; says what it's answered hostile UID offers PORT       offers memory,
 * and much else, that nobody should map hostile UID nonsense PORT     links itself properly and
 * fills the memory with nonsense, flags, wakes and its own end
 */
#include "link/carrier.h"
#include "link/shm/ring.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* As meet.c has it. */
struct note {
	char mark[4];
	uint8_t version, zero;
	uint16_t reason;
	uint32_t slots, chunks, chunk;
};

static struct xs_shm_area *area;
static struct xs_shm_out out;
static struct xs_shm_in in;
static uint64_t seed = 1;

static uint64_t next(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

static void die(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

static socklen_t name_of(const char *port, struct sockaddr_un *un)
{
	int n;

	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	n = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1, "xshim%d/tcp/127.0.0.1/%s",
		     XS_WIRE_VERSION, port);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int socket_of(const char *port, struct sockaddr_un *un, socklen_t *len)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	if (fd < 0)
		die("socket");
	*len = name_of(port, un);
	return fd;
}

static int dial(const char *port)
{
	struct sockaddr_un un;
	socklen_t len;
	int fd = socket_of(port, &un, &len);

	if (connect(fd, (struct sockaddr *)&un, len) < 0)
		die("connect");
	return fd;
}

static struct note right(void)
{
	return (struct note){.mark = "xshm",
			     .version = XS_WIRE_VERSION,
			     .slots = XS_SHM_SLOTS,
			     .chunks = XS_SHM_CHUNKS,
			     .chunk = XS_SHM_CHUNK};
}

static void say(int fd, const void *note, size_t n, const int *with, size_t count)
{
	char control[CMSG_SPACE(16 * sizeof(int))] = {0};
	struct iovec iov = {(void *)(uintptr_t)note, n};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;

	if (count) {
		mh.msg_control = control;
		mh.msg_controllen = CMSG_SPACE(count * sizeof(int));
		c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(c), with, count * sizeof(int));
	}
	sendmsg(fd, &mh, MSG_NOSIGNAL);
}

/* What the other side says to that; 0: it has closed. */
static ssize_t heard(int fd, struct note *n)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	if (poll(&pfd, 1, 10000) != 1)
		return -1;
	return recv(fd, n, sizeof(*n), 0);
}

static int memory(size_t size, int seals)
{
	int fd = memfd_create("hostile", MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0 ||
	    (seals && fcntl(fd, F_ADD_SEALS, seals) < 0))
		die("memfd");
	return fd;
}

static void map(int fd, int side)
{
	area = mmap(NULL, sizeof(*area), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (area == MAP_FAILED)
		die("mmap");
	xs_shm_out_init(&out, &area->dir[side]);
	xs_shm_in_init(&in, &area->dir[!side]);
}

/* A link like any other. */
static int linked(const char *port)
{
	int fd = dial(port), mem = memory(sizeof(*area), SEALS);
	struct note n = right();

	map(mem, 0);
	say(fd, &n, sizeof(n), &mem, 1);
	close(mem);
	if (heard(fd, &n) != sizeof(n) || n.reason) {
		printf("no link: %s\n", xs_reason_name((enum xs_reason)n.reason));
		exit(1);
	}
	return fd;
}

static void post(int fd, const struct xs_seghdr *h, const void *payload)
{
	xs_shm_out_put(&out, h, payload, -1);
	send(fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void say_hello(int fd)
{
	struct xs_hello hello = {.version = XS_WIRE_VERSION,
				 .process = "hostile",
				 .small_entries = 100,
				 .bulk_entries = 8,
				 .small_size = 248,
				 .bulk_size = 65536};
	struct xs_seghdr h = {.kind = XS_K_HELLO, .length = sizeof(hello)};

	post(fd, &h, &hello);
}

/* The next segment that the other side sends; false: it has closed, or says nothing for a while. */
static bool came(int fd, struct xs_shm_got *got)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	char byte[8];

	for (;;) {
		if (xs_shm_in_look(&in, got) == XS_SHM_GOT) {
			xs_shm_in_next(&in);
			return true;
		}
		xs_shm_in_arm(&in);
		if (xs_shm_in_look(&in, got) == XS_SHM_GOT)
			continue;
		if (poll(&pfd, 1, 10000) != 1 || recv(fd, byte, sizeof(byte), 0) <= 0)
			return xs_shm_in_look(&in, got) == XS_SHM_GOT;
	}
}

/* --- what it does ----------------------------------------------------------------------------- */
static void squat(const char *port)
{
	struct xs_shm_got got;
	struct sockaddr_un un;
	char control[CMSG_SPACE(sizeof(int))];
	struct note n;
	struct iovec iov = {&n, sizeof(n)};
	struct msghdr mh = {.msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control)};
	socklen_t len;
	int lfd = socket_of(port, &un, &len), fd, mem;

	if (bind(lfd, (struct sockaddr *)&un, len) < 0 || listen(lfd, 8) < 0)
		die("bind");
	printf("squatting\n");
	fd = accept(lfd, NULL, NULL);
	if (fd < 0 || recvmsg(fd, &mh, 0) != sizeof(n) || !CMSG_FIRSTHDR(&mh))
		die("offer");
	memcpy(&mem, CMSG_DATA(CMSG_FIRSTHDR(&mh)), sizeof(mem));
	map(mem, 1);
	n = right();
	say(fd, &n, sizeof(n), NULL, 0);
	say_hello(fd);
	while (came(fd, &got)) {
		printf("sent kind %d\n", got.h.kind);
		fflush(stdout);
	}
}

static void forge(const char *port, const char *peer)
{
	struct xs_pair_ask ask = {.id = 1, .generation = 1, .nonce = 7};
	struct xs_seghdr h = {.kind = XS_K_PAIR_ASK, .length = sizeof(ask)};
	struct xs_pair_answer an;
	struct xs_shm_got got;
	int fd = linked(port);

	ask.asker.ip[10] = ask.asker.ip[11] = 0xff;
	inet_pton(AF_INET, "127.0.0.1", ask.asker.ip + 12);
	ask.answerer = ask.asker;
	ask.asker.port = (uint16_t)atoi(peer);
	ask.answerer.port = (uint16_t)atoi(port);
	say_hello(fd);
	post(fd, &h, &ask);
	while (came(fd, &got)) {
		if (got.h.kind != XS_K_PAIR_ANSWER)
			continue;
		memcpy(&an, got.payload, sizeof(an));
		printf("answered %s\n",
		       an.reason ? xs_reason_name((enum xs_reason)an.reason) : "yes");
		return;
	}
	printf("answered nothing\n");
}

static void refused(const char *port, const void *note, size_t n, const int *with, size_t count)
{
	struct note answer = {.reason = 0};
	int fd = dial(port);

	say(fd, note, n, with, count);
	if (heard(fd, &answer) > 0 && !answer.reason)
		printf("an offer of %zu bytes and %zu descriptors was taken\n", n, count);
	close(fd);
}

static void offers(const char *port)
{
	struct note n = right(), odd;
	int mem[16], full[2], one;

	for (int i = 0; i < 16; i++)
		mem[i] = memory(sizeof(*area), SEALS);
	refused(port, &n, sizeof(n), NULL, 0);
	refused(port, &n, sizeof(n), mem, 2);
	refused(port, &n, sizeof(n), mem, 16);
	refused(port, &n, 3, mem, 1);
	refused(port, "", 1, mem, 1);
	odd = n;
	odd.version++;
	refused(port, &odd, sizeof(odd), mem, 1);
	odd = n;
	odd.slots *= 2;
	refused(port, &odd, sizeof(odd), mem, 1);
	odd = n;
	odd.reason = 0xffff;
	refused(port, &odd, sizeof(odd), mem, 1);
	one = memory(sizeof(*area), 0);
	refused(port, &n, sizeof(n), &one, 1);
	one = memory(4096, SEALS);
	refused(port, &n, sizeof(n), &one, 1);
	one = open("/dev/null", O_RDWR);
	refused(port, &n, sizeof(n), &one, 1);
	/* What would block whoever writes to it. */
	if (pipe(full) == 0)
		refused(port, &n, sizeof(n), &full[1], 1);
	/* Many who say nothing: others must still be let in. */
	for (int i = 0; i < 200; i++)
		dial(port);
	printf("done\n");
}

static void nonsense(const char *port)
{
	for (int round = 0; round < 50; round++) {
		int fd = linked(port);
		unsigned *p = (unsigned *)area;

		if (round % 2)
			say_hello(fd);
		for (int i = 0; i < 2000; i++) {
			struct xs_seghdr h;
			uint8_t payload[XS_SHM_INLINE];

			for (size_t b = 0; b < sizeof(payload); b++)
				payload[b] = (uint8_t)next();
			memcpy(&h, payload, sizeof(h));
			h.kind = (uint8_t)(next() % (XS_K_MAX + 1));
			h.id = (uint32_t)(next() % 8);
			h.length = (uint32_t)(next() % (sizeof(payload) + 1));
			if (round % 5 == 4) /* any word of the memory, the other side's own too */
				p[next() % (sizeof(*area) / sizeof(*p))] = (unsigned)next();
			else
				post(fd, &h, payload);
		}
		munmap(area, sizeof(*area));
		close(fd);
	}
	printf("done\n");
}

int main(int argc, char **argv)
{
	uid_t uid;

	if (argc < 4)
		return 2;
	uid = (uid_t)atoi(argv[1]);
	if (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
		die("setresuid");
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(argv[2], "squat"))
		squat(argv[3]);
	else if (!strcmp(argv[2], "forge") && argc > 4)
		forge(argv[3], argv[4]);
	else if (!strcmp(argv[2], "offers"))
		offers(argv[3]);
	else if (!strcmp(argv[2], "nonsense"))
		nonsense(argv[3]);
	return 0;
}
