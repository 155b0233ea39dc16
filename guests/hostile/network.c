/* Network: deliver the nonce to a server of the suite, or hold a socket that could. */
#include "sockets.h"

#include <net/if.h>
#include <sys/ioctl.h>

int attack_tcp4(void)
{
	return deliver(v4("127.0.0.1", need_number("tcp4")), SOCK_STREAM, 0);
}

int attack_tcp6(void)
{
	return deliver(v6("::1", need_number("tcp6")), SOCK_STREAM, 0);
}

int attack_tcp4_mapped(void)
{
	return deliver(v6("::ffff:127.0.0.1", need_number("tcp4")), SOCK_STREAM, 0);
}

int attack_udp4(void)
{
	return deliver(v4("127.0.0.1", need_number("udp4")), SOCK_DGRAM, 0);
}

int attack_udp6(void)
{
	return deliver(v6("::1", need_number("udp6")), SOCK_DGRAM, 0);
}

/* Some walls let port 53 through to anywhere. */
int attack_udp_dns(void)
{
	return deliver(v4("127.0.0.53", 53), SOCK_DGRAM, 0);
}

/* Landlock's TCP rules look at IPPROTO_TCP alone. */
int attack_mptcp(void)
{
	return deliver(v4("127.0.0.1", need_number("tcp4")), SOCK_STREAM, IPPROTO_MPTCP);
}

/* A connection without connect(2). */
int attack_tcp_fastopen(void)
{
	union address to = v4("127.0.0.1", need_number("tcp4"));
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return refused("socket");
	if (sendto(fd, nonce(), strlen(nonce()), MSG_FASTOPEN, &to.any, sizeof to.v4) < 0)
		return refused("sendto");
	usleep(50000); /* the data may travel after the handshake only */
	return DONE;
}

/* A checked address first, then another over the same socket. */
int attack_reconnect_unspec(void)
{
	union address nowhere = { .any.sa_family = AF_UNSPEC };
	union address first = v4("127.0.0.1", 9), second = v4("127.0.0.1", need_number("udp4"));
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return refused("socket");
	connect(fd, &first.any, sizeof first.v4);
	connect(fd, &nowhere.any, sizeof nowhere.v4);
	if (connect(fd, &second.any, sizeof second.v4))
		return refused("connect");
	return write(fd, nonce(), strlen(nonce())) > 0 ? DONE : refused("write");
}

/* 0.0.0.0 means this host. */
int attack_any_address(void)
{
	return deliver(v4("0.0.0.0", need_number("tcp4")), SOCK_STREAM, 0);
}

static int hold_socket(int type, int protocol)
{
	return socket(AF_INET, type | SOCK_CLOEXEC, protocol) < 0 ? refused("socket") : held();
}

int attack_ping_socket(void)
{
	return hold_socket(SOCK_DGRAM, IPPROTO_ICMP);
}

int attack_raw_socket(void)
{
	return hold_socket(SOCK_RAW, IPPROTO_ICMP);
}

int attack_udplite(void)
{
	return hold_socket(SOCK_DGRAM, IPPROTO_UDPLITE);
}

int attack_sctp(void)
{
	return hold_socket(SOCK_STREAM, IPPROTO_SCTP);
}

/* listen(2) without bind(2) takes a free port, past a check on bind. */
int attack_listen_autobind(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return refused("socket");
	return listen(fd, 1) ? refused("listen") : held();
}

/* Names and addresses of interfaces: any socket will do to ask. */
int attack_interfaces(void)
{
	static struct ifreq found[16];
	struct ifconf all = { .ifc_len = sizeof found, .ifc_req = found };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return refused("socket");
	if (ioctl(fd, SIOCGIFCONF, &all))
		return refused("SIOCGIFCONF");
	size_t count = (size_t)all.ifc_len / sizeof *found;
	for (size_t i = 0; i < count; i++)
		printf("interface %s\n", found[i].ifr_name);
	errno = ENODEV;
	return count ? DONE : refused("SIOCGIFCONF");
}
