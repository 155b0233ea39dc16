/* `threads N`: N threads at once, then prints `threads STARTED`; 1 if one was refused. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_barrier_t all_started;

static void *meet(void *unused)
{
	pthread_barrier_wait(&all_started);
	return unused;
}

int main(int count, char **words)
{
	if (count != 2) {
		fprintf(stderr, "usage: threads N\n");
		return 2;
	}
	long wanted = strtol(words[1], NULL, 10), started = 0;
	pthread_t *threads = calloc(wanted, sizeof *threads);
	pthread_barrier_init(&all_started, NULL, wanted + 1);
	while (started < wanted && pthread_create(&threads[started], NULL, meet, NULL) == 0)
		started++;
	printf("threads %ld\n", started);
	if (started < wanted)
		return 1;
	pthread_barrier_wait(&all_started);
	for (long i = 0; i < wanted; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
