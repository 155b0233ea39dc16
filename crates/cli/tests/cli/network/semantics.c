/*
 * Prints a table of what network calls come to, one line for each: run with no wall and behind it, the
 * tables are the same. Nothing in it depends on time or on numbers that the kernel picks.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* Granted for all that is done here; nobody else has them in a network of its own. */
enum { OPEN = 7000, CLOSED = 7001, FULL = 7002, OTHER = 7003 };

#define ARRAY_LENGTH(array) (sizeof(array) / sizeof *(array))

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_storage all;
};

static void tell(const char *what, long result)
{
	if (result < 0)
		printf("%s: %s\n", what, strerrorname_np(errno));
	else
		printf("%s: %ld\n", what, result);
}

static void tell_error(const char *what, int error)
{
	printf("%s: %s\n", what, error ? strerrorname_np(error) : "no error");
}

/* What the program itself needs. */
static long must(const char *what, long result)
{
	if (result < 0) {
		printf("cannot go on: %s: %s\n", what, strerrorname_np(errno));
		exit(1);
	}
	return result;
}

static union address v4(const char *host, int port)
{
	union address address = { .v4 = { .sin_family = AF_INET, .sin_port = htons(port) } };
	inet_pton(AF_INET, host, &address.v4.sin_addr);
	return address;
}

static union address v6(const char *host, int port)
{
	union address address = { .v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) } };
	inet_pton(AF_INET6, host, &address.v6.sin6_addr);
	return address;
}

static socklen_t length_of(union address address)
{
	return address.any.sa_family == AF_INET6 ? sizeof address.v6 : sizeof address.v4;
}

static int connect_to(int fd, union address to)
{
	return connect(fd, &to.any, length_of(to));
}

static int bind_to(int fd, union address to)
{
	return bind(fd, &to.any, length_of(to));
}

static void set(int fd, int level, int option, int value)
{
	must("setsockopt", setsockopt(fd, level, option, &value, sizeof value));
}

