/* SPDX-License-Identifier: MIT */
/*
 * `subnet` means the prefixes of this machine's interfaces, loopback and own addresses included.
 * They're read again when they're older than a while: addresses come and go.
 */
#include "link/trust.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/lock.h"
#include "base/log.h"

#include <errno.h>
#include <ifaddrs.h>
#include <string.h>

#define FRESH_NS (10 * XS_NS_PER_S)
#define MAX_SUBNETS 64

static struct xs_lock lock = XS_LOCK_INIT(XS_RANK_LEAF);
static struct xs_prefix subnets[MAX_SUBNETS]; /* lock */
static unsigned subnets_n;		      /* lock */
static uint64_t read_at;		      /* lock */

static uint8_t bits_of(const struct sockaddr *mask)
{
	struct sockaddr_storage full = {.ss_family = 0};
	uint8_t ip[16], bits = mask->sa_family == AF_INET ? 96 : 0;

	memcpy(&full, mask, sizeof(struct sockaddr_storage) < 28 ? sizeof(full) : 28);
	if (!xs_prefix_ip((const struct sockaddr *)&full, ip))
		return 128;
	for (; bits < 128; bits++)
		if (!(ip[bits / 8] & 0x80 >> bits % 8))
			break;
	return bits;
}

/* Their number; -1: a sandbox forbids netlink, or descriptors are short. */
static int read_subnets(struct xs_prefix *out)
{
	struct ifaddrs *all, *i;
	int n = 0;

	if (getifaddrs(&all)) {
		XS_LOG(WARN, "trust: the networks of this machine can't be read: %s",
		       strerrordesc_np(errno));
		return -1;
	}
	for (i = all; i && n < MAX_SUBNETS; i = i->ifa_next) {
		if (!i->ifa_addr || !i->ifa_netmask || !xs_prefix_ip(i->ifa_addr, out[n].ip))
			continue;
		out[n].bits = bits_of(i->ifa_netmask);
		n++;
	}
	freeifaddrs(all);
	return n;
}

static void refresh(void)
{
	struct xs_prefix fresh[MAX_SUBNETS];
	uint64_t now = xs_now_ns();
	bool old;
	int n;

	xs_lock_take(&lock);
	old = !read_at || now - read_at > FRESH_NS;
	if (old)
		read_at = now;
	xs_lock_drop(&lock);
	if (!old)
		return;
	n = read_subnets(fresh);
	if (n < 0)
		return; /* what was read before still holds */
	xs_lock_take(&lock);
	memcpy(subnets, fresh, (size_t)n * sizeof(fresh[0]));
	subnets_n = (unsigned)n;
	xs_lock_drop(&lock);
}

static bool in_subnet(const struct sockaddr *peer)
{
	bool yes = false;

	refresh();
	xs_lock_take(&lock);
	for (unsigned i = 0; i < subnets_n && !yes; i++)
		yes = xs_prefix_match(&subnets[i], peer);
	xs_lock_drop(&lock);
	return yes;
}

bool xs_trust_own_address(const struct sockaddr *addr)
{
	uint8_t ip[16];
	bool yes = false;

	if (!xs_prefix_ip(addr, ip))
		return false;
	refresh();
	xs_lock_take(&lock);
	for (unsigned i = 0; i < subnets_n && !yes; i++)
		yes = !memcmp(subnets[i].ip, ip, sizeof(ip));
	xs_lock_drop(&lock);
	return yes;
}

bool xs_trust_allows(const struct sockaddr *peer)
{
	const struct xs_conf_trust *t = &xs_config()->trust;

	for (unsigned i = 0; i < t->n; i++)
		if (xs_prefix_match(&t->prefix[i], peer))
			return true;
	return t->subnet && in_subnet(peer);
}

void xs_trust_fork_child(void)
{
	xs_lock_init(&lock, XS_RANK_LEAF);
	read_at = 0;
}
