/* What WASI preview 1 has no call for, and so no program for it can even name. */
#include "portable.h"

#ifdef __wasi__

void probe_absent(void)
{
	const char *calls[] = { "fork", "execve", "socket", "chmod", "pipe", "dup", "kill", "mmap" };
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
		tells(calls[i], "no such call");
}

#else

#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

static long forks(void)
{
	pid_t child = fork();
	if (child == 0)
		_exit(0);
	return child < 0 ? -1 : waitpid(child, NULL, 0);
}

static long maps(void)
{
	return mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0;
}

void probe_absent(void)
{
	int ends[2];
	says("fork", forks());
	says("execve", execve("/missing", (char *[]){ "missing", NULL }, (char *[]){ NULL }));
	says("socket", socket(AF_UNIX, SOCK_STREAM, 0));
	says("chmod", chmod("/tmp", 0700));
	says("pipe", pipe(ends));
	says("dup", dup(STDOUT_FILENO));
	says("kill", kill(getpid(), 0));
	says("mmap", maps());
}

#endif
