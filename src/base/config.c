/* SPDX-License-Identifier: MIT */
/*
 * Configuration by a table of keys. Defaults are texts that go through the same parsers
 * as the file's and the environment's values; a bad value leaves the default in force.
 *
 * Everything is read twice: the first pass is silent and finds out where the log goes,
 * the second complains there. In secure execution neither environment nor home is read.
 */
#include "base/config.h"
#include "base/confparse.h"
#include "base/rawsys.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <unistd.h>

#define FILE_MAX_BYTES 16384
#define ENV_PREFIX "XSHIM_"
#define ETC_FILE "/etc/xshim/shim.conf"

static const char *const mode_names[] = {"off", "on", NULL};
static const char *const policy_names[] = {"off", "auto", "eager", NULL};
static const char *const log_names[] = {"off", "error", "warn", "info", "debug", NULL};

#define KEY(key_, default_, type_, ...)                                         \
	{                                                                       \
		.key = #key_, .standard = (default_), .parse = xs_conf_##type_, \
		.offset = offsetof(struct xs_config, key_), ##__VA_ARGS__       \
	}

static const struct xs_conf_key keys[] = {
	KEY(mode, "on", choice, .names = mode_names),
	KEY(planes, "shm,rc", planes),
	KEY(policy, "auto", choice, .names = policy_names),
	KEY(after_bytes, "64k", size, .max = 1ULL << 40),
	KEY(after_rtts, "8", number, .max = 1000000),
	KEY(trust, "", trust),
	KEY(auth_key_file, "", path),
	KEY(window_max, "1m", size, .min = 16 << 10, .max = 64 << 20),
	KEY(chunk, "256k", size, .min = 4 << 10, .max = 16 << 20),
	KEY(pool_max, "64m", size, .min = 2 << 20, .max = 1ULL << 36),
	KEY(poll_us, "50", number, .max = 10000),
	KEY(exit_ms, "200", number, .max = 60000),
	KEY(return_ms, "2000", number, .max = 600000),
	KEY(log, "off", choice, .names = log_names),
	KEY(log_file, "stderr", path),
	KEY(report, "", path),
	KEY(stats_dir, "/dev/shm", path),
};

#define KEYS (sizeof(keys) / sizeof(keys[0]))

struct xs_config xs_conf;

static bool loaded;
static char text[FILE_MAX_BYTES + 1];

/* Where a value came from, for the complaint. line 0: an environment variable. */
struct origin {
	const char *name;
	unsigned int line;
};

static const struct xs_conf_key *find_key(const char *name, bool ignore_case)
{
	for (size_t i = 0; i < KEYS; i++)
		if (!(ignore_case ? strcasecmp : strcmp)(keys[i].key, name))
			return &keys[i];
	return NULL;
}

static void *field(const struct xs_conf_key *key)
{
	return (char *)&xs_conf + key->offset;
}

static void set_defaults(void)
{
	memset(&xs_conf, 0, sizeof(xs_conf));
	for (size_t i = 0; i < KEYS; i++)
		keys[i].parse(&keys[i], keys[i].standard, field(&keys[i]));
}

static void apply(const struct xs_conf_key *key, const char *value, const struct origin *from)
{
	if (key->parse(key, value, field(key)) == 0)
		return;
	if (from->line) {
		key->parse(key, key->standard, field(key)); /* an earlier line isn't in force */
		XS_LOG(WARN, "%s:%u: bad value '%s' for %s: using %s", from->name, from->line,
		       value, key->key, *key->standard ? key->standard : "none");
	} else {
		XS_LOG(WARN, "%s: bad value '%s': ignored", from->name, value);
	}
}

static void apply_line(char *line, const struct origin *from)
{
	char *name, *value;
	const struct xs_conf_key *key;

	switch (xs_conf_split(line, &name, &value)) {
	case XS_LINE_EMPTY:
		return;
	case XS_LINE_BAD:
		XS_LOG(WARN, "%s:%u: not 'key = value': ignored", from->name, from->line);
		return;
	case XS_LINE_PAIR:
		break;
	}
	key = find_key(name, false);
	if (key)
		apply(key, value, from);
	else
		XS_LOG(WARN, "%s:%u: unknown key '%s': ignored", from->name, from->line, name);
}

