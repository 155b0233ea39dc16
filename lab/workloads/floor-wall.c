/*
 * The floor of a whole wall: starts a program behind the wall that a domain of palisade's has, made by one C program, and
 * waits for it.
 *
 *     floor-wall --filter FILE STEP… -- COMMAND [ARGUMENT…]
 *     floor-wall --parked --filter FILE STEP… -- COMMAND [ARGUMENT…]
 *
 * STEP is `--folder PATH`, `--link TARGET PATH`, `--file PATH TEXT`, `--look SOURCE` (everybody may read all that lies in
 * this folder, however deep, or nothing is started), `--mount SOURCE PATH` (on a place that is there), `--scratch PATH` (a
 * folder of the root to write to) or `--proc PATH`, in the order of palisade's own plan. FILE has the instructions of a
 * system-call filter of palisade's.
 *
 * What `floor-start` makes is what no wall can do without: namespaces, one mount, a first process. This one adds what a
 * domain has beside: a root of its own with what the steps say, read-only, and nothing of the host's left but that; a map
 * of ids; a host name; for the program no capability and no way to any, a session of its own, Landlock's scopes and no
 * TCP, and the filter. It is no wall itself, and less than a domain: what is mounted is not looked at again and may have
 * devices and be executed; the root has no bound; there is no session keyring, no lock on how capabilities come
 * (securebits), no bound on namespaces inside (`max_user_namespaces`) and none on memory that is executed (`memfd_noexec`);
 * the filter tells nobody of anything; no descriptor is closed, no limit set, and nobody outlives this program to end what
 * it began.
 *
 * Why it is the least: as in `floor-start` both children share this program's memory, so that the words are where they
 * were; paths are those that it was given, with no look at what they lead to; a mount takes one call, and one call more makes
 * all of them read-only with the root (mount_setattr(2)). A new user namespace has no mount that others would see, so
 * that none is taken from them. An ordinary user's program has the groups of that user (setgroups(2) is refused to whoever
 * makes a user namespace without a privilege), so that the kernel alone would let it read what they may: nobody can tell but
 * by a look at each file.
 *
 * `--parked` makes all of that ahead (parked.h). What is left of a start is what is left of `floor-start --parked`, by a
 * process that is confined: the program is looked up in the root that was made, and executed under Landlock and the
 * filter.
 */
#include "parked.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/mount.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	NAMESPACES = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS |
		     CLONE_NEWCGROUP | CLONE_NEWNET,
	STACK_BYTES = 256 << 10,
	ROOT_FLAGS = MS_NOSUID | MS_NODEV,
	/* LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET and LANDLOCK_SCOPE_SIGNAL, of headers newer than some. */
	SCOPES = 3,
	MOST_INSTRUCTIONS = 4096,
	/* What is asked for of a folder's entries at once. */
	ENTRIES_BYTES = 16 << 10,
	/* Each has its entries on the stack. */
	MOST_DEPTH = 12,
};

/* Where the root is made: it is everywhere, and what is below it is not needed until it is out of sight. */
#define PLACE "/tmp"
/* Where the host's root is meanwhile. */
#define HOST "/.host"

/* struct landlock_ruleset_attr of interface 6. */
struct rules {
	__u64 files, network, scopes;
};

/* struct linux_dirent64. */
struct entry {
	__u64 inode;
	__s64 offset;
	unsigned short length;
	unsigned char kind;
	char name[];
};

static char stack[STACK_BYTES] __attribute__((aligned(16)));
static struct sock_filter instructions[MOST_INSTRUCTIONS];
static struct sock_fprog filter = { .filter = instructions };
static char id_map[32], group_map[32];

static void die(const char *what)
{
	fprintf(stderr, "floor-wall: %s: %s\n", what, strerror(errno));
	_exit(125);
}

static void write_to(const char *path, int flags, const char *text)
{
	size_t length = strlen(text);
	int file = open(path, O_WRONLY | O_CLOEXEC | flags, 0444);
	if (file < 0 || write(file, text, length) != (ssize_t)length || close(file) != 0)
		die(path);
}

