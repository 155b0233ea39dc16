/*
 * `fault TID ORDER [PATH]`: has a thread make a system call, as if by a mistake of
 * its own, and prints what the kernel answers: 0, or an error number. Then it goes on as before, unless it
 * has executed something.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

static pid_t thread;

static void must(long result, const char *what)
{
	if (result != -1)
		return;
	fprintf(stderr, "fault: %s: %s\n", what, strerror(errno));
	exit(3);
}

static void await_stop(void)
{
	int status;
	must(waitpid(thread, &status, __WALL), "waitpid");
	if (WIFSTOPPED(status))
		return;
	fprintf(stderr, "fault: the thread has ended\n");
	exit(3);
}

/* The instruction `syscall`. */
static int is_call(unsigned long address)
{
	errno = 0;
	long code = ptrace(PTRACE_PEEKTEXT, thread, (void *)address, NULL);
	return !errno && (code & 0xffff) == 0x050f;
}

/* Far below what the thread's stack holds. */
static unsigned long lay_down(struct user_regs_struct *registers, const char *path, unsigned long array)
{
	unsigned long at = (registers->rsp - 8192) & ~15ul, pointers[2] = { at, 0 };
	struct iovec text = { (void *)path, strlen(path) + 1 }, there = { (void *)at, text.iov_len };
	struct iovec list = { pointers, sizeof pointers }, place = { (void *)(at - 64), sizeof pointers };
	must(process_vm_writev(thread, &text, 1, &there, 1, 0), "write to the thread");
	must(process_vm_writev(thread, &list, 1, &place, 1, 0), "write to the thread");
	return array ? at - 64 : at;
}

static long call(struct user_regs_struct *registers)
{
	struct user_regs_struct after;
	must(ptrace(PTRACE_SETREGS, thread, NULL, registers), "set registers");
	/* To its beginning, where the kernel has written ENOSYS, and to its end. */
	do {
		must(ptrace(PTRACE_SYSCALL, thread, NULL, NULL), "step");
		await_stop();
		must(ptrace(PTRACE_GETREGS, thread, NULL, &after), "get registers");
	} while ((long)after.rax == -ENOSYS || after.rip == registers->rip);
	return (long)after.rax < 0 ? -(long)after.rax : 0;
}

/* Goes on to the next call and has the kernel skip it; what is left is to make it. */
static struct user_regs_struct skip_next_call(void)
{
	struct user_regs_struct registers, skipped;
	must(ptrace(PTRACE_SYSCALL, thread, NULL, NULL), "go on");
	await_stop();
	must(ptrace(PTRACE_GETREGS, thread, NULL, &registers), "get registers");
	skipped = registers;
	skipped.orig_rax = -1;
	must(ptrace(PTRACE_SETREGS, thread, NULL, &skipped), "set registers");
	must(ptrace(PTRACE_SYSCALL, thread, NULL, NULL), "skip a call");
	await_stop();
	registers.rip -= 2;
	registers.rax = registers.orig_rax;
	return registers;
}

int main(int count, char **words)
{
	struct user_regs_struct registers;
	const char *order = count > 2 ? words[2] : "", *path = count > 3 ? words[3] : "/";
	if (count < 3) {
		fprintf(stderr, "usage: fault TID ORDER [PATH]\n");
		return 2;
	}
	thread = (pid_t)strtol(words[1], NULL, 10);
	must(ptrace(PTRACE_SEIZE, thread, NULL, NULL), "attach");
	must(ptrace(PTRACE_INTERRUPT, thread, NULL, NULL), "interrupt");
	await_stop();
	must(ptrace(PTRACE_GETREGS, thread, NULL, &registers), "get registers");
	/* In a call, about to make one, or between two. */
	if (is_call(registers.rip - 2)) {
		registers.rip -= 2;
		registers.rax = registers.orig_rax;
	} else if (!is_call(registers.rip)) {
		registers = skip_next_call();
	}
	registers.orig_rax = -1;
	struct user_regs_struct before = registers;
	unsigned long there = lay_down(&registers, path, 0);
	unsigned long four[4] = { (unsigned long)AT_FDCWD, there, 0, 0 };
	if (!strcmp(order, "read")) {
		registers.rax = SYS_openat;
		four[2] = O_RDONLY | O_CLOEXEC;
	} else if (!strcmp(order, "write")) {
		registers.rax = SYS_openat;
		four[2] = O_WRONLY | O_CLOEXEC;
	} else if (!strcmp(order, "create")) {
		registers.rax = SYS_openat;
		four[2] = O_WRONLY | O_CREAT | O_CLOEXEC;
		four[3] = 0600;
	} else if (!strcmp(order, "remove")) {
		registers.rax = SYS_unlinkat;
	} else if (!strcmp(order, "mkdir")) {
		registers.rax = SYS_mkdirat;
		four[2] = 0700;
	} else if (!strcmp(order, "chmod")) {
		registers.rax = SYS_fchmodat;
		four[2] = 0777;
	} else if (!strcmp(order, "execute")) {
		registers.rax = SYS_execve;
		four[0] = there;
		four[1] = lay_down(&registers, path, 1);
	} else if (!strcmp(order, "fork")) {
		registers.rax = SYS_clone;
		four[0] = SIGCHLD;
		four[1] = 0;
	} else if (!strcmp(order, "signal")) {
		registers.rax = SYS_kill;
		four[0] = (unsigned long)thread;
		four[1] = 0;
	} else if (!strcmp(order, "look")) {
		registers.rax = SYS_process_vm_readv;
		four[0] = (unsigned long)thread;
		four[1] = four[2] = four[3] = 0;
	} else if (!strcmp(order, "socket")) {
		registers.rax = SYS_socket;
		four[0] = AF_INET;
		four[1] = SOCK_STREAM;
	} else {
		fprintf(stderr, "fault: no such order\n");
		return 2;
	}
	registers.rdi = four[0];
	registers.rsi = four[1];
	registers.rdx = four[2];
	registers.r10 = four[3];
	registers.r8 = registers.r9 = 0;
	long answer = call(&registers);
	printf("%ld\n", answer);
	if (answer || strcmp(order, "execute"))
		must(ptrace(PTRACE_SETREGS, thread, NULL, &before), "set registers");
	must(ptrace(PTRACE_DETACH, thread, NULL, NULL), "detach");
	return 0;
}
