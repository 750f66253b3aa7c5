/* SPDX-License-Identifier: MIT */
/*
 * Start and end of the library in a process. The constructor resolves libc, reads the
 * configuration and does nothing else: no thread, descriptor (but the log's, when asked
 * for) or allocation.
 */
#include "base/config.h"
#include "base/real.h"
#include "sock/sock.h"

__attribute__((constructor)) static void start(void)
{
	xs_real_init();
	xs_config_load();
	xs_sock_init();
}

__attribute__((destructor)) static void end(void)
{
	xs_sock_exit();
}
