/* SPDX-License-Identifier: MIT */
/*
 * Finds state files by name, xshim.<uid>.<pid>.<starttime>, and judges whether their process still
 * runs: the start time tells a number that was given anew, and the process's memory map tells a
 * program that went on by exec (same number, same start time). Files are read, not mapped: one that
 * gets shorter meanwhile would kill the reader.
 */
#include "tool/states.h"

#include "base/config.h"
#include "tool/tool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_ROWS (1u << 20)
#define RETRIES 1000
#define UNFINISHED_S 60 /* a file without a head for so long is a leftover */

struct name {
	unsigned int uid;
	int pid;
	unsigned long long start;
};

static bool parse_name(const char *text, struct name *name)
{
	char again[96];

	if (sscanf(text, "xshim.%u.%d.%llu", &name->uid, &name->pid, &name->start) != 3)
		return false;
	snprintf(again, sizeof(again), "xshim.%u.%d.%llu", name->uid, name->pid, name->start);
	return name->pid > 0 && !strcmp(text, again);
}

/* --- reading -------------------------------------------------------------------------------------
 */

static bool read_at(int fd, void *buf, size_t n, size_t at)
{
	return pread(fd, buf, n, (off_t)at) == (ssize_t)n;
}

/* A consistent copy; false: not to be had (the writer has stopped in the middle). */
static bool read_row(int fd, size_t at, struct xshim_conn *row)
{
	uint32_t before, after;

	for (int i = 0; i < RETRIES; i++) {
		if (!read_at(fd, &before, sizeof(before), at) ||
		    !read_at(fd, row, sizeof(*row), at) || !read_at(fd, &after, sizeof(after), at))
			return false;
		if (before % 2 == 0 && before == after)
			return true;
	}
	return false;
}

static bool read_head(int fd, struct xshim_state *head)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !read_at(fd, head, sizeof(*head), 0))
		return false;
	head->program[sizeof(head->program) - 1] = '\0';
	return head->magic == XSHIM_STATE_MAGIC && head->version == XSHIM_STATE_VERSION;
}

bool state_load(int fd, struct state *state)
{
	struct xshim_conn *rows;
	size_t most;

	if (!read_head(fd, &state->head))
		return false;
	most = state->head.rows < MAX_ROWS ? state->head.rows : MAX_ROWS;
	rows = NULL;
	state->n = 0;
	for (size_t i = 0, room = 0; i < most; i++) {
		if (state->n == room) {
			struct xshim_conn *more;

			room = room ? room * 2 : 32;
			more = reallocarray(rows, room, sizeof(*rows));
			if (!more) {
				free(rows);
				return false;
			}
			rows = more;
		}
		if (read_row(fd, sizeof(state->head) + i * sizeof(*rows), &rows[state->n]) &&
		    rows[state->n].used)
			state->n++;
	}
	state->rows = rows;
	return true;
}

/* --- life
 * ----------------------------------------------------------------------------------------- */

/* Does the process of this number that started then still run? Unknown counts as yes. */
static bool runs(int pid, unsigned long long start)
{
	char path[64], text[1024], *at;
	bool same = false;
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return access("/proc/self/stat", R_OK) != 0;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	at = strrchr(text, ')');
	if (!at || at[1] != ' ' || strchr("ZX", at[2]))
		return false;
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (at)
		same = strtoull(at + 1, NULL, 10) == start;
	return same;
}

/* Has it mapped this file? A map that mustn't be read counts as yes. */
static bool has_mapped(int pid, const char *file)
{
	char path[64], *line = NULL;
	bool found = false;
	size_t room = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "re");
	if (!f)
		return true;
	errno = 0;
	while (!found && getline(&line, &room, f) > 0)
		found = strstr(line, file) != NULL;
	found = found || errno == EACCES || errno == EPERM;
	free(line);
	fclose(f);
	return found;
}

static uint64_t own_pid_ns(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

enum verdict { LIVE, LEFTOVER, NOT_OURS };

static enum verdict judge(int fd, const char *file, const struct name *name,
			  struct xshim_state *head)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != name->uid)
		return NOT_OURS;
	if (!read_head(fd, head)) {
		if (st.st_mtime + UNFINISHED_S > time(NULL) || runs(name->pid, name->start))
			return NOT_OURS;
		return LEFTOVER;
	}
	if (head->pid_ns != own_pid_ns())
		return NOT_OURS;
	if (head->pid != name->pid || !runs(name->pid, name->start) || !has_mapped(name->pid, file))
		return LEFTOVER;
	return LIVE;
}

/* --- the directory
 * ----------------------------------------------------------------------------------- */

static DIR *open_dir(void)
{
	DIR *dir = opendir(xs_config()->stats_dir);

	if (!dir)
		tool_say("%s: %s", xs_config()->stats_dir, strerror(errno));
	return dir;
}

/* The next file of a live process: its descriptor; -1: no more. */
static int next_live(DIR *dir, int flags, int pid, struct xshim_state *head)
{
	struct dirent *entry;
	struct name name;

	while ((entry = readdir(dir))) {
		enum verdict verdict;
		int fd;

		if (!parse_name(entry->d_name, &name) || (geteuid() && geteuid() != name.uid))
			continue;
		fd = openat(dirfd(dir), entry->d_name, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0)
			continue;
		verdict = judge(fd, entry->d_name, &name, head);
		if (verdict == LIVE && (!pid || pid == name.pid))
			return fd;
		if (verdict == LEFTOVER)
			unlinkat(dirfd(dir), entry->d_name, 0);
		close(fd);
	}
	return -1;
}

static bool add(struct states *all, int fd)
{
	struct state *more = reallocarray(all->list, all->n + 1, sizeof(*more));

	if (!more)
		return false;
	all->list = more;
	if (state_load(fd, &more[all->n]))
		all->n++;
	return true;
}

static int by_pid(const void *a, const void *b)
{
	return ((const struct state *)a)->head.pid - ((const struct state *)b)->head.pid;
}

bool states_read(struct states *all, int pid, const char *program)
{
	struct xshim_state head;
	bool good = true;
	DIR *dir = open_dir();
	int fd;

	memset(all, 0, sizeof(*all));
	if (!dir)
		return false;
	while (good && (fd = next_live(dir, O_RDONLY, pid, &head)) >= 0) {
		if (!program || !strcmp(program, head.program))
			good = add(all, fd);
		close(fd);
	}
	closedir(dir);
	if (all->n)
		qsort(all->list, all->n, sizeof(*all->list), by_pid);
	return good;
}

void states_free(struct states *all)
{
	for (size_t i = 0; i < all->n; i++)
		free(all->list[i].rows);
	free(all->list);
}

int state_open(int pid, struct xshim_state *head)
{
	DIR *dir = open_dir();
	int fd;

	if (!dir)
		return -errno;
	fd = next_live(dir, O_RDWR, pid, head);
	closedir(dir);
	return fd < 0 ? -ESRCH : fd;
}
