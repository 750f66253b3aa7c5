/* SPDX-License-Identifier: MIT */
/* Configuration: defaults, file, environment, and what is said about mistakes. */
#include "base/config.h"
#include "base/confparse.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

static char dir[] = "/tmp/xshim-unit-config-XXXXXX";
static char conf_path[256], log_path[256];
static char log_text[8192];

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	fputs(text, f);
	fclose(f);
}

static void read_log(void)
{
	int fd = open(log_path, O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, log_text, sizeof(log_text) - 1);

	log_text[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
	unlink(log_path);
}

static void test_defaults(void)
{
	const struct xs_config *c = xs_config();

	CHECK_EQ(c->mode, XS_MODE_ON);
	CHECK_EQ(c->policy, XS_POLICY_AUTO);
	CHECK_EQ(c->after_bytes, 65536);
	CHECK_EQ(c->after_rtts, 8);
	CHECK_EQ(c->window_max, 1 << 20);
	CHECK_EQ(c->chunk, 256 << 10);
	CHECK_EQ(c->pool_max, 64 << 20);
	CHECK_EQ(c->poll_us, 50);
	CHECK_EQ(c->exit_ms, 200);
	CHECK_EQ(c->return_ms, 2000);
	CHECK_EQ(c->planes.n, 2);
	CHECK_EQ(c->planes.order[0], XS_CONF_SHM);
	CHECK_EQ(c->planes.order[1], XS_CONF_RC);
	CHECK_EQ(c->trust.n, 0);
	CHECK_STR(c->log_file, "stderr");
	CHECK_STR(c->stats_dir, "/dev/shm");
	CHECK(xs_config_plane(XS_CONF_KERNEL) && !xs_config_plane(XS_CONF_TEST));
}

static void test_file(void)
{
	const struct xs_config *c = xs_config();

	write_file(conf_path, "# a comment\n\n mode = off  # why\npolicy=eager\nwindow_max = 64K\n"
			      "planes = rc, kernel\ntrust = 10.0.0.0/8, subnet fd00::/8\n"
			      "report = /tmp/a#b\n");
	setenv("XSHIM_CONF", conf_path, 1);
	xs_config_load();
	CHECK_EQ(c->mode, XS_MODE_OFF);
	CHECK_EQ(c->policy, XS_POLICY_EAGER);
	CHECK_EQ(c->window_max, 65536);
	CHECK_EQ(c->chunk, 16384);
	CHECK_EQ(c->planes.n, 1);
	CHECK_EQ(c->planes.order[0], XS_CONF_RC);
	CHECK_EQ(c->trust.n, 2);
	CHECK(c->trust.subnet);
	CHECK_STR(c->report, "/tmp/a#b");
}

static void test_environment_wins(void)
{
	setenv("XSHIM_POLICY", "off", 1);
	setenv("XSHIM_POLL_US", "0", 1);
	xs_config_load();
	CHECK_EQ(xs_config()->policy, XS_POLICY_OFF);
	CHECK_EQ(xs_config()->poll_us, 0);
	unsetenv("XSHIM_POLICY");
	unsetenv("XSHIM_POLL_US");
}

static void test_mistakes(void)
{
	const struct xs_config *c = xs_config();

	write_file(conf_path,
		   "mode = sometimes\nplaness = rc\nnonsense\nwindow_max = -1\n"
		   "chunk = 1z\ntrust = 10.0.0.0/33\nplanes = tcp\npoll_us = 7\npoll_us = 99999\n");
	setenv("XSHIM_LOG", "warn", 1);
	setenv("XSHIM_LOG_FILE", log_path, 1);
	setenv("XSHIM_PLANE", "rc", 1);
	setenv("XSHIM_TEST_SEED", "1", 1);
	setenv("XSHIM_TESTPLANE", "dup=1", 1);
	setenv("XSHIM_EXIT_MS", "soon", 1);
	xs_config_load();
	read_log();
	CHECK(strstr(log_text, "shim.conf:1: bad value 'sometimes' for mode: using on\n"));
	CHECK(strstr(log_text, "shim.conf:2: unknown key 'planess'"));
	CHECK(strstr(log_text, "shim.conf:3: not 'key = value'"));
	CHECK(strstr(log_text, "shim.conf:4: bad value '-1' for window_max"));
	CHECK(strstr(log_text, "shim.conf:5: bad value '1z' for chunk"));
	CHECK(strstr(log_text, "shim.conf:6: bad value '10.0.0.0/33' for trust: using none"));
	CHECK(strstr(log_text, "shim.conf:7: bad value 'tcp'"));
	CHECK(strstr(log_text, "shim.conf:9: bad value '99999' for poll_us: using 50\n"));
	CHECK(strstr(log_text, "XSHIM_PLANE: unknown variable"));
	CHECK(strstr(log_text, "XSHIM_EXIT_MS: bad value 'soon'"));
	CHECK(!strstr(log_text, "XSHIM_TEST_SEED"));
	CHECK(!strstr(log_text, "XSHIM_TESTPLANE"));
	CHECK_EQ(c->mode, XS_MODE_ON);
	CHECK_EQ(c->window_max, 1 << 20);
	CHECK_EQ(c->exit_ms, 200);
	CHECK_EQ(c->poll_us, 50);
	CHECK_EQ(c->planes.n, 2);
	unsetenv("XSHIM_PLANE");
	unsetenv("XSHIM_EXIT_MS");
	unsetenv("XSHIM_TESTPLANE");
}

static void test_missing_file_is_named(void)
{
	setenv("XSHIM_CONF", "/nonexistent/shim.conf", 1);
	xs_config_load();
	read_log();
	CHECK(strstr(log_text,
		     "/nonexistent/shim.conf: can't be read: No such file or directory\n"));
}

static void test_fifo_isnt_waited_for(void)
{
	CHECK_EQ(mkfifo(conf_path, 0600), 0);
	setenv("XSHIM_CONF", conf_path, 1);
	alarm(10);
	xs_config_load();
	alarm(0);
	CHECK_EQ(xs_config()->poll_us, 50);
	unlink(conf_path);
}

static void test_long_file(void)
{
	FILE *f = fopen(conf_path, "w");

	fputs("policy = eager\n", f);
	for (int i = 0; i < 3000; i++)
		fputs("# filler\n", f);
	fclose(f);
	setenv("XSHIM_CONF", conf_path, 1);
	xs_config_load();
	read_log();
	CHECK_EQ(xs_config()->policy, XS_POLICY_EAGER);
	CHECK(strstr(log_text, "too long"));
}

static void test_sizes(void)
{
	const struct xs_conf_key key = {.key = "k", .max = UINT64_MAX};
	uint64_t n = 7;

	CHECK_EQ(xs_conf_size(&key, "3m", &n), 0);
	CHECK_EQ(n, 3 << 20);
	CHECK(xs_conf_size(&key, "", &n) < 0);
	CHECK(xs_conf_size(&key, "18446744073709551616", &n) < 0);
	CHECK(xs_conf_size(&key, "18446744073709551615k", &n) < 0);
	CHECK(xs_conf_size(&key, "1 k", &n) < 0);
	CHECK_EQ(n, 3 << 20);
}

int main(void)
{
	if (!mkdtemp(dir))
		return 2;
	snprintf(conf_path, sizeof(conf_path), "%s/shim.conf", dir);
	snprintf(log_path, sizeof(log_path), "%s/log", dir);
	setenv("HOME", dir, 1);
	test_defaults();
	test_file();
	test_environment_wins();
	test_mistakes();
	test_missing_file_is_named();
	unlink(conf_path);
	test_fifo_isnt_waited_for();
	test_long_file();
	test_sizes();
	unlink(conf_path);
	unlink(log_path);
	rmdir(dir);
	return check_done();
}
