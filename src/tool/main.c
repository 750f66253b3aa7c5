/* SPDX-License-Identifier: MIT */
/* xshim: runs programs under the library, and shows and changes what it does in those that run. */
#include "tool/tool.h"

#include "base/config.h"
#include "xshim.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
	"Usage: xshim run [--planes P] [--policy P] [--trust T] [--log L] [--] PROGRAM [ARGS]\n"
	"       xshim stat [--json] [PID | NAME]\n"
	"       xshim return PID [FD]\n"
	"       xshim --version | --help\n"
	"run     starts a program whose TCP connections may move to RDMA\n"
	"stat    shows the connections of running programs: where their bytes go, and why\n"
	"return  moves a program's connections back to TCP, and keeps them there\n";

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	bool configured; /* run isn't: the library in the program says what is wrong */
} commands[] = {
	{"run", tool_run, false},
	{"stat", tool_stat, true},
	{"return", tool_return, true},
};

void tool_say(const char *fmt, ...)
{
	va_list ap;

	fputs("xshim: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

void tool_usage(bool asked)
{
	fputs(usage, asked ? stdout : stderr);
}

bool tool_number(const char *text, int *number)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno || n > INT_MAX)
		return false;
	*number = (int)n;
	return true;
}

/* Beside the command, as built; else where installed, seen from the command or from the root. */
bool tool_library(char *path, int room)
{
	static const char *const beside[] = {
		"",
		"/../lib",
		"/../lib/x86_64-linux-gnu",
		"/../lib/aarch64-linux-gnu",
	};
	static const char *const places[] = {"/usr/local/lib", "/usr/lib"};
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	exe[n > 0 ? n : 0] = '\0';
	slash = strrchr(exe, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; slash && i < sizeof(beside) / sizeof(beside[0]); i++)
		if (snprintf(path, (size_t)room, "%s%s/libxshim.so", exe, beside[i]) < room &&
		    access(path, R_OK) == 0)
			return true;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (snprintf(path, (size_t)room, "%s/libxshim.so", places[i]) < room &&
		    access(path, R_OK) == 0)
			return true;
	return false;
}

static int version(void)
{
	char path[PATH_MAX];

	printf("xshim %s, wire %d\n", XSHIM_VERSION, XSHIM_WIRE);
	printf("library: %s\n", tool_library(path, sizeof(path)) ? path : "not found");
	return TOOL_OK;
}

/* Output that couldn't be written is no success. */
static int finish(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	tool_say("can't write: %s", strerror(errno));
	return status ? status : TOOL_NONE;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	if (!strcmp(name, "--version"))
		return finish(version());
	if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
		tool_usage(true);
		return finish(TOOL_OK);
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(name, commands[i].name))
			continue;
		if (commands[i].configured)
			xs_config_load();
		argv[1] = "xshim"; /* getopt's complaints begin with it */
		return finish(commands[i].run(argc - 1, argv + 1));
	}
	if (*name)
		tool_say("unknown command '%s'", name);
	tool_usage(false);
	return TOOL_USAGE;
}
