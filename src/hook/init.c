/* SPDX-License-Identifier: MIT */
/*
 * Start and end of the library in a process. The constructor resolves libc, reads the
 * configuration and does nothing else: no thread, descriptor or allocation.
 */
#include "base/config.h"
#include "base/real.h"

__attribute__((constructor)) static void start(void)
{
	xs_real_init();
	xs_config_load();
}
