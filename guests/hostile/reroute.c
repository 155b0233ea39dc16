/*
 * A socket that is connected where it may, and packets that go elsewhere: options of IP name the
 * host that a packet is sent to first. The suite looks for packets to ELSEWHERE4 and ELSEWHERE6;
 * that host need not pass them on.
 */
#include "sockets.h"

#include <netinet/ip.h>
#include <stddef.h>

enum { LOOSE = 131, STRICT = 137, POINTER = 4 };

struct source_route {
	uint8_t kind, length, pointer;
	uint32_t hops[1];
	uint8_t end;
} __attribute__((packed));

static struct source_route by_elsewhere(uint8_t kind)
{
	return (struct source_route){ .kind = kind,
				      .length = offsetof(struct source_route, end),
				      .pointer = POINTER,
				      .hops = { v4(ELSEWHERE4, 0).v4.sin_addr.s_addr } };
}

static void route(int fd, uint8_t kind)
{
	struct source_route option = by_elsewhere(kind);
	must(setsockopt(fd, IPPROTO_IP, IP_OPTIONS, &option, sizeof option), "IP_OPTIONS");
}

/* A connection that nobody answers is no failure: its first packet was sent. */
static int begun(int result)
{
	if (result && errno != EINPROGRESS && errno != EAGAIN)
		return refused("connect");
	return DONE;
}

static int connect_tcp(int fd, union address to)
{
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return begun(connect_to(fd, to));
}

int attack_loose_route(void)
{
	int fd = open_door(AF_INET, SOCK_DGRAM);
	route(fd, LOOSE);
	return say(fd);
}

int attack_strict_route(void)
{
	int fd = open_door(AF_INET, SOCK_DGRAM);
	route(fd, STRICT);
	return say(fd);
}

/* The option first, the connect after it. */
int attack_route_before_connect(void)
{
	int fd = UDP4();
	route(fd, LOOSE);
	return say_to(fd, V4("door-udp4"));
}

int attack_route_tcp(void)
{
	int fd = TCP4();
	route(fd, LOOSE);
	return connect_tcp(fd, V4("door-tcp4"));
}

/* A socket of IPv6 that speaks IPv4 has the options of IPv4. */
int attack_route_mapped(void)
{
	int fd = open_socket(AF_INET6, SOCK_STREAM, 0);
	route(fd, LOOSE);
	return connect_tcp(fd, v6("::ffff:127.0.0.1", need_number("door-tcp4")));
}

/* Options that come with one message, on a socket that is connected. */
static struct msghdr *routed(void)
{
	static char space[CMSG_SPACE(sizeof(struct source_route))];
	static struct iovec data;
	static struct msghdr message;
	struct source_route option = by_elsewhere(LOOSE);
	data = (struct iovec){ (char *)nonce(), strlen(nonce()) };
	message = (struct msghdr){
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space
	};
	*CMSG_FIRSTHDR(&message) = (struct cmsghdr){
		.cmsg_len = CMSG_LEN(sizeof option), .cmsg_level = IPPROTO_IP, .cmsg_type = IP_RETOPTS
	};
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &option, sizeof option);
	return &message;
}

int attack_route_message(void)
{
	must(sendmsg(open_door(AF_INET, SOCK_DGRAM), routed(), 0), "sendmsg");
	return DONE;
}

int attack_route_batch(void)
{
	struct mmsghdr batch = { .msg_hdr = *routed() };
	must(sendmmsg(open_door(AF_INET, SOCK_DGRAM), &batch, 1, 0), "sendmmsg");
	return DONE;
}

/* With the door's address in the message, too. */
int attack_route_addressed_message(void)
{
	union address door = V4("door-udp4");
	struct msghdr *message = routed();
	message->msg_name = &door;
	message->msg_namelen = sizeof door.v4;
	must(sendmsg(UDP4(), message, 0), "sendmsg");
	return DONE;
}

/* The second message of a batch, where a look at the first would not find it. */
int attack_route_second_message(void)
{
	struct mmsghdr batch[2] = { { .msg_hdr = *routed() }, { .msg_hdr = *routed() } };
	batch[0].msg_hdr.msg_controllen = 0;
	int count = sendmmsg(open_door(AF_INET, SOCK_DGRAM), batch, 2, 0);
	must(count, "sendmmsg");
	errno = EPERM;
	return count == 2 ? DONE : refused("the second of sendmmsg");
}

/* ---- IPv6: a segment routing header (RFC 8754) needs no privilege ---- */

struct segments {
	uint8_t next, length, type, left, last, flags;
	uint16_t tag;
	struct in6_addr list[2]; /* backwards: the last hop first */
} __attribute__((packed));

static void route6(int fd, union address door)
{
	enum { SEGMENT_ROUTING = 4 };
	struct segments header = { .length = (sizeof header - 8) / 8, .type = SEGMENT_ROUTING, .left = 1, .last = 1 };
	header.list[0] = door.v6.sin6_addr;
	header.list[1] = v6(ELSEWHERE6, 0).v6.sin6_addr;
	must(setsockopt(fd, IPPROTO_IPV6, IPV6_RTHDR, &header, sizeof header), "IPV6_RTHDR");
}

int attack_segments_udp(void)
{
	int fd = open_door(AF_INET6, SOCK_DGRAM);
	route6(fd, V6("door-udp6"));
	/* The route of a connected socket is kept; a new connect looks for another. */
	return say_to(fd, V6("door-udp6"));
}

int attack_segments_tcp(void)
{
	int fd = open_socket(AF_INET6, SOCK_STREAM, 0);
	route6(fd, V6("door-tcp6"));
	return connect_tcp(fd, V6("door-tcp6"));
}