static int stream(int family)
{
	return must("socket", socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

static int datagram(int family)
{
	return must("socket", socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

/* A listener that may take its place again at once. */
static int listener(union address at, int backlog)
{
	int fd = stream(at.any.sa_family);
	set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	must("bind", bind_to(fd, at));
	must("listen", listen(fd, backlog));
	return fd;
}

/* Both ends of one connection. */
static void connection(int listening, union address to, int ends[2])
{
	ends[0] = stream(to.any.sa_family);
	must("connect", connect_to(ends[0], to));
	ends[1] = must("accept", accept4(listening, NULL, NULL, SOCK_CLOEXEC));
}

static void close_both(int ends[2])
{
	close(ends[0]);
	close(ends[1]);
}

/* An address with a port that the kernel picked is shown without its number. */
static void tell_address(const char *what, int result, union address address)
{
	char host[INET6_ADDRSTRLEN];
	int is_v6 = address.any.sa_family == AF_INET6;
	int port = ntohs(is_v6 ? address.v6.sin6_port : address.v4.sin_port);
	const void *bytes = is_v6 ? (void *)&address.v6.sin6_addr : (void *)&address.v4.sin_addr;

	if (result < 0) {
		tell(what, result);
		return;
	}
	inet_ntop(address.any.sa_family, bytes, host, sizeof host);
	if (port >= OPEN && port <= OTHER)
		printf("%s: %s %d\n", what, host, port);
	else
		printf("%s: %s %s\n", what, host, port ? "some port" : "no port");
}

static void tell_own(const char *what, int fd)
{
	union address address = { 0 };
	socklen_t length = sizeof address;
	tell_address(what, getsockname(fd, &address.any, &length), address);
}

static void tell_peer(const char *what, int fd)
{
	union address address = { 0 };
	socklen_t length = sizeof address;
	tell_address(what, getpeername(fd, &address.any, &length), address);
}

static int get(int fd, int level, int option)
{
	int value = -1;
	socklen_t length = sizeof value;
	must("getsockopt", getsockopt(fd, level, option, &value, &length));
	return value;
}

static void tell_pending_error(const char *what, int fd)
{
	tell_error(what, get(fd, SOL_SOCKET, SO_ERROR));
}

/* Waits until something is ready, and tells what. */
static void tell_events(const char *what, int fd)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP };
	int epoll = must("epoll_create1", epoll_create1(EPOLL_CLOEXEC));
	must("epoll_ctl", epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
	must("epoll_wait", epoll_wait(epoll, &event, 1, 10000));
	printf("%s:%s%s%s%s%s\n", what, event.events & EPOLLIN ? " in" : "", event.events & EPOLLOUT ? " out" : "",
	       event.events & EPOLLERR ? " err" : "", event.events & EPOLLHUP ? " hup" : "",
	       event.events & EPOLLRDHUP ? " rdhup" : "");
	close(epoll);
}

/* What a socket is made as. */

static void sockets(void)
{
	static const struct {
		const char *name;
		int family, type, protocol;
	} KINDS[] = {
		{ "tcp", AF_INET, SOCK_STREAM, 0 },
		{ "tcp by number", AF_INET, SOCK_STREAM, IPPROTO_TCP },
		{ "tcp6", AF_INET6, SOCK_STREAM, IPPROTO_TCP },
		{ "udp", AF_INET, SOCK_DGRAM, 0 },
		{ "udp by number", AF_INET, SOCK_DGRAM, IPPROTO_UDP },
		{ "udp6", AF_INET6, SOCK_DGRAM, 0 },
		{ "a stream of udp", AF_INET, SOCK_STREAM, IPPROTO_UDP },
		{ "datagrams of tcp", AF_INET, SOCK_DGRAM, IPPROTO_TCP },
		{ "no type", AF_INET, 0, 0 },
		{ "flags that are none", AF_INET, SOCK_STREAM | 0x100000, 0 },
		{ "no family", AF_UNSPEC, SOCK_STREAM, 0 },
		{ "a local one", AF_UNIX, SOCK_STREAM, 0 },
		{ "local datagrams", AF_UNIX, SOCK_DGRAM, 0 },
	};
	for (size_t i = 0; i < ARRAY_LENGTH(KINDS); i++) {
		int fd = socket(KINDS[i].family, KINDS[i].type, KINDS[i].protocol);
		tell(KINDS[i].name, fd);
		if (fd >= 0)
			close(fd);
	}
}

static void flags_of_sockets(void)
{
	int plain = must("socket", socket(AF_INET, SOCK_STREAM, 0));
	int both = must("socket", socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	tell("descriptor flags of a plain one", fcntl(plain, F_GETFD));
	tell("status flags of a plain one", fcntl(plain, F_GETFL));
	tell("descriptor flags of the other", fcntl(both, F_GETFD));
	tell("status flags of the other", fcntl(both, F_GETFL));
	tell("domain", get(plain, SOL_SOCKET, SO_DOMAIN));
	tell("type", get(plain, SOL_SOCKET, SO_TYPE));
	tell("protocol", get(plain, SOL_SOCKET, SO_PROTOCOL));
	tell("not listening", get(plain, SOL_SOCKET, SO_ACCEPTCONN));
	tell_own("address of a new one", plain);
	tell_peer("peer of a new one", plain);
	tell_events("events of a new one", plain);
	tell("read of a new one", read(plain, &both, 1));
	tell("write to a new one", send(plain, "x", 1, MSG_NOSIGNAL));
	close(plain);
	close(both);
}

static void numbers_run_out(void)
{
	struct rlimit before, few;
	must("getrlimit", getrlimit(RLIMIT_NOFILE, &before));
	few = before;
	few.rlim_cur = 3;
	must("setrlimit", setrlimit(RLIMIT_NOFILE, &few));
	tell("a socket past the limit of files", socket(AF_INET, SOCK_STREAM, 0));
	must("setrlimit", setrlimit(RLIMIT_NOFILE, &before));
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	tell("and under it again", fd);
	close(fd);
}

/* Connecting. */

static void blocking_connect(void)
{
	int ends[2], listening = listener(v4("127.0.0.1", OPEN), 8);
	connection(listening, v4("127.0.0.1", OPEN), ends);
	tell_own("address of who accepted", ends[1]);
	tell_own("address of who connected", ends[0]);
	tell_peer("peer of who accepted", ends[1]);
	tell_peer("peer of who connected", ends[0]);
	tell("connect a second time", connect_to(ends[0], v4("127.0.0.1", OPEN)));
	tell("connect who accepted", connect_to(ends[1], v4("127.0.0.1", OPEN)));
	tell("connect the listener", connect_to(listening, v4("127.0.0.1", OPEN)));
	tell("listen on a connection", listen(ends[0], 1));
	tell("bind a connection", bind_to(ends[0], v4("127.0.0.1", OTHER)));
	tell("accept on a connection", accept(ends[0], NULL, NULL));
	tell_events("events of a connection", ends[0]);
	close_both(ends);
	int refused = stream(AF_INET);
	tell("connect where nobody listens", connect_to(refused, v4("127.0.0.1", CLOSED)));
	tell_pending_error("error left behind", refused);
	tell("then where somebody does", connect_to(refused, v4("127.0.0.1", OPEN)));
	tell("write to it", write(refused, "x", 1));
	close(refused);
	close(listening);
}

static int nonblocking(int family)
{
	return must("socket", socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

static void nonblocking_connect(void)
{
	int listening = listener(v4("127.0.0.1", OPEN), 8);
	int fd = nonblocking(AF_INET);
	tell("begin to connect", connect_to(fd, v4("127.0.0.1", OPEN)));
	tell_events("events", fd);
	tell_pending_error("error", fd);
	tell("connect again", connect_to(fd, v4("127.0.0.1", OPEN)));
	tell("and again", connect_to(fd, v4("127.0.0.1", OPEN)));
	tell("status flags afterwards", fcntl(fd, F_GETFL));
	tell("read of nothing", read(fd, &listening, 0));
	close(fd);
	fd = nonblocking(AF_INET);
	tell("begin where nobody listens", connect_to(fd, v4("127.0.0.1", CLOSED)));
	tell_events("events of a refusal", fd);
	tell_pending_error("error of a refusal", fd);
	tell_pending_error("error once taken", fd);
	close(fd);
	fd = nonblocking(AF_INET);
	tell("begin there again", connect_to(fd, v4("127.0.0.1", CLOSED)));
	tell_events("its events", fd);
	tell("the second call tells", connect_to(fd, v4("127.0.0.1", CLOSED)));
	tell_pending_error("and leaves", fd);
	close(fd);
	close(listening);
}

/* A listener whose queue is full answers nobody, until it accepts. */
struct crowd {
	int listening;
	int waiting[4];
};

static struct crowd crowd(int port)
{
	struct crowd crowd = { .listening = listener(v4("127.0.0.1", port), 0) };
	for (size_t i = 0; i < ARRAY_LENGTH(crowd.waiting); i++) {
		crowd.waiting[i] = nonblocking(AF_INET);
		connect_to(crowd.waiting[i], v4("127.0.0.1", port));
	}
	return crowd;
}

static void disperse(struct crowd crowd)
{
	close(crowd.listening);
	for (size_t i = 0; i < ARRAY_LENGTH(crowd.waiting); i++)
		close(crowd.waiting[i]);
}

static volatile sig_atomic_t alarms;

static void count_alarm(int signal)
{
	(void)signal;
	alarms++;
}

/* Until the first of SIGALRM's returns, so that one that comes too early is followed by another. */
static void alarm_repeatedly(int flags, int milliseconds)
{
	struct sigaction action = { .sa_handler = count_alarm, .sa_flags = flags };
	struct timeval pause = { .tv_usec = milliseconds * 1000 };
	struct itimerval timer = { .it_value = pause, .it_interval = pause };
	alarms = 0;
	must("sigaction", sigaction(SIGALRM, &action, NULL));
	must("setitimer", setitimer(ITIMER_REAL, &timer, NULL));
}

static void no_alarm(void)
{
	struct itimerval none = { 0 };
	must("setitimer", setitimer(ITIMER_REAL, &none, NULL));
}

static void set_send_timeout(int fd, int milliseconds)
{
	struct timeval timeout = { .tv_usec = milliseconds * 1000 };
	must("setsockopt", setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout));
}

static void slow_connect(void)
{
	struct crowd full = crowd(FULL);
	int fd = nonblocking(AF_INET);
	tell("begin where it is full", connect_to(fd, v4("127.0.0.1", FULL)));
	tell("while it is under way", connect_to(fd, v4("127.0.0.1", FULL)));
	tell_pending_error("no error yet", fd);
	close(fd);
	fd = stream(AF_INET);
	set_send_timeout(fd, 50);
	tell("connect with a timeout", connect_to(fd, v4("127.0.0.1", FULL)));
	tell("status flags after it", fcntl(fd, F_GETFL));
	close(fd);
	fd = stream(AF_INET);
	alarm_repeatedly(0, 50);
	tell("connect, interrupted", connect_to(fd, v4("127.0.0.1", FULL)));
	no_alarm();
	tell("was there a signal", alarms > 0);
	must("fcntl", fcntl(fd, F_SETFL, O_NONBLOCK));
	tell("it goes on", connect_to(fd, v4("127.0.0.1", FULL)));
	close(fd);
	disperse(full);
}

static void *accept_after_alarms(void *crowd)
{
	struct crowd *full = crowd;
	sigset_t alarm;
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	must("pthread_sigmask", pthread_sigmask(SIG_BLOCK, &alarm, NULL));
	while (alarms < 3)
		sched_yield();
	must("accept", accept(full->listening, NULL, NULL));
	must("accept", accept(full->listening, NULL, NULL));
	return NULL;
}

static void restarted_connect(void)
{
	struct crowd full = crowd(FULL);
	pthread_t thread;
	int fd = stream(AF_INET);
	alarms = 0;
	must("pthread_create", -pthread_create(&thread, NULL, accept_after_alarms, &full));
	alarm_repeatedly(SA_RESTART, 20);
	tell("connect through signals", connect_to(fd, v4("127.0.0.1", FULL)));
	no_alarm();
	tell("were there some", alarms >= 3);
	must("pthread_join", -pthread_join(thread, NULL));
	tell_peer("connected to", fd);
	close(fd);
	disperse(full);
}

/* Data before the connection is there would go past connect(2). */
static void fast_open(void)
{
	union address to = v4("127.0.0.1", OPEN);
	int listening = listener(to, 8), fd = stream(AF_INET), on = 1;
	tell("fast open by sending", sendto(fd, "x", 1, MSG_FASTOPEN, &to.any, length_of(to)));
	tell_peer("peer by sending", fd);
	close(fd);
	fd = stream(AF_INET);
	tell("fast open by option", setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &on, sizeof on));
	tell("connect with it", connect_to(fd, to));
	tell("write with it", write(fd, "x", 1));
	close(fd);
	close(listening);
}

/* Each call is carried out once, however often a signal takes it back. */
static void through_signals(const char *path)
{
	enum { ROUNDS = 300 };
	int failed = 0, listening = listener(v4("127.0.0.1", OPEN), ROUNDS);
	int server = datagram(AF_INET);
	struct sockaddr_un local = { .sun_family = AF_UNIX };
	strncpy(local.sun_path, path, sizeof local.sun_path - 1);
	must("bind", bind_to(server, v4("127.0.0.1", OTHER)));
	alarm_repeatedly(SA_RESTART, 1);
	for (int i = 0; i < ROUNDS; i++) {
		int fd = stream(AF_INET), name = stream(AF_UNIX), sender = datagram(AF_INET);
		failed += connect_to(fd, v4("127.0.0.1", OPEN)) != 0;
		failed += bind(name, (void *)&local, sizeof local) != 0 || listen(name, 1) != 0;
		union address to = v4("127.0.0.1", OTHER);
		failed += sendto(sender, &i, sizeof i, 0, &to.any, length_of(to)) != sizeof i;
		int received = -1;
		failed += recv(server, &received, sizeof received, 0) != sizeof received || received != i;
		unlink(path);
		close(fd);
		close(name);
		close(sender);
	}
	no_alarm();
	tell("failed through signals", failed);
	tell("arrived twice", recv(server, &failed, sizeof failed, MSG_DONTWAIT));
	int next = dup(listening);
	tell("descriptors were closed", next == server + 1);
	close(next);
	close(server);
	close(listening);
}

static void wrong_arguments(void)
{
	union address to = v4("127.0.0.1", CLOSED);
	int fd = stream(AF_INET), fd6 = stream(AF_INET6), pipes[2];
	must("pipe", pipe(pipes));
	tell("connect no descriptor", connect_to(-1, to));
	tell("connect a pipe", connect_to(pipes[0], to));
	tell("connect to an address nowhere", connect(fd, (void *)8, sizeof to.v4));
	tell("connect to no bytes", connect(fd, &to.any, 0));
	tell("connect to a byte", connect(fd, &to.any, 1));
	tell("connect to too few bytes", connect(fd, &to.any, sizeof to.v4 - 1));
	tell("connect to too many bytes", connect(fd, &to.any, sizeof to.all + 1));
	tell("connect to bytes enough", connect(fd, &to.any, sizeof to.all));
	tell("connect to a negative length", connect(fd, &to.any, -1));
	tell("connect version 4 to 6", connect_to(fd, v6("::1", CLOSED)));
	tell("connect version 6 to 4", connect_to(fd6, to));
	tell("connect version 6 to mapped 4", connect_to(fd6, v6("::ffff:127.0.0.1", CLOSED)));
	tell("connect to every interface", connect_to(fd, v4("0.0.0.0", CLOSED)));
	tell("bind no descriptor", bind_to(-1, to));
	tell("bind a pipe", bind_to(pipes[0], to));
	tell("bind an address nowhere", bind(fd, (void *)8, sizeof to.v4));
	tell("bind too few bytes", bind(fd, &to.any, sizeof to.v4 - 1));
	tell("bind version 4 to 6", bind_to(fd, v6("::1", CLOSED)));
	tell("bind version 6 to 4", bind_to(fd6, to));
	to.any.sa_family = 77;
	tell("connect to an unknown family", connect(fd, &to.any, sizeof to.v4));
	tell("bind an unknown family", bind(fd, &to.any, sizeof to.v4));
	to.any.sa_family = AF_UNSPEC;
	tell("bind no family", bind(fd, &to.any, sizeof to.v4));
	tell("listen on no descriptor", listen(-1, 1));
	tell("listen on a pipe", listen(pipes[0], 1));
	close_both(pipes);
	close(fd);
	close(fd6);
}

static void forgets_its_peer(void)
{
	union address none = { .any = { .sa_family = AF_UNSPEC } };
	int ends[2], listening = listener(v4("127.0.0.1", OPEN), 8);
	connection(listening, v4("127.0.0.1", OPEN), ends);
	tell("disconnect", connect(ends[0], &none.any, sizeof none.any));
	tell_peer("peer of a disconnected one", ends[0]);
	tell("connect it again", connect_to(ends[0], v4("127.0.0.1", OPEN)));
	tell_peer("peer of a connected one", ends[0]);
	close_both(ends);
	close(listening);
}

/* Binding and listening. */

static void ports(void)
{
	int fd = stream(AF_INET), other = stream(AF_INET);
	tell("bind any port", bind_to(fd, v4("127.0.0.1", 0)));
	tell_own("any port", fd);
	tell("bind twice", bind_to(fd, v4("127.0.0.1", 0)));
	tell("bind a port", bind_to(other, v4("127.0.0.1", OPEN)));
	tell_own("the port", other);
	close(fd);
	fd = stream(AF_INET);
	tell("bind a port that is taken", bind_to(fd, v4("127.0.0.1", OPEN)));
	tell("bind an address that is not here", bind_to(fd, v4("192.0.2.1", OPEN)));
	tell("bind every interface", bind_to(fd, v4("0.0.0.0", OTHER)));
	tell_own("every interface", fd);
	tell("listen there", listen(fd, 1));
	tell("listen again", listen(fd, 5));
	tell("listening", get(fd, SOL_SOCKET, SO_ACCEPTCONN));
	close(other);
	close(fd);
	fd = stream(AF_INET);
	tell("listen with no address", listen(fd, 1));
	tell_own("its address", fd);
	close(fd);
	fd = stream(AF_INET);
	must("bind", bind_to(fd, v4("127.0.0.1", 0)));
	tell("listen at any port", listen(fd, 0));
	tell_own("any port to listen at", fd);
	close(fd);
}

static void ports_of_clients(void)
{
	int listening = listener(v4("127.0.0.1", OPEN), 8);
	int fd = stream(AF_INET);
	must("bind", bind_to(fd, v4("127.0.0.1", OTHER)));
	tell("connect from a port", connect_to(fd, v4("127.0.0.1", OPEN)));
	union address from = { 0 };
	socklen_t length = sizeof from;
	int accepted = accept4(listening, &from.any, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
	tell_address("accepted from", accepted, from);
	tell("flags of who was accepted", fcntl(accepted, F_GETFL));
	tell("close on exec of who was accepted", fcntl(accepted, F_GETFD));
	struct linger at_once = { .l_onoff = 1 };
	must("setsockopt", setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
	close(fd);
	tell_events("events of who was left", accepted);
	tell("read of who was left", read(accepted, &from, 1));
	close(accepted);
	fd = stream(AF_INET);
	must("setsockopt", setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &(int){ 1 }, sizeof(int)));
	tell("bind an address alone", bind_to(fd, v4("127.0.0.1", 0)));
	tell_own("has no port yet", fd);
	tell("connect from it", connect_to(fd, v4("127.0.0.1", OPEN)));
	tell_own("has one now", fd);
	close(fd);
	close(listening);
}

static void shared_ports(void)
{
	int fds[3];
	for (int i = 0; i < 3; i++) {
		fds[i] = stream(AF_INET);
		set(fds[i], SOL_SOCKET, SO_REUSEADDR, 1);
		if (i < 2)
			set(fds[i], SOL_SOCKET, SO_REUSEPORT, 1);
		tell(i < 2 ? "bind a shared port" : "bind it without sharing", bind_to(fds[i], v4("127.0.0.1", OPEN)));
	}
	tell("listen at the shared port", listen(fds[0], 64));
	tell("so does the other", listen(fds[1], 64));
	int clients[32], accepted = 0;
	for (size_t i = 0; i < ARRAY_LENGTH(clients); i++) {
		clients[i] = stream(AF_INET);
		must("connect", connect_to(clients[i], v4("127.0.0.1", OPEN)));
	}
	for (int i = 0; i < 2; i++) {
		must("fcntl", fcntl(fds[i], F_SETFL, O_NONBLOCK));
		for (int fd; (fd = accept(fds[i], NULL, NULL)) >= 0; close(fd))
			accepted++;
	}
	tell("connections that both got", accepted);
	for (size_t i = 0; i < ARRAY_LENGTH(clients); i++)
		close(clients[i]);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
}

static void both_families(void)
{
	int ends[2], fd = stream(AF_INET6);
	set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	tell("bind both families", bind_to(fd, v6("::", OPEN)));
	tell("listen for both", listen(fd, 8));
	tell_own("address for both", fd);
	connection(fd, v4("127.0.0.1", OPEN), ends);
	tell_peer("version 4 is seen as", ends[1]);
	tell_own("at", ends[1]);
	close_both(ends);
	connection(fd, v6("::1", OPEN), ends);
	tell_peer("version 6 is seen as", ends[1]);
	close_both(ends);
	int beside = stream(AF_INET);
	tell("version 4 beside both", bind_to(beside, v4("0.0.0.0", OPEN)));
	close(fd);
	close(beside);
	fd = stream(AF_INET6);
	set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	tell("bind version 6 alone", bind_to(fd, v6("::", OPEN)));
	tell("listen for 6 alone", listen(fd, 8));
	beside = stream(AF_INET);
	tell("connect version 4 to it", connect_to(beside, v4("127.0.0.1", OPEN)));
	close(beside);
	beside = stream(AF_INET);
	set(beside, SOL_SOCKET, SO_REUSEADDR, 1);
	tell("version 4 beside 6 alone", bind_to(beside, v4("0.0.0.0", OPEN)));
	close(beside);
	close(fd);
	fd = stream(AF_INET6);
	set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	tell("bind the mapped form", bind_to(fd, v6("::ffff:127.0.0.1", OPEN)));
	tell("listen at it", listen(fd, 8));
	tell_own("the mapped form", fd);
	beside = stream(AF_INET6);
	tell("connect to the mapped form", connect_to(beside, v6("::ffff:127.0.0.1", OPEN)));
	tell_peer("its peer", beside);
	close(beside);
	close(fd);
}

/* Descriptors of one socket. */

static void shared_descriptions(void)
{
	int listening = listener(v4("127.0.0.1", OPEN), 8);
	int fd = stream(AF_INET), copy = must("dup", dup(fd));
	must("fcntl", fcntl(copy, F_SETFL, O_NONBLOCK));
	tell("status flags of the first", fcntl(fd, F_GETFL));
	must("fcntl", fcntl(copy, F_SETFL, 0));
	tell("connect the copy", connect_to(copy, v4("127.0.0.1", OPEN)));
	tell_peer("peer of the first", fd);
	close(copy);
	tell("write to the first", write(fd, "x", 1));
	close(fd);
	fd = stream(AF_INET);
	if (must("fork", fork()) == 0)
		_exit(connect_to(fd, v4("127.0.0.1", OPEN)) ? 1 : 0);
	int status;
	must("wait", wait(&status));
	tell("connected by a child", status);
	tell_peer("peer in the parent", fd);
	close(fd);
	close(listening);
}

static void close_on_exec(const char *program)
{
	int kept = must("socket", socket(AF_INET, SOCK_STREAM, 0));
	int gone = must("socket", socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	char numbers[2][16];
	snprintf(numbers[0], sizeof numbers[0], "%d", kept);
	snprintf(numbers[1], sizeof numbers[1], "%d", gone);
	fflush(stdout);
	if (must("fork", fork()) == 0) {
		execl(program, program, "executed", numbers[0], numbers[1], NULL);
		_exit(127);
	}
	int status;
	must("wait", wait(&status));
	tell("executed", status);
	close(kept);
	close(gone);
}

static int executed(char **numbers)
{
	tell("one that stays open", fcntl(atoi(numbers[0]), F_GETFD));
	tell("connects", connect_to(atoi(numbers[0]), v4("127.0.0.1", CLOSED)));
	tell("one that does not", fcntl(atoi(numbers[1]), F_GETFD));
	return 0;
}

/* Data of a connection. */

static void half_close(void)
{
	char byte;
	int ends[2], listening = listener(v4("127.0.0.1", OPEN), 8);
	connection(listening, v4("127.0.0.1", OPEN), ends);
	tell("say no more", shutdown(ends[0], SHUT_WR));
	tell("the other reads the end", read(ends[1], &byte, 1));
	tell_events("events of the other", ends[1]);
	tell("the other writes", write(ends[1], "y", 1));
	tell("and is read", read(ends[0], &byte, 1));
	tell("write after the end", send(ends[0], "x", 1, MSG_NOSIGNAL));
	close_both(ends);
	close(listening);
}

static void data(void)
{
	char bytes[64] = { 0 };
	int ends[2], waiting = 0, listening = listener(v4("127.0.0.1", OPEN), 8);
	connection(listening, v4("127.0.0.1", OPEN), ends);
	set(ends[0], IPPROTO_TCP, TCP_NODELAY, 1);
	tell("no delay", get(ends[0], IPPROTO_TCP, TCP_NODELAY));
	set(ends[0], SOL_SOCKET, SO_KEEPALIVE, 1);
	set(ends[0], IPPROTO_TCP, TCP_KEEPIDLE, 30);
	tell("keep alive", get(ends[0], IPPROTO_TCP, TCP_KEEPIDLE));
	set(ends[0], IPPROTO_TCP, TCP_USER_TIMEOUT, 1000);
	set(ends[0], IPPROTO_IP, IP_TOS, 0x10);
	tell("type of service", get(ends[0], IPPROTO_IP, IP_TOS));
	set(ends[0], SOL_SOCKET, SO_RCVBUF, 65536);
	tell("receive buffer", get(ends[0], SOL_SOCKET, SO_RCVBUF));
	tell("send to nobody in particular", sendto(ends[0], "abc", 3, 0, NULL, 0));
	struct iovec parts[2] = { { "de", 2 }, { "f", 1 } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
	tell("send a message", sendmsg(ends[0], &message, 0));
	union address to = v4("127.0.0.1", OPEN);
	tell("send to the peer by name", sendto(ends[0], "g", 1, 0, &to.any, length_of(to)));
	tell("receive", recv(ends[1], bytes, 7, MSG_WAITALL));
	printf("received: %.7s\n", bytes);
	tell("send out of band", send(ends[0], "!", 1, MSG_OOB));
	tell("receive out of band", recv(ends[1], bytes, 1, MSG_OOB));
	int file = must("open", open("/etc/services", O_RDONLY | O_CLOEXEC));
	tell("send a file", sendfile(ends[0], file, NULL, 10));
	tell("receive a file", recv(ends[1], bytes, 10, MSG_WAITALL));
	must("write", write(ends[0], "12345", 5));
	tell("look ahead", recv(ends[1], bytes, 5, MSG_PEEK | MSG_WAITALL));
	must("ioctl", ioctl(ends[1], FIONREAD, &waiting));
	tell("waiting", waiting);
	close(file);
	close_both(ends);
	close(listening);
}

/* Datagrams. */

static void connected_datagrams(void)
{
	char bytes[8];
	union address none = { .any = { .sa_family = AF_UNSPEC } };
	int server = datagram(AF_INET), fd = datagram(AF_INET);
	tell("bind datagrams", bind_to(server, v4("127.0.0.1", OPEN)));
	tell("bind them twice", bind_to(server, v4("127.0.0.1", OTHER)));
	tell("listen for datagrams", listen(server, 1));
	tell("bind a taken port for datagrams", bind_to(fd, v4("127.0.0.1", OPEN)));
	tell("send to nobody", send(fd, "x", 1, 0));
	tell("connect datagrams", connect_to(fd, v4("127.0.0.1", OPEN)));
	tell_own("own address", fd);
	tell_peer("peer", fd);
	tell("send", send(fd, "abc", 3, 0));
	tell("receive less", recv(server, bytes, 2, MSG_TRUNC));
	tell("send nothing", send(fd, "", 0, 0));
	tell("receive nothing", recv(server, bytes, sizeof bytes, 0));
	tell("connect elsewhere", connect_to(fd, v4("127.0.0.1", CLOSED)));
	tell("send where nobody is", send(fd, "x", 1, 0));
	tell_events("events", fd);
	tell("it comes back", send(fd, "x", 1, 0));
	tell("disconnect datagrams", connect(fd, &none.any, sizeof none.any));
	tell_peer("peer now", fd);
	tell("send to nobody any more", send(fd, "x", 1, 0));
	close(fd);
	close(server);
}

static long send_to(int fd, const char *data, size_t length, int flags, union address to)
{
	return sendto(fd, data, length, flags, &to.any, length_of(to));
}

static void addressed_datagrams(void)
{
	static char big[65508];
	char bytes[8];
	union address from = { 0 }, to = v4("127.0.0.1", OPEN);
	socklen_t length = sizeof from;
	int server = datagram(AF_INET), other = datagram(AF_INET), fd = datagram(AF_INET);
	must("bind", bind_to(server, to));
	must("bind", bind_to(other, v4("127.0.0.1", OTHER)));
	tell("send to an address", send_to(fd, "abc", 3, 0, to));
	tell_own("own address by sending", fd);
	tell_address("from", recvfrom(server, bytes, sizeof bytes, 0, &from.any, &length), from);
	tell("answer", sendto(server, "re", 2, 0, &from.any, length));
	tell("the answer", recv(fd, bytes, sizeof bytes, 0));
	tell("without waiting", send_to(fd, "x", 1, MSG_DONTWAIT | MSG_CONFIRM, to));
	tell("received", recv(server, bytes, sizeof bytes, 0));
	tell("in two parts, the first", send_to(fd, "ab", 2, MSG_MORE, to));
	tell("in two parts, the second", send_to(fd, "cd", 2, 0, to));
	tell("received in one", recv(server, bytes, sizeof bytes, 0));
	tell("too much", send_to(fd, big, sizeof big, 0, to));
	tell("as much as goes", send_to(fd, big, sizeof big - 1, 0, to));
	tell("received of it", recv(server, bytes, sizeof bytes, MSG_TRUNC));
	tell("to no port", send_to(fd, "x", 1, 0, v4("127.0.0.1", 0)));
	tell("to every interface", send_to(fd, "x", 1, 0, v4("0.0.0.0", OPEN)));
	tell("received that", recv(server, bytes, sizeof bytes, 0));
	tell("to the other version", send_to(fd, "x", 1, 0, v6("::1", OPEN)));
	tell("to too few bytes", sendto(fd, "x", 1, 0, &to.any, 8));
	tell("to nowhere in memory", sendto(fd, "x", 1, 0, (void *)8, sizeof to.v4));
	tell("data nowhere in memory", sendto(fd, (void *)8, 1, 0, &to.any, sizeof to.v4));
	tell("to where nobody is", send_to(fd, "x", 1, 0, v4("127.0.0.1", CLOSED)));
	tell("and nobody minds", send_to(fd, "x", 1, 0, v4("127.0.0.1", CLOSED)));
	must("connect", connect_to(fd, v4("127.0.0.1", OPEN)));
	tell("elsewhere than connected", send_to(fd, "x", 1, 0, v4("127.0.0.1", OTHER)));
	tell("received elsewhere", recv(other, bytes, sizeof bytes, 0));
	close(fd);
	close(other);
	close(server);
}

static void datagrams_of_version_6(void)
{
	char bytes[8];
	union address from = { 0 };
	socklen_t length = sizeof from;
	int server = datagram(AF_INET6), fd = datagram(AF_INET6), old = datagram(AF_INET);
	tell("bind datagrams for both", bind_to(server, v6("::", OPEN)));
	tell("send by version 6", send_to(fd, "abc", 3, 0, v6("::1", OPEN)));
	tell_address("from 6", recvfrom(server, bytes, sizeof bytes, 0, &from.any, &length), from);
	tell("send by version 4", send_to(old, "abc", 3, 0, v4("127.0.0.1", OPEN)));
	length = sizeof from;
	tell_address("from 4", recvfrom(server, bytes, sizeof bytes, 0, &from.any, &length), from);
	tell("answer it", sendto(server, "re", 2, 0, &from.any, length));
	tell("answered", recv(old, bytes, sizeof bytes, 0));
	tell("send to the mapped form", send_to(fd, "x", 1, 0, v6("::ffff:127.0.0.1", OPEN)));
	tell("received mapped", recv(server, bytes, sizeof bytes, 0));
	close(fd);
	close(old);
	close(server);
}

static struct msghdr message_to(union address *to, struct iovec *part)
{
	return (struct msghdr){ .msg_name = to, .msg_namelen = length_of(*to), .msg_iov = part, .msg_iovlen = 1 };
}

static void datagram_messages(void)
{
	char bytes[8];
	union address open = v4("127.0.0.1", OPEN), none = v4("127.0.0.1", 0);
	struct iovec parts[3] = { { "a", 1 }, { "bc", 2 }, { "def", 3 } };
	int server = datagram(AF_INET), fd = datagram(AF_INET);
	must("bind", bind_to(server, open));
	struct msghdr message = message_to(&open, parts);
	message.msg_iovlen = 3;
	tell("send a message of parts", sendmsg(fd, &message, 0));
	tell("received parts", recv(server, bytes, sizeof bytes, 0));
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr header;
	} control = { .header = { CMSG_LEN(sizeof(int)), IPPROTO_IP, IP_TOS } };
	*(int *)CMSG_DATA(&control.header) = 0x10;
	message.msg_control = &control;
	message.msg_controllen = sizeof control;
	tell("with a type of service", sendmsg(fd, &message, 0));
	tell("received with it", recv(server, bytes, sizeof bytes, 0));
	control.header.cmsg_len = 3;
	tell("with a control block too short", sendmsg(fd, &message, 0));
	struct mmsghdr many[3];
	for (int i = 0; i < 3; i++)
		many[i] = (struct mmsghdr){ .msg_hdr = message_to(&open, &parts[i]), .msg_len = 77 };
	tell("send three messages", sendmmsg(fd, many, 3, 0));
	for (int i = 0; i < 3; i++) {
		tell("bytes of one", many[i].msg_len);
		tell("received one", recv(server, bytes, sizeof bytes, 0));
	}
	many[1].msg_hdr.msg_name = &none;
	tell("send three, the second to nowhere", sendmmsg(fd, many, 3, 0));
	tell("received the first", recv(server, bytes, sizeof bytes, 0));
	many[0].msg_hdr.msg_name = &none;
	tell("send three, the first to nowhere", sendmmsg(fd, many, 3, 0));
	tell("send no messages", sendmmsg(fd, many, 0, 0));
	message.msg_control = NULL;
	message.msg_controllen = 0;
	message.msg_name = NULL;
	message.msg_namelen = 0;
	tell("a message to nobody", sendmsg(fd, &message, 0));
	tell("nothing is left", recv(server, bytes, sizeof bytes, MSG_DONTWAIT));
	close(fd);
	close(server);
}

/* Sockets of the domain's own go on as they are. */

static socklen_t local_address(struct sockaddr_un *address, const char *path)
{
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	size_t length = strlen(path);
	memcpy(address->sun_path, path, length);
	if (path[0] == '@')
		address->sun_path[0] = 0;
	return offsetof(struct sockaddr_un, sun_path) + length + (path[0] != '@');
}

static void local_streams(const char *path)
{
	struct sockaddr_un address;
	socklen_t length = local_address(&address, path);
	int server = stream(AF_UNIX), fd = stream(AF_UNIX);
	tell("connect to no socket", connect(fd, (void *)&address, length));
	tell("bind a local one", bind(server, (void *)&address, length));
	tell("connect before listening", connect(fd, (void *)&address, length));
	tell("listen locally", listen(server, 8));
	tell("connect locally", connect(fd, (void *)&address, length));
	int accepted = must("accept", accept(server, NULL, NULL));
	tell("write locally", write(fd, "x", 1));
	tell("read locally", read(accepted, &address, 1));
	struct ucred who = { 0 };
	length = sizeof who;
	must("getsockopt", getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length));
	tell("the listener is of this user", who.uid == getuid());
	close(accepted);
	close(fd);
	close(server);
	unlink(path);
}

static void local_datagrams(void)
{
	char bytes[8];
	struct sockaddr_un address;
	socklen_t length = local_address(&address, "@palisade-semantics");
	int server = datagram(AF_UNIX), fd = datagram(AF_UNIX);
	tell("send to no name", sendto(fd, "x", 1, 0, (void *)&address, length));
	tell("bind a name", bind(server, (void *)&address, length));
	tell("send to a name", sendto(fd, "abc", 3, 0, (void *)&address, length));
	tell("received by name", recv(server, bytes, sizeof bytes, MSG_DONTWAIT));
	tell("connect to a name", connect(fd, (void *)&address, length));
	tell("send to who is connected", send(fd, "de", 2, 0));
	tell("received by connection", recv(server, bytes, sizeof bytes, 0));
	close(fd);
	close(server);
}

struct local_connect {
	struct sockaddr_un address;
	socklen_t length;
	int fd, result;
};

static void *connect_locally(void *call)
{
	struct local_connect *connect_it = call;
	connect_it->result = connect(connect_it->fd, (void *)&connect_it->address, connect_it->length);
	return NULL;
}

/* A local listener whose queue is full lets others wait, and not the rest of the program. */
static void crowded_local_stream(const char *path)
{
	struct local_connect waits = { .fd = stream(AF_UNIX), .result = -1 };
	pthread_t thread;
	waits.length = local_address(&waits.address, path);
	int server = stream(AF_UNIX), first = stream(AF_UNIX), late = stream(AF_UNIX), tcp = stream(AF_INET);
	must("bind", bind(server, (void *)&waits.address, waits.length));
	must("listen", listen(server, 0));
	must("connect", connect(first, (void *)&waits.address, waits.length));
	must("fcntl", fcntl(late, F_SETFL, O_NONBLOCK));
	tell("connect to a full queue without waiting", connect(late, (void *)&waits.address, waits.length));
	must("fcntl", fcntl(late, F_SETFL, 0));
	set_send_timeout(late, 50);
	tell("connect to a full queue with a timeout", connect(late, (void *)&waits.address, waits.length));
	must("pthread_create", -pthread_create(&thread, NULL, connect_locally, &waits));
	tell("connect elsewhere meanwhile", connect_to(tcp, v4("127.0.0.1", CLOSED)));
	close(must("accept", accept(server, NULL, NULL)));
	close(must("accept", accept(server, NULL, NULL)));
	must("pthread_join", -pthread_join(thread, NULL));
	tell("connect to a full queue", waits.result);
	close(waits.fd);
	close(tcp);
	close(late);
	close(first);
	close(server);
	unlink(path);
}

static void crowded_local_datagrams(const char *path)
{
	struct sockaddr_un address;
	socklen_t length = local_address(&address, path);
	int server = datagram(AF_UNIX), fd = datagram(AF_UNIX), sent = 0, received = 0;
	must("bind", bind(server, (void *)&address, length));
	while (sendto(fd, "x", 1, MSG_DONTWAIT, (void *)&address, length) == 1)
		sent++;
	tell("send to a full queue without waiting", -1);
	set_send_timeout(fd, 50);
	tell("send to a full queue with a timeout", sendto(fd, "x", 1, 0, (void *)&address, length));
	while (recv(server, &address, 1, MSG_DONTWAIT) == 1)
		received++;
	tell("all have arrived", sent == received);
	close(fd);
	close(server);
	unlink(path);
}

static void passed_descriptors(void)
{
	int pair[2], passed = stream(AF_INET), received = -1;
	must("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr header;
	} control = { .header = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	*(int *)CMSG_DATA(&control.header) = passed;
	struct iovec part = { "x", 1 };
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
	};
	tell("pass a socket", sendmsg(pair[0], &message, 0));
	close(passed);
	part.iov_base = &received;
	must("recvmsg", recvmsg(pair[1], &message, 0));
	received = *(int *)CMSG_DATA(&control.header);
	tell("connect what was passed", connect_to(received, v4("127.0.0.1", CLOSED)));
	close(received);
	close_both(pair);
}

int main(int count, char **arguments)
{
	if (count == 4 && !strcmp(arguments[1], "executed"))
		return executed(arguments + 2);
	if (count != 2) {
		fprintf(stderr, "usage: semantics FOLDER\n");
		return 2;
	}
	char path[100];
	snprintf(path, sizeof path, "%s/socket", arguments[1]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	sockets();
	flags_of_sockets();
	numbers_run_out();
	blocking_connect();
	nonblocking_connect();
	slow_connect();
	restarted_connect();
	fast_open();
	through_signals(path);
	wrong_arguments();
	forgets_its_peer();
	ports();
	ports_of_clients();
	shared_ports();
	both_families();
	shared_descriptions();
	close_on_exec(arguments[0]);
	half_close();
	data();
	connected_datagrams();
	addressed_datagrams();
	datagrams_of_version_6();
	datagram_messages();
	local_streams(path);
	local_datagrams();
	crowded_local_stream(path);
	crowded_local_datagrams(path);
	passed_descriptors();
	return 0;
}
