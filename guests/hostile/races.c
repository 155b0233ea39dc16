/*
 * One thread makes a call, others change what it is about: the address, the message around it,
 * or the descriptor. Whoever checks one thing and lets the kernel do another is caught; the
 * witness, not the guest, says whether that happened. Each race lasts its time, or until won.
 */
#include "sockets.h"

#include <netinet/ip.h>
#include <poll.h>
#include <sys/prctl.h>

enum { FLIPPED_FD = 200 };

/* What changes all the time: `size` bytes at `place` are one, then the other. */
struct flip {
	void *place;
	const void *one, *other;
	size_t size;
};

static void *flip(void *word)
{
	const struct flip *flip = word;
	for (;;) {
		memcpy(flip->place, flip->one, flip->size);
		__asm__ volatile("" : : : "memory");
		memcpy(flip->place, flip->other, flip->size);
		__asm__ volatile("" : : : "memory");
	}
	return NULL;
}

static void keep_flipping(void *place, const void *one, const void *other, size_t size)
{
	struct flip *word = malloc(sizeof *word);
	*word = (struct flip){ place, one, other, size };
	in_thread(flip, word);
}

/* Descriptors that take each other's place at FLIPPED_FD. */
static int flipped[2];

static void *flip_descriptor(void *unused)
{
	(void)unused;
	for (;;) {
		dup2(flipped[0], FLIPPED_FD);
		dup2(flipped[1], FLIPPED_FD);
	}
	return NULL;
}

static void keep_flipping_descriptors(int one, int other)
{
	flipped[0] = one;
	flipped[1] = other;
	dup2(one, FLIPPED_FD);
	in_thread(flip_descriptor, NULL);
}

static int lost(const char *call)
{
	errno = EACCES;
	return refused(call);
}

