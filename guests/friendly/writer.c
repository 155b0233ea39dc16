/* `writer BYTES`: that many bytes to stdout, in lines of 64; 1 if a write fails. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **words)
{
	static char block[65536];
	if (count != 2) {
		fprintf(stderr, "usage: writer BYTES\n");
		return 2;
	}
	memset(block, '.', sizeof block);
	for (size_t end = 63; end < sizeof block; end += 64)
		block[end] = '\n';
	for (unsigned long left = strtoul(words[1], NULL, 10); left > 0;) {
		size_t part = left < sizeof block ? left : sizeof block;
		ssize_t written = write(STDOUT_FILENO, block, part);
		if (written < 0) {
			perror("writer: write");
			return 1;
		}
		left -= written;
	}
	return 0;
}
