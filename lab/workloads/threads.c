/*
 * What it costs to create and start threads.
 *
 *     threads BATCHES
 *
 * Each operation creates its number of threads and ends when the last of them has begun to run; waiting
 * for their end is not timed.
 */
#define _GNU_SOURCE
#include "measure.h"

#include <pthread.h>
#include <semaphore.h>

enum { MOST_THREADS = 100 };

static sem_t begun, go_home;

static void *live(void *unused)
{
	sem_post(&begun);
	while (sem_wait(&go_home) != 0)
		;
	return unused;
}

static double time_threads(const struct operation *operation, long count)
{
	pthread_t threads[MOST_THREADS];
	double took_ns = 0;
	for (long done = 0; done < count; done++) {
		double began_ns = now_ns();
		for (long i = 0; i < operation->parameter; i++)
			if ((errno = pthread_create(&threads[i], NULL, live, NULL)) != 0)
				die("pthread_create");
		for (long i = 0; i < operation->parameter; i++)
			while (sem_wait(&begun) != 0)
				;
		took_ns += now_ns() - began_ns;
		for (long i = 0; i < operation->parameter; i++)
			sem_post(&go_home);
		for (long i = 0; i < operation->parameter; i++)
			pthread_join(threads[i], NULL);
	}
	return took_ns;
}

#define THREADS(number)                                                                            \
	{ .name = "threads-" #number, .time_ns = time_threads, .parameter = number }

static struct operation operations[] = { THREADS(10), THREADS(30), THREADS(60), THREADS(100) };

int main(int argc, char **argv)
{
	program_name = "threads";
	if (argc != 2) {
		fprintf(stderr, "usage: threads BATCHES\n");
		return 2;
	}
	if (sem_init(&begun, 0, 0) != 0 || sem_init(&go_home, 0, 0) != 0)
		die("sem_init");
	measure(operations, sizeof operations / sizeof operations[0], 0, atoi(argv[1]));
	return 0;
}