static void read_filter(const char *path)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = file < 0 ? -1 : read(file, instructions, sizeof instructions);
	if (length <= 0 || close(file) != 0)
		die(path);
	filter.len = length / sizeof *instructions;
}

/* The program is who it was, to the outside and inside: the one map that a process may give itself. */
static void map_ids(void)
{
	write_to("/proc/self/setgroups", 0, "deny");
	write_to("/proc/self/gid_map", 0, group_map);
	write_to("/proc/self/uid_map", 0, id_map);
}

static void make_folder(const char *path)
{
	if (mkdir(path, 0755) != 0)
		die(path);
}

static void mount_from_host(const char *source, const char *path)
{
	char from[4096];
	snprintf(from, sizeof from, HOST "%s", source);
	if (mount(from, path, NULL, MS_BIND | MS_REC, NULL) != 0)
		die(source);
}

static int is_open_to_all(int folder, int depth);

/* What links lead to is elsewhere. */
static int is_entry_open(int folder, const struct entry *entry, int depth)
{
	struct stat about;
	if (entry->kind == DT_LNK || strcmp(entry->name, ".") == 0 || strcmp(entry->name, "..") == 0)
		return 1;
	if (fstatat(folder, entry->name, &about, AT_SYMLINK_NOFOLLOW) != 0)
		die(entry->name);
	if (S_ISLNK(about.st_mode))
		return 1;
	if (S_ISREG(about.st_mode))
		return (about.st_mode & 04) == 04;
	if (!S_ISDIR(about.st_mode) || (about.st_mode & 05) != 05)
		return 0;
	int below = openat(folder, entry->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (below < 0)
		die(entry->name);
	int is_open = is_open_to_all(below, depth + 1);
	close(below);
	return is_open;
}

static int is_open_to_all(int folder, int depth)
{
	_Alignas(struct entry) char entries[ENTRIES_BYTES];
	long length;
	errno = ELOOP;
	if (depth > MOST_DEPTH)
		die("folders");
	while ((length = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0)
		for (long at = 0; at < length;) {
			const struct entry *entry = (const struct entry *)(entries + at);
			if (!is_entry_open(folder, entry, depth))
				return 0;
			at += entry->length;
		}
	if (length < 0)
		die("getdents64");
	return 1;
}

static void look_through(const char *source)
{
	char from[4096];
	snprintf(from, sizeof from, HOST "%s", source);
	int folder = open(from, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (folder < 0)
		die(source);
	if (!is_open_to_all(folder, 0)) {
		errno = EACCES;
		die(source);
	}
	close(folder);
}

/* A mount of its own can be written to where the root is read-only. */
static void mount_scratch(const char *path)
{
	if (mount(path, path, NULL, MS_BIND, NULL) != 0)
		die(path);
}

static void open_scratch(const char *path)
{
	struct mount_attr fixed = {
		.attr_set = MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
		.attr_clr = MOUNT_ATTR_RDONLY,
	};
	if (syscall(SYS_mount_setattr, AT_FDCWD, path, 0, &fixed, sizeof fixed) != 0)
		die(path);
}

static void mount_proc(const char *path)
{
	if (mount("proc", path, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, NULL) != 0)
		die(path);
}

/* Does one step; gives how many words it has. */
static int step(char **words)
{
	const char *kind = words[0];
	if (strcmp(kind, "--folder") == 0) {
		make_folder(words[1]);
		return 2;
	}
	if (strcmp(kind, "--look") == 0) {
		look_through(words[1]);
		return 2;
	}
	if (strcmp(kind, "--scratch") == 0) {
		mount_scratch(words[1]);
		return 2;
	}
	if (strcmp(kind, "--proc") == 0) {
		mount_proc(words[1]);
		return 2;
	}
	if (strcmp(kind, "--link") == 0) {
		if (symlink(words[1], words[2]) != 0)
			die(words[2]);
	} else if (strcmp(kind, "--file") == 0 && *words[2] == '\0') {
		if (mknod(words[1], S_IFREG | 0444, 0) != 0)
			die(words[1]);
	} else if (strcmp(kind, "--file") == 0) {
		write_to(words[1], O_CREAT, words[2]);
	} else if (strcmp(kind, "--mount") == 0) {
		mount_from_host(words[1], words[2]);
	} else {
		errno = EINVAL;
		die(kind);
	}
	return 3;
}

/* Gives the command's words. */
static char **make_root(char **words)
{
	struct mount_attr fixed = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID };
	if (mount("tmpfs", PLACE, "tmpfs", ROOT_FLAGS, "mode=755") != 0)
		die(PLACE);
	if (mkdir(PLACE HOST, 0755) != 0)
		die(HOST);
	if (syscall(SYS_pivot_root, PLACE, PLACE HOST) != 0 || chdir("/") != 0)
		die("pivot_root");
	char **scratch = words;
	while (*words != NULL && strcmp(*words, "--") != 0)
		words += step(words);
	if (umount2(HOST, MNT_DETACH) != 0 || rmdir(HOST) != 0)
		die(HOST);
	if (syscall(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &fixed, sizeof fixed) != 0)
		die("/");
	for (; scratch < words; scratch++)
		if (strcmp(*scratch, "--scratch") == 0)
			open_scratch(scratch[1]);
	return words + 1;
}

static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0 } };
	for (int capability = 0; prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0; capability++)
		;
	if (syscall(SYS_capset, &header, none) != 0)
		die("capset");
}

