/* SPDX-License-Identifier: MIT */
/*
 * An allocator that uses descriptors on every call, from the process's first moment: what
 * mimalloc, jemalloc and libhugetlbfs do to a library that isn't ready yet. It never frees.
 */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static char *next, *end;
static int busy, calls;

static void touch_descriptors(void)
{
	char c;
	struct iovec v = {&c, 1};
	int fd;

	/* A few times is enough, and keeps programs usable. */
	if (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE))
		return;
	if (calls++ < 200) {
		fd = open("/dev/zero", O_RDONLY);
		readv(fd, &v, 1);
		read(fd, &c, 1);
		fcntl(fd, F_GETFL);
		close(fd);
		fd = socket(AF_INET, SOCK_STREAM, 0);
		close(fd);
	}
	__atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
}

static void *take(size_t n, size_t align)
{
	static int lock;
	uintptr_t at;

	touch_descriptors();
	while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
		;
	at = ((uintptr_t)next + 16 + align - 1) & ~(uintptr_t)(align - 1);
	if (!next || at + n > (uintptr_t)end) {
		size_t room = n + align + (64 << 20);

		next = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		end = next + room;
		at = ((uintptr_t)next + 16 + align - 1) & ~(uintptr_t)(align - 1);
	}
	*(size_t *)(at - 16) = n;
	next = (char *)at + n;
	__atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
	return (void *)at;
}

void *malloc(size_t n)
{
	return take(n, 16);
}

void *calloc(size_t n, size_t each)
{
	return take(n * each, 16);
}

void *realloc(void *p, size_t n)
{
	void *q = take(n, 16);

	if (p)
		memcpy(q, p, *(size_t *)((char *)p - 16) < n ? *(size_t *)((char *)p - 16) : n);
	return q;
}

void *memalign(size_t align, size_t n)
{
	return take(n, align < 16 ? 16 : align);
}

void *aligned_alloc(size_t align, size_t n)
{
	return memalign(align, n);
}

int posix_memalign(void **p, size_t align, size_t n)
{
	*p = memalign(align, n);
	return 0;
}

void free(void *p)
{
	(void)p;
}

__attribute__((constructor)) static void start(void)
{
	touch_descriptors();
}
