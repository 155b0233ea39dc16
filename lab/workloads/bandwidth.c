/*
 * How fast files of known sizes are read and written.
 *
 *     bandwidth FOLDER BATCH_US BATCHES
 *
 * FOLDER can be written to. `read-SIZE` opens a file of SIZE KiB, reads all of it in blocks of 64 KiB and
 * closes it; `write-SIZE` does the same for writing, in place. The files lie in the page cache.
 */
#define _GNU_SOURCE
#include "measure.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 64 << 10, KIB = 1 << 10 };

static char block[BLOCK];

static double time_file(const struct operation *operation, long count, int flags,
			ssize_t (*move)(int file, long size))
{
	char name[16];
	long bytes = operation->parameter * KIB;
	snprintf(name, sizeof name, "%ld", operation->parameter);
	double began_ns = now_ns();
	for (long done = 0; done < count; done++) {
		int file = open(name, flags | O_CLOEXEC);
		if (file < 0)
			die(name);
		for (long moved = 0; moved < bytes;) {
			long size = bytes - moved < BLOCK ? bytes - moved : BLOCK;
			if (move(file, size) != size)
				die(name);
			moved += size;
		}
		close(file);
	}
	return now_ns() - began_ns;
}

static ssize_t read_block(int file, long size)
{
	return read(file, block, size);
}

static ssize_t write_block(int file, long size)
{
	return write(file, block, size);
}

static double time_read(const struct operation *operation, long count)
{
	return time_file(operation, count, O_RDONLY, read_block);
}

static double time_write(const struct operation *operation, long count)
{
	return time_file(operation, count, O_WRONLY, write_block);
}

#define BOTH_WAYS(kib)                                                                             \
	{ .name = "read-" #kib, .time_ns = time_read, .parameter = kib },                          \
	{ .name = "write-" #kib, .time_ns = time_write, .parameter = kib }

static struct operation operations[] = {
	BOTH_WAYS(4), BOTH_WAYS(16), BOTH_WAYS(64), BOTH_WAYS(256), BOTH_WAYS(1024), BOTH_WAYS(4096),
};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

static void make_files(void)
{
	for (int i = 0; i < OPERATIONS; i++) {
		char name[16];
		snprintf(name, sizeof name, "%ld", operations[i].parameter);
		int file = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
		if (file < 0 || ftruncate(file, operations[i].parameter * KIB) != 0)
			die(name);
		close(file);
		if (operations[i].time_ns == time_write)
			time_write(&operations[i], 1);
	}
}

int main(int argc, char **argv)
{
	program_name = "bandwidth";
	if (argc != 4) {
		fprintf(stderr, "usage: bandwidth FOLDER BATCH_US BATCHES\n");
		return 2;
	}
	if (chdir(argv[1]) != 0)
		die(argv[1]);
	make_files();
	measure(operations, OPERATIONS, atof(argv[2]), atoi(argv[3]));
	return 0;
}
