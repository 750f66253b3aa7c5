/* SPDX-License-Identifier: MIT */
/* What every door has in common: it is seen by the program. */
#ifndef XS_HOOK_DOOR_H
#define XS_HOOK_DOOR_H

#define XS_DOOR __attribute__((visibility("default")))

#endif
