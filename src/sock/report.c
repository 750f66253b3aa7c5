/* SPDX-License-Identifier: MIT */
/*
 * The report: a line for each connection that has ended. The file is opened for each line: programs
 * close descriptors that they don't know, and a rotated file is followed.
 */
#include "sock/stats.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/config.h"
#include "base/crit.h"
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

void xs_stats_report(const struct xshim_conn *row, const char *end)
{
	const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	char line[XS_ROW_JSON];
	struct xs_crit cs;
	size_t n;
	long fd;

	if (!xs_config()->report[0] || !row->used)
		return;
	n = xs_row_json(line, xs_stats_head(), row, end);
	xs_crit_enter(&cs);
	fd = xs_sys(__NR_openat, AT_FDCWD, xs_config()->report, flags, 0600);
	if (fd >= 0) {
		if (fit((int)fd, n))
			xs_sys(__NR_write, fd, line, n);
		xs_sys(__NR_close, fd);
	}
	xs_crit_leave(&cs);
}
