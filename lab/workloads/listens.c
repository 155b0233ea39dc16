/*
 * Gives a program a socket that listens, as systemd and `palisade serve` do: descriptor 3 (LISTEN_FDS). There is no wall
 * around it.
 *
 *     listens HOST PORT PROGRAM [ARGUMENT ...]
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PASSED = 3 };

static void die(const char *what)
{
	fputs("listens: ", stderr);
	perror(what);
	exit(1);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int on = 1;
	if (argc < 4 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1) {
		fprintf(stderr, "usage: listens HOST PORT PROGRAM [ARGUMENT ...]\n");
		return 2;
	}
	address.sin_port = htons(atoi(argv[2]));
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0
	    || bind(listener, (struct sockaddr *)&address, sizeof address) != 0
	    || listen(listener, SOMAXCONN) != 0)
		die("listen");
	if (listener != PASSED && (dup2(listener, PASSED) < 0 || close(listener) != 0))
		die("descriptor 3");
	setenv("LISTEN_FDS", "1", 1);
	execv(argv[3], argv + 3);
	die(argv[3]);
}
