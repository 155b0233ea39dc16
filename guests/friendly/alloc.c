/* `alloc MB`: maps and touches MB megabytes, then prints `touched MB`; 1 if the map is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(int count, char **words)
{
	if (count != 2) {
		fprintf(stderr, "usage: alloc MB\n");
		return 2;
	}
	size_t size = strtoul(words[1], NULL, 10) << 20;
	char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bytes == MAP_FAILED) {
		perror("alloc: mmap");
		return 1;
	}
	for (size_t at = 0; at < size; at += 4096)
		bytes[at] = 1;
	printf("touched %s\n", words[1]);
	return 0;
}
