/* SPDX-License-Identifier: MIT */
/*
 * epoll sets: what the ep_*.c files share.
 *
 * The program's set stays the kernel's, and keeps the program's own items, until a socket in it
 * becomes managed. Then that socket's item is *converted*: its kernel item becomes edge-triggered,
 * with a token of ours as data, and the readiness comes from xs_ready() by way of the set's ready
 * list. It keeps the program's bits while the kernel serves a direction, so that its edges are the
 * program's; when bytes come on a plane EPOLLIN is among its bits, so that we look at the twin
 * (frame, FIN, RST). With both directions on a plane the kernel item watches for that alone: then
 * changing the program's bits, taking the item out and putting it back in, which some event loops
 * do for every message, is bookkeeping of ours, and the kernel item stays as it is (`removed`). A
 * wait on a set with managed members never sleeps in epoll_wait: it asks the
 * ready list, then epoll_wait(0), then sleeps in ppoll on {the set, its wake descriptor, the
 * channels if it leads}. So nothing foreign has to be in the program's set, fork and exec need no
 * care for it, and the leader can watch the completion channels while it waits on a set.
 *
 * A wake item (an eventfd in the set, level-triggered, readable while the ready list isn't empty)
 * is made only for a set that others watch: a member of another set, or in a list of poll or
 * select. A kick item gets threads out of epoll_wait that went to sleep before the set had managed
 * members.
 *
 * Semantics are the kernel's: a wake whose bits match the item's puts it on the ready list; a wait
 * takes items off the list, asks for their mask now, and reports it if it isn't empty.
 * Level-triggered items go back to the tail, edge-triggered ones leave, one-shot ones are disarmed.
 *
 * Locks: `lock` (XS_RANK_SET) guards items and their kernel items, `ready` (XS_RANK_LEAF, taken
 * under a connection's lock by notify) the ready list and the sleepers. The index socket -> items
 * has a leaf lock of its own. Nobody holds two sets' locks.
 */
#ifndef XS_SOCK_EPOLLSET_H
#define XS_SOCK_EPOLLSET_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/lock.h"
#include "engine/progress.h"
#include "sock/fdtable.h"
#include "sock/readiness.h"

#define XS_EP_PRIVATE ((uint32_t)(EPOLLET | EPOLLONESHOT | EPOLLWAKEUP | EPOLLEXCLUSIVE))
#define XS_EP_KICK 0xfffffffeu /* token indices that aren't items */
#define XS_EP_WAKE 0xffffffffu
#define XS_EP_INSIDE 8	/* threads in an epoll_ctl without the lock; more take it */
#define XS_EP_NOTES 64u /* a set of more changes between two waits takes the lock for the rest */

struct xs_sleeper;
struct xs_ep_set;

struct xs_ep_item {
	struct xs_waiter waiter; /* on the socket, from ADD to DEL */
	struct xs_ep_set *set;
	struct xs_obj *obj; /* a socket or an inner set, with a reference */
	int fd;
	uint32_t index; /* in set->items, and in its token */
	/* The program's, under the set's lock. `armed`: events, 0 once a one-shot has been
	 * reported. */
	uint32_t events;
	epoll_data_t data;
	_Atomic uint32_t armed;
	bool converted; /* the kernel item is ours */
	/* The program took it out. A converted one's kernel item stays, at rest, if nobody watches
	 * the set: it would be readable for it. Changed under the set's lock. */
	_Atomic bool removed;
	uint32_t form;	      /* the kernel item's bits */
	_Atomic bool counted; /* in set->managed */
	_Atomic bool orphan, exclusive;
	/* Who is at it in an epoll_ctl without the lock (ep_fast.c, ep_note.c). */
	_Atomic(const void *) busy;
	/* ep_note.c's: at rest when last seen; what the program has asked for since. */
	_Atomic bool resting, noted;
	bool wish_out;
	struct epoll_event wish;
	/* Under the set's ready lock. */
	bool listed, edge, moved;
	struct xs_ep_item *next, *prev;
	/* Under the index's lock. */
	struct xs_ep_item *hash_next, **hash_prev;
};

struct xs_ep_sleep {
	struct xs_ep_sleep *next, *prev;
	struct xs_sleeper *sleeper;
	bool told;
};

struct xs_ep_items {
	struct xs_ep_item **at;
	uint32_t n, room;
};

/* Descriptor number -> item. Read without a lock; outgrown arrays stay, they're small change. */
struct xs_ep_table {
	_Atomic(_Atomic(struct xs_ep_item *) *) at;
	_Atomic uint32_t room;
};

