/* SPDX-License-Identifier: MIT */
/* The product's carriers by name: their headers can't be read together, as each has its own
 * xs_conduit. */
#ifndef XS_LINK_CARRIERS_H
#define XS_LINK_CARRIERS_H

#include "link/carrier.h"

extern const struct xs_carrier_ops xs_rc_ops;
extern const struct xs_carrier_ops xs_shm_ops;

#endif
