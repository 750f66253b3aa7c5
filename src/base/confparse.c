/* SPDX-License-Identifier: MIT */
/* Parsers of configuration values. */
#include "base/confparse.h"
#include "base/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS " \t\r"
#define SEPARATORS ", \t"

int xs_conf_choice(const struct xs_conf_key *key, const char *value, void *field)
{
	for (unsigned int i = 0; key->names[i]; i++) {
		if (!strcmp(key->names[i], value)) {
			*(unsigned int *)field = i;
			return 0;
		}
	}
	return -EINVAL;
}

static int parse_digits(const char *value, uint64_t *n, const char **rest)
{
	char *end;

	if (*value < '0' || *value > '9')
		return -EINVAL;
	errno = 0;
	*n = strtoull(value, &end, 10);
	*rest = end;
	return errno ? -EINVAL : 0;
}

static int store(const struct xs_conf_key *key, uint64_t n, void *field)
{
	if (n < key->min || n > key->max)
		return -EINVAL;
	*(uint64_t *)field = n;
	return 0;
}

int xs_conf_number(const struct xs_conf_key *key, const char *value, void *field)
{
	const char *rest;
	uint64_t n;

	if (parse_digits(value, &n, &rest) < 0 || *rest)
		return -EINVAL;
	return store(key, n, field);
}

int xs_conf_size(const struct xs_conf_key *key, const char *value, void *field)
{
	static const char suffixes[] = "kmg";
	const char *rest, *suffix;
	unsigned int shift = 0;
	uint64_t n;

	if (parse_digits(value, &n, &rest) < 0)
		return -EINVAL;
	if (*rest) {
		suffix = strchr(suffixes, *rest | 0x20);
		if (!suffix || rest[1])
			return -EINVAL;
		shift = 10 * (unsigned int)(suffix - suffixes + 1);
	}
	if (n > UINT64_MAX >> shift)
		return -EINVAL;
	return store(key, n << shift, field);
}

int xs_conf_path(const struct xs_conf_key *key, const char *value, void *field)
{
	size_t n = strlen(value);

	(void)key;
	if (n >= XS_CONF_PATH)
		return -EINVAL;
	memcpy(field, value, n + 1);
	return 0;
}

/* The next word of a list in buf; 0 at the end, -EINVAL if it doesn't fit. */
static int next_word(const char **at, char *buf, size_t room)
{
	size_t n;

	*at += strspn(*at, SEPARATORS);
	n = strcspn(*at, SEPARATORS);
	if (n >= room)
		return -EINVAL;
	memcpy(buf, *at, n);
	buf[n] = '\0';
	*at += n;
	return n ? 1 : 0;
}

static int plane_number(const char *name)
{
	static const char *const names[] = {
		[XS_CONF_KERNEL] = "kernel",
		[XS_CONF_RC] = "rc",
		[XS_CONF_SHM] = "shm",
		[XS_CONF_TEST] = "test",
	};

	for (int i = 0; i < XS_CONF_PLANES; i++)
		if (!strcmp(names[i], name))
			return i;
	return -EINVAL;
}

int xs_conf_planes(const struct xs_conf_key *key, const char *value, void *field)
{
	struct xs_conf_planes out = {.n = 0};
	char word[16];
	int more;

	(void)key;
	while ((more = next_word(&value, word, sizeof(word))) > 0) {
		int plane = plane_number(word);

		if (plane < 0 || out.n == XS_CONF_PLANES)
			return -EINVAL;
		if (plane != XS_CONF_KERNEL)
			out.order[out.n++] = (uint8_t)plane;
	}
	if (more < 0)
		return more;
	*(struct xs_conf_planes *)field = out;
	return 0;
}

int xs_conf_trust(const struct xs_conf_key *key, const char *value, void *field)
{
	struct xs_conf_trust out = {.n = 0};
	char word[64];
	int more;

	(void)key;
	while ((more = next_word(&value, word, sizeof(word))) > 0) {
		if (!strcmp(word, "subnet")) {
			out.subnet = true;
			continue;
		}
		if (out.n == XS_CONF_PREFIXES || xs_prefix_parse(word, &out.prefix[out.n]) < 0)
			return -EINVAL;
		out.n++;
	}
	if (more < 0)
		return more;
	*(struct xs_conf_trust *)field = out;
	return 0;
}

static char *trim(char *text)
{
	size_t n;

	text += strspn(text, BLANKS);
	n = strlen(text);
	while (n && strchr(BLANKS, text[n - 1]))
		text[--n] = '\0';
	return text;
}

/* A # opens a comment at the line's start or behind a blank: paths may contain one. */
static void drop_comment(char *line)
{
	for (char *at = line; *at; at++) {
		if (*at == '#' && (at == line || strchr(BLANKS, at[-1]))) {
			*at = '\0';
			return;
		}
	}
}

enum xs_line xs_conf_split(char *line, char **key, char **value)
{
	char *equals;

	drop_comment(line);
	line = trim(line);
	if (!*line)
		return XS_LINE_EMPTY;
	equals = strchr(line, '=');
	if (!equals || equals == line)
		return XS_LINE_BAD;
	*equals = '\0';
	*key = trim(line);
	*value = trim(equals + 1);
	return XS_LINE_PAIR;
}
