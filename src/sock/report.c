/* SPDX-License-Identifier: MIT */
/*
 * The report: a line for each connection that has ended. The file is opened for each line: programs
 * close descriptors that they don't know, and a rotated file is followed.
 */
#include "sock/stats.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/config.h"
#include "base/crit.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/rawsys.h"
#include "base/staterow.h"
#include "sock/statefile.h"

/* A pipe's or a terminal's write could block, or raise a signal. */
static bool fit(int fd, size_t n)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       xs_statefile_allowed((uint64_t)st.st_size + n);
}

/* Once: it would be the same with every connection. */
static void complain(const char *why)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set_explicit(&said, memory_order_relaxed))
		XS_LOG(WARN, "report: nothing is written to %s: %s", xs_config()->report, why);
}

static void append(const char *line, size_t n)
{
	const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	long fd = xs_sys(__NR_openat, AT_FDCWD, xs_config()->report, flags, 0600), r;

	if (fd < 0) {
		complain(strerrordesc_np((int)-fd));
		return;
	}
	if (!fit((int)fd, n)) {
		complain("it isn't a regular file, or the limit on file sizes is reached");
	} else {
		r = xs_sys(__NR_write, fd, line, n);
		if (r < 0)
			complain(strerrordesc_np((int)-r));
	}
	xs_sys(__NR_close, fd);
}

void xs_stats_report(const struct xshim_conn *row, const char *end)
{
	char line[XS_ROW_JSON];
	struct xs_crit cs;
	size_t n;

	if (!xs_config()->report[0] || !row->used)
		return;
	xs_lock_none(); /* a slow disk holds up the caller alone */
	n = xs_row_json(line, xs_stats_head(), row, end);
	xs_crit_enter(&cs);
	append(line, n);
	xs_crit_leave(&cs);
}
