/* SPDX-License-Identifier: MIT */
/* xshim run: a program with the library preloaded. */
#include "tool/tool.h"

#include "base/config.h"
#include "base/confparse.h"
#include "tool/program.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const policies[] = {"off", "auto", "eager", NULL};
static const char *const levels[] = {"off", "error", "warn", "info", "debug", NULL};

/* The option's number in getopt is its place here. */
static const struct {
	const char *name, *variable;
	struct xs_conf_key key;
} settings[] = {
	{"planes", "XSHIM_PLANES", {.key = "planes", .parse = xs_conf_planes}},
	{"policy", "XSHIM_POLICY", {.key = "policy", .parse = xs_conf_choice, .names = policies}},
	{"trust", "XSHIM_TRUST", {.key = "trust", .parse = xs_conf_trust}},
	{"log", "XSHIM_LOG", {.key = "log", .parse = xs_conf_choice, .names = levels}},
};

enum { SETTINGS = sizeof(settings) / sizeof(settings[0]), HELP };

static int set(int i, const char *value)
{
	static union {
		struct xs_conf_planes planes;
		struct xs_conf_trust trust;
		unsigned int choice;
	} unused;

	if (settings[i].key.parse(&settings[i].key, value, &unused) < 0) {
		tool_say("bad value '%s' for --%s", value, settings[i].name);
		return TOOL_TROUBLE;
	}
	if (setenv(settings[i].variable, value, 1) == 0)
		return TOOL_OK;
	tool_say("can't set %s: %s", settings[i].variable, strerror(errno));
	return TOOL_TROUBLE;
}

/* 0, or an exit status; -1: help was shown. */
static int parse(int argc, char **argv)
{
	struct option options[SETTINGS + 2] = {{0}};
	int c, status = TOOL_OK;

	for (int i = 0; i < SETTINGS; i++)
		options[i] = (struct option){settings[i].name, required_argument, NULL, i};
	options[SETTINGS] = (struct option){"help", no_argument, NULL, HELP};
	while (!status && (c = getopt_long(argc, argv, "+", options, NULL)) != -1) {
		if (c == HELP) {
			tool_usage(true);
			return -1;
		}
		status = c < SETTINGS ? set(c, optarg) : TOOL_TROUBLE;
	}
	return status;
}

/* In front of what is preloaded already. */
static int preload(void)
{
	const char *old = getenv("LD_PRELOAD");
	char path[PATH_MAX], *value;
	int failed;

	if (!tool_library(path, sizeof(path))) {
		tool_say("libxshim.so isn't installed, nor beside this command");
		return TOOL_TROUBLE;
	}
	if (strpbrk(path, " :$")) {
		tool_say("the loader can't preload a path with blanks, colons or dollars: %s",
			 path);
		return TOOL_TROUBLE;
	}
	if (asprintf(&value, old && *old ? "%s:%s" : "%s", path, old) < 0)
		return TOOL_TROUBLE;
	failed = setenv("LD_PRELOAD", value, 1);
	free(value);
	return failed ? TOOL_TROUBLE : TOOL_OK;
}

int tool_run(int argc, char **argv)
{
	const char *why;
	int status = parse(argc, argv);

	if (status < 0)
		return TOOL_OK;
	if (!status && optind == argc) {
		tool_say("run: which program?");
		status = TOOL_TROUBLE;
	}
	if (status) {
		tool_usage(false);
		return status;
	}
	argv += optind;
	why = program_unfit(argv[0]);
	if (why)
		tool_say("%s %s: it runs without the shim", argv[0], why);
	else
		status = preload();
	if (status)
		return status;
	execvp(argv[0], argv);
	status = errno == ENOENT ? TOOL_NOT_FOUND : TOOL_CANT_RUN;
	tool_say("%s: %s", argv[0], strerror(errno));
	return status;
}
