/* SPDX-License-Identifier: MIT */
/* Names and classes of reasons. */
#include "base/reason.h"

#include <stddef.h>

static const struct {
	const char *name;
	enum xs_reason_class class;
} reasons[XS_R_COUNT] = {
	[XS_R_NONE] = {"-", XS_CLASS_NONE},
#define XS_REASON(id, name, class) [XS_R_##id] = {name, XS_CLASS_##class},
#include "base/reasons.def"
#undef XS_REASON
};

const char *xs_reason_name(enum xs_reason reason)
{
	return (size_t)reason < XS_R_COUNT ? reasons[reason].name : "unknown";
}

enum xs_reason_class xs_reason_class(enum xs_reason reason)
{
	return (size_t)reason < XS_R_COUNT ? reasons[reason].class : XS_CLASS_FINAL;
}
