/*
 * Protocols beside TCP and UDP, and what a socket of the host's network tells or changes besides
 * carrying bytes: its interfaces, their addresses, other sockets.
 */
#include "sockets.h"

#include <linux/sock_diag.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <net/route.h>
#include <sys/ioctl.h>

#ifndef IPPROTO_SMC
#define IPPROTO_SMC 256
#endif

/* ---- delivered by another protocol ---- */

int attack_mptcp6(void)
{
	return deliver(V6("tcp6"), SOCK_STREAM, IPPROTO_MPTCP);
}

int attack_mptcp_mapped(void)
{
	return deliver(v6("::ffff:127.0.0.1", need_number("tcp4")), SOCK_STREAM, IPPROTO_MPTCP);
}

/* To the door, even: the grant says TCP. */
int attack_mptcp_to_door(void)
{
	int fd = open_socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP);
	must(connect_to(fd, V4("door-tcp4")), "connect");
	return held();
}

int attack_smc_protocol(void)
{
	return deliver(V4("tcp4"), SOCK_STREAM, IPPROTO_SMC);
}

int attack_udplite_send(void)
{
	return deliver(V4("udplite4"), SOCK_DGRAM, IPPROTO_UDPLITE);
}

/* Other protocols than the two, whatever they are called. */
int attack_every_protocol(void)
{
	static const int families[] = { AF_INET, AF_INET6 };
	enum { PROTOCOLS = 264, TYPES = 11 };
	for (int i = 0; i < 2; i++)
		for (int type = 0; type < TYPES; type++)
			for (int protocol = 0; protocol < PROTOCOLS; protocol++)
				socket(families[i], type | SOCK_CLOEXEC, protocol);
	return held();
}

/* Every family that this kernel may know, and some to come. */
int attack_every_family(void)
{
	enum { FAMILIES = 64, TYPES = 11 };
	for (int family = 0; family < FAMILIES; family++)
		for (int type = 0; type < TYPES && family != AF_INET && family != AF_INET6; type++)
			socket(family, type | SOCK_CLOEXEC, 0);
	return held();
}

/* The protocol is written by hand. */
int attack_raw_datagram(void)
{
	struct {
		uint16_t source, destination, length, checksum;
		char word[64];
	} datagram = { .source = htons(9), .destination = htons(need_number("udp4")) };
	int fd = open_socket(AF_INET, SOCK_RAW, IPPROTO_UDP);
	union address to = v4("127.0.0.1", 0);
	snprintf(datagram.word, sizeof datagram.word, "%s", nonce());
	datagram.length = htons(sizeof datagram);
	must(sendto(fd, &datagram, sizeof datagram, 0, &to.any, sizeof to.v4), "sendto");
	return DONE;
}

/* A ping carries data as well. */
int attack_ping_elsewhere(void)
{
	struct {
		uint8_t type, code;
		uint16_t checksum, id, sequence;
		char word[64];
	} echo = { .type = 8 };
	int fd = open_socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
	union address to = v4(ELSEWHERE4, 0);
	must(sendto(fd, &echo, sizeof echo, 0, &to.any, sizeof to.v4), "sendto");
	return DONE;
}

/* ---- a granted socket that becomes another ---- */

static int upgraded(const char *name)
{
	int fd = open_door(AF_INET, SOCK_STREAM);
	must(setsockopt(fd, IPPROTO_TCP, 31 /* TCP_ULP */, name, strlen(name)), "TCP_ULP");
	printf("reached %s TCP_ULP: %s\n", nonce(), name);
	return DONE;
}

int attack_upgrade_smc(void)
{
	return upgraded("smc");
}

int attack_upgrade_esp(void)
{
	return upgraded("espintcp");
}

int attack_upgrade_tls(void)
{
	return upgraded("tls");
}

/* ---- what a socket of the host's network tells ---- */

