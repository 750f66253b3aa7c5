/* SPDX-License-Identifier: MIT */
/* What the parts of the oracle's stage share among themselves; programs include oracle.h only. */
#ifndef ORACLE_STAGE_H
#define ORACLE_STAGE_H

#include <sys/types.h>

struct oracle_stage {
	int ctl; /* to the other role */
	int ask; /* to the first process, which looks up planes */
};
extern struct oracle_stage stage;

struct oracle_ask {
	pid_t pid;
	int fd;
	int answer;
};

/* 1 when both directions of the descriptor stand on the wanted plane, as `xshim stat` sees it. */
int oracle_look(pid_t pid, int fd);

#endif
