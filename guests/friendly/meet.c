/* `meet PATH…`: connects a stream socket to each path and prints 0, or the error number. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main(int count, char **words)
{
	for (int word = 1; word < count; word++) {
		struct sockaddr_un address = { .sun_family = AF_UNIX };
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);
		strncpy(address.sun_path, words[word], sizeof address.sun_path - 1);
		printf("%d\n", connect(fd, (struct sockaddr *)&address, sizeof address) ? errno : 0);
		close(fd);
	}
	return 0;
}
