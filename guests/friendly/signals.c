/*
 * `signals [CODE]`: prints `ready`, then `signal NUMBER` for each catchable
 * signal; ends with CODE (default 0) on SIGTERM.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words)
{
	int code = count > 1 ? atoi(words[1]) : 0, number = 0;
	sigset_t every;
	sigfillset(&every);
	sigprocmask(SIG_BLOCK, &every, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (number != SIGTERM && sigwait(&every, &number) == 0)
		printf("signal %d\n", number);
	return code;
}