static void confine(void)
{
	struct rules rules = { .network = 3, .scopes = SCOPES };
	if (setsid() < 0)
		die("setsid");
	drop_capabilities();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		die("no_new_privs");
	int made = syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
	if (made < 0 || syscall(SYS_landlock_restrict_self, made, 0) != 0)
		die("landlock");
	close(made);
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0)
		die("seccomp");
}

static int wait_for(pid_t child)
{
	int status;
	if (waitpid(child, &status, 0) != child)
		die("wait");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int execute(char **command)
{
	execv(command[0], command);
	die(command[0]);
	return 125;
}

static int execute_parked(void *command)
{
	confine();
	if (hold() != 0)
		die("streams");
	return execute(command);
}

/* In the first process of the namespaces. */
static int be_first_of(char **words, int is_parked)
{
	map_ids();
	char **command = make_root(words);
	if (sethostname("guest", 5) != 0)
		die("sethostname");
	pid_t child = is_parked ? begin_beside(execute_parked, command) : vfork();
	if (child < 0)
		die("vfork");
	if (child == 0) {
		confine();
		execute(command);
	}
	_exit(wait_for(child));
}

static int be_first(void *words)
{
	return be_first_of(words, 0);
}

static int be_first_parked(void *words)
{
	return be_first_of(words, 1);
}

static int run(char **words)
{
	int flags = NAMESPACES | CLONE_VM | CLONE_VFORK | SIGCHLD;
	pid_t child = clone(be_first, stack + STACK_BYTES, flags, words);
	if (child < 0)
		die("clone");
	return wait_for(child);
}

int main(int argc, char **argv)
{
	int is_parked = argc > 1 && strcmp(argv[1], "--parked") == 0;
	char **words = argv + 1 + is_parked;
	if (argc - is_parked < 5 || strcmp(words[0], "--filter") != 0) {
		fprintf(stderr, "usage: floor-wall [--parked] --filter FILE STEP... -- COMMAND [ARGUMENT...]\n");
		return 125;
	}
	read_filter(words[1]);
	snprintf(id_map, sizeof id_map, "%d %d 1", geteuid(), geteuid());
	snprintf(group_map, sizeof group_map, "%d %d 1", getegid(), getegid());
	if (!is_parked)
		return run(words + 2);
	if (park(be_first_parked, stack + STACK_BYTES, NAMESPACES, words + 2) != 0)
		die("parked");
	return 0;
}
