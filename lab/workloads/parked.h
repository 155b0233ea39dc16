/*
 * A program of which all but its execution is made ahead, by who is gone then. Its first process is a sibling of this one
 * (`CLONE_PARENT`), so that whoever started this one waits for it; its pid is printed, and `holding` by the program's own
 * process, which executes when its input ends.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

/* Waits to be told; below 0 where nobody could be. */
static int hold(void)
{
	static const char holding[] = "holding\n";
	char byte;
	if (write(STDOUT_FILENO, holding, sizeof holding - 1) < 0)
		return -1;
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
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
