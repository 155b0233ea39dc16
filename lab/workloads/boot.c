/*
 * When the first instruction of main runs: the nanoseconds of CLOCK_MONOTONIC, printed. Who started the
 * program took the same clock before. Of WASI's clocks only the time of day is the same for everybody.
 */
#include <stdio.h>
#include <time.h>

#ifdef __wasi__
#define CLOCK CLOCK_REALTIME
#else
#define CLOCK CLOCK_MONOTONIC
#endif

int main(void)
{
	struct timespec now;
	if (clock_gettime(CLOCK, &now) != 0) {
		perror("boot: clock_gettime");
		return 1;
	}
	printf("%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
	return 0;
}
