/*
 * The floor of connections that somebody else makes: runs a program whose socket(2) and connect(2) this one
 * carries out.
 *
 *     floor-notify COMMAND [ARGUMENT…]
 *
 * A filter leaves both calls to this program (seccomp_unotify(2)). For socket(2) it makes the socket and puts it
 * into the program with the answer, in one step. For connect(2) it copies the address once, takes the program's
 * socket, makes sure that it was this call it learnt about, and connects. It decides nothing, knows one process
 * with one thread, and waits for each call to be done.
 *
 * Why it is the least: whoever answers by address has two calls to be woken for, and the address to copy and
 * the socket to get in between. The kernel hands the processor over to this program and back
 * (`SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`, Linux 6.6), and nothing is asked of it twice: the next call is waited for
 * by receiving it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Headers before Linux 6.6 lack these. */
#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP 1
#endif
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif
#ifndef SECCOMP_ADDFD_FLAG_SEND
#define SECCOMP_ADDFD_FLAG_SEND 2
#endif

static int listener, child_pidfd;
static pid_t child;

static void die(const char *what)
{
	fprintf(stderr, "floor-notify: %s: %s\n", what, strerror(errno));
	_exit(125);
}

static int load_filter(void)
{
	struct sock_filter notify[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_connect, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof notify / sizeof notify[0], .filter = notify };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		die("no_new_privs");
	int fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	if (fd < 0)
		die("seccomp");
	return fd;
}

/* Tells the number of its listener, and waits until that was taken: executing closes it. */
static void begin(char **command, int tells, int hears)
{
	int fd = load_filter();
	char byte;
	if (write(tells, &fd, sizeof fd) != sizeof fd || read(hears, &byte, 1) != 1)
		die("pipe");
	execv(command[0], command);
	die(command[0]);
}

static void end_with_child(int signal)
{
	int status;
	(void)signal;
	if (waitpid(child, &status, WNOHANG) == child)
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void answer(uint64_t id, int result)
{
	struct seccomp_notif_resp response = { .id = id, .error = result };
	/* It fails only where nobody waits any more. */
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

static void make_socket(const struct seccomp_notif *call)
{
	int made = socket(call->data.args[0], call->data.args[1] | SOCK_CLOEXEC, call->data.args[2]);
	if (made < 0) {
		answer(call->id, -errno);
		return;
	}
	struct seccomp_notif_addfd addition = {
		.id = call->id,
		.flags = SECCOMP_ADDFD_FLAG_SEND,
		.srcfd = made,
		.newfd_flags = call->data.args[1] & SOCK_CLOEXEC ? O_CLOEXEC : 0,
	};
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &addition) < 0)
		answer(call->id, -errno);
	close(made);
}

static int connect_for(const struct seccomp_notif *call)
{
	struct sockaddr_storage address;
	size_t length = call->data.args[2];
	if (length > sizeof address)
		return -EINVAL;
	struct iovec here = { &address, length };
	struct iovec there = { (void *)(uintptr_t)call->data.args[1], length };
	if (process_vm_readv(call->pid, &here, 1, &there, 1, 0) != (ssize_t)length)
		return -EFAULT;
	int taken = syscall(SYS_pidfd_getfd, child_pidfd, (int)call->data.args[0], 0);
	if (taken < 0)
		return -errno;
	int result = ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &call->id);
	if (result == 0)
		result = connect(taken, (struct sockaddr *)&address, length);
	result = result == 0 ? 0 : -errno;
	close(taken);
	return result;
}

static void serve(void)
{
	for (;;) {
		struct seccomp_notif call = { 0 };
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0)
			continue;
		if (call.data.nr == SYS_socket)
			make_socket(&call);
		else
			answer(call.id, connect_for(&call));
	}
}

int main(int argc, char **argv)
{
	int tells[2], hears[2], theirs;
	if (argc < 2) {
		fprintf(stderr, "usage: floor-notify COMMAND [ARGUMENT...]\n");
		return 125;
	}
	if (pipe2(tells, O_CLOEXEC) != 0 || pipe2(hears, O_CLOEXEC) != 0)
		die("pipe");
	struct sigaction ends = { .sa_handler = end_with_child };
	if (sigaction(SIGCHLD, &ends, NULL) != 0)
		die("SIGCHLD");
	child = fork();
	if (child < 0)
		die("fork");
	if (child == 0)
		begin(argv + 1, tells[1], hears[0]);
	child_pidfd = syscall(SYS_pidfd_open, child, 0);
	if (child_pidfd < 0)
		die("pidfd_open");
	if (read(tells[0], &theirs, sizeof theirs) != sizeof theirs)
		die("the program's listener");
	listener = syscall(SYS_pidfd_getfd, child_pidfd, theirs, 0);
	if (listener < 0 || write(hears[1], "", 1) != 1)
		die("the program's listener");
	/* Kernels before it wake whoever waits on any processor. */
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
	serve();
	return 0;
}
