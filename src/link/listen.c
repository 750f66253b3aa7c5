/* SPDX-License-Identifier: MIT */
/*
 * Rendezvous: one per listening address and carrier, opened after its first accepted connection and
 * kept until the process ends. What can't be opened now is tried again: another process may hold
 * the address (the one that forked the workers, say) and go away.
 */
#include "link/pairing.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

#define AGAIN_FIRST XS_NS_PER_S
#define AGAIN_MOST (60 * XS_NS_PER_S)

struct listening {
	struct listening *next;
	unsigned carrier;
	struct xs_wire_addr addr;
	struct sockaddr_storage bound, local;
	struct xs_rdv *rdv; /* NULL: not open */
	enum xs_reason why; /* ... for this reason */
	bool never;	    /* the machine can't */
};

static void again(struct xs_timer *t);

static struct listening *all;
static struct xs_timer timer = {.fn = again};
static uint64_t delay;

static void open_later(uint64_t ns)
{
	if (!timer.when)
		xs_timer_set(&timer, xs_now_ns() + ns);
}

static bool same(const struct xs_wire_addr *a, const struct xs_wire_addr *b)
{
	return a->port == b->port && !memcmp(a->ip, b->ip, sizeof(a->ip));
}

/* The connections' rows say why nobody finds them, if no carrier is open. */
static void tell(const struct listening *of)
{
	enum xs_reason why = XS_R_RULE;
	bool open = false;

	for (struct listening *w = all; w; w = w->next) {
		if (!same(&w->addr, &of->addr))
			continue;
		why = xs_pair_told(why, w->why);
		open |= w->rdv != NULL;
	}
	if (open || why == XS_R_RULE)
		why = XS_R_NONE;
	xs_pair_ev->hidden(&of->addr, NULL, why);
}

static void try_open(struct listening *w)
{
	const struct xs_carrier_ops *ops = xs_carriers[w->carrier];
	enum xs_reason why, had = w->why;

	if (w->rdv || w->never)
		return;
	why = ops->listen(&w->bound, &w->local, &w->rdv);
	w->why = why;
	if (why)
		w->rdv = NULL;
	if (why != had)
		tell(w);
	if (!why) {
		XS_LOG(INFO, "%s: found under port %u", ops->name, w->addr.port);
		return;
	}
	w->never = why == XS_R_NO_DEVICE || why == XS_R_NO_LIBRARY || why == XS_R_SECCOMP;
	XS_LOG(INFO, "%s: not found under port %u: %s", ops->name, w->addr.port,
	       xs_reason_name(why));
	if (w->never)
		return;
	delay = !delay ? AGAIN_FIRST : delay * 2 < AGAIN_MOST ? delay * 2 : AGAIN_MOST;
	open_later(delay);
}

static void again(struct xs_timer *t)
{
	(void)t;
	for (struct listening *w = all; w; w = w->next)
		try_open(w);
}

static struct listening *find(unsigned carrier, const struct xs_wire_addr *addr)
{
	struct listening *w = all;

	while (w && (w->carrier != carrier || !same(&w->addr, addr)))
		w = w->next;
	return w;
}

static void listen_by(unsigned carrier, const struct sockaddr_storage *bound,
		      const struct sockaddr_storage *local)
{
	struct xs_wire_addr addr;
	struct listening *w;

	xs_pair_addr(bound, &addr);
	if (find(carrier, &addr))
		return;
	w = calloc(1, sizeof(*w));
	if (!w)
		return;
	w->carrier = carrier;
	w->addr = addr;
	w->bound = *bound;
	w->local = *local;
	w->next = all;
	all = w;
	try_open(w);
}

void xs_listen_open(const struct sockaddr_storage *bound, const struct sockaddr_storage *local)
{
	for (unsigned i = 0; xs_carriers[i]; i++)
		if (xs_config_plane((enum xs_conf_plane)xs_carriers[i]->plane))
			listen_by(i, bound, local);
}

void xs_listen_pause(void)
{
	for (struct listening *w = all; w; w = w->next) {
		if (w->rdv)
			xs_carriers[w->carrier]->unlisten(w->rdv);
		w->rdv = NULL;
		w->never = false;
	}
	if (all)
		open_later(AGAIN_FIRST);
}

void xs_listens_fork_child(void)
{
	all = NULL;
	delay = 0;
	timer.when = 0;
}
