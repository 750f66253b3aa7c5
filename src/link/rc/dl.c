/* SPDX-License-Identifier: MIT */
/* Opens librdmacm and libibverbs and fills the tables of their functions. */
#include "link/rc/dl.h"
#include "base/log.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

struct xs_ibv_calls xs_ibv;
struct xs_rdma_calls xs_rdma;

struct name {
	const char *name;
	void *to; /* a pointer to a function */
};

enum outcome { UNTRIED, OPEN, MISSING };
static _Atomic int outcome;

static const struct name ibv_names[] = {
#define X(n) {"ibv_" #n, &xs_ibv.n},
	XS_IBV_NAMES(X)
#undef X
		{NULL, NULL},
};

static const struct name rdma_names[] = {
#define X(n) {"rdma_" #n, &xs_rdma.n},
	XS_RDMA_NAMES(X)
#undef X
		{NULL, NULL},
};

static bool fill(const char *file, const struct name *names)
{
	void *lib = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

	if (!lib) {
		XS_LOG(INFO, "rc: %s can't be opened", file);
		return false;
	}
	for (const struct name *n = names; n->name; n++) {
		void *sym = dlsym(lib, n->name);

		memcpy(n->to, &sym, sizeof(sym));
		if (!sym) {
			XS_LOG(WARN, "rc: %s has no %s", file, n->name);
			return false;
		}
	}
	return true;
}

bool xs_dl_open(void)
{
	if (outcome == UNTRIED) {
		bool ok = fill("libibverbs.so.1", ibv_names) && fill("librdmacm.so.1", rdma_names);

		outcome = ok ? OPEN : MISSING;
	}
	return outcome == OPEN;
}

bool xs_dl_missing(void)
{
	return outcome == MISSING;
}
