/*
 * What the workloads with two ends have in common: TCP sockets of IPv4, and moving all of something.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in address_of(const char *host, const char *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };
	if (inet_pton(AF_INET, host, &address.sin_addr) != 1) {
		fprintf(stderr, "%s: %s is no IPv4 address\n", program_name, host);
		exit(2);
	}
	return address;
}

static int connect_to(const struct sockaddr_in *address)
{
	int stream = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (stream < 0)
		die("socket");
	if (connect(stream, (const struct sockaddr *)address, sizeof *address) != 0)
		die("connect");
	return stream;
}

/* Says `ready` once clients can connect. */
static int listen_at(const struct sockaddr_in *address)
{
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int on = 1;
	if (listener < 0)
		die("socket");
	if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
		die("SO_REUSEADDR");
	if (bind(listener, (const struct sockaddr *)address, sizeof *address) != 0)
		die("bind");
	if (listen(listener, SOMAXCONN) != 0)
		die("listen");
	puts("ready");
	fflush(stdout);
	return listener;
}

/* A connection that its client has given up by now is passed over. */
static int accept_next(int listener)
{
	for (;;) {
		int stream = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (stream >= 0)
			return stream;
		if (errno != ECONNABORTED && errno != EINTR)
			die("accept");
	}
}

static void write_all(int stream, const char *bytes, long size)
{
	for (long written = 0; written < size;) {
		ssize_t part = write(stream, bytes + written, size - written);
		if (part <= 0)
			die("write");
		written += part;
	}
}
