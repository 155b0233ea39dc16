/* `process WHAT …`: what a program is started with, and how it ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wasi/api.h>

extern char **environ;

static int show(char **words)
{
	for (; *words; words++)
		puts(*words);
	return 0;
}

static int copy(void)
{
	static char block[70000];
	for (ssize_t count; (count = read(0, block, sizeof block)) != 0;)
		if (count < 0 || write(1, block, count) != count)
			return 1;
	return fputs("copied\n", stderr) < 0;
}

/* 1 if two draws are equal, or one is all zero, or the bytes around them changed. */
static int randoms(void)
{
	static unsigned char a[66], b[66], zero[64];
	if (__wasi_random_get(a + 1, 64) || __wasi_random_get(b + 1, 64))
		return 1;
	return !memcmp(a, b, 66) || !memcmp(a + 1, zero, 64) || a[0] || a[65] || b[0] || b[65];
}

static int clocks(void)
{
	__wasi_timestamp_t resolution, first, second;
	for (int id = 0; id < 4; id++) {
		if (__wasi_clock_res_get(id, &resolution) || resolution == 0)
			return 1;
		if (__wasi_clock_time_get(id, 0, &first) || __wasi_clock_time_get(id, 0, &second))
			return 2;
		if (first == 0 || second < first)
			return 3;
	}
	printf("%lld\n", (long long)time(NULL));
	return __wasi_clock_time_get(4, 0, &first) != __WASI_ERRNO_INVAL || __wasi_sched_yield();
}

int main(int count, char **words)
{
	const char *what = count > 1 ? words[1] : "";
	if (!strcmp(what, "arguments")) return show(words);
	if (!strcmp(what, "environment")) return show(environ);
	if (!strcmp(what, "copy")) return copy();
	if (!strcmp(what, "random")) return randoms();
	if (!strcmp(what, "clocks")) return clocks();
	if (!strcmp(what, "exit")) __wasi_proc_exit(strtoul(words[2], NULL, 0));
	if (!strcmp(what, "abort")) abort();
	return 99;
}
