/*
 * The floor of what somebody else does or sees of a program's calls: runs a program whose socket(2) and connect(2)
 * this one carries out, or whose files this one is told of.
 *
 *     floor-notify [--names | --programs] [--processes] [--read FOLDER] [--write FOLDER] [--protect FILE] COMMAND [ARGUMENT…]
 *
 * A filter leaves the calls to this program (seccomp_unotify(2)). For socket(2) it makes the socket and puts it
 * into the program with the answer, in one step. For connect(2) it copies the address once, takes the program's
 * socket, makes sure that it was this call it learnt about, and connects. It decides nothing, knows one process
 * with one thread, and waits for each call to be done.
 *
 * With `--names` those calls are left to it that name a file: it copies each name, makes sure that it was this
 * call's, and lets the call go on. It follows no name, knows no working directory and writes nothing down; the
 * program may have as many processes as it likes. With `--programs` it is told of what is executed and of no other
 * file; where such a name is not absolute it reads which folder it begins at, for the name alone tells nothing. All
 * other calls then cost what they cost behind any filter, for the kernel knows of each number that it is allowed
 * whatever the arguments are. `--processes`, `--read`, `--write` and `--protect` are as in floor-filter.c.
 *
 * Why it is the least: whoever answers by address has two calls to be woken for, and the address to copy and
 * the socket to get in between; whoever tells which files a program asks for is woken for each of these calls, for
 * tracing (ptrace(2)) wakes twice. The kernel hands the processor over to this program and back
 * (`SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`, Linux 6.6), and nothing is asked of it twice: the next call is waited for
 * by receiving it.
 */
#define _GNU_SOURCE
#include "mounts.h"
#include <linux/audit.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum {
	MOST_CALLS = 64,
	/* As much of a name as is copied at one time, and no more than to the end of its page: most names are shorter. */
	PART_BYTES = 256,
	PAGE_BYTES = 4096,
	MOST_NAME_BYTES = 4096,
};

/* A call that names files: its number, and a bit for each argument that points to a name. */
struct naming {
	int number;
	unsigned names;
};

static const struct naming NAMING[] = {
	/* These two alone with --programs. */
	{ SYS_execve, 1 << 0 },
	{ SYS_execveat, 1 << 1 },
	{ SYS_openat, 1 << 1 },
	{ SYS_openat2, 1 << 1 },
	{ SYS_newfstatat, 1 << 1 },
	{ SYS_statx, 1 << 1 },
	{ SYS_statfs, 1 << 0 },
	{ SYS_faccessat, 1 << 1 },
	{ SYS_faccessat2, 1 << 1 },
	{ SYS_readlinkat, 1 << 1 },
	{ SYS_chdir, 1 << 0 },
	{ SYS_truncate, 1 << 0 },
	{ SYS_mkdirat, 1 << 1 },
	{ SYS_mknodat, 1 << 1 },
	{ SYS_unlinkat, 1 << 1 },
	{ SYS_renameat, 1 << 1 | 1 << 3 },
	{ SYS_renameat2, 1 << 1 | 1 << 3 },
	{ SYS_linkat, 1 << 1 | 1 << 3 },
	{ SYS_symlinkat, 1 << 2 },
	{ SYS_fchmodat, 1 << 1 },
	{ SYS_fchownat, 1 << 1 },
	{ SYS_utimensat, 1 << 1 },
	{ SYS_getxattr, 1 << 0 },
	{ SYS_lgetxattr, 1 << 0 },
	{ SYS_setxattr, 1 << 0 },
	{ SYS_lsetxattr, 1 << 0 },
	{ SYS_listxattr, 1 << 0 },
	{ SYS_llistxattr, 1 << 0 },
	{ SYS_removexattr, 1 << 0 },
	{ SYS_lremovexattr, 1 << 0 },
	{ SYS_inotify_add_watch, 1 << 1 },
/* What newer architectures have by the calls above alone. */
#ifdef SYS_open
	{ SYS_open, 1 << 0 },
	{ SYS_creat, 1 << 0 },
	{ SYS_stat, 1 << 0 },
	{ SYS_lstat, 1 << 0 },
	{ SYS_access, 1 << 0 },
	{ SYS_readlink, 1 << 0 },
	{ SYS_mkdir, 1 << 0 },
	{ SYS_mknod, 1 << 0 },
	{ SYS_rmdir, 1 << 0 },
	{ SYS_unlink, 1 << 0 },
	{ SYS_rename, 1 << 0 | 1 << 1 },
	{ SYS_link, 1 << 0 | 1 << 1 },
	{ SYS_symlink, 1 << 1 },
	{ SYS_chmod, 1 << 0 },
	{ SYS_chown, 1 << 0 },
	{ SYS_lchown, 1 << 0 },
	{ SYS_utime, 1 << 0 },
	{ SYS_utimes, 1 << 0 },
	{ SYS_futimesat, 1 << 1 },
#endif
};
enum { EXECUTING_CALLS = 2, NAMING_CALLS = sizeof NAMING / sizeof NAMING[0] };
_Static_assert(sizeof NAMING / sizeof NAMING[0] <= MOST_CALLS, "there is room for each");

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