int attack_segments_send(void)
{
	int fd = open_socket(AF_INET6, SOCK_DGRAM, 0);
	route6(fd, V6("door-udp6"));
	must(send_to(fd, V6("door-udp6"), 0), "sendto");
	return DONE;
}

/* Every option at once, as RFC 2292 had it. */
int attack_packet_options(void)
{
	struct {
		struct cmsghdr head;
		struct segments route;
	} options = { .head = { .cmsg_len = CMSG_LEN(sizeof(struct segments)),
				.cmsg_level = IPPROTO_IPV6,
				.cmsg_type = IPV6_2292RTHDR },
		      .route = { .length = 4, .type = 4, .left = 1, .last = 1 } };
	int fd = open_door(AF_INET6, SOCK_DGRAM);
	options.route.list[0] = V6("door-udp6").v6.sin6_addr;
	options.route.list[1] = v6(ELSEWHERE6, 0).v6.sin6_addr;
	must(setsockopt(fd, IPPROTO_IPV6, IPV6_2292PKTOPTIONS, &options, sizeof options), "IPV6_2292PKTOPTIONS");
	return say_to(fd, V6("door-udp6"));
}

static int send_routing_header(int type)
{
	static char space[CMSG_SPACE(sizeof(struct segments))];
	union address door = V6("door-udp6");
	struct iovec data = { (char *)nonce(), strlen(nonce()) };
	struct msghdr message = { .msg_name = &door, .msg_namelen = sizeof door.v6, .msg_iov = &data,
				  .msg_iovlen = 1,   .msg_control = space,	     .msg_controllen = sizeof space };
	struct segments header = { .length = 4, .type = 4, .left = 1, .last = 1 };
	header.list[0] = door.v6.sin6_addr;
	header.list[1] = v6(ELSEWHERE6, 0).v6.sin6_addr;
	*CMSG_FIRSTHDR(&message) = (struct cmsghdr){
		.cmsg_len = CMSG_LEN(sizeof header), .cmsg_level = IPPROTO_IPV6, .cmsg_type = type
	};
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &header, sizeof header);
	must(sendmsg(open_socket(AF_INET6, SOCK_DGRAM, 0), &message, 0), "sendmsg");
	return DONE;
}

/* Linux takes mobility's routing header only this way, and not every kernel has it. */
int attack_routing_header_message(void)
{
	return send_routing_header(IPV6_RTHDR);
}

int attack_routing_header_2292(void)
{
	return send_routing_header(IPV6_2292RTHDR);
}

/* ---- the link that a packet leaves by: a group may be granted, and the host's routes say by which ---- */

/* It has no address, so that one has to be said where the kernel would look for one. */
enum { SECOND_LINK = 77 };
#define GROUP4 "239.1.2.3"
#define GROUP6 "ff15::1234"

int attack_group_interface4(void)
{
	int fd = UDP4();
	struct ip_mreqn beside = { .imr_ifindex = SECOND_LINK };
	must(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &beside, sizeof beside), "IP_MULTICAST_IF");
	must(send_to(fd, v4(GROUP4, 5353), 0), "sendto");
	return DONE;
}

int attack_group_interface6(void)
{
	int fd = open_socket(AF_INET6, SOCK_DGRAM, 0);
	must(bind_to(fd, v6(ELSEWHERE6, 0)), "bind");
	set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, SECOND_LINK);
	must(send_to(fd, v6(GROUP6, 5353), 0), "sendto");
	return DONE;
}

int attack_packet_interface6(void)
{
	int fd = open_socket(AF_INET6, SOCK_DGRAM, 0);
	struct in6_pktinfo beside = { v6(ELSEWHERE6, 0).v6.sin6_addr, SECOND_LINK };
	must(bind_to(fd, v6(ELSEWHERE6, 0)), "bind");
	must(setsockopt(fd, IPPROTO_IPV6, IPV6_PKTINFO, &beside, sizeof beside), "IPV6_PKTINFO");
	must(send_to(fd, v6(GROUP6, 5353), 0), "sendto");
	return DONE;
}

static int send_beside(int fd, union address to, int level, int type, const void *info, size_t length)
{
	char space[CMSG_SPACE(sizeof(struct in6_pktinfo))] = "";
	struct iovec data = { (char *)nonce(), strlen(nonce()) };
	struct msghdr message = { .msg_name = &to,     .msg_namelen = size_of(&to), .msg_iov = &data,
				  .msg_iovlen = 1,     .msg_control = space,	    .msg_controllen = CMSG_SPACE(length) };
	*CMSG_FIRSTHDR(&message) = (struct cmsghdr){
		.cmsg_len = CMSG_LEN(length), .cmsg_level = level, .cmsg_type = type
	};
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), info, length);
	must(sendmsg(fd, &message, 0), "sendmsg");
	return DONE;
}

int attack_message_interface4(void)
{
	struct in_pktinfo beside = { .ipi_ifindex = SECOND_LINK };
	return send_beside(UDP4(), v4(GROUP4, 5353), IPPROTO_IP, IP_PKTINFO, &beside, sizeof beside);
}

int attack_message_interface6(void)
{
	struct in6_pktinfo beside = { v6(ELSEWHERE6, 0).v6.sin6_addr, SECOND_LINK };
	int fd = open_socket(AF_INET6, SOCK_DGRAM, 0);
	return send_beside(fd, v6(GROUP6, 5353), IPPROTO_IPV6, IPV6_PKTINFO, &beside, sizeof beside);
}
