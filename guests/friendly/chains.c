/*
 * `chains N SECONDS FIRST`: N chains of processes, each of which makes the next one and ends, for that many seconds, and every one
 * an orphan of the guest's; the first process ends after FIRST seconds. Who reaps them all before he does anything else does
 * nothing else: they share their memory, so that making one takes less than reaping it.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { STACK_BYTES = 4096 };

/* Of the process that lives and of its successor. */
static char stacks[2][STACK_BYTES] __attribute__((aligned(16)));
static time_t end;

static time_t seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

static int link_of_chain(void *own)
{
	char *other = own == stacks[0] ? stacks[1] : stacks[0];
	int flags = CLONE_VM | CLONE_FILES | CLONE_FS | CLONE_SIGHAND | SIGCHLD;
	while (seconds() < end) {
		if (clone(link_of_chain, other + STACK_BYTES - 64, flags, other) > 0)
			break;
		/* There are too many. */
		sched_yield();
	}
	/* Nothing of the C library: its memory is the successor's, too. */
	syscall(SYS_exit, 0);
	return 0;
}

int main(int count, char **words)
{
	if (count != 4) {
		fprintf(stderr, "usage: chains N SECONDS FIRST\n");
		return 2;
	}
	end = seconds() + atoi(words[2]);
	for (int chain = 0; chain < atoi(words[1]); chain++)
		if (fork() == 0)
			link_of_chain(stacks[0]);
	sleep(atoi(words[3]));
	return 0;
}
