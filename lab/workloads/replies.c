/*
 * A web server that answers every request with the same KB and keeps connections (HTTP/1.1), in one thread.
 *
 *     replies HOST PORT
 *     replies              the socket is descriptor 3, as systemd passes them (LISTEN_FDS)
 *
 * A request is a head with no body: it ends with an empty line.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BODY = 1024, MOST_EVENTS = 64, PART = 4096, FIRST_PASSED = 3 };

static char answer[BODY + 256];
static int answer_length;

static void die(const char *what)
{
	fprintf(stderr, "replies: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void make_answer(void)
{
	answer_length = snprintf(answer, sizeof answer - BODY,
				 "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n", BODY);
	memset(answer + answer_length, 'x', BODY);
	answer_length += BODY;
}

static void watch(int epoll, int descriptor)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = descriptor };
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) < 0)
		die("epoll_ctl");
}

static void accept_all(int epoll, int listener)
{
	int stream;
	while ((stream = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		int on = 1;
		/* A Unix socket has no such delay. */
		setsockopt(stream, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		watch(epoll, stream);
	}
	if (errno != EAGAIN && errno != ECONNABORTED)
		die("accept");
}

/* Heads that end in two parts are looked for in the second one only: who asks sends them whole. */
static int answer_all(int stream)
{
	char part[PART];
	ssize_t length = read(stream, part, sizeof part);
	if (length < 0 && errno == EAGAIN)
		return 1;
	if (length <= 0)
		return 0;
	const char *rest = part;
	while ((rest = memmem(rest, part + length - rest, "\r\n\r\n", 4)) != NULL) {
		rest += 4;
		/* An answer fits the socket's buffer, or the client takes none. */
		if (send(stream, answer, answer_length, MSG_NOSIGNAL) != answer_length)
			return 0;
	}
	return 1;
}

static void serve(int listener)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	if (epoll < 0)
		die("epoll_create1");
	if (fcntl(listener, F_SETFL, O_NONBLOCK) < 0)
		die("fcntl");
	watch(epoll, listener);
	for (;;) {
		struct epoll_event events[MOST_EVENTS];
		int count = epoll_wait(epoll, events, MOST_EVENTS, -1);
		if (count < 0 && errno != EINTR)
			die("epoll_wait");
		for (int i = 0; i < count; i++) {
			int descriptor = events[i].data.fd;
			if (descriptor == listener)
				accept_all(epoll, listener);
			else if (!answer_all(descriptor))
				close(descriptor);
		}
	}
}

static int listen_at(const char *host, const char *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1;
	if (inet_pton(AF_INET, host, &address.sin_addr) != 1) {
		fprintf(stderr, "replies: %s is no IPv4 address\n", host);
		exit(2);
	}
	if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0
	    || bind(listener, (struct sockaddr *)&address, sizeof address) != 0
	    || listen(listener, SOMAXCONN) != 0)
		die("listen");
	return listener;
}

int main(int argc, char **argv)
{
	make_answer();
	if (argc == 3)
		serve(listen_at(argv[1], argv[2]));
	const char *passed = getenv("LISTEN_FDS");
	if (argc != 1 || !passed || strcmp(passed, "1") != 0) {
		fprintf(stderr, "usage: replies HOST PORT\n       LISTEN_FDS=1 replies\n");
		return 2;
	}
	serve(FIRST_PASSED);
}
