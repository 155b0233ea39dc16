/*
 * A web server with its documents in memory, and the time that they take.
 *
 *     pages serve HOST PORT
 *     pages ask HOST PORT BATCHES
 *
 * `serve` answers `GET /SIZE` with SIZE KB and closes the connection (HTTP/1.0).
 * `ask`: `document-SIZE` connects, asks, and reads all of the answer.
 */
#define _GNU_SOURCE
#include "measure.h"

#include "ends.h"

enum { MOST_KB = 500, MOST_HEAD = 256, PART = 64 << 10 };

static struct sockaddr_in server;

static void answer(int stream)
{
	static char document[MOST_HEAD + (MOST_KB << 10)];
	char request[1024] = "";
	ssize_t length = read(stream, request, sizeof request - 1);
	long size = length > 0 && strncmp(request, "GET /", 5) == 0 ? atol(request + 5) : 0;
	if (size < 1 || size > MOST_KB)
		return;
	int head = snprintf(document, MOST_HEAD,
			    "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %ld\r\n\r\n",
			    size << 10);
	long whole = head + (size << 10);
	for (long sent = 0; sent < whole;) {
		ssize_t part = send(stream, document + sent, whole - sent, MSG_NOSIGNAL);
		if (part <= 0)
			return;
		sent += part;
	}
}

static void serve(void)
{
	int listener = listen_at(&server);
	for (;;) {
		int stream = accept_next(listener);
		answer(stream);
		close(stream);
	}
}

static void fetch(long size)
{
	static char taken[PART];
	char request[64];
	int stream = connect_to(&server);
	int length = snprintf(request, sizeof request, "GET /%ld HTTP/1.0\r\n\r\n", size);
	write_all(stream, request, length);
	long whole = 0;
	ssize_t part;
	while ((part = read(stream, taken, sizeof taken)) > 0)
		whole += part;
	if (part < 0)
		die("read");
	if (whole <= size << 10) {
		fprintf(stderr, "pages: %ld bytes instead of %ld KB and a head\n", whole, size);
		exit(1);
	}
	close(stream);
}

static double time_documents(const struct operation *operation, long count)
{
	double began_ns = now_ns();
	for (long done = 0; done < count; done++)
		fetch(operation->parameter);
	return now_ns() - began_ns;
}

#define DOCUMENT(size) { .name = "document-" #size, .time_ns = time_documents, .parameter = size }

static struct operation documents[] = {
	DOCUMENT(1), DOCUMENT(5), DOCUMENT(10), DOCUMENT(50), DOCUMENT(100), DOCUMENT(500),
};

int main(int argc, char **argv)
{
	program_name = "pages";
	if (argc == 4 && strcmp(argv[1], "serve") == 0) {
		server = address_of(argv[2], argv[3]);
		serve();
	}
	if (argc != 5 || strcmp(argv[1], "ask") != 0) {
		fprintf(stderr, "usage: pages serve HOST PORT\n       pages ask HOST PORT BATCHES\n");
		return 2;
	}
	server = address_of(argv[2], argv[3]);
	measure(documents, sizeof documents / sizeof documents[0], 10000, atoi(argv[4]));
	return 0;
}
