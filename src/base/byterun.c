/* SPDX-License-Identifier: MIT */
/*
 * Puts and gets without a lock and without blocking signals: restartable sequences (rseq(2)).
 *
 * A handler may interrupt a call at any instruction, use the same stream, and never come back; the
 * lock's holder may take the ring away. So a call is a run of instructions, all of them in section
 * `xs_restart`, that changes nothing which counts before its last one: it copies bytes to where
 * nobody looks yet, and that last one stores the index. The kernel sends a thread that is preempted
 * or gets a signal inside the run to its abort address instead of on, before any handler runs, and
 * membarrier(2) does the same to all other threads. Then the call has done nothing, and is left to
 * the locked way.
 *
 * The second run, after the index is stored, shows it to the other side and looks at its word. It
 * begins with the index as it is by then, and may be run any number of times. A handler that jumps
 * away between the two leaves bytes that nobody has been shown: that's as if the call hadn't got so
 * far. Whoever uses the stream next makes up for it (xs_byteout_settle).
 *
 * What's in the section must not call anything outside of it, or make a system call: hence the copy
 * of our own, the flags with which the Makefile compiles this file, and a rule of
 * scripts/lint-symbols.
 */
#include "base/bytering.h"

#include "base/rawsys.h"

#include <linux/membarrier.h>

static _Atomic uint64_t names = 1;
static __thread uint64_t self = 1;

uint64_t xs_byte_self(void)
{
	return self;
}

uint64_t xs_byte_name(void)
{
	if (self == 1 && xs_byte_usable())
		self = atomic_fetch_add(&names, 1) + 1;
	return self;
}

void xs_byte_fork_child(void)
{
	self = 1;
}

static bool take_back(struct xs_byteside *s)
{
	uint64_t owner = atomic_load_explicit(&s->owner, memory_order_relaxed);

	if (owner == XS_BYTE_NOBODY || owner == self)
		return false;
	atomic_store(&s->owner, XS_BYTE_NOBODY);
	return true;
}

bool xs_byte_take_back(struct xs_byteside *a, struct xs_byteside *b)
{
	bool one = take_back(a), two = take_back(b);

	if (!one && !two)
		return false;
	/* Registered when the process found that it works. */
	xs_sys(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0);
	return true;
}

#if defined(__x86_64__)
#include <dlfcn.h>
#include <linux/rseq.h>
#include <string.h>

#define LEAF                                            \
	__attribute__((section("xs_restart"), noinline, \
		       no_sanitize("address", "thread", "undefined")))
#define PART \
	static inline __attribute__((always_inline, no_sanitize("address", "thread", "undefined")))
#define SIGNATURE 0x53053053 /* libc's, told to the kernel for each thread */

/* One call; the run below knows the layout. */
struct op {
	long (*leaf)(struct op *op);
	struct xs_byteside *side;
	uint64_t self;
	uint64_t *cs; /* this thread's rseq_cs */
	uint32_t word;
	bool low; /* get: the ring is half empty */
	const struct xs_byteplace *at;
	uint8_t *buf;
	size_t n;
	uint64_t spin;
};
static_assert(offsetof(struct op, side) == 8 && offsetof(struct op, self) == 16 &&
		      offsetof(struct op, cs) == 24 && offsetof(struct op, word) == 32,
	      "the run counts on it");

/* The run's two ranges; filled in at the first use. */
__attribute__((visibility("hidden"), used)) struct rseq_cs xs_byte_cs[2]
	__attribute__((aligned(32)));
/* The stack pointer to go back to when a leaf is aborted. */
__attribute__((visibility("hidden"), used)) __thread void *xs_byte_anchor;

long xs_byte_run(struct op *op);
extern const char xs_byte_end[], xs_byte_again[], xs_byte_shown[], xs_byte_abort[],
	xs_byte_repeat[];
extern const char __start_xs_restart[] __attribute__((visibility("hidden")));

/*
 * rdi: the call. The leaf's result is how far the index moves; 0: the call has done nothing.
 * Abort addresses are preceded by the signature. On the second one nothing but the instruction
 * pointer has changed.
 */
