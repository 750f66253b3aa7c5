/* SPDX-License-Identifier: MIT */
/* Address prefixes: 10.0.0.0/8, fd00::/8, 192.0.2.7. IPv4 is kept as ::ffff:a.b.c.d. */
#ifndef XS_BASE_PREFIX_H
#define XS_BASE_PREFIX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct xs_prefix {
	uint8_t ip[16];
	uint8_t bits; /* of ip, so 96 more than written for IPv4 */
};

/* 0 or -EINVAL. Without a length it's the one address. */
int xs_prefix_parse(const char *text, struct xs_prefix *prefix);

/* IPv4, IPv6 and IPv4-mapped IPv6 peers; false for any other family. */
bool xs_prefix_match(const struct xs_prefix *prefix, const struct sockaddr *addr);

/* Is it an IPv4 address, mapped? */
bool xs_prefix_four(const uint8_t ip[16]);

/* The address as IPv6 bytes (IPv4 mapped); false for any other family. */
bool xs_prefix_ip(const struct sockaddr *addr, uint8_t ip[16]);

#endif