/* A socket that does not wait: most rounds go nowhere. */
static int quick(int family, int type)
{
	return socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* Whether `fd` is connected to `port`, and can say so. */
static bool reached(int fd, in_port_t port)
{
	struct pollfd ready = { .fd = fd, .events = POLLOUT };
	union address peer;
	socklen_t length = sizeof peer;
	poll(&ready, 1, 10);
	return !getpeername(fd, &peer.any, &length) && peer.v4.sin_port == htons(port)
	       && write(fd, nonce(), strlen(nonce())) > 0;
}

/* ---- the address ---- */

static union address raced;

static int race_connect(union address door, union address witness, int type)
{
	raced = door;
	keep_flipping(&raced, &door, &witness, sizeof raced.v6);
	while (race_goes_on()) {
		int fd = quick(witness.any.sa_family, type);
		connect(fd, &raced.any, size_of(&witness));
		if (reached(fd, ntohs(witness.v4.sin_port)))
			return DONE;
		close(fd);
	}
	return lost("connect");
}

int attack_race_connect4(void)
{
	return race_connect(V4("door-tcp4"), V4("tcp4"), SOCK_STREAM);
}

int attack_race_connect6(void)
{
	return race_connect(V6("door-tcp6"), V6("tcp6"), SOCK_STREAM);
}

int attack_race_connect_udp(void)
{
	return race_connect(V4("door-udp4"), V4("udp4"), SOCK_DGRAM);
}

/* By another process, through memory that both share. */
int attack_race_connect_shared(void)
{
	union address door = V4("door-tcp4"), witness = V4("tcp4");
	union address *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct flip word = { shared, &door, &witness, sizeof door.v4 };
	if (shared == MAP_FAILED)
		unready("mmap");
	*shared = door;
	pid_t flipper = fork();
	if (flipper == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		flip(&word);
	}
	while (race_goes_on()) {
		int fd = quick(AF_INET, SOCK_STREAM);
		connect(fd, &shared->any, sizeof door.v4);
		if (reached(fd, ntohs(witness.v4.sin_port)))
			return DONE;
		close(fd);
	}
	return lost("connect");
}

/* The length of an address of IPv4 or of IPv6, at an address that is one or the other. */
int attack_race_family(void)
{
	union address door = V4("door-tcp4"), witness = V6("tcp6");
	raced = door;
	keep_flipping(&raced, &door, &witness, sizeof raced.v6);
	while (race_goes_on()) {
		int fd = quick(AF_INET6, SOCK_STREAM);
		connect(fd, &raced.any, sizeof raced.v6);
		if (reached(fd, ntohs(witness.v6.sin6_port)))
			return DONE;
		close(fd);
	}
	return lost("connect");
}

int attack_race_send_to(void)
{
	union address door = V4("door-udp4"), witness = V4("udp4");
	int fd = UDP4();
	raced = door;
	keep_flipping(&raced, &door, &witness, sizeof raced.v4);
	while (race_goes_on())
		sendto(fd, nonce(), strlen(nonce()), MSG_DONTWAIT, &raced.any, sizeof raced.v4);
	return DONE;
}

/* Which address the message has: two that never change, and the pointer between them. */
int attack_race_message_name(void)
{
	union address door = V4("door-udp4"), witness = V4("udp4");
	const void *names[2] = { &door, &witness };
	struct iovec data = { (char *)nonce(), strlen(nonce()) };
	static struct msghdr message;
	int fd = UDP4();
	message = (struct msghdr){
		.msg_name = &door, .msg_namelen = sizeof door.v4, .msg_iov = &data, .msg_iovlen = 1
	};
	keep_flipping(&message.msg_name, &names[0], &names[1], sizeof names[0]);
	while (race_goes_on())
		sendmsg(fd, &message, MSG_DONTWAIT);
	return DONE;
}

/* Whether the message has an address at all: without one it goes to the door. */
int attack_race_message_length(void)
{
	union address witness = V4("udp4");
	const socklen_t lengths[2] = { 0, sizeof witness.v4 };
	struct iovec data = { (char *)nonce(), strlen(nonce()) };
	static struct msghdr message;
	int fd = open_door(AF_INET, SOCK_DGRAM);
	message = (struct msghdr){ .msg_name = &witness, .msg_iov = &data, .msg_iovlen = 1 };
	keep_flipping(&message.msg_namelen, &lengths[0], &lengths[1], sizeof lengths[0]);
	while (race_goes_on())
		sendmsg(fd, &message, MSG_DONTWAIT);
	return DONE;
}

int attack_race_batch(void)
{
	enum { MESSAGES = 8 };
	union address door = V4("door-udp4"), witness = V4("udp4");
	struct iovec data = { (char *)nonce(), strlen(nonce()) };
	static struct mmsghdr batch[MESSAGES];
	int fd = UDP4();
	raced = door;
	for (int i = 0; i < MESSAGES; i++)
		batch[i].msg_hdr = (struct msghdr){
			.msg_name = &raced, .msg_namelen = sizeof raced.v4, .msg_iov = &data, .msg_iovlen = 1
		};
	keep_flipping(&raced, &door, &witness, sizeof raced.v4);
	while (race_goes_on())
		sendmmsg(fd, batch, MESSAGES, MSG_DONTWAIT);
	return DONE;
}

/* Whether the message has options: a source route by ELSEWHERE4. */
int attack_race_control(void)
{
	static struct {
		struct cmsghdr head;
		uint8_t option[8];
	} control = { .head = { .cmsg_len = CMSG_LEN(8), .cmsg_level = IPPROTO_IP, .cmsg_type = IP_RETOPTS },
		      .option = { 131, 7, 4 } };
	union address hop = v4(ELSEWHERE4, 0), door = V4("door-udp4");
	const size_t lengths[2] = { 0, sizeof control };
	struct iovec data = { (char *)nonce(), strlen(nonce()) };
	static struct msghdr message;
	int fd = UDP4();
	memcpy(control.option + 3, &hop.v4.sin_addr, 4);
	message = (struct msghdr){ .msg_name = &door,
				   .msg_namelen = sizeof door.v4,
				   .msg_iov = &data,
				   .msg_iovlen = 1,
				   .msg_control = &control };
	keep_flipping(&message.msg_controllen, &lengths[0], &lengths[1], sizeof lengths[0]);
	int why = 0;
	while (race_goes_on())
		if (sendmsg(fd, &message, MSG_DONTWAIT) < 0 && errno != EAGAIN)
			why = errno;
	errno = why;
	return why ? refused("sendmsg") : DONE;
}

/* ---- the address to listen at ---- */

static bool is_at(int fd, long port)
{
	union address own;
	socklen_t length = sizeof own;
	return !getsockname(fd, &own.any, &length) && own.v4.sin_port == htons(port);
}

int attack_race_bind(void)
{
	union address granted = V4("listen"), other = V4("other");
	raced = granted;
	keep_flipping(&raced, &granted, &other, sizeof raced.v4);
	while (race_goes_on()) {
		int fd = quick(AF_INET, SOCK_STREAM);
		set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
		bind(fd, &raced.any, sizeof raced.v4);
		if (is_at(fd, need_number("other")) && !listen(fd, 16))
			return serve(fd);
		close(fd);
	}
	return lost("bind");
}

/* ---- the descriptor ---- */

/* TCP or UDP: the grant is for UDP, at the port of a server of TCP. */
int attack_race_transport(void)
{
	union address to = V4("tcp4");
	while (race_goes_on()) {
		static bool began;
		int tcp = quick(AF_INET, SOCK_STREAM), udp = quick(AF_INET, SOCK_DGRAM);
		flipped[0] = tcp;
		flipped[1] = udp;
		if (!began)
			keep_flipping_descriptors(tcp, udp);
		began = true;
		connect_to(FLIPPED_FD, to);
		connect_to(FLIPPED_FD, to);
		if (reached(tcp, ntohs(to.v4.sin_port)))
			return DONE;
		close(tcp);
		close(udp);
	}
	return lost("connect");
}

/*
 * A local socket and a local address, then a socket of TCP and a witness: who lets calls on local
 * sockets pass must not let this one pass.
 */
static int race_local(int type, const char *witness_name, bool sends)
{
	union address path = local("/nowhere"), witness = V4(witness_name);
	int plain = quick(AF_UNIX, type), inet = quick(AF_INET, type);
	must(plain, "socket");
	must(inet, "socket");
	raced = path;
	keep_flipping(&raced, &path, &witness, sizeof raced.v4);
	keep_flipping_descriptors(plain, inet);
	while (race_goes_on())
		if (sends) {
			/* Nobody has the path: what was sent, was sent to the witness. */
			if (sendto(FLIPPED_FD, nonce(), strlen(nonce()), MSG_DONTWAIT, &raced.any, sizeof raced.v4) > 0)
				return DONE;
		} else if (!connect(FLIPPED_FD, &raced.any, sizeof raced.v4) || errno == EINPROGRESS)
			break;
	if (sends)
		return lost("sendto");
	return reached(inet, ntohs(witness.v4.sin_port)) ? DONE : lost("connect");
}

int attack_race_local_connect(void)
{
	return race_local(SOCK_STREAM, "tcp4", false);
}

int attack_race_local_datagram(void)
{
	return race_local(SOCK_DGRAM, "udp4", false);
}

int attack_race_local_send(void)
{
	return race_local(SOCK_DGRAM, "udp4", true);
}

/* A socket that is bound where it may, and one that is bound nowhere. */
int attack_race_listen(void)
{
	int granted = quick(AF_INET, SOCK_STREAM), unbound = quick(AF_INET, SOCK_STREAM), listens = 0;
	socklen_t length = sizeof listens;
	must(granted, "socket");
	must(unbound, "socket");
	must(bind_to(granted, V4("listen")), "bind");
	keep_flipping_descriptors(granted, unbound);
	while (race_goes_on() && !listens) {
		listen(FLIPPED_FD, 4);
		getsockopt(unbound, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length);
	}
	return listens ? held() : lost("listen");
}

/* One local, bound to a path of its own; the other of TCP, bound to a port that is not granted. */
int attack_race_local_bind(void)
{
	union address path = local(""), other = V4("other");
	path.local.sun_family = AF_UNIX;
	raced = path;
	while (race_goes_on()) {
		static bool began;
		int plain = quick(AF_UNIX, SOCK_STREAM), inet = quick(AF_INET, SOCK_STREAM);
		flipped[0] = plain;
		flipped[1] = inet;
		if (!began) {
			keep_flipping(&raced, &path, &other, sizeof raced.v4);
			keep_flipping_descriptors(plain, inet);
		}
		began = true;
		for (int i = 0; i < 8; i++)
			bind(FLIPPED_FD, &raced.any, sizeof raced.v4);
		if (is_at(inet, need_number("other")) && !listen(inet, 16))
			return serve(inet);
		close(plain);
		close(inet);
	}
	return lost("bind");
}

/* The number is closed and used anew while the call is under way. */
int attack_race_reused_number(void)
{
	union address door = V4("door-tcp4"), witness = V4("tcp4");
	raced = door;
	keep_flipping(&raced, &door, &witness, sizeof raced.v4);
	keep_flipping_descriptors(quick(AF_INET, SOCK_STREAM), quick(AF_INET6, SOCK_STREAM));
	while (race_goes_on()) {
		flipped[0] = quick(AF_INET, SOCK_STREAM);
		connect(FLIPPED_FD, &raced.any, sizeof raced.v4);
		if (reached(flipped[0], ntohs(witness.v4.sin_port)))
			return DONE;
		close(flipped[0]);
	}
	return lost("connect");
}
