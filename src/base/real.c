/* SPDX-License-Identifier: MIT */
/*
 * Finds libc's own functions. Each pointer starts as a small function that either makes
 * the system call itself or looks the name up when called: constructors of other
 * libraries (allocators above all) call doors before our constructor has run, and dlsym
 * may allocate. What this libc doesn't have is served by the kernel, or is ENOSYS.
 */
#include "base/real.h"
#include "base/rawsys.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#define KERNEL_SIGSET 8

typedef void (*any_fn)(void);
/* Six integer registers carry the arguments of every function called through here. */
typedef long (*six_fn)(long a, long b, long c, long d, long e, long f);

enum sym {
#define XS_SYM(name, early) SYM_##name,
#include "base/symbols.def"
#undef XS_SYM
	SYM_COUNT
};

static const char *const sym_names[SYM_COUNT] = {
#define XS_SYM(name, early) [SYM_##name] = #name,
#include "base/symbols.def"
#undef XS_SYM
};

static long finish(long ret)
{
	if (ret < 0 && ret > -4096) {
		errno = (int)-ret;
		return -1;
	}
	return ret;
}

static long absent(void)
{
	errno = ENOSYS;
	return -1;
}

static long kernel_close_range(unsigned int first, unsigned int last, int flags)
{
	return finish(xs_sys(__NR_close_range, first, last, flags));
}

static long kernel_closefrom(int low)
{
	return finish(xs_sys(__NR_close_range, low < 0 ? 0 : low, ~0U, 0));
}

static long kernel_execveat(int dir, const char *path, char *const argv[], char *const envp[],
			    int flags)
{
	return finish(xs_sys(__NR_execveat, dir, path, argv, envp, flags));
}

static long kernel_epoll_pwait2(int epfd, struct epoll_event *events, int max,
				const struct timespec *timeout, const sigset_t *mask)
{
	return finish(xs_sys(__NR_epoll_pwait2, epfd, events, max, timeout, mask, KERNEL_SIGSET));
}

/* Who passes fewer than six lets us read what lies behind them, as libc's own does. */
__attribute__((no_sanitize("address"))) static long kernel_syscall(long nr, ...)
{
	va_list ap;
	long arg[6];

	va_start(ap, nr);
	for (int i = 0; i < 6; i++)
		arg[i] = va_arg(ap, long);
	va_end(ap);
	return finish(xs_raw6(nr, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]));
}

static const struct {
	enum sym sym;
	any_fn fn;
} kernel_only[] = {
	{SYM_close_range, (any_fn)kernel_close_range},
	{SYM_closefrom, (any_fn)kernel_closefrom},
	{SYM_execveat, (any_fn)kernel_execveat},
	{SYM_epoll_pwait2, (any_fn)kernel_epoll_pwait2},
	{SYM_syscall, (any_fn)kernel_syscall},
};

static any_fn find(enum sym sym)
{
	void *found = dlsym(RTLD_NEXT, sym_names[sym]);

	if (found)
		return (any_fn)(uintptr_t)found;
	for (size_t i = 0; i < sizeof(kernel_only) / sizeof(kernel_only[0]); i++)
		if (kernel_only[i].sym == sym)
			return kernel_only[i].fn;
	return NULL;
}

static long late(enum sym sym, long a, long b, long c, long d, long e, long f)
{
	any_fn fn = find(sym);

	if (!fn)
		fn = (any_fn)absent;
	return ((six_fn)fn)(a, b, c, d, e, f);
}

/* The branch is decided when compiled: early is a constant. */
#define XS_SYM(name, early)                                                      \
	static long first_##name(long a, long b, long c, long d, long e, long f) \
	{                                                                        \
		if ((early) >= 0)                                                \
			return finish(xs_raw6(early, a, b, c, d, e, f));         \
		return late(SYM_##name, a, b, c, d, e, f);                       \
	}
#include "base/symbols.def"
#undef XS_SYM

/* syscall() alone has seven arguments, and needs nothing of libc. */
#define FIRST(name) (SYM_##name == SYM_syscall ? (any_fn)kernel_syscall : (any_fn)first_##name)

struct xs_real_calls xs_real = {
#define XS_SYM(name, early) .name = (__typeof__(&name))FIRST(name),
#include "base/symbols.def"
#undef XS_SYM
};

/* A name that isn't found now (aio_read before librt is loaded) stays "look up when called". */
void xs_real_init(void)
{
	any_fn fn;

#define XS_SYM(name, early)    \
	fn = find(SYM_##name); \
	if (fn)                \
		xs_real.name = (__typeof__(&name))fn;
#include "base/symbols.def"
#undef XS_SYM
}
