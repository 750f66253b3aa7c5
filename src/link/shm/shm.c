/* SPDX-License-Identifier: MIT */
/* The shm carrier's operations: the contract of link/carrier.h in memory that two processes of one
 * host share. */
#include "link/shm/shm.h"

#include "base/prefix.h"
#include "link/link.h"
#include "link/trust.h"

#include <netinet/in.h>
#include <string.h>

static bool loopback(const uint8_t ip[16])
{
	static const uint8_t six[16] = {[15] = 1};

	return (xs_prefix_four(ip) && ip[12] == 127) || !memcmp(ip, six, sizeof(six));
}

/* Both ends on this host: mostly the kernel has chosen the same address for both. */
static enum xs_reason possible(const struct sockaddr *local, const struct sockaddr *peer)
{
	uint8_t here[16], there[16];

	if (!xs_prefix_ip(local, here) || !xs_prefix_ip(peer, there))
		return XS_R_NOT_TCP;
	if (!memcmp(here, there, sizeof(here)) || loopback(there) || xs_trust_own_address(peer))
		return XS_R_NONE;
	return XS_R_NO_ROUTE;
}

static void entries(struct xs_conduit *c, uint32_t n[XS_LANES], uint32_t size[XS_LANES])
{
	(void)c;
	n[XS_LANE_SMALL] = XS_SHM_SMALL;
	n[XS_LANE_BULK] = XS_SHM_BULK;
	size[XS_LANE_SMALL] = (uint32_t)sizeof(struct xs_seghdr) + XS_SHM_INLINE;
	size[XS_LANE_BULK] = (uint32_t)sizeof(struct xs_seghdr) + XS_SHM_CHUNK;
}

/* What was posted lies in the peer's memory. */
static uint64_t completed(struct xs_conduit *c, enum xs_lane lane)
{
	(void)c;
	(void)lane;
	return UINT64_MAX;
}

static void behind(struct xs_conduit *c, bool yes)
{
	atomic_store(&c->out.d->behind, yes);
}

static void info(struct xs_conduit *c, struct xs_link_info *i)
{
	i->plane = XS_PLANE_SHM;
	i->wire_posts = atomic_load_explicit(&c->posts, memory_order_relaxed);
	i->wire_signalled = atomic_load_explicit(&c->wakes, memory_order_relaxed);
}

static void disconnect(struct xs_conduit *c)
{
	xs_shm_fail(c, XS_R_LINK_LOST);
}

static bool same_user(const struct xs_conduit *a, const struct xs_conduit *b)
{
	return a->uid == b->uid;
}

static void fork_child(void)
{
	xs_shm_conduits_fork_child();
	xs_shm_meet_fork_child();
}

const struct xs_carrier_ops xs_shm_ops = {
	.name = "shm",
	.plane = XS_PLANE_SHM,
	.proven = true,
	.possible = possible,
	.listen = xs_shm_listen,
	.unlisten = xs_shm_unlisten,
	.connect = xs_shm_connect,
	.owns = xs_shm_owns,
	.same_user = same_user,
	.entries = entries,
	.post = xs_shm_post,
	.completed = completed,
	.inline_max = XS_SHM_CHUNK,
	.rx_done = xs_shm_rx_done,
	.behind = behind,
	.ring_take = xs_shm_ring_take,
	.ring_put = xs_shm_ring_put,
	.ring_find = xs_shm_ring_find,
	.ring_done = xs_shm_ring_done,
	.info = info,
	.disconnect = disconnect,
	.destroy = xs_shm_conduit_destroy,
	.fork_child = fork_child,
};
