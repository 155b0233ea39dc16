/* `race ROUNDS PATH`: opens the path again and again, and prints what its first byte was how often. */
#include <stdio.h>
#include <stdlib.h>
#include <wasi/api.h>

#define FOLDER 3

int main(int count, char **words)
{
	static unsigned seen[256];
	unsigned refused = 0;
	for (int left = atoi(words[1]); left > 0; left--) {
		__wasi_fd_t fd;
		if (__wasi_path_open(FOLDER, 1, words[2], 0, __WASI_RIGHTS_FD_READ, 0, 0, &fd)) {
			refused++;
			continue;
		}
		uint8_t byte = '?';
		__wasi_iovec_t part = { &byte, 1 };
		__wasi_size_t read;
		if (__wasi_fd_read(fd, &part, 1, &read) || __wasi_fd_close(fd))
			return 1;
		seen[byte]++;
	}
	printf("refused %u\n", refused);
	for (int byte = 0; byte < 256; byte++)
		if (seen[byte])
			printf("%c %u\n", byte, seen[byte]);
	return 0;
}
