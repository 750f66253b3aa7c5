/* SPDX-License-Identifier: MIT */
/* Rows of the state file as text: for the library's report and for `xshim stat`. */
#ifndef XS_BASE_STATEROW_H
#define XS_BASE_STATEROW_H

#include "xshim.h"

#define XS_ROW_JSON 2048  /* room for any row */
#define XS_ROW_ADDRESS 64 /* ... and any address */

/* "unknown" for numbers that aren't ours (a newer library's file). */
const char *xs_row_plane(unsigned int plane);
const char *xs_row_tx_state(unsigned int state);
const char *xs_row_rx_state(unsigned int state);

/* 192.0.2.7:80, [2001:db8::7]:80; "-" when the family is neither 4 nor 6. */
void xs_row_address(char out[XS_ROW_ADDRESS], unsigned int family, const uint8_t ip[16],
		    uint16_t port);

/* One line with its newline; `end` may be NULL. Allocates nothing. Returns its length. */
size_t xs_row_json(char out[XS_ROW_JSON], const struct xshim_state *head,
		   const struct xshim_conn *row, const char *end);

#endif
