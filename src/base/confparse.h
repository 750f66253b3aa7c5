/* SPDX-License-Identifier: MIT */
/* The texts of configuration: lines, and values by type. Nothing here logs or allocates. */
#ifndef XS_BASE_CONFPARSE_H
#define XS_BASE_CONFPARSE_H

#include <stddef.h>
#include <stdint.h>

struct xs_conf_key {
	const char *key;
	const char *standard; /* the default, as text */
	/* 0 and *field set, or -EINVAL and *field as it was. */
	int (*parse)(const struct xs_conf_key *key, const char *value, void *field);
	size_t offset;
	uint64_t min, max;	  /* numbers and sizes */
	const char *const *names; /* choices, ends with NULL */
};

int xs_conf_choice(const struct xs_conf_key *key, const char *value, void *field); /* unsigned */
int xs_conf_number(const struct xs_conf_key *key, const char *value, void *field); /* uint64_t */
int xs_conf_size(const struct xs_conf_key *key, const char *value, void *field);   /* uint64_t */
int xs_conf_path(const struct xs_conf_key *key, const char *value, void *field);
int xs_conf_planes(const struct xs_conf_key *key, const char *value, void *field);
int xs_conf_trust(const struct xs_conf_key *key, const char *value, void *field);

enum xs_line { XS_LINE_EMPTY, XS_LINE_PAIR, XS_LINE_BAD };

/* Cuts a line of a file into key and value, in place; comments and blanks are dropped. */
enum xs_line xs_conf_split(char *line, char **key, char **value);

#endif
