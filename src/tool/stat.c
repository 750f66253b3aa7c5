/* SPDX-License-Identifier: MIT */
/* xshim stat: a table for people, or a line of JSON for each connection. */
#include "tool/tool.h"

#include "base/reason.h"
#include "base/staterow.h"
#include "tool/states.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum column {
	PID,
	PROGRAM,
	FD,
	LOCAL,
	PEER,
	IN,
	OUT,
	WHY,
	RX_KERN,
	RX_FAST,
	TX_KERN,
	TX_FAST,
	SWITCHES,
	COLUMNS
};

static const char *const heads[COLUMNS] = {
	[PID] = "PID",		 [PROGRAM] = "PROGRAM", [FD] = "FD",
	[LOCAL] = "LOCAL",	 [PEER] = "PEER",	[IN] = "IN",
	[OUT] = "OUT",		 [WHY] = "WHY",		[RX_KERN] = "RX-KERN",
	[RX_FAST] = "RX-FAST",	 [TX_KERN] = "TX-KERN", [TX_FAST] = "TX-FAST",
	[SWITCHES] = "SWITCHES",
};

static bool is_number(enum column c)
{
	return c == FD || c >= RX_KERN;
}

struct line {
	char cell[COLUMNS][XS_ROW_ADDRESS];
};

/* --- cells
 * ------------------------------------------------------------------------------------------- */

#define CELL(line, column, ...) \
	snprintf((line)->cell[column], sizeof((line)->cell[column]), __VA_ARGS__)

/* Exact up to 99999, then 97.7k, 1.5M ... of 1024 each. */
static void put_bytes(struct line *line, enum column c, uint64_t n)
{
	static const char units[] = "kMGTPE";
	double shown = (double)n;
	int unit = -1;

	if (n < 100000) {
		CELL(line, c, "%u", (unsigned int)n);
		return;
	}
	for (; shown >= 999.95 && unit < 5; unit++)
		shown /= 1024;
	CELL(line, c, "%.1f%c", shown, units[unit]);
}

static uint64_t fast_bytes(const struct xshim_dir *dir)
{
	uint64_t sum = 0;

	for (int plane = XSHIM_KERNEL + 1; plane < XSHIM_PLANES; plane++)
		sum += dir->bytes[plane];
	return sum;
}

/* One reason where both directions have the same, else in/out. */
static void put_reasons(struct line *line, const struct xshim_conn *row)
{
	const char *in = xs_reason_name((enum xs_reason)row->rx.reason);
	const char *out = xs_reason_name((enum xs_reason)row->tx.reason);

	if (!strcmp(in, out))
		CELL(line, WHY, "%s", in);
	else
		CELL(line, WHY, "%s/%s", in, out);
}

/* A name may be anything: nothing of it may reach a terminal but printable ASCII without blanks. */
static void put_program(struct line *line, const char *program)
{
	CELL(line, PROGRAM, "%.63s", *program ? program : "-");
	for (char *c = line->cell[PROGRAM]; *c; c++)
		if (*c <= ' ' || *c >= 0x7f)
			*c = '?';
}

static void fill(struct line *line, const struct xshim_state *head, const struct xshim_conn *row)
{
	CELL(line, PID, "%d", head->pid);
	put_program(line, head->program);
	if (row->fd >= 0)
		CELL(line, FD, "%d", row->fd);
	else
		CELL(line, FD, "-");
	xs_row_address(line->cell[LOCAL], row->family, row->local_ip, row->local_port);
	xs_row_address(line->cell[PEER], row->family, row->peer_ip, row->peer_port);
	CELL(line, IN, "%s", xs_row_plane(row->rx.plane));
	CELL(line, OUT, "%s", xs_row_plane(row->tx.plane));
	put_reasons(line, row);
	put_bytes(line, RX_KERN, row->rx.bytes[XSHIM_KERNEL]);
	put_bytes(line, RX_FAST, fast_bytes(&row->rx));
	put_bytes(line, TX_KERN, row->tx.bytes[XSHIM_KERNEL]);
	put_bytes(line, TX_FAST, fast_bytes(&row->tx));
	CELL(line, SWITCHES, "%llu",
	     (unsigned long long)row->rx.upgrades + row->rx.returns + row->tx.upgrades +
		     row->tx.returns);
}

/* --- table
 * ------------------------------------------------------------------------------------------- */

static void print_line(const struct line *line, const int width[COLUMNS])
{
	for (int c = 0; c < COLUMNS; c++)
		printf("%*s%s", is_number(c) ? width[c] : -width[c], line->cell[c],
		       c < COLUMNS - 1 ? "  " : "\n");
}

static bool print_table(const struct states *all)
{
	int width[COLUMNS] = {0};
	size_t n = 1, at = 1;
	struct line *lines;

	for (size_t i = 0; i < all->n; i++)
		n += all->list[i].n;
	lines = calloc(n, sizeof(*lines));
	if (!lines)
		return false;
	for (int c = 0; c < COLUMNS; c++)
		CELL(&lines[0], c, "%s", heads[c]);
	for (size_t i = 0; i < all->n; i++)
		for (size_t j = 0; j < all->list[i].n; j++)
			fill(&lines[at++], &all->list[i].head, &all->list[i].rows[j]);
	for (size_t i = 0; i < n; i++)
		for (int c = 0; c < COLUMNS; c++)
			if ((int)strlen(lines[i].cell[c]) > width[c])
				width[c] = (int)strlen(lines[i].cell[c]);
	for (size_t i = 0; i < n; i++)
		print_line(&lines[i], width);
	free(lines);
	return true;
}

static void tell_unseen(const struct states *all)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->list[i].head.overflow)
			tool_say("process %d: its state file had no room for %u connections",
				 all->list[i].head.pid, all->list[i].head.overflow);
}

static void print_json(const struct states *all)
{
	char line[XS_ROW_JSON];
	size_t n;

	for (size_t i = 0; i < all->n; i++) {
		for (size_t j = 0; j < all->list[i].n; j++) {
			n = xs_row_json(line, &all->list[i].head, &all->list[i].rows[j], NULL);
			fwrite(line, 1, n, stdout);
		}
	}
}

static int show(const char *which, bool json)
{
	struct states all;
	int pid = 0, status = TOOL_OK;

	if (which && tool_number(which, &pid))
		which = NULL;
	if (!states_read(&all, pid, which)) {
		status = TOOL_NONE;
	} else if ((pid || which) && !all.n) {
		if (pid)
			tool_say("no TCP connections under the shim in a process %d", pid);
		else
			tool_say("no TCP connections under the shim in a program '%s'", which);
		status = TOOL_NONE;
	} else if (json) {
		print_json(&all);
	} else if (!print_table(&all)) {
		tool_say("out of memory");
		status = TOOL_NONE;
	} else {
		tell_unseen(&all);
	}
	states_free(&all);
	return status;
}

int tool_stat(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	bool json = false;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c != 'j') {
			tool_usage(c == 'h');
			return c == 'h' ? TOOL_OK : TOOL_USAGE;
		}
		json = true;
	}
	if (argc - optind > 1) {
		tool_usage(false);
		return TOOL_USAGE;
	}
	return show(argv[optind], json);
}
