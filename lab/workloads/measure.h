/*
 * What the measuring workloads have in common: a clock, operations that take turns batch by batch, so
 * that a slow moment of the machine hits all of them, and one line of output for each:
 *
 *     OPERATION NS NS …        nanoseconds per operation, batch by batch
 *
 * An operation that fails ends the program: a refused call would be a fast one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_BATCHES = 64 };

struct operation {
	const char *name;
	/* Repeats the operation and gives the nanoseconds this took. */
	double (*time_ns)(const struct operation *operation, long count);
	/* Of the operation's own: a size, a number of things. */
	long parameter;
	long count;
	double per_operation_ns[MOST_BATCHES];
};

static const char *program_name;

static void die(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", program_name, what, strerror(errno));
	exit(1);
}

static double now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

/* The number of repeats that takes about `batch_ns`, at least one. */
static long calibrate(const struct operation *operation, double batch_ns)
{
	for (long count = 1;;) {
		double took_ns = operation->time_ns(operation, count);
		if (took_ns >= batch_ns)
			return count;
		double factor = took_ns > 0 ? 1.2 * batch_ns / took_ns : 10;
		count = count * (factor > 10 ? 10 : factor) + 1;
	}
}

/* Measures and prints. A batch of 0 µs is one repeat. */
static void measure(struct operation *operations, int length, double batch_us, int batches)
{
	if (batches < 1 || batches > MOST_BATCHES) {
		fprintf(stderr, "%s: from 1 to %d batches\n", program_name, MOST_BATCHES);
		exit(2);
	}
	for (int i = 0; i < length; i++)
		operations[i].count = calibrate(&operations[i], batch_us * 1e3);
	for (int batch = 0; batch < batches; batch++)
		for (int i = 0; i < length; i++)
			operations[i].per_operation_ns[batch] =
				operations[i].time_ns(&operations[i], operations[i].count) / operations[i].count;
	for (int i = 0; i < length; i++) {
		printf("%s", operations[i].name);
		for (int batch = 0; batch < batches; batch++)
			printf(" %.2f", operations[i].per_operation_ns[batch]);
		putchar('\n');
	}
	fflush(stdout);
}
