/* SPDX-License-Identifier: MIT */
/* Peers that are slow, silent or hostile: what they get, and what they cost. */
#include "link_fake.h"

#include "base/real.h"

static void down(void)
{
	disconnected = 0;
	xs_link_down(link_, XS_R_NONE);
}

/* A peer that connects and says nothing; a link that nobody uses; one that is used again. */
static void test_times(void)
{
	struct sockaddr_storage addr = {.ss_family = AF_INET};

	disconnected = 0;
	link_ = xs_link_incoming(&fake, &conduit, &addr, &addr);
	xs_link_up(link_);
	CHECK(link_->timer.when != 0);
	link_->timer.fn(&link_->timer);
	CHECK_EQ(disconnected, 1);
	CHECK_EQ(link_->end, XS_R_NO_SHIM);
	down();
	while (next())
		;
	join_up();
	open_channel();
	CHECK_EQ(link_->idle_since, 0);
	link_->timer.fn(&link_->timer);
	CHECK_EQ(xs_link_state_of(link_), XS_LINK_UP);
	close_me(false);
	CHECK(link_->idle_since && link_->timer.when);
	link_->timer.fn(&link_->timer);
	CHECK_EQ(xs_link_state_of(link_), XS_LINK_UP);
	CHECK(link_->timer.when > xs_now_ns());
	link_->idle_since = 1;
	link_->timer.fn(&link_->timer);
	CHECK_EQ(disconnected, 1);
	while (!nothing_more())
		;
	CHECK_EQ(out[out_n - 1].h.kind, XS_K_BYE);
	down();
}

/* A peer that makes us answer and never grants an entry for the answers: its link's end, and a
 * bound on what it costs until then. */
static void test_flood(void)
{
	struct xs_seghdr h;
	unsigned n;

	while (next())
		;
	join_up();
	open_channel();
	h = to_me(XS_K_RETURN_ME, 5);
	close_me(false);
	for (n = 0; n < 100000 && xs_link_state_of(link_) == XS_LINK_UP; n++) {
		peer_says(h, XS_LANE_SMALL, NULL, 0);
		xs_link_settle(link_);
	}
	CHECK(n < 20000);
	CHECK_EQ(link_->end, XS_R_INTERNAL);
	CHECK_EQ(disconnected, 1);
	down();
}

static unsigned answer_to(const char *asker)
{
	struct xs_pair_ask ask = {.id = 1, .nonce = 7};
	struct sockaddr_storage from = {.ss_family = AF_INET};
	const struct posted *p;
	struct xs_pair_answer an;

	inet_pton(AF_INET, asker, &((struct sockaddr_in *)&from)->sin_addr);
	xs_pair_addr(&from, &ask.asker);
	while (next())
		;
	xs_answer(link_, &ask);
	p = next();
	CHECK(p && p->h.kind == XS_K_PAIR_ANSWER && p->h.length == sizeof(an));
	memcpy(&an, p->payload, sizeof(an));
	return an.reason;
}

/* Where the carrier proves the host alone, a host asks for its own connections and no others', and
 * all are refused whom no rule names. */
static void test_asker(void)
{
	struct sockaddr_storage from = {.ss_family = AF_INET};

	unproven = fake;
	unproven.proven = false;
	inet_pton(AF_INET, "10.9.8.7", &((struct sockaddr_in *)&from)->sin_addr);
	CHECK_EQ(xs_link_admit(&unproven, &from), XS_R_UNTRUSTED);
	CHECK_EQ(xs_link_admit(&fake, &from), XS_R_NONE);
	inet_pton(AF_INET, "10.1.0.1", &((struct sockaddr_in *)&from)->sin_addr);
	CHECK_EQ(xs_link_admit(&unproven, &from), XS_R_NONE);
	join_by(&unproven); /* from 127.0.0.1 */
	CHECK_EQ(answer_to("127.0.0.1"), XS_R_NOT_ACCEPTED);
	CHECK_EQ(answer_to("10.1.0.1"), XS_R_UNTRUSTED);
	CHECK_EQ(answer_to("10.9.8.7"), XS_R_UNTRUSTED);
	down();
}

int main(void)
{
	struct xs_crit cs;

	setenv("XSHIM_TRUST", "127.0.0.0/8,10.1.0.0/16", 1);
	xs_real_init();
	xs_config_load();
	xs_pair_init(&pairing);
	set_addr(&users[0][0].local, 1);
	xs_crit_enter(&cs);
	test_times();
	test_flood();
	test_asker();
	xs_crit_leave(&cs);
	return check_done();
}
