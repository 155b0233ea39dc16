/*
 * Datagrams to a witness: each send may name another address. The policy grants a door, and with
 * it a socket that sends.
 */
#include "sockets.h"

#include <linux/udp.h>
#include <net/if.h>
#include <netinet/ip.h>

struct letter {
	union address to;
	struct iovec data;
	struct msghdr message;
};

/* The message that says `word` to `to`. */
static struct msghdr *write_letter(struct letter *letter, union address to, const char *word)
{
	letter->to = to;
	letter->data = (struct iovec){ (char *)word, strlen(word) };
	letter->message = (struct msghdr){ .msg_name = &letter->to,
					   .msg_namelen = size_of(&to),
					   .msg_iov = &letter->data,
					   .msg_iovlen = 1 };
	return &letter->message;
}

static int sent(ssize_t result, const char *call)
{
	must(result, call);
	return DONE;
}

static int send_letter(int fd, union address to)
{
	struct letter letter;
	return sent(sendmsg(fd, write_letter(&letter, to, nonce()), 0), "sendmsg");
}

/* To the door first, then to the witness, in one call. */
static int send_batch(int fd, union address to)
{
	static struct letter letters[2];
	union address door = to.any.sa_family == AF_INET ? V4("door-udp4") : V6("door-udp6");
	struct mmsghdr batch[] = {
		{ .msg_hdr = *write_letter(&letters[0], door, "knock") },
		{ .msg_hdr = *write_letter(&letters[1], to, nonce()) },
	};
	int count = sendmmsg(fd, batch, 2, 0);
	must(count, "sendmmsg");
	errno = EACCES;
	return count == 2 ? DONE : refused("the second of sendmmsg");
}

static int udp6(void)
{
	return open_socket(AF_INET6, SOCK_DGRAM, 0);
}

/* ---- a fresh socket ---- */

int attack_send_to4(void)
{
	return sent(send_to(UDP4(), V4("udp4"), 0), "sendto");
}

int attack_send_to6(void)
{
	return sent(send_to(udp6(), V6("udp6"), 0), "sendto");
}

int attack_send_to_mapped(void)
{
	return sent(send_to(udp6(), v6("::ffff:127.0.0.1", need_number("udp4")), 0), "sendto");
}

int attack_send_to_any(void)
{
	return sent(send_to(UDP4(), v4("0.0.0.0", need_number("udp4")), 0), "sendto");
}

int attack_send_to_any6(void)
{
	return sent(send_to(udp6(), v6("::", need_number("udp6")), 0), "sendto");
}

/* Port 53, which some walls let through to anywhere. */
int attack_send_to_resolver(void)
{
	need("dns");
	return sent(send_to(UDP4(), v4("127.0.0.53", 53), 0), "sendto");
}

int attack_send_message4(void)
{
	return send_letter(UDP4(), V4("udp4"));
}

int attack_send_message6(void)
{
	return send_letter(udp6(), V6("udp6"));
}

int attack_send_batch4(void)
{
	return send_batch(UDP4(), V4("udp4"));
}

int attack_send_batch6(void)
{
	return send_batch(udp6(), V6("udp6"));
}

/* ---- a socket that is connected to the door ---- */

int attack_send_past_door(void)
{
	return sent(send_to(open_door(AF_INET, SOCK_DGRAM), V4("udp4"), 0), "sendto");
}

int attack_send_past_door6(void)
{
	return sent(send_to(open_door(AF_INET6, SOCK_DGRAM), V6("udp6"), 0), "sendto");
}

int attack_message_past_door(void)
{
	return send_letter(open_door(AF_INET, SOCK_DGRAM), V4("udp4"));
}

int attack_batch_past_door(void)
{
	return send_batch(open_door(AF_INET, SOCK_DGRAM), V4("udp4"));
}

/* By a process that did not connect it. */
int attack_forked_past_door(void)
{
	int fd = open_door(AF_INET, SOCK_DGRAM), status;
	pid_t child = fork();
	if (child == 0)
		_exit(sent(send_to(fd, V4("udp4"), 0), "sendto"));
	waitpid(child, &status, 0);
	return WEXITSTATUS(status);
}

/* ---- a bound socket, which may answer whoever asks ---- */

int attack_send_from_bound(void)
{
	int fd = UDP4();
	must(bind_to(fd, V4("listen")), "bind");
	return sent(send_to(fd, V4("udp4"), 0), "sendto");
}

/* ---- families and lengths that the kernel forgives ---- */

int attack_send_unspec_family(void)
{
	union address to = V4("udp4");
	to.any.sa_family = AF_UNSPEC;
	return sent(send_to(UDP4(), to, 0), "sendto");
}

int attack_send_v4_on_v6(void)
{
	return sent(send_to(udp6(), V4("udp4"), 0), "sendto");
}

int attack_send_long_address(void)
{
	union address to = V4("udp4");
	return sent(sendto(UDP4(), nonce(), strlen(nonce()), 0, &to.any, sizeof to.storage), "sendto");
}

