/* SPDX-License-Identifier: MIT */
/* What links have counted: those now, and the sum of all that have ever been. */
#include "link/linkage.h"

#include "base/crit.h"

static struct xs_lock lock = XS_LOCK_INIT(XS_RANK_LEAF);
static struct xs_link_info gone; /* lock: what links had counted that have ended */

static void look_at(struct xs_link *l, struct xs_conduit *c, struct xs_link_info *i)
{
	*i = (struct xs_link_info){.id = l->id, .plane = l->ops->plane, .peer = l->peer};
	if (l->ops->info)
		l->ops->info(c, i);
	i->dropped += atomic_load(&l->dropped);
}

static void add_up(struct xs_link_info *sum, const struct xs_link_info *one)
{
	sum->wire_posts += one->wire_posts;
	sum->wire_signalled += one->wire_signalled;
	sum->wire_rnr += one->wire_rnr;
	if (one->registrations > sum->registrations) /* the pool's, which all share */
		sum->registrations = one->registrations;
	sum->dropped += one->dropped;
}

struct list {
	struct xs_link_info *out;
	int n, max;
};

static void put_in(struct xs_link *l, struct xs_conduit *c, void *arg)
{
	struct list *list = arg;

	if (xs_link_state_of(l) == XS_LINK_UP && list->n < list->max)
		look_at(l, c, &list->out[list->n++]);
}

int xs_link_info(struct xs_link_info *out, int max)
{
	struct list list = {.out = out, .max = max};

	xs_links_look(put_in, &list);
	return list.n;
}

static void add_one(struct xs_link *l, struct xs_conduit *c, void *arg)
{
	struct xs_link_info *sum = arg, one;

	look_at(l, c, &one);
	add_up(sum, &one);
	sum->id += xs_link_state_of(l) == XS_LINK_UP;
}

void xs_link_totals(struct xs_link_info *sum)
{
	struct xs_crit cs;

	xs_crit_enter(&cs);
	xs_lock_take(&lock);
	*sum = gone;
	xs_lock_drop(&lock);
	xs_crit_leave(&cs);
	xs_links_look(add_one, sum);
}

void xs_link_count_gone(struct xs_link *l, struct xs_conduit *c)
{
	struct xs_link_info one;

	look_at(l, c, &one);
	xs_lock_take(&lock);
	add_up(&gone, &one);
	xs_lock_drop(&lock);
}

void xs_link_info_fork_child(void)
{
	xs_lock_init(&lock, XS_RANK_LEAF);
	gone = (struct xs_link_info){0};
}
