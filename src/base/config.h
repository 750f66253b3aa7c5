/* SPDX-License-Identifier: MIT */
/*
 * Configuration: read once by the constructor, constant afterwards. The keys, their types
 * and defaults are the table in config.c.
 */
#ifndef XS_BASE_CONFIG_H
#define XS_BASE_CONFIG_H

#include "base/log.h"
#include "base/prefix.h"

#include <stdbool.h>
#include <stdint.h>

#define XS_CONF_PLANES 4
#define XS_CONF_PREFIXES 32
#define XS_CONF_PATH 512

enum xs_mode { XS_MODE_OFF, XS_MODE_ON };
enum xs_policy { XS_POLICY_OFF, XS_POLICY_AUTO, XS_POLICY_EAGER };

/* Numbers of enum xs_plane_id (link/plane.h asserts it). `test` exists in test builds only. */
enum xs_conf_plane { XS_CONF_KERNEL, XS_CONF_RC, XS_CONF_SHM, XS_CONF_TEST };

/* Fast planes in order of preference. */
struct xs_conf_planes {
	uint8_t order[XS_CONF_PLANES]; /* enum xs_conf_plane */
	uint8_t n;
};

struct xs_conf_trust {
	struct xs_prefix prefix[XS_CONF_PREFIXES];
	unsigned int n;
	bool subnet; /* the prefixes of this machine's own interfaces too */
};

struct xs_config {
	unsigned int mode; /* enum xs_mode */
	struct xs_conf_planes planes;
	unsigned int policy; /* enum xs_policy */
	uint64_t after_bytes;
	uint64_t after_rtts;
	struct xs_conf_trust trust;
	char auth_key_file[XS_CONF_PATH]; /* "": none */
	uint64_t window_max;
	uint64_t chunk; /* at most a quarter of window_max */
	uint64_t pool_max;
	uint64_t poll_us;
	uint64_t exit_ms;
	uint64_t return_ms;
	unsigned int log; /* enum xs_log_level */
	char log_file[XS_CONF_PATH];
	char report[XS_CONF_PATH]; /* "": none */
	char stats_dir[XS_CONF_PATH];
};

/* Read-only outside config.c; all zero until xs_config() or xs_config_load() is called. */
extern struct xs_config xs_conf;

/* xs_conf, with the defaults if xs_config_load() hasn't run. */
const struct xs_config *xs_config(void);

/* Reads file and environment and starts the log. Allocates nothing. */
void xs_config_load(void);

/* Is this plane allowed? */
bool xs_config_plane(enum xs_conf_plane plane);

#endif
