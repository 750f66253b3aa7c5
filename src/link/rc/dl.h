/* SPDX-License-Identifier: MIT */
/*
 * The RDMA libraries, opened at the first need: libxshim.so itself needs only libc. The types of
 * the tables come from the libraries' own headers. Only cm.c uses xs_rdma, only verbs.c uses
 * xs_ibv.
 */
#ifndef XS_LINK_RC_DL_H
#define XS_LINK_RC_DL_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

/* The headers hide some of the library's functions behind inline ones of the same name. */
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr

/* clang-format off */
#define XS_IBV_NAMES(X)                                                                        \
	X(fork_init) X(get_device_list) X(free_device_list) X(get_device_name) X(open_device)  \
	X(close_device) X(query_device) X(query_gid) X(alloc_pd) X(dealloc_pd) X(reg_mr)       \
	X(dereg_mr) X(create_comp_channel) X(destroy_comp_channel) X(create_cq) X(resize_cq)   \
	X(destroy_cq) X(get_cq_event) X(ack_cq_events) X(create_srq) X(destroy_srq)            \
	X(create_qp) X(modify_qp) X(query_qp) X(destroy_qp) X(get_async_event)                 \
	X(ack_async_event) X(wc_status_str) X(event_type_str)

#define XS_RDMA_NAMES(X)                                                                       \
	X(create_event_channel) X(destroy_event_channel) X(create_id) X(destroy_id)            \
	X(bind_addr) X(listen) X(resolve_addr) X(resolve_route) X(connect) X(accept) X(reject) \
	X(establish) X(disconnect) X(get_cm_event) X(ack_cm_event) X(init_qp_attr)             \
	X(set_option) X(event_str)
/* clang-format on */

struct xs_ibv_calls {
#define X(n) __typeof__(&ibv_##n) n;
	XS_IBV_NAMES(X)
#undef X
};

struct xs_rdma_calls {
#define X(n) __typeof__(&rdma_##n) n;
	XS_RDMA_NAMES(X)
#undef X
};

extern struct xs_ibv_calls xs_ibv;
extern struct xs_rdma_calls xs_rdma;

/* Progress thread: opens both. False: a library or one of the names isn't there; it isn't tried
 * again. */
bool xs_dl_open(void);
/* Any thread: has opening failed? */
bool xs_dl_missing(void);

#endif
