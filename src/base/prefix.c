/* SPDX-License-Identifier: MIT */
/* Parsing and matching of address prefixes. */
#include "base/prefix.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

static int parse_bits(const char *text, unsigned int max, unsigned int *bits)
{
	char *end;
	unsigned long n;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	n = strtoul(text, &end, 10);
	if (*end || n > max)
		return -EINVAL;
	*bits = (unsigned int)n;
	return 0;
}

int xs_prefix_parse(const char *text, struct xs_prefix *prefix)
{
	char addr[INET6_ADDRSTRLEN];
	size_t len = strcspn(text, "/");
	struct xs_prefix out = {.bits = 128};
	unsigned int skip = 0, bits;

	if (len >= sizeof(addr))
		return -EINVAL;
	memcpy(addr, text, len);
	addr[len] = '\0';
	if (inet_pton(AF_INET, addr, out.ip + 12) == 1) {
		memcpy(out.ip, mapped, sizeof(mapped));
		skip = 96;
	} else if (inet_pton(AF_INET6, addr, out.ip) != 1) {
		return -EINVAL;
	}
	if (text[len] == '/') {
		if (parse_bits(text + len + 1, 128 - skip, &bits) < 0)
			return -EINVAL;
		out.bits = (uint8_t)(bits + skip);
	}
	*prefix = out;
	return 0;
}

bool xs_prefix_four(const uint8_t ip[16])
{
	return !memcmp(ip, mapped, sizeof(mapped));
}

bool xs_prefix_ip(const struct sockaddr *addr, uint8_t ip[16])
{
	if (addr->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)addr;

		memcpy(ip, mapped, sizeof(mapped));
		memcpy(ip + 12, &in->sin_addr, 4);
		return true;
	}
	if (addr->sa_family == AF_INET6) {
		memcpy(ip, &((const struct sockaddr_in6 *)addr)->sin6_addr, 16);
		return true;
	}
	return false;
}

bool xs_prefix_match(const struct xs_prefix *prefix, const struct sockaddr *addr)
{
	unsigned int whole = prefix->bits / 8, rest = prefix->bits % 8;
	uint8_t ip[16];

	if (!xs_prefix_ip(addr, ip))
		return false;
	if (memcmp(ip, prefix->ip, whole))
		return false;
	return !rest || !((ip[whole] ^ prefix->ip[whole]) >> (8 - rest));
}
