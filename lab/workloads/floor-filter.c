/*
 * The floor of calls: runs a program behind a filter of one instruction, which allows everything.
 *
 *     floor-filter [--write FOLDER] [--protect FILE] COMMAND [ARGUMENT…]
 *
 * Why it is the least: a wall that tells calls apart by a filter has the kernel look for one at each call
 * (`SYSCALL_WORK_SECCOMP` takes the call off its fast way in). For a number that the filter allows whatever
 * the arguments are, the kernel has known that since the filter was loaded (`seccomp_cache_prepare`, Linux
 * 5.11), and tests one bit. Of this filter that is every number; of palisade's, those without a check. So
 * the floor has the way off the fast one and the bit in it, and no instruction of any filter: what palisade
 * takes more is its checks of arguments and its Landlock rules.
 *
 * `--write` and `--protect` are what the kernel has for a folder that alone may be written to, and for a file in it that may
 * not: a mount each, in namespaces of the program's own. Whoever opens a file in the folder comes over that mount, and as
 * root, whose files the program of somebody else shall write, over a map of their owners (mount_setattr(2)). A mount on a
 * file is gone when somebody outside moves the file, which inotify(7) tells; with one watch on a file system each open
 * there looks for watches (`fsnotify_sb_has_watchers`).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/mount.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int die(const char *what)
{
	fprintf(stderr, "floor-filter: %s: %s\n", what, strerror(errno));
	return 125;
}

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

/* Mounts what lies at a path there once more. */
static int mount_again(const char *path, struct mount_attr attributes)
{
	int mount = syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (mount < 0)
		return -1;
	if (syscall(SYS_mount_setattr, mount, "", AT_EMPTY_PATH, &attributes, sizeof attributes) != 0)
		return -1;
	return syscall(SYS_move_mount, mount, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH);
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

static int mount_for_writing(const char *folder)
{
	struct mount_attr attributes = { .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV };
	if (geteuid() == 0) {
		int map = map_of_owners();
		if (map < 0)
			return -1;
		attributes.attr_set |= MOUNT_ATTR_IDMAP;
		attributes.userns_fd = map;
	}
	return mount_again(folder, attributes);
}

/* Its watch stays as long as the program, which has the descriptor. */
static int protect(const char *file)
{
	int watches = inotify_init1(IN_NONBLOCK);
	if (watches < 0 || inotify_add_watch(watches, file, IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF) < 0)
		return -1;
	return mount_again(file, (struct mount_attr){ .attr_set = MOUNT_ATTR_RDONLY });
}

int main(int argc, char **argv)
{
	struct sock_filter allow[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct sock_fprog program = { .len = 1, .filter = allow };
	int has_mounts = 0;
	for (; argc > 3 && strncmp(argv[1], "--", 2) == 0; argc -= 2, argv += 2) {
		if (!has_mounts++ && own_mounts() != 0)
			return die("namespaces");
		if (strcmp(argv[1], "--write") == 0 ? mount_for_writing(argv[2]) : protect(argv[2]))
			return die(argv[2]);
	}
	if (argc < 2) {
		fprintf(stderr, "usage: floor-filter [--write FOLDER] [--protect FILE] COMMAND [ARGUMENT...]\n");
		return 125;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return die("no_new_privs");
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
		return die("seccomp");
	execv(argv[1], argv + 1);
	return die(argv[1]);
}
