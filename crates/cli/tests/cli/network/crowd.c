/* Connects 500 times in a row, then from 64 threads at once, while one more waits for a listener that is full. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { IN_A_ROW = 500, THREADS = 64, OF_EACH = 10 };

static int port, full;
static atomic_int connected, waiting;

static int connects(int to)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons(to), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int result = connect(fd, (void *)&address, sizeof address);
	close(fd);
	return result == 0;
}

static void *wait_for_ever(void *none)
{
	waiting = 1;
	connects(full);
	waiting = 0;
	return none;
}

static void *connect_some(void *none)
{
	for (int i = 0; i < OF_EACH; i++)
		connected += connects(port);
	return none;
}

int main(int count, char **arguments)
{
	pthread_t waits, threads[THREADS];
	if (count != 3)
		return 2;
	port = atoi(arguments[1]);
	full = atoi(arguments[2]);
	pthread_create(&waits, NULL, wait_for_ever, NULL);
	while (!waiting)
		sched_yield();
	for (int i = 0; i < IN_A_ROW; i++)
		connected += connects(port);
	printf("one after another %d\n", connected);
	connected = 0;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, connect_some, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("at once %d\nstill waiting %d\n", connected, waiting);
	/* The call that waits ends with the program. */
	return 0;
}
