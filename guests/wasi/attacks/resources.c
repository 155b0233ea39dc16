/* Limits: go a little past each, and hold what was taken. */
#include "attack.h"

#include <poll.h>

int attack_wasi_memory_bomb(void)
{
	/* What nobody can see a compiler leaves out. */
	static char *volatile memory;
	long megabytes = need_number("megabytes");
	for (long taken = 0; taken < megabytes; taken++) {
		memory = malloc(1 << 20);
		if (!memory)
			return refused("malloc");
		memset(memory, 1, 1 << 20);
	}
	return held();
}

int attack_wasi_descriptor_bomb(void)
{
	long count = need_number("count");
	for (long opened = 0; opened < count; opened++)
		if (open(need("granted"), O_RDONLY) < 0)
			return refused("open");
	return held();
}

static const char *planted(void)
{
	return PATH_OF("%s/planted", need("scratch"));
}

int attack_wasi_file_size(void)
{
	static char chunk[1 << 20];
	memset(chunk, 1, sizeof chunk);
	int fd = open(planted(), O_WRONLY | O_CREAT, 0600);
	if (fd < 0)
		return refused("open");
	for (int megabytes = 0; megabytes < 4; megabytes++)
		if (write(fd, chunk, sizeof chunk) != sizeof chunk)
			return refused("write");
	return DONE;
}

int attack_wasi_sparse_bomb(void)
{
	int fd = open(planted(), O_WRONLY | O_CREAT, 0600);
	if (fd < 0)
		return refused("open");
	if (__wasi_fd_filestat_set_size((__wasi_fd_t)fd, 1ULL << 36) == 0)
		return DONE;
	pwrite(fd, "x", 1, (off_t)1 << 36);
	return refused("fd_filestat_set_size");
}

int attack_wasi_tmp_fill(void)
{
	enum { CHUNKS = 32 };
	static char chunk[1 << 20];
	memset(chunk, 1, sizeof chunk);
	int fd = open("/tmp/fill", O_WRONLY | O_CREAT, 0600);
	if (fd < 0)
		return refused("open");
	for (int i = 0; i < CHUNKS; i++)
		if (write(fd, chunk, sizeof chunk) != sizeof chunk)
			return refused("write");
	return held();
}

int attack_wasi_output_flood(void)
{
	enum { MEGABYTES = 8 };
	static char chunk[1 << 16];
	memset(chunk, 'f', sizeof chunk);
	for (int i = 0; i < MEGABYTES << 4; i++)
		if (write(i % 2 ? STDOUT_FILENO : STDERR_FILENO, chunk, sizeof chunk) < 0)
			return refused("write");
	for (int i = 0; i < MEGABYTES << 4; i++)
		write(STDOUT_FILENO, chunk, sizeof chunk);
	return DONE;
}

enum { BUSY_S = 2, BURN_S = 5 };

static void busy(int seconds)
{
	struct timespec start, now;
	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		for (volatile int i = 0; i < 1 << 20; i++)
			;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - start.tv_sec <= seconds);
}

/* A loop without a call in it that an engine could stop at. */
int attack_wasi_overtime(void)
{
	busy(BUSY_S);
	return DONE;
}

int attack_wasi_sleep(void)
{
	__wasi_subscription_t nap = { 0 };
	__wasi_event_t event;
	__wasi_size_t count;
	nap.u.tag = __WASI_EVENTTYPE_CLOCK;
	nap.u.u.clock.id = __WASI_CLOCKID_MONOTONIC;
	nap.u.u.clock.timeout = 2500000000;
	return __wasi_poll_oneoff(&nap, &event, 1, &count) ? refused("poll_oneoff") : DONE;
}

/* Timeouts of nothing and of centuries, thousands at once: each returns at once, and so the whole takes its time. */
int attack_wasi_poll_storm(void)
{
	enum { SUBSCRIPTIONS = 4096 };
	__wasi_subscription_t *asked = calloc(SUBSCRIPTIONS, sizeof *asked);
	__wasi_event_t *events = calloc(SUBSCRIPTIONS, sizeof *events);
	__wasi_size_t count;
	struct timespec start, now;
	for (int i = 0; i < SUBSCRIPTIONS; i++) {
		asked[i].u.tag = __WASI_EVENTTYPE_CLOCK;
		asked[i].u.u.clock.id = __WASI_CLOCKID_MONOTONIC;
		asked[i].u.u.clock.timeout = i == 0 ? 1 : UINT64_MAX;
	}
	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		if (__wasi_poll_oneoff(asked, events, SUBSCRIPTIONS, &count))
			busy(BUSY_S);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - start.tv_sec <= BUSY_S);
	return DONE;
}

int attack_wasi_cpu_burn(void)
{
	busy(BURN_S);
	return held();
}