struct xs_ep_set {
	struct xs_obj obj;
	struct xs_lock lock;
	_Atomic int fd;		  /* a name of it */
	_Atomic uint32_t managed; /* items that the kernel alone can't answer */
	_Atomic uint32_t inners;  /* items that are sets */
	_Atomic bool watched;	  /* others wait for its descriptor */
	bool inherited;		  /* this process is a child of the one that made it */
	bool plane_first;	  /* whose turn it is when slots are few */
	uint32_t random;	  /* upper half of the tokens */
	struct xs_ep_items items; /* by index */
	struct xs_ep_table by_fd;
	/* Who is inside an epoll_ctl without the lock (ep_fast.c, ep_note.c). */
	_Atomic(const void *) inside[XS_EP_INSIDE];
	_Atomic bool locked; /* nothing is ep_fast.c's any more */
	/* ep_note.c's: some item is or was at rest; who holds the lock takes notes in; descriptors
	 * with notes, -1: none. */
	_Atomic bool resting, gate;
	_Atomic uint32_t notes_n;
	_Atomic int notes[XS_EP_NOTES];
	struct xs_ep_items holes; /* free indices below items.n */
	struct xs_ep_item *limbo; /* forgotten, and maybe still looked at (ep_fast.c) */
	int wake_fd, kick_fd;	  /* -1: none */

	struct xs_work work;  /* converts items whose sockets became managed */
	_Atomic bool working; /* ... with a reference of its own */

	struct xs_lock ready;
	struct xs_ep_item *head, *tail;
	uint32_t listed_n;
	struct xs_ep_sleep *sleepers;
	_Atomic uint32_t sleeping; /* of them */
	bool wake_on;		   /* the wake item is readable */

	struct xs_ep_set *next, **prev; /* all sets, under the index's lock */
};

/* --- for poll and select ---------- */
bool xs_ep_managed(struct xs_ep_set *set);
/* Somebody waits for the set's own descriptor: it must be readable when a managed member is ready.
 */
void xs_ep_want_wake(struct xs_ep_set *set);
/* Looks at the ready list, so that the descriptor's readability is the truth now. Recurses. */
void xs_ep_refresh(struct xs_ep_set *set);

/* --- ep_kernel.c: the kernel's side of items. Set's lock held ---------- */
static inline uint64_t xs_ep_token(const struct xs_ep_set *set, uint32_t index)
{
	return (uint64_t)set->random << 32 | index;
}
static inline bool xs_ep_is_token(const struct xs_ep_set *set, uint64_t data)
{
	return data >> 32 == set->random;
}
/* Adds or changes the kernel item of a converted item, as the program's events and the planes ask
 * for. 0 or a negative errno. */
int xs_ep_form(struct xs_ep_set *set, struct xs_ep_item *it, int op);
/* Nothing of the socket is the kernel's, and the kernel item watches for what ends that. */
bool xs_ep_at_rest(const struct xs_ep_item *it);
/* The planes have moved: the kernel item gets the bits that it lacks. */
void xs_ep_reform(struct xs_ep_set *set, struct xs_ep_item *it);
/* A removed item's kernel item goes. */
void xs_ep_drop(struct xs_ep_set *set, struct xs_ep_item *it);
/* The item is one that the kernel alone can't answer. Threads in epoll_wait are kicked out of it;
 * true: there were some, and a READY has to wait for them. */
bool xs_ep_count(struct xs_ep_set *set, struct xs_ep_item *it);
void xs_ep_uncount(struct xs_ep_set *set, struct xs_ep_item *it);
void xs_ep_convert(struct xs_ep_set *set, struct xs_ep_item *it);
/* The kernel item is the program's again; reports at once what's ready. */
void xs_ep_restore(struct xs_ep_set *set, struct xs_ep_item *it);
/* The kick item goes when nobody sleeps in epoll_wait any more. */
void xs_ep_unkick(struct xs_ep_set *set);
/* The program uses one of our tokens as data of its own. */
void xs_ep_redraw(struct xs_ep_set *set);

/* --- ep_items.c ---------- */
/* Takes the item out of everything of ours. Set's lock; the caller puts the returned object after
 * dropping it. */
struct xs_obj *xs_ep_forget(struct xs_ep_set *set, struct xs_ep_item *it);
/* fd, a name of obj, is closed. */
void xs_ep_obj_closed(struct xs_obj *obj, int fd, bool last);

void xs_ep_take_events(struct xs_ep_item *it, const struct epoll_event *ev);
/* The program took it out. The record stays until the socket closes: many come back soon. */
void xs_ep_set_aside(struct xs_ep_item *it);

/* --- ep_fast.c: epoll_ctl where nothing is managed ---------- */
/* The whole call, without the lock; false: it has to be the other way. */
bool xs_ep_fast_ctl(struct xs_ep_set *set, int epfd, int op, int fd, struct epoll_event *ev,
		    int *r);
/* Counts the thread in, by an address in its frame; false: too many are inside. A handler may jump
 * out anywhere, so the way out can be gone twice, and by who never came in. */
bool xs_ep_come_in(struct xs_ep_set *set, const void *who);
void xs_ep_go_out(struct xs_ep_set *set, const void *who);
bool xs_ep_anybody(const struct xs_ep_set *set);
/* Waits a while until nobody is inside; false: somebody is. */
bool xs_ep_alone(const struct xs_ep_set *set);
/* The record for one of them, and back; the same rules. */
bool xs_ep_grab(struct xs_ep_item *it, const void *who);
void xs_ep_let_go(struct xs_ep_item *it, const void *who);
/* Can it be done without the lock, as far as its arguments go? unfit: bits that it mustn't have. */
bool xs_ep_plain(const struct xs_ep_set *set, int op, const struct epoll_event *ev, uint32_t unfit);
/* From now on every epoll_ctl of the set takes the lock; false: a thread is still inside one that
 * doesn't. Set's lock. */
