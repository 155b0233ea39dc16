/* `orphan SECONDS`: leaves a daemon that keeps stdout and stderr open that long, and exits 0 at once. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **words)
{
	if (count != 2) {
		fprintf(stderr, "usage: orphan SECONDS\n");
		return 2;
	}
	if (fork() > 0)
		return 0;
	setsid();
	if (fork() > 0)
		_exit(0);
	signal(SIGHUP, SIG_IGN);
	sleep((unsigned)strtoul(words[1], NULL, 10));
	_exit(0);
}
