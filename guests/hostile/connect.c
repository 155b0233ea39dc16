/*
 * Connecting to a witness where the policy grants a door: the same host at another port, or
 * another host at the same port. What differs is how the address is spelled, where it lies in
 * memory, and how the process came by its socket.
 */
#include "sockets.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>

/* ---- another host at a port that is granted for 127.0.0.1 ---- */

int attack_other_address(void)
{
	return deliver(v4("127.0.0.2", need_number("tcp-any")), SOCK_STREAM, 0);
}

int attack_other_address_mapped(void)
{
	return deliver(v6("::ffff:127.0.0.2", need_number("tcp-any")), SOCK_STREAM, 0);
}

int attack_other_address_udp(void)
{
	return deliver(v4("127.0.0.2", need_number("udp-any")), SOCK_DGRAM, 0);
}

/* Who grants one family has not granted the other. */
int attack_other_family(void)
{
	return deliver(V6("tcp-any"), SOCK_STREAM, 0);
}

/* The same port, but of the other transport. */
int attack_transport_tcp(void)
{
	return deliver(V4("tcp4"), SOCK_STREAM, 0);
}

int attack_transport_udp(void)
{
	return deliver(V4("udp4"), SOCK_DGRAM, 0);
}

/* ---- what a grant of the whole internet does not cover ---- */

int attack_whole_internet(void)
{
	return deliver(V4("tcp4"), SOCK_STREAM, 0);
}

int attack_whole_internet6(void)
{
	return deliver(V6("tcp6"), SOCK_STREAM, 0);
}

int attack_whole_internet_any(void)
{
	return deliver(v4("0.0.0.0", need_number("tcp4")), SOCK_STREAM, 0);
}

int attack_whole_internet_mapped(void)
{
	return deliver(v6("::ffff:127.0.0.1", need_number("tcp4")), SOCK_STREAM, 0);
}

/* The services that hand out a cloud machine's credentials. */
int attack_metadata4(void)
{
	return deliver(v4("169.254.169.254", need_number("tcp-any")), SOCK_STREAM, 0);
}

int attack_metadata6(void)
{
	return deliver(v6("fd00:ec2::254", need_number("tcp-any")), SOCK_STREAM, 0);
}

int attack_metadata_mapped(void)
{
	return deliver(v6("::ffff:169.254.169.254", need_number("tcp-any")), SOCK_STREAM, 0);
}

/* ---- names ---- */

/* A name is granted; the address of another comes from the guest itself. */
int attack_other_than_named(void)
{
	return deliver(v4("127.0.0.2", need_number("tcp-any")), SOCK_STREAM, 0);
}

/* The name that is granted stands for an address of this host: DNS rebinding. */
int attack_rebound_name(void)
{
	return deliver(v4("127.0.0.2", need_number("tcp-any")), SOCK_STREAM, 0);
}

int attack_rebound_metadata(void)
{
	return deliver(v4("169.254.169.254", need_number("tcp-any")), SOCK_STREAM, 0);
}

/* A socket file that lies beside the granted one. */
int attack_other_local_socket(void)
{
	union address to = local(PATH_OF("%s/host.dgram", need("outside")));
	must(send_to(open_socket(AF_UNIX, SOCK_DGRAM, 0), to, 0), "sendto");
	return DONE;
}

/* ---- the proxy for wildcards ---- */

static void put(uint8_t **at, const void *bytes, size_t length)
{
	memcpy(*at, bytes, length);
	*at += length;
}

static void put16(uint8_t **at, size_t number)
{
	put(at, (uint8_t[]){ number >> 8, number }, 2);
}

/* A hello of TLS for `host`, with the nonce as the session's name. */
static size_t hello(uint8_t *bytes, const char *host)
{
	enum { SESSION = 32 };
	uint8_t *at = bytes, session[SESSION] = "";
	size_t length = strlen(host), extensions = 4 + 5 + length;
	size_t body = 2 + 32 + 1 + SESSION + 4 + 2 + 2 + extensions;
	memcpy(session, nonce(), strlen(nonce()) < SESSION ? strlen(nonce()) : SESSION);
	put(&at, "\x16\x03\x01", 3);
	put16(&at, body + 4);
	put(&at, "\x01\x00", 2);
	put16(&at, body);
	put(&at, "\x03\x03", 2);
	put(&at, (uint8_t[32]){ 0 }, 32);
	put(&at, (uint8_t[]){ SESSION }, 1);
	put(&at, session, SESSION);
	put(&at, "\x00\x02\x13\x01\x01\x00", 6);
	put16(&at, extensions);
	put16(&at, 0);
	put16(&at, 5 + length);
	put16(&at, 3 + length);
	put(&at, "\x00", 1);
	put16(&at, length);
	put(&at, host, length);
	return at - bytes;
}

