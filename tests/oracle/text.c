/* SPDX-License-Identifier: MIT */
/* How results look in a transcript; the bytes that the programs send. */
#include "oracle.h"

void say_call(const char *text, long result, int err)
{
	if (result < 0)
		say("%s = %ld %s", text, result, err ? strerrorname_np(err) : "no errno");
	else
		say("%s = %ld", text, result);
}

void say_bytes(const char *what, const void *bytes, ssize_t n)
{
	struct sha256 s;
	char hex[65];

	if (n < 0) {
		say("%s: none", what);
		return;
	}
	sha256_start(&s);
	sha256_add(&s, bytes, (size_t)n);
	sha256_hex(&s, hex);
	say("%s: %zd bytes %.16s", what, n, hex);
}

void say_killed_end(ssize_t n, int err)
{
	const char *plane = getenv("ORACLE_PLANE");

	/* The one difference that is allowed: rc can't prove that all bytes came. */
	if (n == 0 || (oracle_fast() && strcmp(plane, "shm") && n < 0 && err == ECONNRESET))
		say("the killed peer's stream ended");
	else
		say("the killed peer's stream gave %zd %s", n, err ? strerrorname_np(err) : "");
}

uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

void fill(void *bytes, size_t n, uint64_t seed)
{
	unsigned char *p = bytes;
	uint64_t word = 0;

	for (size_t i = 0; i < n; i++) {
		if (i % 8 == 0)
			word = next_random(&seed);
		p[i] = (unsigned char)(word >> (i % 8 * 8));
	}
}

void set_nonblock(int fd, int on)
{
	int flags = (int)MUST(fcntl(fd, F_GETFL));

	MUST(fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK));
}

struct bit {
	uint32_t bit;
	const char *name;
};

static const char *bit_names(uint32_t events, const struct bit *bits)
{
	static __thread char text[2][128];
	static __thread int turn;
	char *out = text[turn ^= 1];

	out[0] = 0;
	for (; bits->name; bits++) {
		if (!(events & bits->bit))
			continue;
		if (out[0])
			strcat(out, "|");
		strcat(out, bits->name);
	}
	return out[0] ? out : "0";
}

const char *poll_names(short events)
{
	static const struct bit bits[] = {
		{POLLIN, "IN"},		{POLLPRI, "PRI"},	{POLLOUT, "OUT"},
		{POLLERR, "ERR"},	{POLLHUP, "HUP"},	{POLLNVAL, "NVAL"},
		{POLLRDNORM, "RDNORM"}, {POLLRDBAND, "RDBAND"}, {POLLWRNORM, "WRNORM"},
		{POLLWRBAND, "WRBAND"}, {POLLRDHUP, "RDHUP"},	{0, NULL}};

	return bit_names((uint16_t)events, bits);
}

const char *epoll_names(uint32_t events)
{
	static const struct bit bits[] = {{EPOLLIN, "IN"},
					  {EPOLLPRI, "PRI"},
					  {EPOLLOUT, "OUT"},
					  {EPOLLERR, "ERR"},
					  {EPOLLHUP, "HUP"},
					  {EPOLLRDNORM, "RDNORM"},
					  {EPOLLRDBAND, "RDBAND"},
					  {EPOLLWRNORM, "WRNORM"},
					  {EPOLLWRBAND, "WRBAND"},
					  {EPOLLRDHUP, "RDHUP"},
					  {EPOLLET, "ET"},
					  {EPOLLONESHOT, "ONESHOT"},
					  {0, NULL}};

	return bit_names(events, bits);
}
