/* How long a new session waits for a processor beside threads that are always busy.
 *
 *     gcc -O1 -pthread -o starve starve.c && ./starve 15 1
 *
 * For so many seconds a child is started, again and again: in a session of its own with 1, in this one with 0. With
 * autogroups (sched(7)) a new session is a new scheduling group. It prints how long the slowest child took, which
 * sleeps for 1 ms. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS = 5, WORK = 2000, CHILD_US = 1000, PAUSE_US = 20000 };

static double now_s(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

struct turn {
	int mine, theirs;
};

/* Two of these hand a turn to each other, as a server and its client do. */
static void *take_turns(void *argument)
{
	struct turn *turn = argument;
	uint64_t one = 1, got;
	while (read(turn->mine, &got, sizeof got) == sizeof got) {
		for (volatile int i = 0; i < WORK; i++)
			;
		if (write(turn->theirs, &one, sizeof one) != sizeof one)
			break;
	}
	return NULL;
}

static void begin_pair(void)
{
	static struct turn turns[PAIRS][2];
	static int count;
	struct turn *pair = turns[count++];
	int one = eventfd(1, 0), other = eventfd(0, 0);
	pair[0] = (struct turn){ one, other };
	pair[1] = (struct turn){ other, one };
	for (int i = 0; i < 2; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, take_turns, &pair[i]))
			exit(1);
	}
}

static double start_child(int own_session)
{
	double begin = now_s();
	pid_t child = fork();
	if (!child) {
		if (own_session)
			setsid();
		usleep(CHILD_US);
		_exit(0);
	}
	if (child < 0 || waitpid(child, NULL, 0) != child)
		exit(1);
	return now_s() - begin;
}

int main(int count, char **words)
{
	if (count != 3)
		return 2;
	for (int i = 0; i < PAIRS; i++)
		begin_pair();
	double end = now_s() + atof(words[1]), slowest = 0;
	int children = 0;
	for (; now_s() < end; children++) {
		double took = start_child(atoi(words[2]));
		slowest = took > slowest ? took : slowest;
		usleep(PAUSE_US);
	}
	printf("%d children, the slowest took %.3f s\n", children, slowest);
	return 0;
}
