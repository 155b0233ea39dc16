/*
 * Two guests that work together. One was granted the network, the other something else or nothing, and
 * both were granted a folder where they may make sockets. Over such a socket the first passes what it
 * has to the second, by SCM_RIGHTS, and the second does with it what it was never granted.
 *
 * The suite starts the first beforehand, with `role=giver`: it says "held" once it can be asked.
 */
#include "sockets.h"

#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>

static union address meeting_place(void)
{
	return local(PATH_OF("%s/run/meeting", need("scratch")));
}

/* ---- the giver ---- */

static int pass(int through, int fd)
{
	char space[CMSG_SPACE(sizeof fd)] = "", byte = '.';
	struct iovec data = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space
	};
	*CMSG_FIRSTHDR(&message) = (struct cmsghdr){
		.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS
	};
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &fd, sizeof fd);
	return (int)sendmsg(through, &message, MSG_NOSIGNAL);
}

/* Makes one of these for everybody who asks, until the suite has seen enough. */
static _Noreturn void give(int (*make)(void))
{
	int meeting = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (meeting < 0 || bind_to(meeting, meeting_place()) || listen(meeting, 4))
		unready("the meeting place");
	if (write(STDOUT_FILENO, "held\n", 5) != 5)
		unready("write held");
	for (;;) {
		int taker = accept4(meeting, NULL, NULL, SOCK_CLOEXEC), given = make();
		if (pass(taker, given) < 0)
			refused("sendmsg with SCM_RIGHTS");
		close(given);
		close(taker);
	}
}

static int fresh_stream(void)
{
	return TCP4();
}

static int fresh_datagrams(void)
{
	return UDP4();
}

static int connected_stream(void)
{
	return open_door(AF_INET, SOCK_STREAM);
}

static int connected_stream6(void)
{
	return open_door(AF_INET6, SOCK_STREAM);
}

static int connected_datagrams(void)
{
	return open_door(AF_INET, SOCK_DGRAM);
}

/* ---- the taker ---- */

/* What the other guest gives; whoever is the other guest does not come back. */
static int taken(int (*make)(void))
{
	if (argument("role"))
		give(make);
	int fd = -1, meeting = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char space[CMSG_SPACE(sizeof fd)] = "", byte;
	struct iovec data = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space
	};
	must(connect_to(meeting, meeting_place()), "connect to the other guest");
	must(recvmsg(meeting, &message, MSG_CMSG_CLOEXEC), "recvmsg");
	struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
	errno = ENODATA;
	must(rights ? 0 : -1, "nothing was passed on");
	memcpy(&fd, CMSG_DATA(rights), sizeof fd);
	close(meeting);
	return fd;
}

static int disconnected(int fd)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	must(connect(fd, &none, sizeof none), "connect to AF_UNSPEC");
	return fd;
}

/* A program connects where there is no Fast Open. The data may travel after the handshake only. */
static int sent_or_connected(int fd, union address to, ssize_t sent, const char *call)
{
	if (sent < 0 && errno == EOPNOTSUPP)
		return say_to(fd, to);
	must(sent, call);
	usleep(50000);
	return DONE;
}

static struct msghdr message_to(union address *to, struct iovec *data)
{
	*data = (struct iovec){ (char *)nonce(), strlen(nonce()) };
	return (struct msghdr){ .msg_name = to, .msg_namelen = size_of(to), .msg_iov = data, .msg_iovlen = 1 };
}

int attack_passed_stream(void)
{
	return say_to(taken(fresh_stream), V4("tcp4"));
}

int attack_passed_fast_open(void)
{
	int fd = taken(fresh_stream);
	return sent_or_connected(fd, V4("tcp4"), send_to(fd, V4("tcp4"), MSG_FASTOPEN), "sendto");
}

int attack_passed_fast_open_message(void)
{
	struct iovec data;
	int fd = taken(fresh_stream);
	union address to = V4("tcp4");
	struct msghdr message = message_to(&to, &data);
	return sent_or_connected(fd, to, sendmsg(fd, &message, MSG_FASTOPEN), "sendmsg");
}

int attack_passed_fast_open_batch(void)
{
	struct iovec data;
	int fd = taken(fresh_stream);
	union address to = V4("tcp4");
	struct mmsghdr batch = { .msg_hdr = message_to(&to, &data) };
	return sent_or_connected(fd, to, sendmmsg(fd, &batch, 1, MSG_FASTOPEN), "sendmmsg");
}

/* connect(2) only remembers; the first write connects. */
int attack_passed_fast_open_connect(void)
{
	int fd = taken(fresh_stream), one = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &one, sizeof one);
	return say_to(fd, V4("tcp4"));
}

/* A connection to where the giver may, led elsewhere. */
int attack_passed_reconnect(void)
{
	int fd = disconnected(taken(connected_stream));
	return sent_or_connected(fd, V4("tcp4"), send_to(fd, V4("tcp4"), MSG_FASTOPEN), "sendto");
}

int attack_passed_datagrams(void)
{
	must(send_to(taken(fresh_datagrams), V4("udp4"), 0), "sendto");
	return DONE;
}

int attack_passed_datagrams_message(void)
{
	struct iovec data;
	union address to = V4("udp4");
	struct msghdr message = message_to(&to, &data);
	must(sendmsg(taken(fresh_datagrams), &message, 0), "sendmsg");
	return DONE;
}

int attack_passed_datagrams_batch(void)
{
	struct iovec data;
	union address to = V4("udp4");
	struct mmsghdr batch = { .msg_hdr = message_to(&to, &data) };
	must(sendmmsg(taken(fresh_datagrams), &batch, 1, 0), "sendmmsg");
	return DONE;
}

int attack_passed_datagrams_reconnect(void)
{
	return say_to(taken(connected_datagrams), V4("udp4"));
}

/* The kernel picks the port. */
int attack_passed_listens(void)
{
	must(listen(taken(fresh_stream), 1), "listen");
	return held();
}

int attack_passed_binds(void)
{
	int fd = taken(fresh_stream);
	must(bind_to(fd, V4("other")), "bind");
	must(listen(fd, 1), "listen");
	return held();
}

/* What is said on a connection goes by another host (RFC 8754). */
int attack_passed_option(void)
{
	struct {
		uint8_t next, length, type, left, last, flags;
		uint16_t tag;
		struct in6_addr list[2];
	} header = { .length = 4, .type = 4, .left = 1, .last = 1 };
	int fd = taken(connected_stream6);
	header.list[0] = v6("::1", 0).v6.sin6_addr;
	header.list[1] = v6(ELSEWHERE6, 0).v6.sin6_addr;
	must(setsockopt(fd, IPPROTO_IPV6, IPV6_RTHDR, &header, sizeof header), "IPV6_RTHDR");
	return say(fd);
}

int attack_passed_tells_addresses(void)
{
	static struct ifreq found[32];
	struct ifconf all = { .ifc_len = sizeof found, .ifc_req = found };
	must(ioctl(taken(fresh_stream), SIOCGIFCONF, &all), "SIOCGIFCONF");
	for (size_t i = 0; i < (size_t)all.ifc_len / sizeof *found; i++)
		printf("address %s\n", inet_ntoa(((struct sockaddr_in *)&found[i].ifr_addr)->sin_addr));
	return DONE;
}
