/* SPDX-License-Identifier: MIT */
/* The rc carrier's operations: the contract of link/carrier.h on reliable-connected queue pairs. */
#include "link/rc/rc.h"
#include "link/link.h"

#include <netinet/in.h>
#include <string.h>

static bool is_loopback(const struct sockaddr *a)
{
	const struct sockaddr_in *four = (const void *)a;
	const struct sockaddr_in6 *six = (const void *)a;

	if (a->sa_family == AF_INET)
		return (ntohl(four->sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) ||
	       (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr) &&
		six->sin6_addr.s6_addr[12] == IN_LOOPBACKNET);
}

static enum xs_reason possible(const struct sockaddr *local, const struct sockaddr *peer)
{
	if (local->sa_family != AF_INET && local->sa_family != AF_INET6)
		return XS_R_NOT_TCP;
	if (xs_dl_missing())
		return XS_R_NO_LIBRARY;
	if (!xs_dev_present())
		return XS_R_NO_DEVICE;
	return is_loopback(local) || is_loopback(peer) ? XS_R_NO_ROUTE : XS_R_NONE;
}

static enum xs_reason connect_link(struct xs_link *l, const struct sockaddr_storage *local,
				   const struct sockaddr_storage *peer, struct xs_conduit **out)
{
	struct xs_conduit *c = xs_conduit_new();
	enum xs_reason why;

	if (!c)
		return XS_R_NO_MEMORY;
	c->link = l;
	*out = c;
	why = xs_cm_connect(c, local, peer);
	if (why)
		xs_conduit_fail(c, why);
	return XS_R_NONE;
}

static void entries(struct xs_conduit *c, uint32_t n[XS_LANES], uint32_t size[XS_LANES])
{
	for (int i = 0; i < XS_LANES; i++) {
		uint32_t reserve = i == XS_LANE_SMALL ? XS_RC_RESERVE : 0;

		n[i] = c->entries[i] > reserve ? c->entries[i] - reserve : 0;
		size[i] = c->dev ? (uint32_t)xs_slab_size(c->dev->rq[i].slab) : 0;
	}
}

static uint64_t completed(struct xs_conduit *c, enum xs_lane lane)
{
	return atomic_load_explicit(&c->lane[lane].completed, memory_order_acquire);
}

static void info(struct xs_conduit *c, struct xs_link_info *i)
{
	struct xs_pool_info pool;

	i->plane = XS_PLANE_RC;
	i->wire_posts = i->wire_signalled = 0;
	for (int n = 0; n < XS_LANES; n++) {
		i->wire_posts += atomic_load(&c->lane[n].posts);
		i->wire_signalled += atomic_load(&c->lane[n].signalled);
	}
	i->wire_rnr = atomic_load(&c->rnr);
	i->dropped = atomic_load(&c->dropped);
	xs_pool_info(&pool);
	i->registrations = pool.registrations;
}

static void disconnect(struct xs_conduit *c)
{
	xs_conduit_fail(c, XS_R_LINK_LOST);
}

static void fork_child(void)
{
	xs_cm_fork_child();
	xs_dev_fork_child();
}

static void close_devices(void)
{
	xs_cm_close_all();
	xs_dev_close_all();
}

const struct xs_carrier_ops xs_rc_ops = {
	.name = "rc",
	.plane = XS_PLANE_RC,
	.possible = possible,
	.listen = xs_cm_listen,
	.unlisten = xs_cm_unlisten,
	.connect = connect_link,
	.entries = entries,
	.post = xs_lane_post,
	.completed = completed,
	.inline_max = XS_RC_INLINE,
	.rx_done = xs_lane_rx_done,
	.info = info,
	.disconnect = disconnect,
	.destroy = xs_conduit_drop,
	.fork_child = fork_child,
	.close_devices = close_devices,
};
