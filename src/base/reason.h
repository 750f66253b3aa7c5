/* SPDX-License-Identifier: MIT */
/* The reasons of reasons.def as numbers, names and classes. */
#ifndef XS_BASE_REASON_H
#define XS_BASE_REASON_H

enum xs_reason {
	XS_R_NONE = 0, /* on the best plane there is */
#define XS_REASON(id, name, class) XS_R_##id,
#include "base/reasons.def"
#undef XS_REASON
	XS_R_COUNT
};

enum xs_reason_class {
	XS_CLASS_NONE,
	XS_CLASS_WAITING,   /* nothing is wrong, it may still come */
	XS_CLASS_FINAL,	    /* this stream stays on the kernel */
	XS_CLASS_TRANSIENT, /* may upgrade again, later and later */
	XS_CLASS_END	    /* the stream was reset */
};

/* "-" for none; "unknown" for a number that isn't a reason (a newer peer). */
const char *xs_reason_name(enum xs_reason reason);
enum xs_reason_class xs_reason_class(enum xs_reason reason);

#endif
