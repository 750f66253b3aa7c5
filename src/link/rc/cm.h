/* SPDX-License-Identifier: MIT */
/*
 * Between cm.c, which calls librdmacm, and meet.c, which knows what to do with its events. Progress
 * thread only.
 */
#ifndef XS_LINK_RC_CM_H
#define XS_LINK_RC_CM_H

#include "link/rc/rc.h"

enum xs_cm_role { XS_CM_LISTENER, XS_CM_ACTIVE, XS_CM_PASSIVE };

/* Private data of a request and of the accept (lane and token 0). */
struct xs_cm_request {
	uint8_t version;
	uint8_t lane;
	uint8_t zero[6];
	uint8_t token[16];
};
static_assert(sizeof(struct xs_cm_request) == 24, "fits the 56 bytes of a request");

/* Private data of a reject. Others than we may listen on a port: hence the mark. */
#define XS_CM_MARK "xshm"
struct xs_cm_refusal {
	uint8_t version;
	uint8_t zero;
	uint16_t reason; /* enum xs_reason */
	char mark[4];
};
static_assert(sizeof(struct xs_cm_refusal) == 8, "fits the 148 bytes of a reject");

struct xs_rc_id {
	enum xs_cm_role role;
	struct rdma_cm_id *id;
	struct xs_rc_lane *lane; /* NULL: a request whose other half isn't there */
	bool requested;		 /* connect or accept was called */
	struct xs_cm_request req;
	struct xs_rc_id *next; /* of halves */
	uint64_t deadline;     /* of a half */
};

/* cm.c; 0 or a negative errno */
enum xs_reason xs_cm_open(void);
int xs_cm_resolve_addr(struct xs_rc_id *i, struct sockaddr_storage *local,
		       struct sockaddr_storage *peer);
int xs_cm_resolve_route(struct xs_rc_id *i);
int xs_cm_request(struct xs_rc_id *i);
int xs_cm_accept(struct xs_rc_id *i);
int xs_cm_establish(struct xs_rc_id *i);
void xs_cm_refuse(struct xs_rc_id *i, enum xs_reason why);
/* The two ends of a request. */
void xs_cm_addresses(const struct xs_rc_id *i, struct sockaddr_storage *local,
		     struct sockaddr_storage *peer);

/* meet.c */
/* A request has come to our rendezvous; takes i over. */
void xs_meet_requested(struct xs_rc_id *i);
/* Anything else about an id that isn't a listener's; refusal: what a reject said, if anything. */
void xs_meet_event(struct xs_rc_id *i, enum rdma_cm_event_type type, enum xs_reason refusal);
void xs_meet_forget(struct xs_rc_id *i);
void xs_meet_close(void);

#endif
