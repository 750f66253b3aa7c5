/* SPDX-License-Identifier: MIT */
/* The names of the state file's numbers, and a row as one line of JSON. */
#include "base/staterow.h"
#include "base/reason.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NAMED(id, name) name,
static const char *const planes[] = {XSHIM_PLANE_LIST(NAMED)};
static const char *const tx_states[] = {XSHIM_TX_LIST(NAMED)};
static const char *const rx_states[] = {XSHIM_RX_LIST(NAMED)};
#undef NAMED
static const char *const roles[] = {"unknown", "connected", "accepted"};

#define NAME_OF(list, i) ((i) < sizeof(list) / sizeof((list)[0]) ? (list)[i] : "unknown")

const char *xs_row_plane(unsigned int plane)
{
	return NAME_OF(planes, plane);
}

const char *xs_row_tx_state(unsigned int state)
{
	return NAME_OF(tx_states, state);
}

const char *xs_row_rx_state(unsigned int state)
{
	return NAME_OF(rx_states, state);
}

void xs_row_address(char out[XS_ROW_ADDRESS], unsigned int family, const uint8_t ip[16],
		    uint16_t port)
{
	char text[INET6_ADDRSTRLEN];

	if ((family != 4 && family != 6) ||
	    !inet_ntop(family == 4 ? AF_INET : AF_INET6, ip, text, sizeof(text)))
		snprintf(out, XS_ROW_ADDRESS, "-");
	else
		snprintf(out, XS_ROW_ADDRESS, family == 4 ? "%s:%u" : "[%s]:%u", text, port);
}

/* What doesn't fit is cut; XS_ROW_JSON has room for all that this file writes. */
struct text {
	char *buf;
	size_t len, room;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *t, const char *fmt, ...)
{
	size_t left = t->room - t->len;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->buf + t->len, left, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->len += (size_t)n < left ? (size_t)n : left - 1;
}

/* Bytes outside ASCII are shown as Latin-1: a program's name may be anything. */
static void put_string(struct text *t, const char *s, size_t max)
{
	put(t, "\"");
	for (size_t i = 0; i < max && s[i]; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c == '"' || c == '\\')
			put(t, "\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			put(t, "\\u%04x", c);
		else
			put(t, "%c", c);
	}
	put(t, "\"");
}

static uint64_t bytes(const struct xshim_dir *dir, int plane)
{
	return atomic_load_explicit(&dir->bytes[plane], memory_order_relaxed);
}

static void put_direction(struct text *t, const char *name, const struct xshim_dir *dir,
			  const char *state)
{
	unsigned int reason = atomic_load_explicit(&dir->reason, memory_order_relaxed);

	put(t, "\"%s\":{\"plane\":\"%s\",\"state\":\"%s\",\"epoch\":%u,", name,
	    xs_row_plane(atomic_load_explicit(&dir->plane, memory_order_relaxed)), state,
	    (unsigned int)atomic_load_explicit(&dir->epoch, memory_order_relaxed));
	if (reason == XS_R_NONE)
		put(t, "\"reason\":null,");
	else
		put(t, "\"reason\":\"%s\",", xs_reason_name((enum xs_reason)reason));
	put(t, "\"bytes\":{\"kernel\":%llu,\"rc\":%llu,\"shm\":%llu",
	    (unsigned long long)bytes(dir, XSHIM_KERNEL), (unsigned long long)bytes(dir, XSHIM_RC),
	    (unsigned long long)bytes(dir, XSHIM_SHM));
	if (bytes(dir, XSHIM_TEST))
		put(t, ",\"test\":%llu", (unsigned long long)bytes(dir, XSHIM_TEST));
	put(t, "},\"upgrades\":%u,\"returns\":%u},",
	    atomic_load_explicit(&dir->upgrades, memory_order_relaxed),
	    atomic_load_explicit(&dir->returns, memory_order_relaxed));
}

size_t xs_row_json(char out[XS_ROW_JSON], const struct xshim_state *head,
		   const struct xshim_conn *row, const char *end)
{
	struct text t = {.buf = out, .room = XS_ROW_JSON};
	char local[XS_ROW_ADDRESS], peer[XS_ROW_ADDRESS];

	xs_row_address(local, row->family, row->local_ip, row->local_port);
	xs_row_address(peer, row->family, row->peer_ip, row->peer_port);
	put(&t, "{\"v\":%d,\"pid\":%d,\"program\":", XSHIM_STATE_VERSION, head->pid);
	put_string(&t, head->program, sizeof(head->program));
	put(&t, ",\"fd\":%d,\"id\":%u,\"local\":\"%s\",\"peer\":\"%s\",\"role\":\"%s\",",
	    atomic_load_explicit(&row->fd, memory_order_relaxed), row->id, local, peer,
	    NAME_OF(roles, row->role));
	put_direction(&t, "rx", &row->rx,
		      xs_row_rx_state(atomic_load_explicit(&row->rx.state, memory_order_relaxed)));
	put_direction(&t, "tx", &row->tx,
		      xs_row_tx_state(atomic_load_explicit(&row->tx.state, memory_order_relaxed)));
	put(&t, "\"link\":%llu,\"wire\":%u", (unsigned long long)row->link, row->wire);
	if (end) {
		put(&t, ",\"end\":");
		put_string(&t, end, 64);
	}
	put(&t, "}\n");
	return t.len;
}