__asm__(".pushsection xs_restart,\"ax\",@progbits\n"
	".subsection 1\n"
	".hidden xs_byte_run, xs_byte_end, xs_byte_again, xs_byte_shown\n"
	".hidden xs_byte_abort, xs_byte_repeat\n"
	".globl xs_byte_run, xs_byte_end, xs_byte_again, xs_byte_shown\n"
	".globl xs_byte_abort, xs_byte_repeat\n"
	".type xs_byte_run, @function\n"
	"xs_byte_run:\n"
	"	.cfi_startproc\n"
	"	push %rbx\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset rbx, 0\n"
	"	push %rbp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset rbp, 0\n"
	"	push %r12\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset r12, 0\n"
	"	push %r13\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset r13, 0\n"
	"	push %r14\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset r14, 0\n"
	"	push %r15\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset r15, 0\n"
	"	sub $24, %rsp\n"
	"	.cfi_adjust_cfa_offset 24\n"
	"	mov xs_byte_anchor@gottpoff(%rip), %rbx\n"
	"	mov %fs:(%rbx), %rax\n"
	"	mov %rdi, (%rsp)\n"
	"	mov %rax, 8(%rsp)\n"
	"	mov %rsp, %fs:(%rbx)\n"
	"	mov 24(%rdi), %r13\n"
	"	lea xs_byte_cs(%rip), %rbp\n"
	"	mov %rbp, (%r13)\n"
	"	call *(%rdi)\n"
	"	mov (%rsp), %rdi\n"
	"	mov 8(%rdi), %rsi\n"
	"	mov %rax, %r14\n"
	"	test %rax, %rax\n"
	"	jz 3f\n"
	"	add 8(%rsi), %rax\n"
	"	mov %rax, 8(%rsi)\n"
	"xs_byte_end:\n"
	"	add $32, %rbp\n"
	"1:	mov %rbp, (%r13)\n"
	"xs_byte_again:\n"
	"	mov 16(%rdi), %rcx\n"
	"	cmp %rcx, (%rsi)\n"
	"	jne 3f\n"
	"	mov 8(%rsi), %rcx\n"
	"	mov 24(%rsi), %rdx\n"
	"	mov %rcx, (%rdx)\n"
	"	lock orl $0, (%rsp)\n"
	"	mov 32(%rsi), %rdx\n"
	"	mov (%rdx), %eax\n"
	"	mov %eax, 32(%rdi)\n"
	"	test %eax, %eax\n"
	"	jnz 3f\n"
	"	mov %rcx, 16(%rsi)\n"
	"xs_byte_shown:\n"
	"3:	movq $0, (%r13)\n"
	"	mov 8(%rsp), %rcx\n"
	"	mov %rcx, %fs:(%rbx)\n"
	"	mov %r14, %rax\n"
	"	add $24, %rsp\n"
	"	.cfi_adjust_cfa_offset -24\n"
	"	pop %r15\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	.cfi_restore r15\n"
	"	pop %r14\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	.cfi_restore r14\n"
	"	pop %r13\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	.cfi_restore r13\n"
	"	pop %r12\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	.cfi_restore r12\n"
	"	pop %rbp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	.cfi_restore rbp\n"
	"	pop %rbx\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	.cfi_restore rbx\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.long 0x53053053\n"
	"xs_byte_abort:\n"
	"	mov xs_byte_anchor@gottpoff(%rip), %rbx\n"
	"	mov %fs:(%rbx), %rsp\n"
	"	mov (%rsp), %rdi\n"
	"	mov 24(%rdi), %r13\n"
	"	xor %r14d, %r14d\n"
	"	jmp 3b\n"
	"	.long 0x53053053\n"
	"xs_byte_repeat:\n"
	"	jmp 1b\n"
	".size xs_byte_run, . - xs_byte_run\n"
	".popsection\n");
static_assert(SIGNATURE == 0x53053053 && sizeof(struct rseq_cs) == 32, "as in the run");

/* --- what runs inside ------------------------------------------------------------------------ */
typedef uint64_t word8 __attribute__((aligned(1), may_alias));
typedef uint32_t word4 __attribute__((aligned(1), may_alias));
typedef uint16_t word2 __attribute__((aligned(1), may_alias));
typedef uint64_t word16 __attribute__((vector_size(16), aligned(1), may_alias));

PART void copy_few(uint8_t *to, const uint8_t *from, size_t n)
{
	if (n >= 8) {
		word8 last = *(const word8 *)(from + n - 8);

		*(word8 *)to = *(const word8 *)from;
		*(word8 *)(to + n - 8) = last;
	} else if (n >= 4) {
		word4 last = *(const word4 *)(from + n - 4);

		*(word4 *)to = *(const word4 *)from;
		*(word4 *)(to + n - 4) = last;
	} else if (n >= 2) {
		word2 last = *(const word2 *)(from + n - 2);

		*(word2 *)to = *(const word2 *)from;
		*(word2 *)(to + n - 2) = last;
	} else if (n) {
		*to = *from;
	}
}

#define STRINGS 512u /* from here on the processor's own copy is as quick */

PART void copy(uint8_t *to, const uint8_t *from, size_t n)
{
	const uint8_t *last = from + n - 16;
	uint8_t *end = to + n - 16;

	if (n < 16) {
		copy_few(to, from, n);
		return;
	}
	if (n >= STRINGS) {
		__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
		return;
	}
	for (; from < last; from += 16, to += 16) {
		*(word16 *)to = *(const word16 *)from;
		__asm__ volatile("" ::: "memory"); /* no call of memcpy */
	}
	*(word16 *)end = *(const word16 *)last;
}

PART bool ours(const struct op *op)
{
	return atomic_load_explicit(&op->side->owner, memory_order_relaxed) == op->self &&
	       atomic_load_explicit(op->at->slot, memory_order_relaxed) == op->at->is;
}

PART uint64_t cycles(void)
{
	return __builtin_ia32_rdtsc();
}

/* Two pieces at most: the end of the ring, and its beginning. */
PART size_t up_to_end(uint64_t place, uint64_t size, size_t n)
{
	return n < size - place ? n : (size_t)(size - place);
}

LEAF static long put(struct op *op)
{
	struct xs_byteout *o = (struct xs_byteout *)op->side;
	uint64_t at, size, head, place;
	size_t n = op->n, some;

	if (!ours(op) || atomic_load_explicit(o->side.word, memory_order_relaxed))
		return 0;
	at = atomic_load_explicit(&o->side.at, memory_order_relaxed);
	if (at + n > o->stop)
		return 0;
	if (at + n - o->seen > o->window) {
		head = atomic_load_explicit(&o->side.ring->head, memory_order_acquire);
		if (head - o->seen > at - o->seen)
			return 0;
		o->seen = head;
		if (at + n - head > o->window)
			return 0;
	}
	size = (uint64_t)1 << o->order;
	place = at & (size - 1);
	some = up_to_end(place, size, n);
	copy(o->side.ring->data + place, op->buf, some);
	if (some < n)
		copy(o->side.ring->data, op->buf + some, n - some);
	return (long)n;
}

PART uint64_t tail_of(struct op *op, const struct xs_bytering *r, uint64_t at)
{
	uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire), until;

	if (tail != at || !op->spin)
		return tail;
	until = cycles() + op->spin;
	do {
		__builtin_ia32_pause();
		tail = atomic_load_explicit(&r->tail, memory_order_acquire);
	} while (tail == at && cycles() < until);
	return tail;
}

LEAF static long get(struct op *op)
{
	struct xs_bytein *i = (struct xs_bytein *)op->side;
	const struct xs_bytering *r;
	uint64_t at, tail, size, place;
	uint32_t order;
	size_t n, some;

	if (!ours(op) || i->bad)
		return 0;
	r = i->side.ring;
	at = atomic_load_explicit(&i->side.at, memory_order_relaxed);
	tail = tail_of(op, r, at);
	order = atomic_load_explicit(&r->order, memory_order_relaxed);
	if (order < XS_BYTE_LEAST || order > XS_BYTE_MOST || tail - at > (uint64_t)1 << order ||
	    tail > i->end)
		return 0;
	size = (uint64_t)1 << order;
	n = tail - at < op->n ? (size_t)(tail - at) : op->n;
	op->low = tail - at - n <= size / 2;
	place = at & (size - 1);
	some = up_to_end(place, size, n);
	copy(op->buf, r->data + place, some);
	if (some < n)
		copy(op->buf + some, r->data, n - some);
	return (long)n;
}

/* --- outside --------------------------------------------------------------------------------- */
static _Atomic int usable; /* 0: not asked, 1: yes, -1: no */
static ptrdiff_t area;	   /* of the thread's struct rseq, from its thread pointer */

static void fill(struct rseq_cs *cs, const char *from, const char *to, const char *abort)
{
	*cs = (struct rseq_cs){.start_ip = (uintptr_t)from,
			       .post_commit_offset = (uintptr_t)to - (uintptr_t)from,
			       .abort_ip = (uintptr_t)abort};
}

static int find_out(void)
{
	const ptrdiff_t *offset = dlsym(RTLD_DEFAULT, "__rseq_offset");
	const unsigned *size = dlsym(RTLD_DEFAULT, "__rseq_size");

	/* Libc hasn't registered its threads: an old one, or told not to, or an emulator's kernel.
	 */
	if (!offset || !size || !*size)
		return -1;
	if (xs_sys(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0) < 0 ||
	    xs_sys(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0) < 0)
		return -1;
	area = *offset;
	fill(&xs_byte_cs[0], __start_xs_restart, xs_byte_end, xs_byte_abort);
	fill(&xs_byte_cs[1], xs_byte_again, xs_byte_shown, xs_byte_repeat);
	return 1;
}

bool xs_byte_usable(void)
{
	int u = atomic_load_explicit(&usable, memory_order_acquire);

	if (!u) {
		u = find_out();
		atomic_store_explicit(&usable, u, memory_order_release);
	}
	return u > 0;
}

static inline uint64_t *rseq_cs_of_thread(void)
{
	char *self_;

	__asm__("mov %%fs:0, %0" : "=r"(self_));
	return (uint64_t *)(self_ + area + offsetof(struct rseq, rseq_cs));
}

size_t xs_byte_put(struct xs_byteout *o, const struct xs_byteplace *at, const void *buf, size_t n,
		   bool *news)
{
	struct op op = {.leaf = put,
			.side = &o->side,
			.self = self,
			.cs = rseq_cs_of_thread(),
			.at = at,
			.buf = (uint8_t *)(uintptr_t)buf,
			.n = n};
	size_t r = (size_t)xs_byte_run(&op);

	*news = op.word != 0;
	return r;
}

size_t xs_byte_get(struct xs_bytein *i, const struct xs_byteplace *at, void *buf, size_t n,
		   uint64_t spin, bool *news)
{
	struct op op = {.leaf = get,
			.side = &i->side,
			.self = self,
			.cs = rseq_cs_of_thread(),
			.at = at,
			.buf = buf,
			.n = n,
			.spin = spin};
	size_t r = (size_t)xs_byte_run(&op);

	*news = op.word && op.low;
	return r;
}

#else /* no such run for this processor: everything goes the locked way */

bool xs_byte_usable(void)
{
	return false;
}

size_t xs_byte_put(struct xs_byteout *o, const struct xs_byteplace *at, const void *buf, size_t n,
		   bool *news)
{
	(void)o, (void)at, (void)buf, (void)n;
	*news = false;
	return 0;
}

size_t xs_byte_get(struct xs_bytein *i, const struct xs_byteplace *at, void *buf, size_t n,
		   uint64_t spin, bool *news)
{
	(void)i, (void)at, (void)buf, (void)n, (void)spin;
	*news = false;
	return 0;
}
#endif
