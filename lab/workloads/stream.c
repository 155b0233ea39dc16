/*
 * What it costs to move bytes by TCP, and to connect.
 *
 *     stream serve HOST PORT
 *     stream blocks|packets|connects HOST PORT BATCHES
 *
 * `serve` takes one connection after the other. On each it reads how many bytes follow, takes them, and
 * answers with one byte, until the connection ends.
 *
 * `blocks`: `block-SIZE` moves 1 MB by one write(2) for each block of SIZE bytes, until the answer.
 * `packets`: `packets-COUNT` moves COUNT times 1024 B, each in a packet of its own (TCP_NODELAY).
 * In both the connection is there before.
 * `connects`: `connect` is socket(2), connect(2) and close(2); `bulk` moves 64 MB over one connection, by
 * writes of 64 KB.
 */
#define _GNU_SOURCE
#include "measure.h"

#include "ends.h"

enum { MEGABYTE = 1 << 20, BULK_BYTES = 64 << 20, BULK_BLOCK = 64 << 10, PACKET = 1024 };

static struct sockaddr_in server;
static char block[BULK_BLOCK];

static void set_undelayed(int stream, int on)
{
	if (setsockopt(stream, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
		die("TCP_NODELAY");
}

/* One request; 0 where the client has gone instead. */
static int take_one(int stream)
{
	static char taken[BULK_BLOCK];
	uint32_t size;
	if (recv(stream, &size, sizeof size, MSG_WAITALL) != sizeof size)
		return 0;
	for (long left = ntohl(size); left > 0;) {
		ssize_t part = read(stream, taken, left < BULK_BLOCK ? left : BULK_BLOCK);
		if (part <= 0)
			return 0;
		left -= part;
	}
	return send(stream, "", 1, MSG_NOSIGNAL) == 1;
}

static void serve(void)
{
	int listener = listen_at(&server);
	for (;;) {
		int stream = accept_next(listener);
		set_undelayed(stream, 1);
		while (take_one(stream))
			;
		close(stream);
	}
}

/*
 * Sends `total` bytes by writes of `size`, and waits until they are taken. The last of them go at once:
 * else they wait for an acknowledgement, and the other end has 40 ms before it must send one.
 */
static double time_transfer(int stream, long total, long size, int is_undelayed)
{
	uint32_t announced = htonl(total);
	double began_ns = now_ns();
	set_undelayed(stream, is_undelayed);
	write_all(stream, (const char *)&announced, sizeof announced);
	for (long sent = 0; sent < total; sent += size)
		write_all(stream, block, size);
	set_undelayed(stream, 1);
	char answer;
	if (read(stream, &answer, 1) != 1)
		die("read");
	return now_ns() - began_ns;
}

/*
 * Where another process connects for this one it still has a little to do then. It is done with that once something
 * was answered on the connection.
 */
static double time_transfers(long count, long total, long size, int is_undelayed)
{
	double took_ns = 0;
	int stream = connect_to(&server);
	time_transfer(stream, PACKET, PACKET, 0);
	for (long done = 0; done < count; done++)
		took_ns += time_transfer(stream, total, size, is_undelayed);
	close(stream);
	return took_ns;
}

static double time_blocks(const struct operation *operation, long count)
{
	return time_transfers(count, MEGABYTE, operation->parameter, 0);
}

static double time_packets(const struct operation *operation, long count)
{
	return time_transfers(count, operation->parameter * PACKET, PACKET, 1);
}

static double time_bulk(const struct operation *operation, long count)
{
	return time_transfers(count, operation->parameter, BULK_BLOCK, 0);
}

/*
 * The connection ends by a reset, so that no port is kept from the next ones. To ask for that is not part
 * of what is measured.
 */
static double time_connect_and_close(void)
{
	struct linger at_once = { .l_onoff = 1 };
	double began_ns = now_ns();
	int stream = connect_to(&server);
	double connected_ns = now_ns();
	if (setsockopt(stream, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) != 0)
		die("SO_LINGER");
	double closes_ns = now_ns();
	close(stream);
	return connected_ns - began_ns + now_ns() - closes_ns;
}

/*
 * The server is at another connection meanwhile, and finds these when that ends: whether it has taken one by
 * the time that ends decides what the end costs, and which of both is faster is not what is measured. In small
 * parts, for the queue of connections that it has not taken yet must not get full. It takes them in their order,
 * so it has been through all of them once it answers on a later one.
 */
static double time_connects(const struct operation *operation, long count)
{
	enum { PART = 100 };
	double took_ns = 0;
	(void)operation;
	for (long done = 0; done < count; done += PART) {
		int meanwhile = connect_to(&server);
		time_transfer(meanwhile, PACKET, PACKET, 0);
		for (long one = done; one < count && one < done + PART; one++)
			took_ns += time_connect_and_close();
		close(meanwhile);
	}
	time_transfers(1, PACKET, PACKET, 0);
	return took_ns;
}

#define BLOCK(size) { .name = "block-" #size, .time_ns = time_blocks, .parameter = size }
#define PACKETS(count) { .name = "packets-" #count, .time_ns = time_packets, .parameter = count }

static struct operation blocks[] = {
	BLOCK(64),   BLOCK(128),  BLOCK(256),  BLOCK(512),   BLOCK(1024),
	BLOCK(2048), BLOCK(4096), BLOCK(8192), BLOCK(16384),
};
static struct operation packets[] = {
	PACKETS(64),   PACKETS(128),  PACKETS(256),  PACKETS(512),
	PACKETS(1024), PACKETS(2048), PACKETS(4096),
};
static struct operation connects[] = {
	{ .name = "connect", .time_ns = time_connects },
	{ .name = "bulk", .time_ns = time_bulk, .parameter = BULK_BYTES },
};

#define LENGTH(array) ((int)(sizeof array / sizeof array[0]))

static void measure_what(const char *what, int batches)
{
	/* Connects are short beside a clock's tick, transfers are not. */
	if (strcmp(what, "blocks") == 0)
		measure(blocks, LENGTH(blocks), 0, batches);
	else if (strcmp(what, "packets") == 0)
		measure(packets, LENGTH(packets), 1000, batches);
	else if (strcmp(what, "connects") == 0)
		measure(connects, LENGTH(connects), 5000, batches);
	else {
		fprintf(stderr, "stream: %s is not known\n", what);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	program_name = "stream";
	if (argc < 4) {
		fprintf(stderr, "usage: stream serve HOST PORT\n"
				"       stream blocks|packets|connects HOST PORT BATCHES\n");
		return 2;
	}
	server = address_of(argv[2], argv[3]);
	if (argc == 4 && strcmp(argv[1], "serve") == 0)
		serve();
	measure_what(argv[1], argc == 5 ? atoi(argv[4]) : 0);
	return 0;
}