/* Asks the proxy in these words, and goes on as if it had agreed. */
static void ask_proxy(long port, const char *request)
{
	uint8_t bytes[512];
	char answer[512];
	int fd = TCP4();
	must(connect_to(fd, v4("127.0.0.1", port)), "connect to the proxy");
	send(fd, request, strlen(request), MSG_NOSIGNAL);
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	poll(&ready, 1, 200);
	recv(fd, answer, sizeof answer, MSG_DONTWAIT);
	send(fd, bytes, hello(bytes, "a.proxied.test"), MSG_NOSIGNAL);
	send(fd, nonce(), strlen(nonce()), MSG_NOSIGNAL);
	poll(&ready, 1, 50);
	close(fd);
}

static long proxy_port(void)
{
	const char *proxy = getenv("https_proxy");
	errno = ENOENT;
	must(proxy ? 0 : -1, "https_proxy");
	return strtol(strrchr(proxy, ':') + 1, NULL, 10);
}

int attack_proxy_elsewhere(void)
{
	static const char *const targets[] = {
		"127.0.0.1",	  "localhost",		 "a.proxied.test",	    "A.PROXIED.TEST.",
		"2130706433",	  "0x7f.1",		 "a.proxied.test@127.0.0.1", "127.0.0.1\\.proxied.test",
		"[::1]",	  "[::ffff:127.0.0.1]",	 "0.0.0.0",		    "127.0.0.1%2e.proxied.test",
		"127.0.0.1#.proxied.test", "127.0.0.1\t.proxied.test", "", ".proxied.test", "..proxied.test"
	};
	if (argument("naive"))
		return deliver(V4("tcp4"), SOCK_STREAM, 0);
	long port = proxy_port();
	const char *ports[] = { "tcp4", "tcp6", "tcp-any" };
	for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
		for (int at = 0; at < 3; at++)
			ask_proxy(port, PATH_OF("CONNECT %s:%ld HTTP/1.1\r\nHost: a.proxied.test:%ld\r\n\r\n", targets[i],
						need_number(ports[at]), need_number("tcp-any")));
	ask_proxy(port, PATH_OF("GET http://127.0.0.1:%ld/%s HTTP/1.1\r\nHost: a.proxied.test\r\n\r\n", need_number("tcp4"),
				nonce()));
	ask_proxy(port, PATH_OF("CONNECT a.proxied.test:%ld HTTP/1.1\r\n\r\nCONNECT 127.0.0.1:%ld HTTP/1.1\r\n\r\n",
				need_number("tcp-any"), need_number("tcp4")));
	errno = EACCES;
	return refused("CONNECT");
}

/* ---- what the launcher runs and reads outside to look a name up ---- */

/* Programs that a resolver may start by name. Each leaves the nonce outside. */
static const char *const helpers[] = { "getent", "sh", "env", "resolvectl", "host", "dig", "nslookup" };

static void plant_helpers(const char *folder)
{
	const char *script = PATH_OF("#!/bin/sh\necho %s >'%s/planted'\n", nonce(), need("outside"));
	for (size_t i = 0; i < sizeof helpers / sizeof *helpers; i++) {
		const char *path = PATH_OF("%s/%s", folder, helpers[i]);
		int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
		must(fd, path);
		must(write(fd, script, strlen(script)) > 0 ? 0 : -1, path);
		close(fd);
	}
}

/* Where the launcher looks for programs first, then a name that no file has. */
static int plant_and_ask(void)
{
	const char *folder = need("plant");
	plant_helpers(folder);
	if (argument("naive")) {
		char *words[] = { "getent", "ahosts", "b.proxied.test", NULL };
		execv(PATH_OF("%s/getent", folder), words);
		return refused("getent");
	}
	long door = need_number("tcp-any");
	ask_proxy(proxy_port(), PATH_OF("CONNECT b.proxied.test:%ld HTTP/1.1\r\nHost: b.proxied.test:%ld\r\n\r\n", door, door));
	errno = EACCES;
	return refused("CONNECT");
}

int attack_plant_lookup(void)
{
	return plant_and_ask();
}

int attack_plant_lookup_here(void)
{
	return plant_and_ask();
}

/* The file behind /etc/hosts, by another name of it. */
int attack_rewrite_hosts(void)
{
	return write_nonce(need("hosts"));
}

/* ---- spellings ---- */

int attack_any_address6(void)
{
	return deliver(v6("::", need_number("tcp6")), SOCK_STREAM, 0);
}

