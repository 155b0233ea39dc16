/*
 * Metadata: what a file is like, without opening it, and what is there at all.
 * Landlock asks about none of these calls; a mount namespace has no path for them.
 */
#include "hostile.h"

#include <linux/fs.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/xattr.h>
#include <time.h>

/* ---- changed ---- */

/* By path, by a descriptor that opens nothing, and by the name of that descriptor. */
static int change_mode(const char *path, mode_t mode)
{
	if (!chmod(path, mode) || !fchmodat(AT_FDCWD, path, mode, 0))
		return DONE;
	int fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return refused("open O_PATH");
	enum { FCHMODAT2 = 452 };
	if (!syscall(FCHMODAT2, fd, "", mode, AT_EMPTY_PATH) || !chmod(PATH_OF("/proc/self/fd/%d", fd), mode))
		return DONE;
	return refused("chmod");
}

int attack_chmod_outside(void)
{
	return change_mode(need("secret"), 0777);
}

int attack_chmod_read_only(void)
{
	int fd = open(need("granted"), O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && !fchmod(fd, 0777))
		return DONE;
	return change_mode(need("granted"), 0777);
}

static const struct timespec long_ago[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };

int attack_times_outside(void)
{
	return utimensat(AT_FDCWD, need("secret"), long_ago, 0) ? refused("utimensat") : DONE;
}

int attack_times_read_only(void)
{
	int fd = open(need("granted"), O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return refused(need("granted"));
	return futimens(fd, long_ago) ? refused("futimens") : DONE;
}

int attack_mark_outside(void)
{
	return setxattr(need("secret"), "user.mark", nonce(), strlen(nonce()), 0) ? refused("setxattr") : DONE;
}

int attack_mark_read_only(void)
{
	int fd = open(need("granted"), O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return refused(need("granted"));
	return fsetxattr(fd, "user.mark", nonce(), strlen(nonce()), 0) ? refused("fsetxattr") : DONE;
}

int attack_flags_read_only(void)
{
	int flags = FS_NODUMP_FL;
	int fd = open(need("granted"), O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return refused(need("granted"));
	return ioctl(fd, FS_IOC_SETFLAGS, &flags) ? refused("FS_IOC_SETFLAGS") : DONE;
}

/* The file is there to be written, not to be changed for whoever reads it on the host. */
int attack_flags_granted(void)
{
	int flags = FS_NODUMP_FL;
	int fd = open(PATH_OF("%s/flagged", need("scratch")), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return refused("open");
	return ioctl(fd, FS_IOC_SETFLAGS, &flags) ? refused("FS_IOC_SETFLAGS") : DONE;
}

/* Whoever opens the file to write waits until the lease is given back, or the kernel takes it. */
int attack_lease_granted(void)
{
	int fd = open(PATH_OF("%s/leased", need("scratch")), O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return refused("open");
	return fcntl(fd, F_SETLEASE, F_RDLCK) ? refused("F_SETLEASE") : held();
}

/* ---- learnt ---- */

/* One name for all that runs on this machine until it is started anew. */
int attack_boot_id(void)
{
	printf("boot ");
	fflush(stdout);
	return spill_path("/proc/sys/kernel/random/boot_id");
}

int attack_attribute_outside(void)
{
	char secret[256] = "";
	if (getxattr(need("secret"), "user.secret", secret, sizeof secret - 1) < 0)
		return refused("getxattr");
	puts(secret);
	return DONE;
}

/* Names that come and go in a folder which cannot be listed. */
int attack_watch_outside(void)
{
	int watch = inotify_init1(IN_CLOEXEC);
	if (watch < 0)
		return refused("inotify_init1");
	return inotify_add_watch(watch, need("outside"), IN_CREATE) < 0 ? refused("inotify_add_watch") : held();
}

int attack_stat_outside(void)
{
	struct stat about;
	if (stat(need("secret"), &about))
		return refused("stat");
	printf("inode %lu\n", about.st_ino);
	return DONE;
}

/* Who may not be signalled is there. */
int attack_notice_process(void)
{
	if (kill((pid_t)need_number("victim"), 0) && errno == ESRCH)
		return refused("kill");
	return attest("kill", 0);
}

/* When, and how much, somebody else computes. */
int attack_time_of_process(void)
{
	clockid_t clock;
	struct timespec used;
	if (clock_getcpuclockid((pid_t)need_number("victim"), &clock) || clock_gettime(clock, &used))
		return refused("clock_gettime");
	return attest("clock_gettime", 0);
}

int attack_processors_of_process(void)
{
	cpu_set_t processors;
	if (sched_getaffinity((pid_t)need_number("victim"), sizeof processors, &processors))
		return refused("sched_getaffinity");
	return attest("sched_getaffinity", 0);
}

int attack_group_of_process(void)
{
	if (getpgid((pid_t)need_number("victim")) < 0)
		return refused("getpgid");
	return attest("getpgid", 0);
}

int attack_session_of_process(void)
{
	if (getsid((pid_t)need_number("victim")) < 0)
		return refused("getsid");
	return attest("getsid", 0);
}

int attack_priority_of_process(void)
{
	errno = 0;
	(void)getpriority(PRIO_PROCESS, (id_t)need_number("victim"));
	return errno ? refused("getpriority") : attest("getpriority", 0);
}

/* Onto one processor, where somebody else runs, or away from all others. */
int attack_move_process(void)
{
	cpu_set_t processors;
	CPU_ZERO(&processors);
	CPU_SET(0, &processors);
	if (sched_setaffinity((pid_t)need_number("victim"), sizeof processors, &processors))
		return refused("sched_setaffinity");
	return attest("sched_setaffinity", 0);
}

int attack_host_name(void)
{
	struct utsname about;
	if (uname(&about))
		return refused("uname");
	printf("host name %s\n", about.nodename);
	return DONE;
}
