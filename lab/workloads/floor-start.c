/*
 * The floor of starts: runs a program in namespaces of its own, and waits for it.
 *
 *     floor-start COMMAND [ARGUMENT…]
 *     floor-start --parked COMMAND [ARGUMENT…]
 *     floor-start --as-root COMMAND [ARGUMENT…]
 *
 * The namespaces are those that a domain of palisade's has: user, mount, pid, ipc, uts, cgroup and network; with
 * `--as-root` those of a container of root's, which has all of them but the first.
 * In them one file system is mounted, an empty tmpfs over `/proc`, and the program executed, by a child of the
 * first process there: a program that is PID 1 itself hears no signal that it has no handler for, and is left
 * with everybody's orphans (pid_namespaces(7)). Nothing else is done that a wall does: no root of its own, no
 * map of ids, no filter, no Landlock, no cgroup, no report.
 *
 * Why it is the least: both children share this program's memory (`CLONE_VFORK`), the second until it executes,
 * so that no page table is copied; one clone(2) makes all namespaces; two calls on mounts are what it takes to
 * mount something that is not seen outside; and the first process waits, and ends as the program did.
 *
 * `--parked` makes all of that ahead (parked.h). What is left of a start is to hand one process its streams, which wakes it,
 * execve(2), and the end of two.
 */
#include "parked.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	NAMESPACES = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS |
		     CLONE_NEWCGROUP | CLONE_NEWNET,
	STACK_BYTES = 64 << 10,
};

static char stack[STACK_BYTES] __attribute__((aligned(16)));

static void die(const char *what)
{
	fprintf(stderr, "floor-start: %s: %s\n", what, strerror(errno));
	_exit(125);
}

static void mount_one(void)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0)
		die("/");
	if (mount("tmpfs", "/proc", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
		die("/proc");
}

static int wait_for(pid_t child)
{
	int status;
	if (waitpid(child, &status, 0) != child)
		die("wait");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int execute(char **command)
{
	execv(command[0], command);
	die(command[0]);
	return 125;
}

static int execute_parked(void *command)
{
	if (hold() != 0)
		die("streams");
	return execute(command);
}

/* In the first process of the namespaces. */
static void be_first(char **command, int is_parked)
{
	mount_one();
	pid_t child = is_parked ? begin_beside(execute_parked, command) : vfork();
	if (child < 0)
		die("vfork");
	if (child == 0)
		execute(command);
	_exit(wait_for(child));
}

static int begin(void *words)
{
	be_first(words, 0);
	return 125;
}

static int begin_parked(void *words)
{
	be_first(words, 1);
	return 125;
}

static int run(char **command, int namespaces)
{
	int flags = namespaces | CLONE_VM | CLONE_VFORK | SIGCHLD;
	pid_t child = clone(begin, stack + STACK_BYTES, flags, command);
	if (child < 0)
		die("clone");
	return wait_for(child);
}

int main(int argc, char **argv)
{
	int is_parked = argc > 1 && strcmp(argv[1], "--parked") == 0;
	int is_as_root = argc > 1 && strcmp(argv[1], "--as-root") == 0;
	if (argc < 2 + is_parked + is_as_root) {
		fprintf(stderr, "usage: floor-start [--parked|--as-root] COMMAND [ARGUMENT...]\n");
		return 125;
	}
	if (is_parked && park(begin_parked, stack + STACK_BYTES, NAMESPACES, argv + 2) != 0)
		die("parked");
	if (is_parked)
		return 0;
	return is_as_root ? run(argv + 2, NAMESPACES & ~CLONE_NEWUSER) : run(argv + 1, NAMESPACES);
}
