/*
 * What it costs to open many files that exist, and to keep them open.
 *
 *     opens FOLDER HELD BATCHES
 *
 * FOLDER holds the files `open/0` to `open/999`. Each operation opens its number of them, one after the
 * other, and keeps them; closing is not timed. With no batches nothing is timed. Afterwards it opens HELD
 * files once more, says `holding` and waits for the end of its input, so that somebody else can see what
 * that takes.
 */
#define _GNU_SOURCE
#include "measure.h"

#include <fcntl.h>
#include <unistd.h>
#ifndef __wasi__
#include <sys/resource.h>
#endif

enum { MOST_FILES = 1000, NAME_BYTES = 16 };

static char names[MOST_FILES][NAME_BYTES];
static int files[MOST_FILES];

static void open_all(long number)
{
	for (long i = 0; i < number; i++)
		if ((files[i] = open(names[i], O_RDONLY | O_CLOEXEC)) < 0)
			die(names[i]);
}

static double time_opens(const struct operation *operation, long count)
{
	double took_ns = 0;
	for (long done = 0; done < count; done++) {
		double began_ns = now_ns();
		open_all(operation->parameter);
		took_ns += now_ns() - began_ns;
		for (long i = 0; i < operation->parameter; i++)
			close(files[i]);
	}
	return took_ns;
}

static struct operation operations[] = {
	{ .name = "open-500", .time_ns = time_opens, .parameter = 500 },
	{ .name = "open-1000", .time_ns = time_opens, .parameter = MOST_FILES },
};

/* WASI has no limits to raise: its host does that. */
static void allow_all_files(void)
{
#ifndef __wasi__
	struct rlimit most = { 0 };
	if (getrlimit(RLIMIT_NOFILE, &most) != 0)
		die("limit of open files");
	most.rlim_cur = most.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &most) != 0)
		die("limit of open files");
#endif
}

int main(int argc, char **argv)
{
	char byte;
	int held, batches;
	program_name = "opens";
	if (argc != 4 || (held = atoi(argv[2])) < 0 || held > MOST_FILES) {
		fprintf(stderr, "usage: opens FOLDER HELD BATCHES\n");
		return 2;
	}
	batches = atoi(argv[3]);
	if (chdir(argv[1]) != 0)
		die(argv[1]);
	allow_all_files();
	for (int i = 0; i < MOST_FILES; i++)
		snprintf(names[i], sizeof names[i], "open/%d", i);
	if (batches != 0)
		measure(operations, sizeof operations / sizeof operations[0], 0, batches);
	open_all(held);
	puts("holding");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}
