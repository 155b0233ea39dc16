#include "sockets.h"

#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/time.h>

union address v4(const char *host, long port)
{
	union address address = { .v4 = { .sin_family = AF_INET, .sin_port = htons(port) } };
	if (inet_pton(AF_INET, host, &address.v4.sin_addr) != 1)
		unready(host);
	return address;
}

union address v6(const char *host, long port)
{
	union address address = { .v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) } };
	if (inet_pton(AF_INET6, host, &address.v6.sin6_addr) != 1)
		unready(host);
	return address;
}

union address local(const char *path)
{
	union address address = { .local = { .sun_family = AF_UNIX } };
	strncpy(address.local.sun_path, path, sizeof address.local.sun_path - 1);
	return address;
}

socklen_t size_of(const union address *address)
{
	switch (address->any.sa_family) {
	case AF_INET6:
		return sizeof address->v6;
	case AF_UNIX:
		return sizeof address->local;
	default:
		return sizeof address->v4;
	}
}

int open_socket(int family, int type, int protocol)
{
	struct timeval second = { .tv_sec = 1 };
	int fd = socket(family, type | SOCK_CLOEXEC, protocol);
	must(fd, "socket");
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
	return fd;
}

int open_door(int family, int type)
{
	const char *name = type == SOCK_STREAM ? (family == AF_INET ? "door-tcp4" : "door-tcp6")
					       : (family == AF_INET ? "door-udp4" : "door-udp6");
	int fd = open_socket(family, type, 0);
	must(connect_to(fd, family == AF_INET ? V4(name) : V6(name)), "connect to the door");
	return fd;
}

int connect_to(int fd, union address to)
{
	return connect(fd, &to.any, size_of(&to));
}

int bind_to(int fd, union address to)
{
	return bind(fd, &to.any, size_of(&to));
}

ssize_t send_to(int fd, union address to, int flags)
{
	return sendto(fd, nonce(), strlen(nonce()), flags, &to.any, size_of(&to));
}

void set(int fd, int level, int option, int value)
{
	must(setsockopt(fd, level, option, &value, sizeof value), "setsockopt");
}

void must(long result, const char *call)
{
	if (result == -1)
		exit(refused(call));
}

int say(int fd)
{
	char byte;
	int type = 0;
	socklen_t length = sizeof type;
	struct pollfd closed = { .fd = fd, .events = POLLIN };
	if (write(fd, nonce(), strlen(nonce())) <= 0)
		return refused("write");
	/* A server of streams closes once it has read: it may be slow, and nobody waits for it later. */
	getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length);
	if (type == SOCK_STREAM && !shutdown(fd, SHUT_WR) && poll(&closed, 1, 1000) > 0)
		read(fd, &byte, 1);
	return DONE;
}

int say_to(int fd, union address to)
{
	return connect_to(fd, to) ? refused("connect") : say(fd);
}

int deliver(union address to, int type, int protocol)
{
	return say_to(open_socket(to.any.sa_family, type, protocol), to);
}

static void *answer_all(void *word)
{
	int fd = *(int *)word, type = 0;
	socklen_t length = sizeof type;
	getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length);
	for (;;) {
		struct pollfd ready = { .fd = fd, .events = POLLIN };
		if (poll(&ready, 1, -1) < 0)
			continue;
		if (type == SOCK_STREAM) {
			int stream = accept(fd, NULL, NULL);
			if (stream >= 0)
				write(stream, nonce(), strlen(nonce()));
			close(stream);
			continue;
		}
		union address from;
		char bytes[64];
		length = sizeof from;
		if (recvfrom(fd, bytes, sizeof bytes, 0, &from.any, &length) >= 0)
			sendto(fd, nonce(), strlen(nonce()), 0, &from.any, length);
	}
	return NULL;
}

int serve(int fd)
{
	static int served;
	served = fd;
	in_thread(answer_all, &served);
	return held();
}

void in_thread(void *(*act)(void *), void *word)
{
	pthread_t thread;
	if ((errno = pthread_create(&thread, NULL, act, word)))
		unready("pthread_create");
	pthread_detach(thread);
}
