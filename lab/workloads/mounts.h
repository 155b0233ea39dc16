/*
 * What the kernel has for a folder that alone may be written to (`--write`), and for a file in it that may not
 * (`--protect`): a mount each, in namespaces of the program's own. Whoever opens a file in the folder comes over that
 * mount, and as root, whose files the program of somebody else shall write, over a map of their owners
 * (mount_setattr(2)). A mount on a file is gone when somebody outside moves the file, which inotify(7) tells; with one
 * watch on a file system each open there looks for watches (`fsnotify_sb_has_watchers`).
 */
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mount.h>
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

/* Makes what the first words ask for, each followed by a path, and says how many they are; one is out of place below 0. */
static int mount_by_words(char **words, int count)
{
	int taken = 0;
	for (; taken + 1 < count && strncmp(words[taken], "--", 2) == 0; taken += 2) {
		if (taken == 0 && own_mounts() != 0)
			return -1;
		if (strcmp(words[taken], "--write") == 0 ? mount_for_writing(words[taken + 1]) : protect(words[taken + 1]))
			return -1;
	}
	return taken;
}
