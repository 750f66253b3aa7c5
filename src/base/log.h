/* SPDX-License-Identifier: MIT */
/*
 * The log: XS_LOG(WARN, "fd=%d ...", fd) writes one line with one write(2), or nothing.
 * Silent unless configured. Async-signal-safe, allocates nothing, keeps errno. At most
 * 100 lines a second; then a count of those dropped.
 */
#ifndef XS_BASE_LOG_H
#define XS_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>

enum xs_log_level {
	XS_LOG_OFF,
	XS_LOG_ERROR,
	XS_LOG_WARN,
	XS_LOG_INFO,
	XS_LOG_DEBUG,
	XS_LOG_LEVELS
};

extern _Atomic int xs_log_level;
extern const char *const xs_log_level_names[XS_LOG_LEVELS];

/* One relaxed load when the line isn't wanted. No newline in the format. */
#define XS_LOG(level, ...)                                        \
	do {                                                      \
		if (xs_log_wants(XS_LOG_##level))                 \
			xs_log_line(XS_LOG_##level, __VA_ARGS__); \
	} while (0)

static inline bool xs_log_wants(enum xs_log_level level)
{
	return atomic_load_explicit(&xs_log_level, memory_order_relaxed) >= (int)level;
}

void xs_log_line(enum xs_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), cold));

/*
 * Sets level and target ("stderr" or a path, %p = pid). Once, from the constructor; file must stay
 * valid. Opens nothing when the level is off.
 */
void xs_log_init(enum xs_log_level level, const char *file);
/* In a forked child: no other thread is opening the file. */
void xs_log_fork_child(void);

#endif
