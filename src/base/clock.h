/* SPDX-License-Identifier: MIT */
/* Time in nanoseconds that never jumps; no system call where the vdso serves it. */
#ifndef XS_BASE_CLOCK_H
#define XS_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define XS_NS_PER_US 1000ULL
#define XS_NS_PER_MS 1000000ULL
#define XS_NS_PER_S 1000000000ULL

static inline uint64_t xs_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * XS_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* Between two looks at memory that another processor will change. */
static inline void xs_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif
