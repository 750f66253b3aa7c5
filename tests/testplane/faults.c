/* SPDX-License-Identifier: MIT */
/* What goes wrong, and when: XSHIM_TESTPLANE. */
#include "testplane.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct tp_faults tp_faults;

static _Atomic uint32_t seed;
static struct xs_timer watch;
static struct stat last;

static const struct {
	const char *name;
	uint32_t *at;
	uint32_t preset;
} numbers[] = {
	{"delay_us", &tp_faults.delay_us, 0},
	{"reorder", &tp_faults.reorder, 0},
	{"dup", &tp_faults.dup, 0},
	{"cut_after", &tp_faults.cut_after, 0},
	{"cuts", (uint32_t *)&tp_faults.cuts, INT32_MAX},
	{"freeze_after", &tp_faults.freeze_after, 0},
	{"freeze_ms", &tp_faults.freeze_ms, 0},
	{"small", &tp_faults.small, 64},
	{"bulk", &tp_faults.bulk, 16},
};

uint32_t tp_random(uint32_t n)
{
	uint32_t x = atomic_fetch_add(&seed, 0x9e3779b9u) + 0x9e3779b9u;

	x ^= x >> 16;
	x *= 0x21f0aaadu;
	x ^= x >> 15;
	x *= 0x735a2d97u;
	x ^= x >> 15;
	return n ? x % n : 0;
}

static void set(const char *key, size_t n, const char *value)
{
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (strlen(numbers[i].name) == n && !strncmp(numbers[i].name, key, n))
			*numbers[i].at = (uint32_t)strtoul(value, NULL, 10);
	if (n == 4 && !strncmp(key, "seed", n))
		atomic_store(&seed, (uint32_t)strtoul(value, NULL, 10));
	if (n == 8 && !strncmp(key, "cut_file", n)) {
		size_t len = strcspn(value, ",");

		if (len >= sizeof(tp_faults.cut_file))
			len = 0;
		memcpy(tp_faults.cut_file, value, len);
		tp_faults.cut_file[len] = 0;
	}
}

static void look_for_file(struct xs_timer *t)
{
	struct stat st;

	if (stat(tp_faults.cut_file, &st))
		memset(&last, 0, sizeof(last));
	else if (st.st_ino != last.st_ino || st.st_mtim.tv_nsec != last.st_mtim.tv_nsec ||
		 st.st_mtim.tv_sec != last.st_mtim.tv_sec) {
		last = st;
		tp_conduits_cut();
	}
	xs_timer_set(t, xs_now_ns() + 5 * XS_NS_PER_MS);
}

static void parse(void)
{
	const char *s = getenv("XSHIM_TESTPLANE");

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		*numbers[i].at = numbers[i].preset;
	while (s && *s) {
		size_t n = strcspn(s, "=,");

		if (s[n] == '=')
			set(s, n, s + n + 1);
		s += strcspn(s, ",");
		s += *s == ',';
	}
}

void tp_faults_read(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, parse);
	if (!tp_faults.cut_file[0] || watch.when)
		return;
	watch.fn = look_for_file;
	stat(tp_faults.cut_file, &last);
	xs_timer_set(&watch, xs_now_ns() + 5 * XS_NS_PER_MS);
}

uint64_t tp_due(struct xs_conduit *c, uint64_t now)
{
	uint64_t due = now, frozen = atomic_load(&c->frozen_until);

	if (tp_faults.delay_us) {
		uint64_t ns = tp_random(tp_faults.delay_us) * XS_NS_PER_US;

		due += tp_random(100) < tp_faults.reorder ? ns * 10 : ns;
	}
	return due > frozen ? due : frozen;
}

bool tp_counted(struct xs_conduit *c)
{
	uint32_t n = atomic_fetch_add(&c->segments, 1) + 1;

	if (tp_faults.freeze_after && n == tp_faults.freeze_after)
		atomic_store(&c->frozen_until, xs_now_ns() + tp_faults.freeze_ms * XS_NS_PER_MS);
	if (!tp_faults.cut_after || n < tp_faults.cut_after)
		return false;
	return n == tp_faults.cut_after &&
	       __atomic_fetch_sub(&tp_faults.cuts, 1, __ATOMIC_RELAXED) > 0;
}
