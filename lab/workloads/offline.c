/*
 * Runs a program with no network, as a wall does, and with no other wall.
 *
 *     offline COMMAND [ARGUMENT…]
 *
 * The program is an ordinary user in a user namespace: itself, or, started by root, uid 1000 in there
 * and nobody outside. Its network namespace is empty, and where the kernel can refuse TCP by Landlock
 * it does: that is what palisade grants, so that tests that need a network fail in the same way.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NOBODY = 65534, GUEST = 1000, ABI_WITH_TCP = 4 };

/* linux/landlock.h, as of its interface 4: older headers lack the second member. */
struct ruleset {
	uint64_t handled_access_fs;
	uint64_t handled_access_net;
};
enum { CREATE_RULESET = 444, RESTRICT_SELF = 446, VERSION = 1, BIND_AND_CONNECT = 3 };

static void die(const char *what)
{
	fprintf(stderr, "offline: %s: %s\n", what, strerror(errno));
	exit(125);
}

static void write_file(const char *path, const char *text)
{
	int file = open(path, O_WRONLY | O_CLOEXEC);
	if (file < 0 || write(file, text, strlen(text)) < 0)
		die(path);
	close(file);
}

static void map_ids(unsigned uid, unsigned gid, int by_root)
{
	char line[64];
	write_file("/proc/self/setgroups", "deny");
	snprintf(line, sizeof line, "%u %u 1", by_root ? GUEST : uid, uid);
	write_file("/proc/self/uid_map", line);
	snprintf(line, sizeof line, "%u %u 1", by_root ? GUEST : gid, gid);
	write_file("/proc/self/gid_map", line);
}

static void refuse_tcp(void)
{
	struct ruleset ruleset = { .handled_access_net = BIND_AND_CONNECT };
	int file;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		die("no_new_privs");
	if (syscall(CREATE_RULESET, NULL, 0, VERSION) < ABI_WITH_TCP)
		return;
	file = syscall(CREATE_RULESET, &ruleset, sizeof ruleset, 0);
	if (file < 0 || syscall(RESTRICT_SELF, file, 0) != 0)
		die("Landlock");
	close(file);
}

int main(int argc, char **argv)
{
	int by_root = geteuid() == 0;
	if (argc < 2) {
		fprintf(stderr, "usage: offline COMMAND [ARGUMENT...]\n");
		return 125;
	}
	if (by_root && (setgroups(0, NULL) != 0 || setresgid(NOBODY, NOBODY, NOBODY) != 0 ||
			setresuid(NOBODY, NOBODY, NOBODY) != 0))
		die("nobody");
	/* A change of ids takes /proc/self away. */
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0)
		die("dumpable");
	unsigned uid = geteuid(), gid = getegid();
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
		die("a user namespace");
	map_ids(uid, gid, by_root);
	refuse_tcp();
	execv(argv[1], argv + 1);
	die(argv[1]);
	return 125;
}
