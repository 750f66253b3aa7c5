/* SPDX-License-Identifier: MIT */
/*
 * Oracle programs: each plays one behaviour of TCP sockets between two roles and prints a
 * transcript. Run bare, the kernel writes the transcript; run under the library on any plane the
 * same transcript must come out. So a program only prints what has one legal answer: the roles
 * agree by messages on a control channel (not a TCP socket) before each step whose answer would
 * depend on time, and wait for a state (await_*) instead of sleeping.
 */
#ifndef ORACLE_H
#define ORACLE_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void (*oracle_role)(void);

/* How many bytes at least must have travelled on the wanted plane, summed over both ends. */
#define PROOF_DEFAULT 1000
#define PROOF_NONE (-1)

/* Runs the two roles as two processes (client may be NULL), prints the transcript. */
int oracle_run(long proof, oracle_role server, oracle_role client);
#define ORACLE_MAIN(proof, server, client)                \
	int main(int argc, char **argv)                   \
	{                                                 \
		oracle_args(argc, argv);                  \
		return oracle_run(proof, server, client); \
	}
int oracle_argc(void);
const char *oracle_arg(int i, const char *otherwise);
void oracle_args(int argc, char **argv);

/* Transcript. A thread or forked child that talks at the same time takes a slot of its own. */
enum { ORACLE_SLOTS = 8 };
void oracle_slot(int slot);
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void say_bytes(const char *what, const void *bytes, ssize_t n);
void say_call(const char *text, long result, int err);
/* A process that was started by exec goes on writing where its caller did. */
void oracle_adopt(int slot);
/* The same with the channels to the stage: before the exec, and after it. */
void oracle_keep(void);
void oracle_kept(int slot);

#define CALL(expr)                              \
	({                                      \
		errno = 0;                      \
		long result_ = (long)(expr);    \
		int err_ = errno;               \
		say_call(#expr, result_, err_); \
		errno = err_;                   \
		result_;                        \
	})

/* Says nothing, but ends the role when a call that can't fail did. */
#define MUST(expr)                                \
	({                                        \
		errno = 0;                        \
		long must_ = (long)(expr);        \
		if (must_ < 0)                    \
			oracle_die(#expr, errno); \
		must_;                            \
	})
void oracle_die(const char *text, int err) __attribute__((noreturn));

/* Control channel between the roles. */
void tell(char what);
void hear(char what);
void tell_num(long n);
long hear_num(void);
/* Waits until the other role's process has ended (its children included). */
void hear_gone(void);

/* Sockets. */
uint32_t oracle_address(void);
int oracle_listener(int family);
int oracle_dial(int port);
int oracle_dial6(int port, const char *host);
int oracle_port(int fd);
/* One warmed-up connection; the server's listener is closed. */
int oracle_accept(void);
int oracle_connect(void);
/* Both ends in this process, warmed up by this thread. */
void oracle_self_pair(int fd[2]);
/* Round trips until the connection's directions stand on the wanted plane: the connecting side
 * pings, the other echoes. */
void warm_ping(int fd);
void warm_echo(int fd);
int oracle_fast(void); /* a plane other than the kernel's is wanted */
/* Both directions of the descriptor stand on it; the kernel's: always false. */
int oracle_standing(int fd);
/* From outside, back to TCP for good; one thread at a time. 0: it isn't there yet. */
int oracle_return(int fd);
/* The wanted plane can't prove that a killed peer's stream was complete. */
void say_killed_end(ssize_t n, int err);

/* One word, echoed and shown. */
void oracle_echo(const char *who, int fd);
/* A child's end, shown. */
void oracle_wait(pid_t child);

/* States to wait for, half a minute at most. */
void await_readable(int fd, int bytes);
void await_event(int fd, short events);
void await_outq_empty(int fd);
void await_asleep(pid_t tid);

/* Whole transfers. */
void put_all(int fd, const void *bytes, size_t n);
size_t get_all(int fd, void *bytes, size_t n);
/* Writes until there has been no room for 200 ms: how many bytes. */
long oracle_fill(int fd);
/* Reads so many bytes, or up to the end: how many are missing. */
long oracle_drain(int fd, long bytes);
void fill(void *bytes, size_t n, uint64_t seed);
uint64_t next_random(uint64_t *state);
void set_nonblock(int fd, int on);
const char *poll_names(short events);
const char *epoll_names(uint32_t events);

struct sha256 {
	uint32_t h[8];
	uint64_t bytes;
	unsigned char block[64];
};
void sha256_start(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *bytes, size_t n);
void sha256_hex(struct sha256 *s, char hex[65]);

#endif