/* Leaves the calls of these numbers to whoever listens. */
static int load_filter(const int *numbers, int count)
{
	struct sock_filter notify[GUARD_LENGTH + MOST_CALLS + 3];
	int at = 0;
	notify[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	at += guard_modes(notify + at);
	for (int call = 0; call < count; call++)
		notify[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, numbers[call], count - call, 0);
	notify[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	notify[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
	struct sock_fprog program = { .len = at, .filter = notify };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		die("no_new_privs");
	int fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	if (fd < 0)
		die("seccomp");
	return fd;
}

/* Tells the number of its listener, and waits until that was taken: executing closes it. */
static void begin(char **command, int tells, int hears, int naming_calls)
{
	int numbers[MOST_CALLS] = { SYS_socket, SYS_connect };
	for (int call = 0; call < naming_calls; call++)
		numbers[call] = NAMING[call].number;
	int fd = load_filter(numbers, naming_calls ? naming_calls : 2);
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

static char name[MOST_NAME_BYTES];

/* Up to its end, or to where there is nothing. */
static void copy_name(pid_t thread, uint64_t address)
{
	size_t length = 0;
	name[0] = 0;
	while (length < sizeof name) {
		uint64_t from = address + length;
		size_t wanted = PAGE_BYTES - from % PAGE_BYTES;
		if (wanted > PART_BYTES)
			wanted = PART_BYTES;
		if (wanted > sizeof name - length)
			wanted = sizeof name - length;
		struct iovec here = { name + length, wanted };
		struct iovec there = { (void *)(uintptr_t)from, wanted };
		if (process_vm_readv(thread, &here, 1, &there, 1, 0) != (ssize_t)wanted)
			return;
		if (memchr(name + length, 0, wanted) != NULL)
			return;
		length += wanted;
	}
}

/* Where a name begins that is not absolute. */
static void read_folder(pid_t thread)
{
	static char folder[MOST_NAME_BYTES];
	char link[32];
	snprintf(link, sizeof link, "/proc/%d/cwd", thread);
	/* The caller may be gone by now. */
	if (readlink(link, folder, sizeof folder) < 0)
		return;
}

static void read_names(const struct seccomp_notif *call, int with_folder)
{
	struct seccomp_notif_resp response = { .id = call->id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };
	int kind = 0;
	while (NAMING[kind].number != call->data.nr)
		kind++;
	for (int argument = 0; argument < 6; argument++)
		if (NAMING[kind].names & 1u << argument)
			copy_name(call->pid, call->data.args[argument]);
	if (with_folder && name[0] != '/')
		read_folder(call->pid);
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &call->id) == 0)
		ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

static void serve(int naming_calls)
{
	for (;;) {
		struct seccomp_notif call = { 0 };
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0)
			continue;
		if (naming_calls)
			read_names(&call, naming_calls == EXECUTING_CALLS);
		else if (call.data.nr == SYS_socket)
			make_socket(&call);
		else
			answer(call.id, connect_for(&call));
	}
}

int main(int argc, char **argv)
{
	int tells[2], hears[2], theirs;
	int by_names = argc > 1 && strcmp(argv[1], "--names") == 0;
	int by_programs = argc > 1 && strcmp(argv[1], "--programs") == 0;
	int naming_calls = by_names ? NAMING_CALLS : by_programs ? EXECUTING_CALLS : 0;
	char **command = argv + 1 + (by_names || by_programs);
	int apart = command < argv + argc && strcmp(*command, "--processes") == 0;
	command += apart;
	int taken = mount_by_words(command, argv + argc - 1 - command);
	if (taken < 0)
		die(unmounted);
	command += taken;
	if (command >= argv + argc) {
		fprintf(stderr, "usage: floor-notify [--names | --programs] [--processes] [--read FOLDER] [--write FOLDER] [--protect FILE] COMMAND [ARGUMENT...]\n");
		return 125;
	}
	if (pipe2(tells, O_CLOEXEC) != 0 || pipe2(hears, O_CLOEXEC) != 0)
		die("pipe");
	struct sigaction ends = { .sa_handler = end_with_child };
	if (sigaction(SIGCHLD, &ends, NULL) != 0)
		die("SIGCHLD");
	if (apart && unshare(CLONE_NEWPID) != 0)
		die("processes");
	child = fork();
	if (child < 0)
		die("fork");
	if (child == 0)
		begin(command, tells[1], hears[0], naming_calls);
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
	serve(naming_calls);
	return 0;
}
