/* `readdir BYTES`: the names in the first folder, read with a buffer of that size; then checks of cookies and padding. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wasi/api.h>

#define FOLDER 3
#define HEADER sizeof(__wasi_dirent_t)

static uint8_t buffer[70000];

static void fail(const char *what, int number)
{
	printf("%s: %d\n", what, number);
	exit(1);
}

static __wasi_size_t fill(__wasi_size_t size, __wasi_dircookie_t cookie)
{
	__wasi_size_t used = 0;
	memset(buffer, 0xaa, sizeof buffer);
	__wasi_errno_t error = __wasi_fd_readdir(FOLDER, buffer, size, cookie, &used);
	if (error)
		fail("error", error);
	if (used > size)
		fail("used", used);
	if (buffer[size] != 0xaa)
		fail("written behind the end", size);
	return used;
}

/* Bytes 21 to 23 of an entry have no meaning and must not have been somebody else's. */
static void check_padding(const uint8_t *entry)
{
	for (int byte = 21; byte < 24; byte++)
		if (entry[byte])
			fail("padding", entry[byte]);
}

int main(int count, char **words)
{
	__wasi_size_t size = atoi(words[1]);
	__wasi_dircookie_t cookie = 0;
	for (;;) {
		__wasi_size_t used = fill(size, cookie), at = 0;
		while (used - at >= HEADER) {
			__wasi_dirent_t entry;
			memcpy(&entry, buffer + at, HEADER);
			check_padding(buffer + at);
			if (used - at < HEADER + entry.d_namlen)
				break;
			printf("%d %.*s\n", entry.d_type, (int)entry.d_namlen, (char *)buffer + at + HEADER);
			at += HEADER + entry.d_namlen;
			cookie = entry.d_next;
		}
		if (used < size)
			return 0;
		if (at == 0)
			fail("no entry fits", size);
	}
}
