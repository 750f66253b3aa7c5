/* SPDX-License-Identifier: MIT */
/* The rule `trust`: whose hosts' local users are all trusted (for carriers that prove only an
 * address). */
#ifndef XS_LINK_TRUST_H
#define XS_LINK_TRUST_H

#include <stdbool.h>
#include <sys/socket.h>

bool xs_trust_allows(const struct sockaddr *peer);
/* Is it an address of this machine's interfaces? */
bool xs_trust_own_address(const struct sockaddr *addr);
void xs_trust_fork_child(void);

#endif
