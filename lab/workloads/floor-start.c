/*
 * The floor of starts: runs a program in namespaces of its own, and waits for it.
 *
 *     floor-start COMMAND [ARGUMENT…]
 *     floor-start --parked COMMAND [ARGUMENT…]
 *
 * The namespaces are those that a domain of palisade's has: user, mount, pid, ipc, uts, cgroup and network.
 * In them one file system is mounted, an empty tmpfs over `/proc`, and the program executed. Nothing else is
 * done that a wall does: no root of its own, no map of ids, no filter, no Landlock, no cgroup, no report.
 *
 * Why it is the least: the child shares this program's memory until it executes (`CLONE_VFORK`), so that no
 * page table is copied; one clone(2) makes all namespaces; two calls on mounts are what it takes to mount
 * something that is not seen outside.
 *
 * `--parked` makes all of that ahead. It prints the pid of a child that is a sibling of its own (`CLONE_PARENT`),
 * so that whoever started it waits for it, then that child prints `holding`, and executes the program when its
 * input ends. What is left of a start is to wake one process, execve(2) and its end.
 */
#define _GNU_SOURCE
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

static int begin(void *words)
{
	char **command = words;
	mount_one();
	execv(command[0], command);
	die(command[0]);
	return 125;
}

static int run(char **command)
{
	int status;
	int flags = NAMESPACES | CLONE_VM | CLONE_VFORK | SIGCHLD;
	pid_t child = clone(begin, stack + STACK_BYTES, flags, command);
	if (child < 0)
		die("clone");
	if (waitpid(child, &status, 0) != child)
		die("wait");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int begin_when_told(void *words)
{
	static const char holding[] = "holding\n";
	char byte;
	mount_one();
	if (write(STDOUT_FILENO, holding, sizeof holding - 1) < 0)
		die("stdout");
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	execv(((char **)words)[0], words);
	die(((char **)words)[0]);
	return 125;
}

static int park(char **command)
{
	/* No `CLONE_VM`: this program is gone before the other. */
	pid_t child = clone(begin_when_told, stack + STACK_BYTES, NAMESPACES | CLONE_PARENT | SIGCHLD, command);
	if (child < 0)
		die("clone");
	printf("%d\n", child);
	return fflush(stdout) == 0 ? 0 : 125;
}

int main(int argc, char **argv)
{
	int is_parked = argc > 1 && strcmp(argv[1], "--parked") == 0;
	if (argc < 2 + is_parked) {
		fprintf(stderr, "usage: floor-start [--parked] COMMAND [ARGUMENT...]\n");
		return 125;
	}
	return is_parked ? park(argv + 2) : run(argv + 1);
}
