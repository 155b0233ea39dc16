/* Counts lines and words of the files that it is given. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int count(const char *path)
{
	FILE *file = fopen(path, "r");
	if (!file) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return 1;
	}
	long lines = 0, words = 0;
	int previous = ' ';
	for (int next; (next = getc(file)) != EOF; previous = next) {
		lines += next == '\n';
		words += isspace(previous) && !isspace(next);
	}
	fclose(file);
	printf("%6ld %6ld %s\n", lines, words, path);
	return 0;
}

int main(int count_of_arguments, char **arguments)
{
	int failed = 0;
	for (int i = 1; i < count_of_arguments; i++) {
		if (!strcmp(arguments[i], "--abort"))
			abort();
		failed |= count(arguments[i]);
	}
	return failed;
}
