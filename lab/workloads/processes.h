/*
 * What the kernel has for a program that shall see no other's processes: a pid namespace (pid_namespaces(7)). Each process
 * and each thread there takes a number in it, and one in those above.
 *
 * Where the user may make none, mounts (mounts.h) have to be made first: these come with a user namespace in which one may.
 */
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Goes on in a child in a pid namespace of its own, that ends with this process; which waits, and ends as the child did. */
static int own_processes(void)
{
	int status;
	if (unshare(CLONE_NEWPID) != 0)
		return -1;
	pid_t child = fork();
	if (child == 0)
		return prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (child < 0 || waitpid(child, &status, 0) != child)
		return -1;
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}
