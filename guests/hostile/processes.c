/* System calls on other processes, their memory, descriptors and keys. */
#include "hostile.h"

#include <linux/kcmp.h>
#include <linux/keyctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

/* ---- other processes ---- */

static int peek_secret(pid_t pid)
{
	union {
		long words[8];
		char text[65];
	} secret = { 0 };
	long address = need_number("address");
	if (ptrace(PTRACE_ATTACH, pid, NULL, NULL))
		return refused("PTRACE_ATTACH");
	waitpid(pid, NULL, __WALL);
	errno = 0;
	for (int i = 0; i < 8; i++)
		secret.words[i] = ptrace(PTRACE_PEEKDATA, pid, address + i * (long)sizeof(long), NULL);
	int ending = errno ? refused("PTRACE_PEEKDATA") : DONE;
	ptrace(PTRACE_DETACH, pid, NULL, NULL);
	if (ending == DONE)
		puts(secret.text);
	return ending;
}

int attack_ptrace_attach(void)
{
	return on_each_victim(peek_secret);
}

int attack_ptrace_init(void)
{
	return ptrace(PTRACE_SEIZE, 1, NULL, NULL) ? refused("PTRACE_SEIZE") : held();
}

int attack_ptrace_supervisor(void)
{
	return ptrace(PTRACE_SEIZE, getppid(), NULL, NULL) ? refused("PTRACE_SEIZE") : held();
}

static int read_secret(pid_t pid)
{
	char secret[65] = "";
	struct iovec local = { secret, 64 }, remote = { (void *)need_number("address"), 64 };
	if (process_vm_readv(pid, &local, 1, &remote, 1, 0) != 64)
		return refused("process_vm_readv");
	puts(secret);
	return DONE;
}

int attack_vm_readv(void)
{
	return on_each_victim(read_secret);
}

static int overwrite_secret(pid_t pid)
{
	struct iovec local = { (void *)nonce(), strlen(nonce()) };
	struct iovec remote = { (void *)need_number("address"), strlen(nonce()) };
	return process_vm_writev(pid, &local, 1, &remote, 1, 0) > 0 ? DONE : refused("process_vm_writev");
}

int attack_vm_writev(void)
{
	return on_each_victim(overwrite_secret);
}

static int read_memory_file(pid_t pid)
{
	char secret[65] = "";
	int fd = open(PATH_OF("/proc/%d/mem", pid), O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return refused("/proc/PID/mem");
	ssize_t length = pread(fd, secret, 64, need_number("address"));
	close(fd);
	if (length != 64)
		return refused("pread");
	puts(secret);
	return DONE;
}

int attack_proc_mem(void)
{
	return on_each_victim(read_memory_file);
}

static int steal_descriptor(pid_t pid)
{
	char secret[256] = "";
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0)
		return refused("pidfd_open");
	int fd = (int)syscall(SYS_pidfd_getfd, pidfd, need_number("descriptor"), 0);
	close(pidfd);
	if (fd < 0)
		return refused("pidfd_getfd");
	ssize_t length = pread(fd, secret, sizeof secret - 1, 0);
	close(fd);
	if (length <= 0)
		return refused("pread");
	puts(secret);
	return DONE;
}

int attack_pidfd_getfd(void)
{
	return on_each_victim(steal_descriptor);
}

/*
 * The victim dup(2)ed one of two files per bit of its secret: which of its
 * descriptors are the same open file spells the secret out.
 */
static int compare_descriptors(pid_t pid)
{
	enum { BITS = 64 };
	long first = need_number("bits");
	uint64_t word = 0;
	for (int bit = 0; bit < BITS; bit++) {
		long order = syscall(SYS_kcmp, pid, pid, KCMP_FILE, first, first + 1 + bit);
		if (order < 0)
			return refused("kcmp");
		word |= (uint64_t)(order == 0) << bit;
	}
	printf("%016lx\n", word);
	return DONE;
}

int attack_kcmp(void)
{
	return on_each_victim(compare_descriptors);
}

/* ---- keyrings ---- */

static int tell_key(long key)
{
	char secret[256] = "";
	if (key < 0)
		return refused("search");
	if (syscall(SYS_keyctl, KEYCTL_READ, key, secret, sizeof secret - 1) <= 0)
		return refused("KEYCTL_READ");
	puts(secret);
	return DONE;
}

int attack_key_session(void)
{
	return tell_key(syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", nonce(), 0));
}

int attack_key_user(void)
{
	return tell_key(syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, "user", nonce(), 0));
}

int attack_key_request(void)
{
	return tell_key(syscall(SYS_request_key, "user", nonce(), NULL, 0));
}

int attack_key_add(void)
{
	return syscall(SYS_add_key, "user", nonce(), "planted", 7, KEY_SPEC_USER_KEYRING) < 0 ? refused("add_key")
												: DONE;
}
