/*
 * A program of which all but its execution is made ahead, by who is gone then. Its first process is a sibling of this one
 * (`CLONE_PARENT`), so that whoever started this one waits for it; its pid is printed, and `holding` by the program's own
 * process, which executes when it is handed the program's three streams by the socket that is its input: they are known when
 * the program is asked for, and no sooner.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

enum { STREAMS = 3 };

/* Waits for the streams; below 0 where nobody is left who could hand them over. */
static int hold(void)
{
	static const char holding[] = "holding\n";
	if (write(STDOUT_FILENO, holding, sizeof holding - 1) < 0)
		return -1;
	char byte;
	struct iovec told = { &byte, sizeof byte };
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(STREAMS * sizeof(int))];
	} control;
	struct msghdr message = {
		.msg_iov = &told,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof control,
	};
	if (recvmsg(STDIN_FILENO, &message, MSG_CMSG_CLOEXEC) != sizeof byte)
		return -1;
	int streams[STREAMS];
	struct cmsghdr *handed = CMSG_FIRSTHDR(&message);
	if (handed == NULL || handed->cmsg_len != CMSG_LEN(sizeof streams))
		return -1;
	memcpy(streams, CMSG_DATA(handed), sizeof streams);
	for (int number = 0; number < STREAMS; number++)
		if (dup2(streams[number], number) < 0)
			return -1;
	return 0;
}

/* A child in this one's memory that this one does not wait for meanwhile, as after vfork(2): who waits for its execution is
 * woken by that. */
static pid_t begin_beside(int (*execute)(void *), void *words)
{
	static char stack[64 << 10] __attribute__((aligned(16)));
	return clone(execute, stack + sizeof stack, CLONE_VM | SIGCHLD, words);
}

/* Makes the first process, in these namespaces, and leaves it behind. No `CLONE_VM`: this program is gone before it. */
static int park(int (*be_first)(void *), void *stack_end, int namespaces, void *words)
{
	pid_t child = clone(be_first, stack_end, namespaces | CLONE_PARENT | SIGCHLD, words);
	if (child < 0)
		return -1;
	printf("%d\n", child);
	return fflush(stdout);
}
