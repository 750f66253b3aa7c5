/* SPDX-License-Identifier: MIT */
/* Doors: changes of credentials, which the kernel's RDMA files don't survive. */
#include "hook/door.h"

#include <grp.h>
#include <sys/fsuid.h>
#include <unistd.h>

XS_DOOR int setuid(uid_t uid)
{
	xs_proc_setid();
	return xs_real.setuid(uid);
}

XS_DOOR int seteuid(uid_t uid)
{
	xs_proc_setid();
	return xs_real.seteuid(uid);
}

XS_DOOR int setreuid(uid_t ruid, uid_t euid)
{
	xs_proc_setid();
	return xs_real.setreuid(ruid, euid);
}

XS_DOOR int setresuid(uid_t ruid, uid_t euid, uid_t suid)
{
	xs_proc_setid();
	return xs_real.setresuid(ruid, euid, suid);
}

XS_DOOR int setgid(gid_t gid)
{
	xs_proc_setid();
	return xs_real.setgid(gid);
}

XS_DOOR int setegid(gid_t gid)
{
	xs_proc_setid();
	return xs_real.setegid(gid);
}

XS_DOOR int setregid(gid_t rgid, gid_t egid)
{
	xs_proc_setid();
	return xs_real.setregid(rgid, egid);
}

XS_DOOR int setresgid(gid_t rgid, gid_t egid, gid_t sgid)
{
	xs_proc_setid();
	return xs_real.setresgid(rgid, egid, sgid);
}

XS_DOOR int setfsuid(uid_t uid)
{
	xs_proc_setid();
	return xs_real.setfsuid(uid);
}

XS_DOOR int setfsgid(gid_t gid)
{
	xs_proc_setid();
	return xs_real.setfsgid(gid);
}

XS_DOOR int setgroups(size_t n, const gid_t *list)
{
	xs_proc_setid();
	return xs_real.setgroups(n, list);
}

XS_DOOR int initgroups(const char *user, gid_t group)
{
	xs_proc_setid();
	return xs_real.initgroups(user, group);
}
