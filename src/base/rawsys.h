/* SPDX-License-Identifier: MIT */
/*
 * System calls without libc: no errno, no cancellation point, no hook.
 * The library's own I/O uses these; a result below 0 is a negative errno.
 */
#ifndef XS_BASE_RAWSYS_H
#define XS_BASE_RAWSYS_H

#include <sys/syscall.h>

/* Calls that this machine, or the kernel headers of an older system, lack. */
#ifndef __NR_poll
#define __NR_poll -1
#define __NR_select -1
#define __NR_dup2 -1
#define __NR_epoll_wait -1
#define __NR_epoll_create -1
#endif
#ifndef __NR_close_range
#define __NR_close_range 436
#endif
#ifndef __NR_fork /* aarch64 has clone only */
#define __NR_fork (-1)
#endif
#ifndef __NR_clone3
#define __NR_clone3 435
#endif
#ifndef __NR_pidfd_open
#define __NR_pidfd_open 434
#endif
#ifndef __NR_epoll_pwait2
#define __NR_epoll_pwait2 441
#endif

static inline long xs_raw6(long nr, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
#else
#error "this machine's system calls are not known here"
#endif
}

/* xs_sys(nr, up to six integers or pointers) */
#define XS_SYS_L(x) ((long)(x))
#define XS_SYS_1(nr) xs_raw6(nr, 0, 0, 0, 0, 0, 0)
#define XS_SYS_2(nr, a) xs_raw6(nr, XS_SYS_L(a), 0, 0, 0, 0, 0)
#define XS_SYS_3(nr, a, b) xs_raw6(nr, XS_SYS_L(a), XS_SYS_L(b), 0, 0, 0, 0)
#define XS_SYS_4(nr, a, b, c) xs_raw6(nr, XS_SYS_L(a), XS_SYS_L(b), XS_SYS_L(c), 0, 0, 0)
#define XS_SYS_5(nr, a, b, c, d) \
	xs_raw6(nr, XS_SYS_L(a), XS_SYS_L(b), XS_SYS_L(c), XS_SYS_L(d), 0, 0)
#define XS_SYS_6(nr, a, b, c, d, e) \
	xs_raw6(nr, XS_SYS_L(a), XS_SYS_L(b), XS_SYS_L(c), XS_SYS_L(d), XS_SYS_L(e), 0)
#define XS_SYS_7(nr, a, b, c, d, e, f) \
	xs_raw6(nr, XS_SYS_L(a), XS_SYS_L(b), XS_SYS_L(c), XS_SYS_L(d), XS_SYS_L(e), XS_SYS_L(f))
#define XS_SYS_PICK(a, b, c, d, e, f, g, name, ...) name
#define xs_sys(...)                                                                          \
	XS_SYS_PICK(__VA_ARGS__, XS_SYS_7, XS_SYS_6, XS_SYS_5, XS_SYS_4, XS_SYS_3, XS_SYS_2, \
		    XS_SYS_1, 0)                                                             \
	(__VA_ARGS__)

#endif
