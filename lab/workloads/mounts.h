/*
 * What the kernel has for a folder that alone may be read (`--read`) or written to (`--write`), and for a file in it that
 * may not (`--protect`): a mount each, in namespaces of the program's own. Whoever looks at a file in the folder comes
 * over that mount, and as root, whose files the program of somebody else shall read and write, over a map of their
 * owners (mount_setattr(2)). A mount on a file is gone when somebody outside moves the file, which inotify(7) tells;
 * with one watch on a file system each open there looks for watches (`fsnotify_sb_has_watchers`). What is made in a
 * folder of root's is root's there, so that no mode may make it a program that runs as root: each open has the mode of
 * what it makes looked at, which only a filter can.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/mount.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int write_file(const char *path, const char *text)
{
	int file = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t length = strlen(text);
	int failed = file < 0 || write(file, text, length) != length;
	if (file >= 0)
		close(file);
	return failed ? -1 : 0;
}

/* A user namespace in which ids are what they are outside, those of root at least. */
static int map_of_owners(void)
{
	char path[64], byte;
	int made[2], namespace = -1;
	if (pipe(made) != 0)
		return -1;
	pid_t child = fork();
	if (child == 0) {
		if (unshare(CLONE_NEWUSER) == 0 && write(made[1], "u", 1) == 1)
			pause();
		_exit(1);
	}
	close(made[1]);
	if (child > 0 && read(made[0], &byte, 1) == 1) {
		snprintf(path, sizeof path, "/proc/%d/uid_map", child);
		int failed = write_file(path, "0 0 1");
		snprintf(path, sizeof path, "/proc/%d/gid_map", child);
		failed |= write_file(path, "0 0 1");
		snprintf(path, sizeof path, "/proc/%d/ns/user", child);
		if (!failed)
			namespace = open(path, O_RDONLY | O_CLOEXEC);
	}
	close(made[0]);
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	return namespace;
}

static int own_mounts(void)
{
	char map[64];
	uid_t user = geteuid();
	if (unshare(user == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0)
		return -1;
	snprintf(map, sizeof map, "%d %d 1", user, user);
	if (user != 0 && write_file("/proc/self/uid_map", map) != 0)
		return -1;
	return mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL);
}

/* What lies at a path, to be mounted there once more. Before any is: a mount that has a map gets no other. */
static int mount_of(const char *word, const char *path)
{
	struct mount_attr attributes = { .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV };
	int is_protected = strcmp(word, "--protect") == 0;
	if (strcmp(word, "--write") != 0)
		attributes.attr_set |= MOUNT_ATTR_RDONLY;
	if (geteuid() == 0) {
		int map = map_of_owners();
		if (map < 0)
			return -1;
		attributes.attr_set |= MOUNT_ATTR_IDMAP;
		attributes.userns_fd = map;
	}
	/* Its watch stays as long as the program, which has the descriptor. */
	int watches = is_protected ? inotify_init1(IN_NONBLOCK) : -1;
	if (is_protected && inotify_add_watch(watches, path, IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF) < 0)
		return -1;
	int mount = syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (mount < 0 || syscall(SYS_mount_setattr, mount, "", AT_EMPTY_PATH, &attributes, sizeof attributes) != 0)
		return -1;
	return mount;
}

enum { MOST_MOUNTS = 4, GUARD_LENGTH = 7 };

static int writes;
/* Of what could not be mounted. */
static const char *unmounted = "namespaces";

static int is_known(const char *word)
{
	return strcmp(word, "--read") == 0 || strcmp(word, "--write") == 0 || strcmp(word, "--protect") == 0;
}

/* Makes what the first words ask for, each followed by a path, and says how many they are; below 0 where that fails. */
static int mount_by_words(char **words, int count)
{
	int mounts[MOST_MOUNTS], taken = 0;
	for (; taken + 1 < count && strncmp(words[taken], "--", 2) == 0; taken += 2) {
		if (taken == 0 && own_mounts() != 0)
			return -1;
		unmounted = words[taken + 1];
		if (taken == 2 * MOST_MOUNTS || !is_known(words[taken])) {
			errno = EINVAL;
			return -1;
		}
		if ((mounts[taken / 2] = mount_of(words[taken], words[taken + 1])) < 0)
			return -1;
		writes |= strcmp(words[taken], "--write") == 0;
	}
	for (int at = 0; at < taken; at += 2) {
		unmounted = words[at + 1];
		if (syscall(SYS_move_mount, mounts[at / 2], "", AT_FDCWD, words[at + 1], MOVE_MOUNT_F_EMPTY_PATH) != 0)
			return -1;
	}
	return taken;
}

/* For a filter that has the number of the call at hand, and keeps it: refuses modes of set-user-ID programs that an open
 * would make. Gives how many instructions there are, none where nothing may be written to. */
static int guard_modes(struct sock_filter *filter)
{
	const struct sock_filter guard[GUARD_LENGTH] = {
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 6),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_CREAT | (O_TMPFILE & ~O_DIRECTORY), 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, S_ISUID | S_ISGID, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	if (!writes)
		return 0;
	memcpy(filter, guard, sizeof guard);
	return GUARD_LENGTH;
}