int attack_host_addresses(void)
{
	static struct ifreq found[32];
	struct ifconf all = { .ifc_len = sizeof found, .ifc_req = found };
	must(ioctl(open_door(AF_INET, SOCK_STREAM), SIOCGIFCONF, &all), "SIOCGIFCONF");
	for (size_t i = 0; i < (size_t)all.ifc_len / sizeof *found; i++)
		printf("address %s\n", inet_ntoa(((struct sockaddr_in *)&found[i].ifr_addr)->sin_addr));
	return DONE;
}

int attack_host_address(void)
{
	struct ifreq alias = { .ifr_name = "lo:2", .ifr_addr.sa_family = AF_INET };
	must(ioctl(open_door(AF_INET, SOCK_STREAM), SIOCGIFADDR, &alias), "SIOCGIFADDR");
	printf("address %s\n", inet_ntoa(((struct sockaddr_in *)&alias.ifr_addr)->sin_addr));
	return DONE;
}

int attack_host_arp(void)
{
	struct arpreq entry = { .arp_pa = v4("127.0.0.1", 0).any, .arp_dev = "lo" };
	int result = ioctl(open_door(AF_INET, SOCK_STREAM), SIOCGARP, &entry);
	return attest("SIOCGARP", result);
}

int attack_host_flags(void)
{
	struct ifreq loopback = { .ifr_name = "lo" };
	return attest("SIOCGIFFLAGS", ioctl(open_door(AF_INET, SOCK_STREAM), SIOCGIFFLAGS, &loopback));
}

/* Changes, as root alone could make them. */
int attack_host_address_set(void)
{
	struct ifreq alias = { .ifr_name = "lo:7" };
	union address added = v4("203.0.113.7", 0);
	memcpy(&alias.ifr_addr, &added.v4, sizeof added.v4);
	must(ioctl(open_door(AF_INET, SOCK_STREAM), SIOCSIFADDR, &alias), "SIOCSIFADDR");
	return DONE;
}

int attack_host_route_set(void)
{
	struct rtentry entry = { .rt_flags = RTF_UP | RTF_HOST, .rt_dev = "lo" };
	entry.rt_dst = v4("203.0.113.8", 0).any;
	entry.rt_genmask = v4("255.255.255.255", 0).any;
	must(ioctl(open_door(AF_INET, SOCK_STREAM), SIOCADDRT, &entry), "SIOCADDRT");
	return DONE;
}

/* The name of a network namespace that the socket belongs to, as a descriptor: SIOCGSKNS. */
int attack_host_namespace(void)
{
	return attest("SIOCGSKNS", ioctl(open_door(AF_INET, SOCK_STREAM), 0x894C /* SIOCGSKNS */));
}

/* Every socket of the host with its owner, from the kernel itself. */
int attack_socket_list(void)
{
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 body;
	} ask = { .head = { .nlmsg_len = sizeof ask,
			    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			    .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		  .body = { .sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP, .idiag_states = -1 } };
	char answer[8192];
	int fd = open_socket(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG);
	must(send(fd, &ask, sizeof ask, 0), "send");
	ssize_t length = recv(fd, answer, sizeof answer, 0);
	must(length, "recv");
	for (struct nlmsghdr *each = (void *)answer; NLMSG_OK(each, length); each = NLMSG_NEXT(each, length)) {
		struct inet_diag_msg *about = NLMSG_DATA(each);
		if (each->nlmsg_type == SOCK_DIAG_BY_FAMILY)
			printf("socket at %d\n", ntohs(about->id.idiag_sport));
	}
	return DONE;
}

/* The same list as a file. */
int attack_socket_table(void)
{
	char line[512];
	unsigned port;
	FILE *table = fopen("/proc/net/tcp", "re");
	if (!table)
		return refused("/proc/net/tcp");
	while (fgets(line, sizeof line, table))
		if (sscanf(line, "%*s %*8x:%4x", &port) == 1)
			printf("socket at %u\n", port);
	return DONE;
}