/* The file's length in `text`, or a negative errno. */
static long read_file(const char *path)
{
	const int flags =
		O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK; /* a FIFO isn't waited for */
	long fd = xs_sys(__NR_openat, AT_FDCWD, path, flags, 0);
	long len = 0, n;

	if (fd < 0)
		return fd;
	do {
		n = xs_sys(__NR_read, fd, text + len, FILE_MAX_BYTES - len);
		len += n > 0 ? n : 0;
	} while ((n > 0 && len < FILE_MAX_BYTES) || n == -EINTR);
	xs_sys(__NR_close, fd);
	text[len] = '\0';
	return n < 0 ? n : len;
}

/* False: there's no such file, look for the next one. */
static bool apply_file(const char *path, bool named)
{
	struct origin from = {.name = path};
	char *at = text, *line;
	long len = read_file(path);

	if (len < 0) {
		if (named || len != -ENOENT)
			XS_LOG(WARN, "%s: can't be read: %s", path, strerrordesc_np((int)-len));
		return false;
	}
	if (len == FILE_MAX_BYTES)
		XS_LOG(WARN, "%s: too long, the rest is ignored", path);
	while ((line = strsep(&at, "\n"))) {
		from.line++;
		apply_line(line, &from);
	}
	return true;
}

static void apply_files(bool secure)
{
	char path[XS_CONF_PATH];
	const char *named, *home;

	if (!secure) {
		named = getenv(ENV_PREFIX "CONF");
		if (named && *named && apply_file(named, true))
			return;
		home = getenv("HOME");
		if (home && *home &&
		    snprintf(path, sizeof(path), "%s/.config/xshim/shim.conf", home) <
			    (int)sizeof(path) &&
		    apply_file(path, false))
			return;
	}
	apply_file(ETC_FILE, false);
}

static void apply_variable(const char *entry)
{
	const size_t skip = sizeof(ENV_PREFIX) - 1;
	const char *equals = strchr(entry, '=');
	const struct xs_conf_key *key;
	struct origin from = {0};
	char name[64];

	if (!equals || strncmp(entry, ENV_PREFIX, skip))
		return;
	if (snprintf(name, sizeof(name), "%.*s", (int)(equals - entry), entry) >= (int)sizeof(name))
		return;
	from.name = name;
	key = find_key(name + skip, true);
	if (key)
		apply(key, equals + 1, &from);
	else if (strcmp(name + skip, "CONF") && strncmp(name + skip, "TEST", 4))
		XS_LOG(WARN, "%s: unknown variable: ignored", name);
}

static void read_all(bool secure)
{
	set_defaults();
	apply_files(secure);
	for (char **entry = environ; !secure && entry && *entry; entry++)
		apply_variable(*entry);
	if (xs_conf.chunk > xs_conf.window_max / 4) {
		XS_LOG(INFO, "chunk is reduced to a quarter of window_max");
		xs_conf.chunk = xs_conf.window_max / 4;
	}
}

void xs_config_load(void)
{
	bool secure = getauxval(AT_SECURE) != 0;
	int saved = errno;

	xs_log_init(XS_LOG_OFF, "");
	read_all(secure);
	xs_log_init(xs_conf.log, xs_conf.log_file);
	if (xs_conf.log != XS_LOG_OFF)
		read_all(secure);
	loaded = true;
	errno = saved;
}

const struct xs_config *xs_config(void)
{
	if (!loaded) {
		set_defaults();
		loaded = true;
	}
	return &xs_conf;
}

bool xs_config_plane(enum xs_conf_plane plane)
{
	const struct xs_config *c = xs_config();

	for (unsigned int i = 0; i < c->planes.n; i++)
		if (c->planes.order[i] == plane)
			return true;
	return plane == XS_CONF_KERNEL;
}
