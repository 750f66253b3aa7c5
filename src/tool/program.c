/* SPDX-License-Identifier: MIT */
/*
 * Looks into a program before it is run. The dynamic loader says nothing when it can't preload
 * (static programs have none, set-user-id programs ignore it), or says it in a way that nobody
 * understands.
 */
#include "tool/program.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* As execvp(3) finds it; -1: nowhere. */
static int open_in_path(const char *program)
{
	const char *path = getenv("PATH"), *next;
	char full[PATH_MAX];
	struct stat st;

	if (strchr(program, '/'))
		return open(program, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	for (path = path ? path : "/bin:/usr/bin"; path; path = *next ? next + 1 : NULL) {
		next = strchrnul(path, ':');
		if (snprintf(full, sizeof(full), "%.*s/%s", (int)(next - path),
			     next == path ? "." : path, program) >= (int)sizeof(full))
			continue;
		if (stat(full, &st) == 0 && S_ISREG(st.st_mode) && access(full, X_OK) == 0)
			return open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	}
	return -1;
}

/* The interpreter of a #! line; false: it isn't a script. */
static bool read_interpreter(int fd, char out[256])
{
	char line[256], *begin, *end;
	ssize_t n = pread(fd, line, sizeof(line) - 1, 0);

	if (n < 3 || line[0] != '#' || line[1] != '!')
		return false;
	line[n] = '\0';
	begin = line + 2 + strspn(line + 2, " \t");
	end = begin + strcspn(begin, " \t\r\n");
	snprintf(out, 256, "%.*s", (int)(end - begin), begin);
	return true;
}

static bool read_head(int fd, Elf64_Ehdr *head)
{
	return pread(fd, head, sizeof(*head), 0) == sizeof(*head) &&
	       !memcmp(head->e_ident, ELFMAG, SELFMAG);
}

static bool same_machine(const Elf64_Ehdr *head)
{
	Elf64_Ehdr own;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	bool known = fd >= 0 && read_head(fd, &own);

	if (fd >= 0)
		close(fd);
	return !known || (head->e_ident[EI_CLASS] == own.e_ident[EI_CLASS] &&
			  head->e_machine == own.e_machine);
}

/* The dynamic loader's path; false: there's none. */
static bool read_loader(int fd, const Elf64_Ehdr *head, char out[256])
{
	Elf64_Phdr part;
	ssize_t n;

	for (unsigned int i = 0; i < head->e_phnum; i++) {
		off_t at = (off_t)(head->e_phoff + (uint64_t)i * sizeof(part));

		if (pread(fd, &part, sizeof(part), at) != sizeof(part))
			return false;
		if (part.p_type != PT_INTERP)
			continue;
		n = pread(fd, out, part.p_filesz < 255 ? part.p_filesz : 255, (off_t)part.p_offset);
		out[n > 0 ? n : 0] = '\0';
		return true;
	}
	return false;
}

static bool gains_rights(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return false;
	if ((st.st_mode & S_ISUID) && st.st_uid != geteuid())
		return true;
	if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getegid())
		return true;
	return geteuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0;
}

static const char *unfit(int fd)
{
	char loader[256], *name;
	Elf64_Ehdr head;

	if (!read_head(fd, &head))
		return NULL;
	if (!same_machine(&head))
		return "is built for another kind of machine than the library";
	if (!read_loader(fd, &head, loader))
		return "is statically linked";
	name = strrchr(loader, '/');
	if (!strncmp(name ? name + 1 : loader, "ld-musl", 7))
		return "uses musl, the library needs glibc";
	if (gains_rights(fd))
		return "gets rights of its own when run (set-user-id or the like)";
	return NULL;
}

const char *program_unfit(const char *program)
{
	int fd = open_in_path(program), script;
	char interpreter[256];
	const char *why;

	if (fd < 0)
		return NULL;
	if (read_interpreter(fd, interpreter)) {
		script = fd;
		fd = open(interpreter, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		close(script);
		if (fd < 0)
			return NULL;
	}
	why = unfit(fd);
	close(fd);
	return why;
}