bool xs_ep_lock_down(struct xs_ep_set *set);

/* --- ep_note.c: epoll_ctl on items at rest ---------- */
/* The set's lock, with all that was noted taken in. */
void xs_ep_lock(struct xs_ep_set *set) XS_ACQUIRES(set->lock);
void xs_ep_unlock(struct xs_ep_set *set) XS_RELEASES(set->lock);
/* The whole call, which can't fail; false: it has to be the other way. No lock. */
bool xs_ep_note(struct xs_ep_set *set, int op, int fd, const struct epoll_event *ev);
/* The item was seen at rest. Set's lock. */
void xs_ep_rests(struct xs_ep_set *set, struct xs_ep_item *it);
/* As the program knows it. */
bool xs_ep_out(const struct xs_ep_item *it);
/* ep_items.c: what was noted for it becomes true. Set's lock. */
void xs_ep_apply(struct xs_ep_set *set, struct xs_ep_item *it);

/* --- ep_index.c: all sets; socket -> items; memory ---------- */
int xs_ep_grow(struct xs_ep_items *a, uint32_t least);
struct xs_ep_item *xs_ep_at(const struct xs_ep_set *set, int fd);
int xs_ep_table_grow(struct xs_ep_table *t, uint32_t least);
struct xs_ep_item *xs_ep_item_new(void);
void xs_ep_item_free(struct xs_ep_item *it);
void xs_ep_index_add(struct xs_ep_item *it);
void xs_ep_index_del(struct xs_ep_item *it);
/* Takes a reference unless the set is on its way out. */
bool xs_ep_hold(struct xs_ep_set *set);
/* Up to max items of obj, from the skip-th on, each named by a held set and its index there. */
struct xs_ep_ref {
	struct xs_ep_set *set;
	uint32_t index;
};
unsigned xs_ep_index_items(const struct xs_obj *obj, struct xs_ep_ref *out, unsigned max,
			   unsigned skip);
/* fn for each item of obj; under the index's lock. */
void xs_ep_index_each(const struct xs_obj *obj, void (*fn)(struct xs_ep_item *it, void *arg),
		      void *arg);
void xs_ep_sets_add(struct xs_ep_set *set);
void xs_ep_sets_del(struct xs_ep_set *set);
void xs_ep_sets_each(void (*fn)(struct xs_ep_set *set, void *arg), void *arg);
void xs_ep_index_fork_child(void);

/* --- ep_ready.c: the ready list ---------- */
void xs_ep_notify(struct xs_waiter *w, unsigned what);
/* On the list with an edge (or only to look at the item again), and a sleeper is woken. */
void xs_ep_list(struct xs_ep_item *it, bool edge);
void xs_ep_unlist(struct xs_ep_item *it);
/* The work of a set: counts and converts listed items whose sockets are managed now. */
void xs_ep_work(struct xs_work *w);
/* Takes the first item; *edge: it has one. NULL: none. */
struct xs_ep_item *xs_ep_pop(struct xs_ep_set *set, bool *edge);
/* Level-triggered: back at the tail, nobody is woken. */
void xs_ep_requeue(struct xs_ep_item *it);
uint32_t xs_ep_listed(struct xs_ep_set *set);
/* Back at the head, as it was. */
void xs_ep_push_back(struct xs_ep_item *it, bool edge);
void xs_ep_sleep_add(struct xs_ep_set *set, struct xs_ep_sleep *sl);
/* Leaves the sleepers; if items are left and others sleep, one of them is woken. */
void xs_ep_sleep_del(struct xs_ep_set *set, struct xs_ep_sleep *sl);
void xs_ep_wake_one(struct xs_ep_set *set);
/* The wake item follows the list. Set's lock not needed. */
void xs_ep_sync_wake(struct xs_ep_set *set);

/* --- ep_collect.c ---------- */
/* What's ready now, from both sides; set's lock. Up to max events; or a negative errno. */
int xs_ep_collect(struct xs_ep_set *set, int epfd, struct epoll_event *ev, int max);
/* Raw events: tokens are taken out and acted on. Returns how many stay. Set's lock. */
int xs_ep_filter(struct xs_ep_set *set, struct epoll_event *ev, int n);
/* A child has taken events from a set that it inherited which were the owner's, maybe. */
extern void (*xs_ep_taken)(void);
/* The item's mask now; 0: not ready. tell: ... and what comes is to be told. Set's lock. */
uint32_t xs_ep_mask(struct xs_ep_item *it, bool tell);

/* --- fork, exec: for the owner of those ---------- */
/* Before exec: every kernel item is the program's own again. */
void xs_ep_exec(void);

#endif
