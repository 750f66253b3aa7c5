/* SPDX-License-Identifier: MIT */
/*
 * The state file and the report. `stats serve` is no test but a process for the tests of the
 * command: it publishes two connections, says "ready", does what `xshim return` asks, and ends with
 * its input.
 */
#include "sock/stats.h"
#include "base/config.h"
#include "base/rawsys.h"
#include "base/reason.h"
#include "check.h"
#include "engine/progress.h"
#include "link/link.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The progress thread and the links, as far as stats.c knows them. */
static struct xs_fdwatch *watched;
static struct xs_link_info totals;

int xs_progress_watch(struct xs_fdwatch *w, uint32_t events)
{
	(void)events;
	watched = w;
	return 0;
}

void xs_progress_unwatch(struct xs_fdwatch *w)
{
	if (watched == w)
		watched = NULL;
}

void xs_link_totals(struct xs_link_info *sum)
{
	*sum = totals;
}

static char dir[64] = "/dev/shm/xs-stats.XXXXXX";
static char report[128], fifo[128];
static struct xshim_conn *held[2];
static int asked_fd = -7;

static void name(struct xshim_conn *row, int fd, const char *local, const char *peer)
{
	struct sockaddr_in6 l = {.sin6_family = AF_INET6, .sin6_port = htons(5001)}, p = l;

	p.sin6_port = htons(6379);
	inet_pton(AF_INET6, local, &l.sin6_addr);
	inet_pton(AF_INET6, peer, &p.sin6_addr);
	xs_stats_name(row, fd, XSHIM_ROLE_CONNECTED, (struct sockaddr *)&l, (struct sockaddr *)&p);
}

/* The one file's path in dir; false: there is none. */
static bool state_path(char path[300])
{
	DIR *d = opendir(dir);
	struct dirent *e;
	bool found = false;

	while (d && (e = readdir(d)))
		if (!strncmp(e->d_name, "xshim.", 6))
			found = snprintf(path, 300, "%s/%s", dir, e->d_name) > 0;
	if (d)
		closedir(d);
	return found;
}

static const struct xshim_state *look(void)
{
	char path[300];
	struct stat st;
	void *at;
	int fd;

	if (!state_path(path))
		return NULL;
	fd = open(path, O_RDONLY | O_NOFOLLOW);
	CHECK(fd >= 0 && fstat(fd, &st) == 0);
	CHECK_EQ(st.st_mode & 0777, 0600);
	at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	return at == MAP_FAILED ? NULL : at;
}

static void test_rows(void)
{
	const struct xshim_state *s;
	const struct xshim_conn *r;
	struct xshim_conn *again;

	CHECK(!look());
	held[0] = xs_stats_row();
	held[1] = xs_stats_row();
	name(held[0], 7, "::ffff:10.0.0.1", "::ffff:10.0.0.2");
	name(held[1], 8, "2001:db8::1", "2001:db8::2");
	s = look();
	if (!CHECK(s != NULL))
		return;
	CHECK_EQ(s->magic, XSHIM_STATE_MAGIC);
	CHECK_EQ(s->pid, getpid());
	CHECK_EQ(s->uid, geteuid());
	CHECK(s->starttime > 0 && s->pid_ns > 0);
	CHECK_STR(s->program, "stats");
	CHECK_EQ(s->rows, (4096 - 256) / 160);
	r = &s->conn[0];
	CHECK_EQ(r->seq % 2, 0);
	CHECK_EQ(r->fd, 7);
	CHECK_EQ(r->family, 4);
	CHECK_EQ(r->peer_port, 6379);
	CHECK(!memcmp(r->peer_ip, "\12\0\0\2", 4));
	CHECK_EQ(s->conn[1].family, 6);
	atomic_fetch_add(&held[0]->tx.bytes[XSHIM_RC], 100);
	CHECK_EQ(r->tx.bytes[XSHIM_RC], 100);

	xs_stats_release(held[0]);
	CHECK_EQ(r->used, 0);
	again = xs_stats_row();
	CHECK(again == held[0]);
	CHECK_EQ(r->used, 1);
	CHECK_EQ(r->tx.bytes[XSHIM_RC], 0);
	CHECK_EQ(r->fd, -1);
	name(held[0], 7, "::ffff:10.0.0.1", "::ffff:10.0.0.2");
}

