/*
 * Attacks on whoever decides about sockets from outside: floods of calls, calls that wait for
 * ever, calls whose caller goes away, and a second decider. Where the policy grants the witness,
 * the nonce has to arrive in spite of the guest's own flood.
 */
#include "sockets.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/user.h>

/* ---- floods ---- */

static void *storm(void *unused)
{
	union address anywhere = V4("other");
	(void)unused;
	for (;;) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		connect_to(fd, anywhere);
		listen(fd, 1);
		bind_to(fd, anywhere);
		close(fd);
	}
	return NULL;
}

int attack_connect_in_storm(void)
{
	enum { STORMS = 16, ROUNDS = 50 };
	for (int i = 0; i < STORMS; i++)
		in_thread(storm, NULL);
	for (int i = 0; i < ROUNDS; i++)
		close(open_door(AF_INET, SOCK_STREAM));
	return deliver(V4("tcp4"), SOCK_STREAM, 0);
}

static volatile int waiting;

static void *wait_for_ever(void *unused)
{
	(void)unused;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	__atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
	connect_to(fd, V4("full"));
	return NULL;
}

static void wait_in_many(int threads)
{
	for (int i = 0; i < threads; i++)
		in_thread(wait_for_ever, NULL);
	while (waiting < threads)
		sched_yield();
	usleep(50000); /* let them get into the call */
}

/* Many connects that nobody answers, and one that somebody would. */
int attack_connect_past_waiting(void)
{
	wait_in_many(100);
	return deliver(V4("tcp4"), SOCK_STREAM, 0);
}

/* More than a supervisor has descriptors, if it needs one for each. */
int attack_connect_past_many_waiting(void)
{
	allow_most_descriptors();
	wait_in_many(1100);
	return deliver(V4("tcp4"), SOCK_STREAM, 0);
}

static void *block_again(void *fd)
{
	for (;;) {
		fcntl(*(int *)fd, F_SETFL, 0);
		__asm__ volatile("" : : : "memory");
	}
	return NULL;
}

static void *connect_blocking(void *fd)
{
	connect_to(*(int *)fd, V4("full"));
	return NULL;
}

/*
 * Whoever connects without waiting, on a socket of the guest's, must say so to the socket; and the
 * guest says the opposite all the time.
 */
int attack_connect_past_unblocked(void)
{
	enum { SOCKETS = 200 };
	static int fds[SOCKETS];
	for (int i = 0; i < SOCKETS && race_goes_on(); i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		must(fds[i], "socket");
		if (i % 8 == 0)
			in_thread(block_again, &fds[i]);
		in_thread(connect_blocking, &fds[i]);
	}
	return deliver(V4("tcp4"), SOCK_STREAM, 0);
}

static void *close_soon(void *fd)
{
	usleep(300);
	close(*(int *)fd);
	return NULL;
}

