/*
 * What it costs to read and write a file block by block, unbuffered.
 *
 *     blocks FILE BATCHES
 *
 * FILE exists and has 512 KB. `read-SIZE` reads all of it and `write-SIZE` writes all of it anew in place,
 * by one system call for each block of SIZE bytes, opening and closing not included.
 */
#define _GNU_SOURCE
#include "measure.h"

#include <fcntl.h>
#include <unistd.h>

enum { FILE_BYTES = 512 << 10, MOST_BLOCK = 1024 };

static const char *path;
static char block[MOST_BLOCK];

static double time_blocks(const struct operation *operation, long count, int flags,
			  ssize_t (*move)(int file, long size))
{
	double took_ns = 0;
	for (long done = 0; done < count; done++) {
		int file = open(path, flags | O_CLOEXEC);
		if (file < 0)
			die(path);
		double began_ns = now_ns();
		for (long moved = 0; moved < FILE_BYTES; moved += operation->parameter)
			if (move(file, operation->parameter) != operation->parameter)
				die(path);
		took_ns += now_ns() - began_ns;
		close(file);
	}
	return took_ns;
}

static ssize_t read_block(int file, long size)
{
	return read(file, block, size);
}

static ssize_t write_block(int file, long size)
{
	return write(file, block, size);
}

static double time_reads(const struct operation *operation, long count)
{
	return time_blocks(operation, count, O_RDONLY, read_block);
}

static double time_writes(const struct operation *operation, long count)
{
	return time_blocks(operation, count, O_WRONLY, write_block);
}

#define BOTH_WAYS(size)                                                                            \
	{ .name = "read-" #size, .time_ns = time_reads, .parameter = size },                       \
	{ .name = "write-" #size, .time_ns = time_writes, .parameter = size }

static struct operation operations[] = {
	BOTH_WAYS(64), BOTH_WAYS(128), BOTH_WAYS(256), BOTH_WAYS(512), BOTH_WAYS(1024),
};

int main(int argc, char **argv)
{
	program_name = "blocks";
	if (argc != 3) {
		fprintf(stderr, "usage: blocks FILE BATCHES\n");
		return 2;
	}
	path = argv[1];
	measure(operations, sizeof operations / sizeof operations[0], 0, atoi(argv[2]));
	return 0;
}
