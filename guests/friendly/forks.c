/* `forks N`: N children at once, then prints `forks STARTED`; 1 if one was refused. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **words)
{
	if (count != 2) {
		fprintf(stderr, "usage: forks N\n");
		return 2;
	}
	long wanted = strtol(words[1], NULL, 10), started = 0;
	pid_t *children = calloc(wanted, sizeof *children);
	for (; started < wanted; started++) {
		pid_t child = fork();
		if (child < 0)
			break;
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
		children[started] = child;
	}
	printf("forks %ld\n", started);
	for (long i = 0; i < started; i++)
		kill(children[i], SIGKILL);
	while (wait(NULL) > 0)
		;
	return started < wanted;
}