int attack_any_address_mapped(void)
{
	return deliver(v6("::ffff:0.0.0.0", need_number("tcp4")), SOCK_STREAM, 0);
}

static union address scoped(const char *host, const char *key)
{
	union address address = v6(host, need_number(key));
	address.v6.sin6_scope_id = 1;
	return address;
}

/* A scope that the kernel ignores for this address. */
int attack_scoped_loopback(void)
{
	return deliver(scoped("::1", "tcp6"), SOCK_STREAM, 0);
}

int attack_scoped_link_local(void)
{
	return deliver(scoped("fe80::1", "tcp-any"), SOCK_STREAM, 0);
}

/* The scope comes from the device that the socket is bound to, not from the address. */
int attack_scoped_by_device(void)
{
	int fd = open_socket(AF_INET6, SOCK_STREAM, 0);
	must(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3), "SO_BINDTODEVICE");
	return say_to(fd, v6("fe80::1", need_number("tcp-any")));
}

/* An address of IPv4 on a socket of IPv6: datagram sockets take it. */
int attack_connect_v4_on_v6(void)
{
	return say_to(open_socket(AF_INET6, SOCK_DGRAM, 0), V4("udp4"));
}

/* A length that the address does not have, and the kernel takes. */
int attack_long_address(void)
{
	union address to = V4("tcp4");
	int fd = TCP4();
	return connect(fd, &to.any, sizeof(struct sockaddr_storage)) ? refused("connect") : say(fd);
}

/* Without its scope: SIN6_LEN_RFC2133. */
int attack_short_address(void)
{
	enum { SIN6_LEN_RFC2133 = 24 };
	union address to = V6("tcp6");
	int fd = open_socket(AF_INET6, SOCK_STREAM, 0);
	return connect(fd, &to.any, SIN6_LEN_RFC2133) ? refused("connect") : say(fd);
}

/* Lengths that the kernel refuses, and whoever reads the address for it must too. */
int attack_odd_lengths(void)
{
	static const long lengths[] = { 0,	 1,	    2,	     4,		  15,	       17,  127,
					128,	 129,	    4096,    1L << 20,	  INT_MAX,     -1L, INT_MIN,
					1L << 32, (1L << 32) | 16 };
	union address to = V4("tcp4");
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		int fd = TCP4();
		if (!syscall(SYS_connect, fd, &to, lengths[i]))
			return say(fd);
		close(fd);
	}
	return refused("connect");
}

/* Registers are wider than the kernel's ints. */
int attack_wide_registers(void)
{
	const unsigned long garbage = 0xdead00000000;
	union address to = V4("tcp4");
	long fd = syscall(SYS_socket, AF_INET | garbage, SOCK_STREAM | garbage, IPPROTO_TCP | garbage);
	must(fd, "socket");
	must(syscall(SYS_connect, fd | garbage, &to, sizeof to.v4 | garbage), "connect");
	return say((int)fd);
}

/* ---- where the address lies ---- */

static char *two_pages(int second)
{
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED || mprotect(pages + 4096, 4096, second))
		unready("mmap");
	return pages;
}

/* The address ends where the page does; one more byte cannot be read. */
int attack_edge_of_page(void)
{
	union address to = V4("tcp4");
	char *edge = two_pages(PROT_NONE) + 4096 - sizeof to.v4;
	int fd = TCP4();
	memcpy(edge, &to, sizeof to.v4);
	connect(fd, (void *)edge, sizeof to.v4 + 1);
	connect(fd, (void *)(edge + 8), sizeof to.v4);
	connect(fd, NULL, sizeof to.v4);
	connect(fd, (void *)-4096L, sizeof to.v4);
	return connect(fd, (void *)edge, sizeof to.v4) ? refused("connect") : say(fd);
}

