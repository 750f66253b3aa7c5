/* SPDX-License-Identifier: MIT */
/* The connection of an input, and its pairing as two good ends would do it. */
#include "hostile.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/real.h"

int victim_fd, peer_fd;
struct xs_id_key theirs;
static int listener = -1, bare_listener = -1; /* the victim's; the peer's */
static unsigned round_no;

static void hello(uint32_t entries)
{
	struct xs_hello he = {.version = XS_WIRE_VERSION,
			      .small_entries = entries,
			      .bulk_entries = 1 + entries / 4,
			      .small_size = 4096,
			      .bulk_size = 65536};

	memcpy(he.process, &round_no, sizeof(round_no));
	hostile_says(XS_LANE_SMALL, (struct xs_seghdr){.kind = XS_K_HELLO}, &he, sizeof(he));
}

static void address(int fd, bool ours, struct xs_wire_addr *w)
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a);

	(ours ? xs_real.getsockname : xs_real.getpeername)(fd, (struct sockaddr *)&a, &len);
	memset(w, 0, sizeof(*w));
	w->ip[10] = w->ip[11] = 0xff;
	memcpy(w->ip + 12, &a.sin_addr, 4);
	w->port = ntohs(a.sin_port);
}

/* The peer has connected, and asks. */
static void ask(uint32_t entries)
{
	struct xs_pair_ask a = {.id = 7, .generation = 1, .nonce = 99};
	struct xs_pair_done done = {.reason = XS_R_NONE};

	if (!hostile_incoming())
		return;
	hello(entries);
	address(peer_fd, true, &a.asker);
	address(peer_fd, false, &a.answerer);
	memset(a.secret, 0x5a, sizeof(a.secret));
	hostile_says(XS_LANE_SMALL, (struct xs_seghdr){.kind = XS_K_PAIR_ASK}, &a, sizeof(a));
	if (!hostile_await(XS_K_PAIR_ANSWER))
		return;
	theirs = (struct xs_id_key){hostile.said[XS_K_PAIR_ANSWER].answer.id,
				    hostile.said[XS_K_PAIR_ANSWER].answer.generation};
	done.id = theirs.id;
	done.generation = theirs.generation;
	hostile_says(XS_LANE_SMALL, (struct xs_seghdr){.kind = XS_K_PAIR_DONE}, &done,
		     sizeof(done));
}

/* The victim has connected, and asks. */
static void answer(uint32_t entries)
{
	struct xs_pair_answer an = {.id = 7, .generation = 1};

	if (!hostile_connected())
		return;
	hello(entries);
	if (!hostile_await(XS_K_PAIR_ASK))
		return;
	an.nonce = hostile.said[XS_K_PAIR_ASK].ask.nonce;
	an.asker_id = hostile.said[XS_K_PAIR_ASK].ask.id;
	theirs = (struct xs_id_key){an.asker_id, hostile.said[XS_K_PAIR_ASK].ask.generation};
	an.proof.received = an.proof.acked = 1; /* one byte went each way */
	an.proof.written = 1;
	hostile_says(XS_LANE_SMALL, (struct xs_seghdr){.kind = XS_K_PAIR_ANSWER}, &an, sizeof(an));
	hostile_await(XS_K_PAIR_DONE);
}

static void bind_any(int fd, struct sockaddr_in *a)
{
	socklen_t len = sizeof(*a);

	*a = (struct sockaddr_in){.sin_family = AF_INET};
	if (bind(fd, (struct sockaddr *)a, len) < 0 || listen(fd, 64) < 0)
		abort();
	xs_real.getsockname(fd, (struct sockaddr *)a, &len);
}

/* Each round at an address of its own: what is remembered of a refusal is of that address. */
void hostile_connect(bool victim_connects)
{
	static struct sockaddr_in at[2];
	int *to = victim_connects ? &victim_fd : &peer_fd,
	    *from = victim_connects ? &peer_fd : &victim_fd;
	struct sockaddr_in *a = &at[victim_connects];
	int l;
	char byte = 'x';

	if (listener < 0)
		listener = socket(AF_INET, SOCK_STREAM, 0);
	if (bare_listener < 0)
		bare_listener = xs_real.socket(AF_INET, SOCK_STREAM, 0);

	l = victim_connects ? bare_listener : listener;
	if (!a->sin_port)
		bind_any(l, a);
	a->sin_addr.s_addr = htonl(0x7f000000 | (++round_no % 0xfffffe + 1));
	*to = victim_connects ? socket(AF_INET, SOCK_STREAM, 0)
			      : xs_real.socket(AF_INET, SOCK_STREAM, 0);
	if ((victim_connects ? connect : xs_real.connect)(*to, (struct sockaddr *)a, sizeof(*a)) <
	    0)
		abort();
	*from = (victim_connects ? xs_real.accept : accept)(l, NULL, NULL);
	if (*from < 0)
		abort();
	fcntl(victim_fd, F_SETFL, O_NONBLOCK);
	xs_real.send(peer_fd, &byte, 1, 0);
	send(victim_fd, &byte, 1, 0);
	recv(victim_fd, &byte, 1, 0); /* worth a plane now */
	xs_real.recv(peer_fd, &byte, 1, 0);
}

void hostile_pair(bool victim_connects, uint32_t entries)
{
	theirs = (struct xs_id_key){0, 0};
	(victim_connects ? answer : ask)(entries);
}