/* Whose close is the last of such a socket waits, for as long as the guest likes. */
static int lingering_socket(void)
{
	static char block[65536];
	struct linger for_long = { 1, 20 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(fd, "socket");
	must(connect_to(fd, V4("deaf")), "connect");
	while (send(fd, block, sizeof block, MSG_DONTWAIT) > 0)
		;
	set(fd, SOL_SOCKET, SO_SNDBUF, 1 << 22);
	must(setsockopt(fd, SOL_SOCKET, SO_LINGER, &for_long, sizeof for_long), "SO_LINGER");
	return fd;
}

/* The guest closes its descriptor while the supervisor has one of the same socket. */
int attack_connect_past_lingering(void)
{
	enum { TRIES = 12, MESSAGES = 1024 };
	static struct mmsghdr batch[MESSAGES];
	static int fds[TRIES];
	struct iovec byte = { "x", 1 };
	for (int i = 0; i < MESSAGES; i++)
		batch[i].msg_hdr = (struct msghdr){ .msg_iov = &byte, .msg_iovlen = 1 };
	for (int i = 0; i < TRIES; i++) {
		pid_t child = fork();
		if (child == 0) {
			fds[i] = lingering_socket();
			in_thread(close_soon, &fds[i]);
			sendmmsg(fds[i], batch, MESSAGES, MSG_DONTWAIT);
			raise(SIGKILL);
		}
	}
	usleep(300000); /* by then each has its call under way, or behind it */
	return deliver(V4("tcp4"), SOCK_STREAM, 0);
}

/* ---- callers that go away ---- */

int attack_connect_past_killed(void)
{
	enum { CALLERS = 100 };
	for (int i = 0; i < CALLERS; i++) {
		pid_t child = fork();
		if (child == 0) {
			wait_for_ever(NULL);
			_exit(0);
		}
		usleep(i * 20);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	return deliver(V4("tcp4"), SOCK_STREAM, 0);
}

static void nothing(int signal)
{
	(void)signal;
}

static void interrupt_often(int flags)
{
	struct sigaction action = { .sa_handler = nothing, .sa_flags = flags };
	struct itimerval often = { { 0, 200 }, { 0, 200 } };
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
}

/* Signals all the time, and calls that begin again after them. */
int attack_connect_restarted(void)
{
	enum { ROUNDS = 200 };
	interrupt_often(SA_RESTART);
	for (int i = 0; i <= ROUNDS; i++) {
		/* Not by open_socket: calls on a socket with a time limit do not begin again, signal(7). */
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		must(fd, "socket");
		/*
		 * EISCONN: the kernel may begin a call again that was answered already, when a signal comes
		 * between the answer and its end. Nobody in user space sees that; the socket is connected.
		 */
		int connected = connect_to(fd, V4(i < ROUNDS ? "door-tcp4" : "tcp4"));
		if (connected && errno != EISCONN)
			must(connected, "connect");
		if (i == ROUNDS)
			return say(fd);
		close(fd);
	}
	return REFUSED;
}

/* The same, with calls that end: connect(2) goes on by itself then, and poll(2) tells. */
int attack_connect_interrupted(void)
{
	enum { TRIES = 100 };
	union address to = V4("tcp4");
	interrupt_often(0);
	int fd = -1;
	for (int i = 0; i < TRIES && fd < 0; i++)
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(fd, "socket");
	for (int i = 0; i < TRIES; i++)
		if (!connect_to(fd, to) || errno == EISCONN)
			return say(fd);
		else if (errno != EINTR && errno != EALREADY && errno != EINPROGRESS)
			return refused("connect");
	return refused("connect");
}

/*
 * A call that ended early is followed by the same about another socket: the same number, the same
 * address, the same thread. What became of the first must not be told of the second.
 */
int attack_connect_after_interrupted(void)
{
	enum { ROUNDS = 400 };
	union address door = V4("door-tcp4"), peer;
	interrupt_often(0);
	for (int i = 0; i < ROUNDS; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		socklen_t length = sizeof peer;
		if (fd >= 0 && !connect_to(fd, door) && getpeername(fd, &peer.any, &length))
			return refused("connect to nobody");
		close(fd);
	}
	struct itimerval never = { 0 };
	setitimer(ITIMER_REAL, &never, NULL);
	return deliver(V4("tcp4"), SOCK_STREAM, 0);
}

/* A thread calls while another executes a new program. */
int attack_connect_after_exec(void)
{
	enum { STORMS = 4 };
	if (argument("executed"))
		return deliver(V4("tcp4"), SOCK_STREAM, 0);
	for (int i = 0; i < STORMS; i++)
		in_thread(storm, NULL);
	wait_in_many(8);
	execl(own_path(), own_path(), "connect-after-exec", nonce(), "executed=1",
	      PATH_OF("tcp4=%ld", need_number("tcp4")), NULL);
	unready("execl");
}

/* No descriptor is free; then one is. */
int attack_connect_at_full_table(void)
{
	struct rlimit few = { 64, 64 };
	int last = -1, fd;
	if (setrlimit(RLIMIT_NOFILE, &few))
		unready("setrlimit");
	while ((fd = dup(STDIN_FILENO)) >= 0)
		last = fd;
	if (socket(AF_INET, SOCK_STREAM, 0) >= 0 || errno != EMFILE)
		return refused("socket with a full table");
	close(last);
	return deliver(V4("tcp4"), SOCK_STREAM, 0);
}

/* The page of the address comes and goes. */
static void *flicker(void *page)
{
	for (;;) {
		mprotect(page, 4096, PROT_NONE);
		mprotect(page, 4096, PROT_READ | PROT_WRITE);
		madvise(page, 4096, MADV_DONTNEED);
	}
	return NULL;
}

int attack_connect_by_flickering_page(void)
{
	enum { ROUNDS = 500 };
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		unready("mmap");
	in_thread(flicker, page);
	for (int i = 0; i < ROUNDS; i++) {
		int fd = TCP4();
		/* Where the page is empty it says AF_UNSPEC, and nothing happens. */
		connect(fd, page, sizeof(struct sockaddr_in));
		close(fd);
	}
	return deliver(V4("tcp4"), SOCK_STREAM, 0);
}

/* The thread's leader is gone when it connects, where that is granted. */
static void *deliver_alone(void *unused)
{
	(void)unused;
	usleep(50000); /* the leader ends meanwhile */
	_exit(deliver(V4("tcp4"), SOCK_STREAM, 0));
}

int attack_connect_without_leader(void)
{
	in_thread(deliver_alone, NULL);
	pthread_exit(NULL);
}

/* ---- the supervisor ends ---- */

/* With calls under way; the suite kills the launcher once this holds. */
int attack_outlive_supervisor(void)
{
	enum { SECONDS = 20 };
	for (int i = 0; i < 4; i++)
		in_thread(storm, NULL);
	wait_in_many(8);
	if (write(STDOUT_FILENO, "held\n", 5) != 5)
		unready("write held");
	sleep(SECONDS);
	return DONE;
}

/* ---- who a message is from ---- */

/* A message that the supervisor sends for the guest must not be the supervisor's. */
int attack_message_as_supervisor(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct iovec data = { (char *)nonce(), strlen(nonce()) };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
	must(fd, "socket");
	must(connect_to(fd, local(PATH_OF("%s/run/named.dgram", need("scratch")))), "connect");
	must(sendmsg(fd, &message, 0), "sendmsg");
	errno = EPERM;
	return geteuid() ? refused("to be root") : DONE;
}

#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#endif

/* A message to oneself, and with it a descriptor of the process that sent it. */
int attack_supervisor_by_message(void)
{
	int pair[2], one = 1;
	char byte, space[256];
	struct iovec data = { &byte, 1 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		unready("socketpair");
	/* Without a wall nobody sends in the guest's stead, and the launcher is its parent. */
	if (argument("naive"))
		return syscall(SYS_pidfd_open, getppid(), 0) < 0 ? refused("pidfd_open") : held();
	if (setsockopt(pair[1], SOL_SOCKET, SO_PASSPIDFD, &one, sizeof one))
		return refused("SO_PASSPIDFD");
	must(sendmsg(pair[0], &message, 0), "sendmsg");
	message.msg_control = space;
	message.msg_controllen = sizeof space;
	must(recvmsg(pair[1], &message, 0), "recvmsg");
	return held();
}

/* ---- another decider ---- */

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))

static int own_listener(unsigned call)
{
	struct sock_filter lines[] = {
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { sizeof lines / sizeof *lines, lines };
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
}

/*
 * Where a result goes that the kernel would refuse to write: into a page that is read only. Whoever writes
 * it in the guest's stead must not do more. Without a wall the guest plays that part itself.
 */
int attack_result_in_constant(void)
{
	enum { PAGE = 4096 };
	struct iovec data = { (char *)nonce(), strlen(nonce()) };
	struct mmsghdr *batch = mmap((void *)0x10000000000, PAGE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (batch == MAP_FAILED)
		unready("mmap");
	*batch = (struct mmsghdr){ .msg_hdr = { .msg_iov = &data, .msg_iovlen = 1 } };
	if (!argument("writable"))
		mprotect(batch, PAGE, PROT_READ);
	if (argument("naive")) {
		unsigned length = data.iov_len;
		int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
		must(pwrite(memory, &length, sizeof length, (off_t)&batch->msg_len), "/proc/self/mem");
	} else if (sendmmsg(open_door(AF_INET, SOCK_DGRAM), batch, 1, 0) < 0) {
		refused("sendmmsg");
	}
	return held();
}

int attack_own_listener(void)
{
	must(own_listener(SYS_getrandom), "seccomp");
	return held();
}

static void *let_pass(void *word)
{
	for (;;) {
		struct seccomp_notif asked = { 0 };
		if (ioctl(*(int *)word, SECCOMP_IOCTL_NOTIF_RECV, &asked))
			continue;
		struct seccomp_notif_resp answer = { .id = asked.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };
		ioctl(*(int *)word, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	}
	return NULL;
}

/* The newest listener is asked first, and says that the kernel should go on. */
int attack_listener_lets_pass(void)
{
	static int listener;
	int fd = TCP4();
	listener = own_listener(SYS_connect);
	must(listener, "seccomp");
	in_thread(let_pass, &listener);
	return say_to(fd, V4("tcp4"));
}

/* A filter that allows, or fakes an answer, in front of the wall's own. */
int attack_filter_on_top(void)
{
	struct sock_filter lines[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct sock_fprog filter = { 1, lines };
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	must(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter), "seccomp");
	return deliver(V4("tcp4"), SOCK_STREAM, 0);
}

/*
 * A tracer exchanges the address once the call has begun: the tracee asks for the door.
 * Linux asks the filter after the tracer (since 4.8), and whoever looks must look then.
 */
int attack_traced_connect(void)
{
	union address door = V4("door-tcp4"), witness = V4("tcp4");
	union address *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		unready("mmap");
	*shared = door;
	pid_t child = fork();
	if (child == 0) {
		int fd = TCP4();
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			_exit(refused("PTRACE_TRACEME"));
		raise(SIGSTOP);
		_exit(connect(fd, &shared->any, sizeof door.v4) ? refused("connect") : say(fd));
	}
	int status;
	while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
		struct user_regs_struct registers;
		ptrace(PTRACE_GETREGS, child, NULL, &registers);
		if (registers.orig_rax == SYS_connect)
			*shared = witness;
		ptrace(PTRACE_SYSCALL, child, NULL, NULL);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : UNREADY;
}

/* The tracee calls something harmless, and the tracer makes a connect of it. */
int attack_traced_into_connect(void)
{
	union address witness = V4("tcp4");
	union address *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int fd = TCP4();
	if (shared == MAP_FAILED)
		unready("mmap");
	*shared = witness;
	pid_t child = fork();
	if (child == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			_exit(refused("PTRACE_TRACEME"));
		raise(SIGSTOP);
		syscall(SYS_getpid, fd, shared, sizeof witness.v4);
		_exit(say(fd));
	}
	int status;
	bool changed = false;
	while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
		struct user_regs_struct registers;
		ptrace(PTRACE_GETREGS, child, NULL, &registers);
		if (registers.orig_rax == SYS_getpid && registers.rdi == (unsigned)fd && !changed) {
			registers.orig_rax = SYS_connect;
			ptrace(PTRACE_SETREGS, child, NULL, &registers);
			changed = true;
		}
		ptrace(PTRACE_SYSCALL, child, NULL, NULL);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : UNREADY;
}
