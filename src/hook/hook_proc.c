/* SPDX-License-Identifier: MIT */
/* Doors: other programs, other processes, and the end of this one. */
#include "base/real.h"
#include "hook/door.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

XS_DOOR pid_t _Fork(void)
{
	return xs_real._Fork();
}

XS_DOOR int posix_spawn(pid_t *restrict pid, const char *restrict path,
			const posix_spawn_file_actions_t *restrict actions,
			const posix_spawnattr_t *restrict attr, char *const argv[restrict],
			char *const envp[restrict])
{
	return xs_real.posix_spawn(pid, path, actions, attr, argv, envp);
}

XS_DOOR int posix_spawnp(pid_t *restrict pid, const char *restrict file,
			 const posix_spawn_file_actions_t *restrict actions,
			 const posix_spawnattr_t *restrict attr, char *const argv[restrict],
			 char *const envp[restrict])
{
	return xs_real.posix_spawnp(pid, file, actions, attr, argv, envp);
}

XS_DOOR int system(const char *command)
{
	return xs_real.system(command);
}

XS_DOOR FILE *popen(const char *command, const char *mode)
{
	return xs_real.popen(command, mode);
}

XS_DOOR void exit(int status)
{
	xs_real.exit(status);
}

XS_DOOR void _exit(int status)
{
	xs_real._exit(status);
}

XS_DOOR void _Exit(int status)
{
	xs_real._Exit(status);
}

XS_DOOR void quick_exit(int status)
{
	xs_real.quick_exit(status);
}