int attack_send_short_address(void)
{
	enum { SIN6_LEN_RFC2133 = 24 };
	union address to = V6("udp6");
	return sent(sendto(udp6(), nonce(), strlen(nonce()), 0, &to.any, SIN6_LEN_RFC2133), "sendto");
}

/* ---- corks: the address of the first send is that of the whole datagram ---- */

int attack_corked(void)
{
	int fd = UDP4();
	must(send_to(fd, V4("udp4"), MSG_MORE), "sendto with MSG_MORE");
	return sent(send_to(fd, V4("door-udp4"), 0), "sendto");
}

int attack_corked_by_option(void)
{
	int fd = UDP4();
	set(fd, IPPROTO_UDP, UDP_CORK, 1);
	must(send_to(fd, V4("udp4"), 0), "sendto");
	set(fd, IPPROTO_UDP, UDP_CORK, 0);
	return DONE;
}

/* Corked for the witness, then connected to the door. */
int attack_corked_past_door(void)
{
	int fd = open_door(AF_INET, SOCK_DGRAM);
	must(send_to(fd, V4("udp4"), MSG_MORE), "sendto with MSG_MORE");
	return say(fd);
}

int attack_segmented(void)
{
	struct letter letter;
	char space[CMSG_SPACE(sizeof(uint16_t))] = "";
	uint16_t size = 64;
	struct msghdr *message = write_letter(&letter, V4("udp4"), nonce());
	message->msg_control = space;
	message->msg_controllen = sizeof space;
	*CMSG_FIRSTHDR(message) = (struct cmsghdr){
		.cmsg_len = CMSG_LEN(sizeof size), .cmsg_level = IPPROTO_UDP, .cmsg_type = UDP_SEGMENT
	};
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(message)), &size, sizeof size);
	return sent(sendmsg(UDP4(), message, 0), "sendmsg with UDP_SEGMENT");
}

int attack_zero_copy(void)
{
	struct letter letter;
	int fd = UDP4();
	set(fd, SOL_SOCKET, SO_ZEROCOPY, 1);
	return sent(sendmsg(fd, write_letter(&letter, V4("udp4"), nonce()), MSG_ZEROCOPY), "sendmsg with MSG_ZEROCOPY");
}

/* ---- groups and broadcasts: everybody near hears them, and that somebody joined ---- */

#define GROUP4 "239.1.2.3"
#define GROUP6 "ff12::1234"

int attack_multicast4(void)
{
	return sent(send_to(UDP4(), v4(GROUP4, 5353), 0), "sendto");
}

int attack_multicast6(void)
{
	return sent(send_to(udp6(), v6(GROUP6, 5353), 0), "sendto");
}

int attack_multicast_connect(void)
{
	return say_to(UDP4(), v4(GROUP4, 5353));
}

int attack_broadcast(void)
{
	int fd = UDP4();
	set(fd, SOL_SOCKET, SO_BROADCAST, 1);
	return sent(send_to(fd, v4("127.255.255.255", need_number("udp-any")), 0), "sendto");
}

int attack_broadcast_all(void)
{
	int fd = UDP4();
	set(fd, SOL_SOCKET, SO_BROADCAST, 1);
	must(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3), "SO_BINDTODEVICE");
	return sent(send_to(fd, v4("255.255.255.255", need_number("udp-any")), 0), "sendto");
}

int attack_join_group4(void)
{
	int fd = open_door(AF_INET, SOCK_DGRAM);
	struct ip_mreqn group = { .imr_multiaddr = v4(GROUP4, 0).v4.sin_addr, .imr_ifindex = 1 };
	must(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group), "IP_ADD_MEMBERSHIP");
	return held();
}

int attack_join_group6(void)
{
	int fd = open_door(AF_INET6, SOCK_DGRAM);
	struct ipv6_mreq group = { .ipv6mr_multiaddr = v6(GROUP6, 0).v6.sin6_addr, .ipv6mr_interface = 1 };
	must(setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof group), "IPV6_JOIN_GROUP");
	return held();
}

int attack_join_any_group(void)
{
	int fd = open_door(AF_INET, SOCK_DGRAM);
	struct group_req group = { .gr_interface = 1, .gr_group = v4(GROUP4, 0).storage };
	must(setsockopt(fd, IPPROTO_IP, MCAST_JOIN_GROUP, &group, sizeof group), "MCAST_JOIN_GROUP");
	return held();
}

int attack_join_source(void)
{
	int fd = open_door(AF_INET, SOCK_DGRAM);
	struct group_source_req group = { .gsr_interface = 1,
					  .gsr_group = v4(GROUP4, 0).storage,
					  .gsr_source = v4(ELSEWHERE4, 0).storage };
	must(setsockopt(fd, IPPROTO_IP, MCAST_JOIN_SOURCE_GROUP, &group, sizeof group), "MCAST_JOIN_SOURCE_GROUP");
	return held();
}
