/* SPDX-License-Identifier: MIT */
/* What the parts of the oracle's stage share among themselves; programs include oracle.h only. */
#ifndef ORACLE_STAGE_H
#define ORACLE_STAGE_H

#include <sys/types.h>

struct oracle_stage {
	int ctl; /* to the other role */
	int ask; /* to the first process, which knows `xshim` */
};
extern struct oracle_stage stage;

struct oracle_ask {
	pid_t pid;
	int fd;
	int back; /* send it back to TCP; else: look */
	int answer;
};

/* 1 when both directions of the descriptor stand on the wanted plane, as `xshim stat` sees it. */
int oracle_look(pid_t pid, int fd);
/* `xshim return`: 1 when it stands on TCP again. */
int oracle_send_back(pid_t pid, int fd);

#endif
