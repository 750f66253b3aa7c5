/* SPDX-License-Identifier: MIT */
/* Trust: prefixes, the machine's own networks, and what holds when those can't be read. */
#include "link/trust.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/config.h"
#include "base/crit.h"
#include "check.h"

static char path[] = "/tmp/xshim-unit-trust-XXXXXX";

static bool allows(const char *ip)
{
	struct sockaddr_in sin = {.sin_family = AF_INET};
	struct xs_crit cs;
	bool yes;

	CHECK_EQ(inet_pton(AF_INET, ip, &sin.sin_addr), 1);
	xs_crit_enter(&cs);
	yes = xs_trust_allows((const struct sockaddr *)&sin);
	xs_crit_leave(&cs);
	return yes;
}

static void test_networks(void)
{
	CHECK(allows("127.0.0.1"));
	CHECK(allows("198.51.100.7"));
	CHECK(!allows("203.0.113.1"));
}

/* Without a descriptor there's no netlink. The list is due anew, as in a forked child. */
static void test_networks_unreadable(void)
{
	char text[1024] = "";
	struct rlimit some, none;
	int log = open(path, O_RDONLY);

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &some), 0);
	none = (struct rlimit){3, some.rlim_max};
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	xs_trust_fork_child();
	CHECK(allows("127.0.0.1"));
	CHECK(!allows("203.0.113.1"));
	setrlimit(RLIMIT_NOFILE, &some); /* LeakSanitizer opens files at the end */
	CHECK(read(log, text, sizeof(text) - 1) > 0);
	CHECK(strstr(text,
		     "trust: the networks of this machine can't be read: Too many open files"));
}

int main(void)
{
	close(mkstemp(path));
	setenv("XSHIM_CONF", "/dev/null", 1);
	setenv("XSHIM_LOG", "warn", 1);
	setenv("XSHIM_LOG_FILE", path, 1);
	setenv("XSHIM_TRUST", "198.51.100.0/24,subnet", 1);
	xs_config_load();
	test_networks();
	test_networks_unreadable();
	unlink(path);
	return check_done();
}