/* The address lies in a file that can be changed from elsewhere, and on a page yet to be read. */
int attack_address_in_file(void)
{
	union address to = V4("tcp4");
	int fd = TCP4(), file = open(need("scratch"), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	must(file, "O_TMPFILE");
	must(write(file, &to, sizeof to), "write");
	struct sockaddr *mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
	if (mapped == MAP_FAILED)
		unready("mmap");
	return connect(fd, mapped, sizeof to.v4) ? refused("connect") : say(fd);
}

/* ---- again over the same socket ---- */

static int disconnect(int fd)
{
	union address nowhere = { .any.sa_family = AF_UNSPEC };
	return connect(fd, &nowhere.any, sizeof nowhere.any);
}

int attack_tcp_reconnect(void)
{
	int fd = open_door(AF_INET, SOCK_STREAM);
	must(disconnect(fd), "AF_UNSPEC");
	return say_to(fd, V4("tcp4"));
}

int attack_tcp_reconnect6(void)
{
	int fd = open_door(AF_INET6, SOCK_STREAM);
	must(disconnect(fd), "AF_UNSPEC");
	return say_to(fd, V6("tcp6"));
}

int attack_udp_reconnect(void)
{
	return say_to(open_door(AF_INET, SOCK_DGRAM), V4("udp4"));
}

/* A connect that is granted and fails, as nobody listens there. */
int attack_after_failure(void)
{
	int fd = TCP4();
	if (!connect_to(fd, V4("closed")) || errno != ECONNREFUSED)
		return refused("connect where nobody listens");
	return say_to(fd, V4("tcp4"));
}

/* A listener that is shut down can connect. */
int attack_listener_reconnect(void)
{
	int fd = TCP4();
	must(bind_to(fd, V4("listen")), "bind");
	must(listen(fd, 4), "listen");
	must(shutdown(fd, SHUT_RD), "shutdown");
	return say_to(fd, V4("tcp4"));
}

/* What accept(2) gives was never made by socket(2). */
int attack_accepted_reconnect(void)
{
	int listener = TCP4(), client = TCP4();
	must(bind_to(listener, V4("listen")), "bind");
	must(listen(listener, 4), "listen");
	must(connect_to(client, V4("listen")), "connect to itself");
	int fd = accept(listener, NULL, NULL);
	must(fd, "accept");
	must(disconnect(fd), "AF_UNSPEC");
	return say_to(fd, V4("tcp4"));
}

/* A socket of IPv6 becomes one of IPv4, or stays what it is. */
int attack_address_form(void)
{
	int fd = open_socket(AF_INET6, SOCK_DGRAM, 0), form = AF_INET;
	must(connect_to(fd, v6("::ffff:127.0.0.1", need_number("door-udp4"))), "connect to the door");
	setsockopt(fd, IPPROTO_IPV6, IPV6_ADDRFORM, &form, sizeof form);
	return say_to(fd, V4("udp4"));
}

/* ---- by another process, thread or descriptor ---- */

int attack_duplicate(void)
{
	int fd = TCP4(), copy = dup(fd);
	must(connect_to(fd, V4("door-tcp4")), "connect to the door");
	must(disconnect(copy), "AF_UNSPEC");
	must(connect_to(copy, V4("tcp4")), "connect");
	return say(fd);
}

static int ending_of(pid_t child)
{
	int status;
	if (child < 0 || waitpid(child, &status, 0) != child)
		unready("child");
	return WIFEXITED(status) ? WEXITSTATUS(status) : UNREADY;
}

int attack_forked_connect(void)
{
	int fd = TCP4();
	pid_t child = fork();
	if (child == 0)
		_exit(say_to(fd, V4("tcp4")));
	return ending_of(child);
}

int attack_vforked_connect(void)
{
	union address to = V4("tcp4");
	int fd = TCP4();
	pid_t child = vfork();
	if (child == 0)
		_exit(connect_to(fd, to) ? REFUSED : DONE);
	int ending = ending_of(child);
	errno = EACCES;
	return ending == DONE ? say(fd) : refused("connect");
}

/* A process that shares the table of descriptors but no thread group. */
int attack_shared_table(void)
{
	int fd = TCP4();
	pid_t child = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
	if (child == 0)
		_exit(say_to(fd, V4("tcp4")));
	return ending_of(child);
}

static int send_descriptor(int channel, int fd)
{
	char byte = 0, space[CMSG_SPACE(sizeof fd)];
	struct iovec data = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space
	};
	*CMSG_FIRSTHDR(&message) = (struct cmsghdr){
		.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS
	};
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &fd, sizeof fd);
	return sendmsg(channel, &message, 0) == 1 ? 0 : -1;
}

static int receive_descriptor(int channel)
{
	int fd = -1;
	char byte, space[CMSG_SPACE(sizeof fd)];
	struct iovec data = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space
	};
	if (recvmsg(channel, &message, 0) == 1 && CMSG_FIRSTHDR(&message))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
	return fd;
}

/* The process that connects never made a socket. */
int attack_passed_connect(void)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		unready("socketpair");
	pid_t child = fork();
	if (child == 0)
		_exit(say_to(receive_descriptor(pair[1]), V4("tcp4")));
	must(send_descriptor(pair[0], TCP4()), "SCM_RIGHTS");
	return ending_of(child);
}

