/*
 * A web server that answers every request with the same KB, or with as many bytes as a path of three digits or more
 * says, and keeps connections (HTTP/1.1), in one thread.
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
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BODY = 1024, MOST_BODY = 1 << 20, MOST_HEAD = 256, MOST_EVENTS = 64, PART = 4096, FIRST_PASSED = 3 };

struct answer {
	char *bytes;
	int length;
	long body;
};

/* Of the usual length, and of the last other one that was asked for. */
static struct answer usual, other;

static void die(const char *what)
{
	fprintf(stderr, "replies: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void make_answer(struct answer *answer, long body)
{
	answer->bytes = realloc(answer->bytes, MOST_HEAD + body);
	if (!answer->bytes)
		die("realloc");
	int head = snprintf(answer->bytes, MOST_HEAD,
			    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %ld\r\n\r\n", body);
	memset(answer->bytes + head, 'x', body);
	answer->length = head + body;
	answer->body = body;
}

/* `GET /2258 …` */
static const struct answer *answer_to(const char *request)
{
	const char *path = strchr(request, '/');
	long body = path ? atol(path + 1) : 0;
	if (body < 100 || body > MOST_BODY)
		return &usual;
	if (other.body != body)
		make_answer(&other, body);
	return &other;
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

/* What the socket has no room for waits until there is: who asks takes all of it. */
static int send_all(int stream, const struct answer *answer)
{
	for (int sent = 0; sent < answer->length;) {
		ssize_t part = send(stream, answer->bytes + sent, answer->length - sent, MSG_NOSIGNAL);
		if (part < 0 && errno == EAGAIN) {
			struct pollfd room = { .fd = stream, .events = POLLOUT };
			poll(&room, 1, -1);
			continue;
		}
		if (part <= 0)
			return 0;
		sent += part;
	}
	return 1;
}

/* Heads that end in two parts are looked for in the second one only: who asks sends them whole. */
static int answer_all(int stream)
{
	char part[PART + 1];
	ssize_t length = read(stream, part, PART);
	if (length < 0 && errno == EAGAIN)
		return 1;
	if (length <= 0)
		return 0;
	part[length] = 0;
	const char *head = part, *end;
	while ((end = memmem(head, part + length - head, "\r\n\r\n", 4)) != NULL) {
		if (!send_all(stream, answer_to(head)))
			return 0;
		head = end + 4;
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
	make_answer(&usual, BODY);
	if (argc == 3)
		serve(listen_at(argv[1], argv[2]));
	const char *passed = getenv("LISTEN_FDS");
	if (argc != 1 || !passed || strcmp(passed, "1") != 0) {
		fprintf(stderr, "usage: replies HOST PORT\n       LISTEN_FDS=1 replies\n");
		return 2;
	}
	serve(FIRST_PASSED);
}