/* More connections than the file has room for at any time: none moves, none is lost. */
static void test_growth(void)
{
	enum { MANY = 66000 };
	static struct xshim_conn *rows[MANY];
	const struct xshim_state *s;
	unsigned int wrong = 0;

	for (int i = 0; i < MANY; i++) {
		rows[i] = xs_stats_row();
		atomic_store(&rows[i]->rx.bytes[0], (uint64_t)i);
	}
	for (int i = 0; i < MANY; i++)
		wrong += rows[i]->rx.bytes[0] != (uint64_t)i;
	CHECK_EQ(wrong, 0);
	s = look();
	CHECK_EQ(s->rows, 65536);
	CHECK_EQ(s->overflow, MANY + 2 - 65536);
	CHECK_EQ(s->conn[65535].rx.bytes[0], 65533);
	for (int i = 0; i < MANY; i++)
		xs_stats_release(rows[i]);
	CHECK(xs_stats_row() == rows[0]);
	xs_stats_release(rows[0]);
}

static void read_report(char *out, size_t room)
{
	int fd = open(report, O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, out, room - 1);

	out[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
}

static void test_report(void)
{
	static char text[8192], want[2048];

	xs_stats_pair(held[0], 5, 3, 1);
	atomic_store(&held[0]->tx.plane, XSHIM_RC);
	atomic_store(&held[0]->tx.state, XSHIM_TX_SWD);
	atomic_store(&held[0]->rx.reason, XS_R_LINK_LOST);
	xs_stats_report(held[0], "closed");
	snprintf(want, sizeof(want),
		 "{\"v\":1,\"pid\":%d,\"program\":\"stats\",\"fd\":7,\"id\":5,"
		 "\"local\":\"10.0.0.1:5001\",\"peer\":\"10.0.0.2:6379\",\"role\":\"connected\","
		 "\"rx\":{\"plane\":\"kernel\",\"state\":\"kern\",\"epoch\":0,"
		 "\"reason\":\"link-lost\",\"bytes\":{\"kernel\":0,\"rc\":0,\"shm\":0},"
		 "\"upgrades\":0,\"returns\":0},"
		 "\"tx\":{\"plane\":\"rc\",\"state\":\"swd\",\"epoch\":0,\"reason\":null,"
		 "\"bytes\":{\"kernel\":0,\"rc\":0,\"shm\":0},\"upgrades\":0,\"returns\":0},"
		 "\"link\":3,\"wire\":1,\"end\":\"closed\"}\n",
		 (int)getpid());
	read_report(text, sizeof(text));
	CHECK_STR(text, want);
	xs_stats_report(held[1], "reset");
	read_report(text, sizeof(text));
	CHECK(strstr(text, "[2001:db8::1]:5001") && strstr(text, "\"end\":\"reset\""));
}

static void test_report_elsewhere(void)
{
	struct rlimit lim = {.rlim_cur = 10, .rlim_max = RLIM_INFINITY};
	static char before[8192], after[8192];
	int reader;

	read_report(before, sizeof(before));
	snprintf(xs_conf.report, sizeof(xs_conf.report), "/nowhere/report");
	xs_stats_report(held[0], "closed");
	snprintf(xs_conf.report, sizeof(xs_conf.report), "%s", fifo);
	CHECK_EQ(mkfifo(fifo, 0600), 0);
	reader = open(fifo, O_RDONLY | O_NONBLOCK);
	xs_stats_report(held[0], "closed");
	CHECK_EQ(read(reader, after, sizeof(after)), 0);
	close(reader);
	unlink(fifo);
	snprintf(xs_conf.report, sizeof(xs_conf.report), "%s", report);
	setrlimit(RLIMIT_FSIZE, &lim); /* SIGXFSZ would end us */
	xs_stats_report(held[0], "closed");
	lim.rlim_cur = RLIM_INFINITY;
	setrlimit(RLIMIT_FSIZE, &lim);
	read_report(after, sizeof(after));
	CHECK_STR(after, before);
}

static void request(int fd)
{
	asked_fd = fd;
	for (int i = 0; i < 2; i++) {
		if (fd >= 0 && held[i]->fd != fd)
			continue;
		atomic_store(&held[i]->tx.plane, XSHIM_KERNEL);
		atomic_store(&held[i]->tx.state, XSHIM_TX_KERN);
		atomic_store(&held[i]->tx.reason, XS_R_OFF);
		atomic_store(&held[i]->rx.reason, XS_R_OFF);
	}
}

/* As the command does: one write. */
static void ask(int fd, uint32_t number)
{
	struct {
		int32_t fd;
		uint32_t number;
	} both = {fd, number};
	char path[300];
	int file;

	CHECK(state_path(path));
	file = open(path, O_WRONLY);
	CHECK_EQ(pwrite(file, &both, sizeof(both), offsetof(struct xshim_state, request_fd)),
		 sizeof(both));
	close(file);
}

static bool rung(int timeout)
{
	struct pollfd p = {.fd = watched->fd, .events = POLLIN};

	if (poll(&p, 1, timeout) != 1)
		return false;
	watched->fn(watched, POLLIN);
	return true;
}

static void test_requests(void)
{
	const struct xshim_state *s = look();

	ask(7, 1);
	CHECK(!watched && !s->watching);
	xs_stats_watch(request);
	if (!CHECK(watched != NULL))
		return;
	CHECK(watched->fd > 2);
	CHECK_EQ(asked_fd, 7);
	CHECK_EQ(s->answered, 1);
	CHECK_EQ(s->watching, 1);
	atomic_fetch_add(&held[0]->tx.bytes[0], 1);
	xs_stats_release(xs_stats_row());
	CHECK(!rung(0)); /* what we write ourselves is no request */
	ask(-1, 2);
	CHECK(rung(60000));
	CHECK_EQ(asked_fd, -1);
	CHECK_EQ(s->answered, 2);

	totals = (struct xs_link_info){.id = 2, .wire_posts = 15, .dropped = 1};
	ask(XSHIM_REQUEST_COUNTERS, 3);
	CHECK(rung(60000));
	CHECK_EQ(asked_fd, -1);
	CHECK_EQ(s->answered, 3);
	CHECK_EQ(s->links, 2);
	CHECK_EQ(s->wire_posts, 15);
	totals.id = 1;
	totals.wire_posts = 16;
	xs_stats_links();
	CHECK_EQ(s->links, 1);
	CHECK_EQ(s->wire_posts, 16);
	CHECK_EQ(s->dropped, 1);
}

static int child(int (*body)(void))
{
	pid_t pid;
	int status;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		xs_stats_fork_child();
		check_failed = check_passed = 0;
		status = body();
		fflush(stdout);
		_exit(status ? status : check_failed);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int child_has_its_own(void)
{
	char path[300];

	xs_stats_row();
	snprintf(path, sizeof(path), "xshim.%u.%d.", geteuid(), getpid());
	DIR *d = opendir(dir);
	int mine = 0, all = 0;

	for (struct dirent *e; (e = readdir(d));) {
		mine += !strncmp(e->d_name, path, strlen(path));
		all += !strncmp(e->d_name, "xshim.", 6);
	}
	closedir(d);
	CHECK_EQ(mine, 1);
	CHECK_EQ(all, 2);
	xs_stats_exit();
	return 0;
}

static int without_dir(void)
{
	struct xshim_conn *row;

	snprintf(xs_conf.stats_dir, sizeof(xs_conf.stats_dir), "/nowhere");
	row = xs_stats_row();
	name(row, 3, "::1", "::1");
	CHECK_EQ(row->used, 1);
	CHECK_EQ(xs_stats_row() - row, 1);
	xs_stats_watch(request);
	xs_stats_report(row, "closed");
	xs_stats_exit();
	return 0;
}

/* 64 KiB allowed: the file stops at 16, and the others are served all the same. */
static int with_little_room(void)
{
	struct rlimit lim = {.rlim_cur = 64 << 10, .rlim_max = RLIM_INFINITY};
	struct xshim_conn *row = NULL;

	lim.rlim_cur--;
	setrlimit(RLIMIT_FSIZE, &lim);
	for (int i = 0; i < 1000; i++) {
		row = xs_stats_row();
		atomic_store(&row->rx.bytes[0], (uint64_t)i);
	}
	CHECK_EQ(row->rx.bytes[0], 999);
	CHECK_EQ(row->used, 1);
	xs_stats_exit();
	return 0;
}

/* A program that ran in this process before us left its file: exec keeps number and start time. */
static int after_exec(void)
{
	char path[300];
	const struct xshim_state *s;

	strcat(dir, "/exec");
	mkdir(dir, 0700);
	snprintf(xs_conf.stats_dir, sizeof(xs_conf.stats_dir), "%s", dir);
	xs_stats_release(xs_stats_row());
	CHECK(state_path(path));
	xs_stats_fork_child(); /* forgets all without unlinking */
	xs_stats_row();
	s = look();
	CHECK(s && s->conn[0].used == 1 && s->conn[0].seq == 2);
	xs_stats_exit();
	CHECK(!state_path(path));
	rmdir(xs_conf.stats_dir);
	return 0;
}

static int serve(const char *where)
{
	struct pollfd p[2] = {{.fd = 0, .events = POLLIN}, {.events = POLLIN}};
	static char line[16];

	snprintf(xs_conf.stats_dir, sizeof(xs_conf.stats_dir), "%s", where);
	held[0] = xs_stats_row();
	held[1] = xs_stats_row();
	name(held[0], 7, "::ffff:10.0.0.1", "::ffff:10.0.0.2");
	name(held[1], 8, "2001:db8::1", "2001:db8::2");
	xs_stats_pair(held[0], 5, 1, 1);
	atomic_store(&held[0]->tx.plane, XSHIM_RC);
	atomic_store(&held[0]->tx.state, XSHIM_TX_SWD);
	atomic_store(&held[0]->tx.bytes[XSHIM_KERNEL], 65536);
	atomic_store(&held[0]->tx.bytes[XSHIM_RC], 5000000000);
	atomic_store(&held[0]->tx.upgrades, 2);
	atomic_store(&held[0]->tx.returns, 1);
	atomic_store(&held[0]->rx.reason, XS_R_POLICY);
	atomic_store(&held[1]->rx.reason, XS_R_NO_SHIM);
	atomic_store(&held[1]->tx.reason, XS_R_NO_SHIM);
	xs_stats_watch(request);
	puts("ready");
	fflush(stdout);
	p[1].fd = watched->fd;
	while (poll(p, 2, -1) > 0) {
		if (p[0].revents && (read(0, line, sizeof(line)) <= 0 || line[0] == 'e'))
			break;
		if (line[0] == 'x')
			execlp("cat", "cat", NULL);
		if (p[1].revents && line[0] != 'd') /* "deaf" */
			watched->fn(watched, POLLIN);
		else if (p[1].revents)
			p[1].fd = -1;
	}
	xs_stats_exit();
	return 0;
}

int main(int argc, char **argv)
{
	char path[300];

	xs_config();
	if (argc == 3 && !strcmp(argv[1], "serve"))
		return serve(argv[2]);
	if (!mkdtemp(dir))
		return 2;
	snprintf(xs_conf.stats_dir, sizeof(xs_conf.stats_dir), "%s", dir);
	snprintf(report, sizeof(report), "%s/report", dir);
	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	snprintf(xs_conf.report, sizeof(xs_conf.report), "%s", report);
	test_rows();
	test_growth();
	test_report();
	test_report_elsewhere();
	test_requests();
	CHECK_EQ(child(child_has_its_own), 0);
	CHECK_EQ(child(without_dir), 0);
	CHECK_EQ(child(with_little_room), 0);
	xs_stats_exit();
	CHECK(!state_path(path));
	CHECK_EQ(child(after_exec), 0);
	unlink(report);
	rmdir(dir);
	return check_done();
}
