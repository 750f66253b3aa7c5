/* SPDX-License-Identifier: MIT */
/* Address prefixes: what parses, what matches, IPv4 in either dress. */
#include "base/prefix.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "check.h"

static struct sockaddr_storage address(const char *text)
{
	struct sockaddr_storage ss = {0};
	struct sockaddr_in *in = (struct sockaddr_in *)&ss;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&ss;

	if (inet_pton(AF_INET, text, &in->sin_addr) == 1)
		ss.ss_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &in6->sin6_addr) == 1)
		ss.ss_family = AF_INET6;
	return ss;
}

static int matches(const char *prefix, const char *addr)
{
	struct sockaddr_storage ss = address(addr);
	struct xs_prefix p;

	if (xs_prefix_parse(prefix, &p) < 0)
		return -1;
	return xs_prefix_match(&p, (struct sockaddr *)&ss);
}

int main(void)
{
	struct sockaddr unix_peer = {.sa_family = AF_UNIX};
	struct xs_prefix all;

	CHECK_EQ(matches("10.0.0.0/8", "10.200.3.4"), 1);
	CHECK_EQ(matches("10.0.0.0/8", "11.0.0.1"), 0);
	CHECK_EQ(matches("10.0.0.0/8", "::ffff:10.1.1.1"), 1);
	CHECK_EQ(matches("192.168.4.0/22", "192.168.7.255"), 1);
	CHECK_EQ(matches("192.168.4.0/22", "192.168.8.0"), 0);
	CHECK_EQ(matches("127.0.0.1", "127.0.0.1"), 1);
	CHECK_EQ(matches("127.0.0.1", "127.0.0.2"), 0);
	CHECK_EQ(matches("0.0.0.0/0", "8.8.8.8"), 1);
	CHECK_EQ(matches("0.0.0.0/0", "fd00::1"), 0);
	CHECK_EQ(matches("::/0", "8.8.8.8"), 1);
	CHECK_EQ(matches("fd00::/7", "fc00::1"), 1);
	CHECK_EQ(matches("fe80::/10", "fec0::1"), 0);
	CHECK_EQ(matches("::1", "::1"), 1);
	CHECK_EQ(matches("10.0.0.0/33", "10.0.0.1"), -1);
	CHECK_EQ(matches("10.0.0.0/", "10.0.0.1"), -1);
	CHECK_EQ(matches("10.0.0.0/ 8", "10.0.0.1"), -1);
	CHECK_EQ(matches("::/129", "::1"), -1);
	CHECK_EQ(matches("", "::1"), -1);
	CHECK_EQ(matches("host", "::1"), -1);
	CHECK_EQ(xs_prefix_parse("::/0", &all), 0);
	CHECK(!xs_prefix_match(&all, &unix_peer));
	return check_done();
}
