/* SPDX-License-Identifier: MIT */
/* The carriers that the product knows. */
#include "link/carriers.h"

const struct xs_carrier_ops *const xs_carriers[] = {&xs_shm_ops, &xs_rc_ops, NULL};
