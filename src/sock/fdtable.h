/* SPDX-License-Identifier: MIT */
/*
 * descriptor number -> object. Two levels, pages mapped by use; look-ups take no lock; objects are
 * type-stable (their memory is never given back), so a look-up takes its reference and looks again.
 */
#ifndef XS_SOCK_FDTABLE_H
#define XS_SOCK_FDTABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum xs_fd_kind { XS_FD_NONE, XS_FD_SOCK, XS_FD_EPOLL };

/*
 * First member of whatever the table holds. refs counts references and carries XS_OBJ_LIVE while
 * the object is in use, so that a late look-up that touches a freed or re-used object can't free it
 * again. names counts descriptors.
 */
#define XS_OBJ_LIVE 0x80000000u
struct xs_obj {
	_Atomic uint32_t refs;
	_Atomic uint32_t names;
	uint8_t kind;			/* enum xs_fd_kind; constant for this memory */
	uint64_t serial;		/* never 0, and never another object's */
	void (*free)(struct xs_obj *o); /* the last reference is gone */
};

/* With a reference, or NULL. Async-signal-safe, keeps errno. */
struct xs_obj *xs_fdtable_get(int fd, enum xs_fd_kind kind);
/* Without a reference: good for a look at its atomics (objects are type-stable), nothing else. */
struct xs_obj *xs_fdtable_peek(int fd);
/* The word that holds what xs_fdtable_peek() gives, at the same place for good; NULL: none yet. */
const _Atomic(void *) *xs_fdtable_slot(int fd);
/* The kind at fd; XS_FD_NONE if nothing. One or two loads. */
enum xs_fd_kind xs_fdtable_kind(int fd);
void xs_obj_put(struct xs_obj *o);
/* New or re-used memory becomes an object with one reference. Never store refs otherwise. */
void xs_obj_init(struct xs_obj *o, enum xs_fd_kind kind, void (*free)(struct xs_obj *o));
/* fd becomes a name of o (takes a reference for the table). What was there before is returned with
 * its table reference (the caller puts it), or NULL. -ENOMEM through *err. */
struct xs_obj *xs_fdtable_set(int fd, struct xs_obj *o, int *err);
/* fd is no name any more; what was there with its table reference, or NULL. */
struct xs_obj *xs_fdtable_clear(int fd);
/* The next tracked number >= fd, or -1. */
int xs_fdtable_next(int fd);
/* The table is this process's: at the start, and in a forked child, where whoever held the lock is
 * not. */
void xs_fdtable_begin(void);
/* True in a vfork child: it shares our memory, and so the table, but not our descriptors. */
bool xs_fdtable_other_process(void);

#endif
