/*
 * Being reached from outside the domain. The policy grants the port `listen` at 127.0.0.1; the
 * suite tries to reach a server of the guest at another port, or through another address.
 */
#include "sockets.h"

#include <netinet/ip.h>

static int listen_at(int fd, union address at)
{
	set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	must(bind_to(fd, at), "bind");
	must(listen(fd, 16), "listen");
	return serve(fd);
}

static int tcp6_only(int only)
{
	int fd = open_socket(AF_INET6, SOCK_STREAM, 0);
	set(fd, IPPROTO_IPV6, IPV6_V6ONLY, only);
	return fd;
}

/* ---- another port ---- */

int attack_listen_other_port(void)
{
	return listen_at(TCP4(), V4("other"));
}

int attack_listen_other_port6(void)
{
	return listen_at(tcp6_only(1), V6("other"));
}

int attack_listen_other_mapped(void)
{
	return listen_at(tcp6_only(0), v6("::ffff:127.0.0.1", need_number("other")));
}

int attack_listen_long_address(void)
{
	union address at = V4("other");
	int fd = TCP4();
	must(bind(fd, &at.any, sizeof at.storage), "bind");
	must(listen(fd, 16), "listen");
	return serve(fd);
}

/* bind(2) takes the family AF_UNSPEC for IPv4, where the address is the wildcard. */
int attack_bind_unspec_family(void)
{
	union address at = v4("0.0.0.0", need_number("other"));
	at.any.sa_family = AF_UNSPEC;
	return listen_at(TCP4(), at);
}

int attack_answer_datagrams(void)
{
	int fd = UDP4();
	must(bind_to(fd, V4("other")), "bind");
	return serve(fd);
}

int attack_answer_datagrams6(void)
{
	int fd = open_socket(AF_INET6, SOCK_DGRAM, 0);
	must(bind_to(fd, V6("other")), "bind");
	return serve(fd);
}

/* A grant to listen with one transport, used with the other. */
int attack_listen_other_transport(void)
{
	int fd = UDP4();
	must(bind_to(fd, V4("other")), "bind");
	return serve(fd);
}

/* ---- the granted port, at another address ---- */

int attack_listen_other_address(void)
{
	return listen_at(TCP4(), v4("127.0.0.2", need_number("listen")));
}

int attack_listen_everywhere(void)
{
	return listen_at(TCP4(), v4("0.0.0.0", need_number("listen")));
}

int attack_listen_everywhere6(void)
{
	return listen_at(tcp6_only(0), v6("::", need_number("listen")));
}

int attack_listen_everywhere_mapped(void)
{
	return listen_at(tcp6_only(0), v6("::ffff:0.0.0.0", need_number("listen")));
}

/* At the wildcard of IPv6 alone, where a port of IPv4 was granted. */
int attack_listen_v6_only(void)
{
	return listen_at(tcp6_only(1), v6("::", need_number("listen")));
}

int attack_answer_everywhere(void)
{
	int fd = UDP4();
	must(bind_to(fd, v4("0.0.0.0", need_number("listen"))), "bind");
	return serve(fd);
}

/* ---- listen without an address that was checked ---- */

int attack_listen_autobind6(void)
{
	int fd = tcp6_only(0);
	must(listen(fd, 1), "listen");
	return held();
}

int attack_listen_port_zero(void)
{
	int fd = TCP4();
	must(bind_to(fd, v4("0.0.0.0", 0)), "bind");
	must(listen(fd, 1), "listen");
	return held();
}

int attack_listen_loopback_zero(void)
{
	int fd = TCP4();
	must(bind_to(fd, v4("127.0.0.1", 0)), "bind");
	must(listen(fd, 1), "listen");
	return held();
}

/* At the port that a client has, once it is no client any more. */
int attack_listen_after_connect(void)
{
	union address nowhere = { .any.sa_family = AF_UNSPEC };
	int fd = open_door(AF_INET, SOCK_STREAM);
	must(connect(fd, &nowhere.any, sizeof nowhere.any), "AF_UNSPEC");
	must(listen(fd, 1), "listen");
	return held();
}

/* A port that the kernel chose with the destination in mind. */
int attack_listen_late_port(void)
{
	int fd = TCP4();
	set(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
	must(bind_to(fd, v4("127.0.0.1", 0)), "bind");
	must(listen(fd, 1), "listen");
	return held();
}

/* ---- addresses that this host does not have ---- */

int attack_listen_free_bind(void)
{
	int fd = TCP4();
	set(fd, IPPROTO_IP, IP_FREEBIND, 1);
	must(bind_to(fd, v4("203.0.113.5", need_number("other"))), "bind");
	must(listen(fd, 1), "listen");
	return held();
}

int attack_listen_transparent(void)
{
	int fd = TCP4();
	set(fd, IPPROTO_IP, IP_TRANSPARENT, 1);
	must(bind_to(fd, v4("203.0.113.5", need_number("other"))), "bind");
	must(listen(fd, 1), "listen");
	return held();
}

/* ---- the port of somebody else ---- */

int attack_steal_port(void)
{
	int fd = TCP4();
	set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	return listen_at(fd, V4("shared"));
}

int attack_steal_datagrams(void)
{
	int fd = UDP4();
	set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	must(bind_to(fd, V4("shared")), "bind");
	return serve(fd);
}

/* MPTCP opens listeners of its own. */
int attack_listen_mptcp(void)
{
	return listen_at(open_socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP), V4("other"));
}

/* ---- what comes of a listener, also of one that was passed in ready-made ---- */

static int own_listener(void)
{
	int fd = TCP4();
	set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	must(bind_to(fd, V4("other")), "bind");
	must(listen(fd, 16), "listen");
	return fd;
}

/* Without a wall the guest plays the launcher as well. */
static int ready_listener(void)
{
	enum { FIRST_PASSED = 3 };
	const char *count = getenv("LISTEN_FDS");
	if (argument("naive"))
		return own_listener();
	errno = ENOENT;
	must(count && atoi(count) == 1 ? 0 : -1, "LISTEN_FDS");
	return FIRST_PASSED;
}

/* The next connection, which is none any more: a socket with no port, but the name of one. */
static int disconnected_from(int listener)
{
	union address nowhere = { .any.sa_family = AF_UNSPEC };
	int fd = accept(listener, NULL, NULL);
	must(fd, "accept");
	must(connect(fd, &nowhere.any, sizeof nowhere.any), "AF_UNSPEC");
	return fd;
}

/* It listens anew, at a port that the kernel chooses. */
int attack_accepted_listens_elsewhere(void)
{
	int fd = disconnected_from(own_listener());
	must(listen(fd, 1), "listen");
	return held();
}

int attack_ready_connects(void)
{
	int fd = ready_listener();
	must(shutdown(fd, SHUT_RD), "shutdown");
	return say_to(fd, V4("tcp4"));
}

/* Of a connection that it took, the guest makes one of its own. */
int attack_ready_accepted_connects(void)
{
	return say_to(disconnected_from(ready_listener()), V4("tcp4"));
}

/* And a further listener. */
int attack_ready_listens_elsewhere(void)
{
	int fd = disconnected_from(ready_listener());
	must(listen(fd, 1), "listen");
	return held();
}

int attack_ready_fast_open(void)
{
	ssize_t sent = send_to(disconnected_from(ready_listener()), V4("tcp4"), MSG_FASTOPEN);
	must(sent, "sendto");
	usleep(50000);
	return DONE;
}
