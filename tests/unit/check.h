/* SPDX-License-Identifier: MIT */
/* What a unit test needs: CHECK counts and goes on; main ends with `return check_done();`. */
#ifndef XS_TESTS_UNIT_CHECK_H
#define XS_TESTS_UNIT_CHECK_H

#include <stdio.h>
#include <string.h>

static int check_passed, check_failed;

#define CHECK(cond) check_note(!!(cond), __FILE__, __LINE__, #cond)
#define CHECK_EQ(a, b) check_equal((long long)(a), (long long)(b), __FILE__, __LINE__, #a " == " #b)
#define CHECK_STR(a, b) check_strings((a), (b), __FILE__, __LINE__, #a)

static inline int check_note(int good, const char *file, int line, const char *what)
{
	if (good) {
		check_passed++;
	} else {
		check_failed++;
		printf("%s:%d: failed: %s\n", file, line, what);
	}
	return good;
}

static inline int check_equal(long long a, long long b, const char *file, int line,
			      const char *what)
{
	if (a != b)
		printf("%s:%d: %lld is not %lld\n", file, line, a, b);
	return check_note(a == b, file, line, what);
}

static inline int check_strings(const char *a, const char *b, const char *file, int line,
				const char *what)
{
	if (strcmp(a, b))
		printf("%s:%d: \"%s\" is not \"%s\"\n", file, line, a, b);
	return check_note(!strcmp(a, b), file, line, what);
}

static inline int check_done(void)
{
	printf("%d passed, %d failed\n", check_passed, check_failed);
	return check_failed ? 1 : 0;
}

#endif