/* The program that connects inherits its socket by execve(2). */
int attack_executed_connect(void)
{
	if (argument("inherited"))
		return say_to((int)need_number("inherited"), V4("tcp4"));
	int fd = TCP4();
	fcntl(fd, F_SETFD, 0);
	execl(own_path(), own_path(), "executed-connect", nonce(), PATH_OF("inherited=%d", fd),
	      PATH_OF("tcp4=%ld", need_number("tcp4")), NULL);
	unready("execl");
}

static void *connect_alone(void *unused)
{
	/* The leader becomes a zombie that /proc and pidfd_open(2) still know. */
	for (int state = 0; state != 'Z';) {
		char line[256] = "", *after;
		int file = open(PATH_OF("/proc/self/task/%d/stat", getpid()), O_RDONLY | O_CLOEXEC);
		read(file, line, sizeof line - 1);
		close(file);
		state = (after = strrchr(line, ')')) ? after[2] : 'Z';
	}
	(void)unused;
	_exit(deliver(V4("tcp4"), SOCK_STREAM, 0));
}

/* The thread that connects has outlived its leader. */
int attack_leaderless_connect(void)
{
	in_thread(connect_alone, NULL);
	pthread_exit(NULL);
}

/* A name that says `palisade`: whoever trusts names trusts the guest. */
int attack_named_thread(void)
{
	prctl(PR_SET_NAME, "palisade");
	return deliver(V4("tcp4"), SOCK_STREAM, 0);
}

int attack_nonblocking_connect(void)
{
	int fd = open_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (connect_to(fd, V4("tcp4")) && errno != EINPROGRESS)
		return refused("connect");
	struct pollfd ready = { .fd = fd, .events = POLLOUT };
	poll(&ready, 1, 1000);
	return say(fd);
}

/* ---- other ways to the same call ---- */

enum { SYS32_SOCKETCALL = 102, CALL_SOCKET = 1, CALL_CONNECT = 3 };

/* Arguments in memory below 4 GiB, where 32-bit code finds them. */
static long socketcall(long call, uint32_t *words)
{
	long result;
	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"(SYS32_SOCKETCALL), "b"(call), "c"(words)
			 : "memory", "r8", "r9", "r10", "r11");
	if ((int)result >= 0)
		return (int)result;
	errno = -(int)result;
	return -1;
}

int attack_int80_socketcall(void)
{
	union address to = V4("tcp4");
	uint32_t *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	if (low == MAP_FAILED)
		unready("mmap");
	memcpy(low, (uint32_t[]){ AF_INET, SOCK_STREAM, 0 }, 12);
	long fd = socketcall(CALL_SOCKET, low);
	must(fd, "socketcall socket");
	memcpy(low + 8, &to, sizeof to.v4);
	memcpy(low, (uint32_t[]){ (uint32_t)fd, (uint32_t)(uintptr_t)(low + 8), sizeof to.v4 }, 12);
	must(socketcall(CALL_CONNECT, low), "socketcall connect");
	return say((int)fd);
}

/* ---- TCP Fast Open: a connection without connect(2) ---- */

static struct msghdr message_to(union address *to, struct iovec *data)
{
	*data = (struct iovec){ (char *)nonce(), strlen(nonce()) };
	return (struct msghdr){ .msg_name = to, .msg_namelen = size_of(to), .msg_iov = data, .msg_iovlen = 1 };
}

/* The data may travel after the handshake only. */
static int sent(long result, const char *call)
{
	must(result, call);
	usleep(50000);
	return DONE;
}

int attack_fastopen6(void)
{
	return sent(send_to(open_socket(AF_INET6, SOCK_STREAM, 0), V6("tcp6"), MSG_FASTOPEN), "sendto");
}

int attack_fastopen_message(void)
{
	struct iovec data;
	union address to = V4("tcp4");
	struct msghdr message = message_to(&to, &data);
	return sent(sendmsg(TCP4(), &message, MSG_FASTOPEN), "sendmsg");
}

int attack_fastopen_batch(void)
{
	struct iovec data;
	union address to = V4("tcp4");
	struct mmsghdr batch = { .msg_hdr = message_to(&to, &data) };
	return sent(sendmmsg(TCP4(), &batch, 1, MSG_FASTOPEN), "sendmmsg");
}

/* connect(2) only remembers, where it can; the first write connects. */
int attack_fastopen_connect(void)
{
	int fd = TCP4(), one = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &one, sizeof one);
	return sent(say_to(fd, V4("tcp4")) == DONE ? 0 : -1, "connect");
}

/* After a connect that was granted. */
int attack_fastopen_reconnect(void)
{
	int fd = open_door(AF_INET, SOCK_STREAM);
	must(disconnect(fd), "AF_UNSPEC");
	return sent(send_to(fd, V4("tcp4"), MSG_FASTOPEN), "sendto");
}
