/* Names made, moved, linked and removed where no grant allows it. */
#include "attack.h"

/* Ways to name `outside/NAME` from the own folder. */
static const char *const ways_out[] = { "link/%s", "relative-link/%s", "../outside/%s", "absolute/%s", "relative/%s",
					"sub/../../outside/%s", "relative//%s", "relative/./%s", "./relative/%s/" };
#define WAYS (sizeof ways_out / sizeof *ways_out)

static const char *way_out(size_t way, const char *name)
{
	static char path[PATH_MAX];
	snprintf(path, sizeof path, ways_out[way], name);
	return path;
}

static int folder_with_links(void)
{
	int folder = own_folder();
	make_link(folder, need("outside"), "absolute");
	make_link(folder, "../outside", "relative");
	return folder;
}

static const char *outside(const char *name)
{
	return PATH_OF("%s/%s", need("outside"), name);
}

/* A hard link of the secret, inside. */
int attack_wasi_link_in(void)
{
	int folder = folder_with_links();
	for (size_t way = 0; way < WAYS; way++)
		for (int follow = 0; follow < 2; follow++) {
			__wasi_path_link(folder, follow, way_out(way, "secret"), folder, "linked");
			__wasi_path_link(folder, follow, way_out(way, "secret"), folder, "made/linked");
		}
	make_link(folder, "../outside/secret", "to-link");
	__wasi_path_link(folder, __WASI_LOOKUPFLAGS_SYMLINK_FOLLOW, "to-link", folder, "linked");
	if (spill_below(folder, "linked") || spill_below(folder, "made/linked"))
		return DONE;
	return spill_path(need("secret"));
}

int attack_wasi_rename_in(void)
{
	int folder = folder_with_links();
	for (size_t way = 0; way < WAYS; way++) {
		__wasi_path_rename(folder, way_out(way, "secret"), folder, "renamed");
		for (int other = FIRST_FOLDER; other < LAST_FOLDER; other++)
			__wasi_path_rename(other, way_out(way, "secret"), folder, "renamed");
	}
	return spill_below(folder, "renamed") ? DONE : spill_path(need("secret"));
}

static void make_file(int folder, const char *name)
{
	int fd = openat(folder, name, O_WRONLY | O_CREAT, 0644);
	if (fd < 0 || write(fd, nonce(), strlen(nonce())) < 0)
		unready(name);
	close(fd);
}

int attack_wasi_rename_out(void)
{
	int folder = folder_with_links();
	for (size_t way = 0; way < WAYS; way++) {
		make_file(folder, "file");
		__wasi_path_rename(folder, "file", folder, way_out(way, "planted"));
		make_file(folder, "file");
		__wasi_path_link(folder, 0, "file", folder, way_out(way, "planted"));
	}
	return write_nonce(outside("planted"));
}

int attack_wasi_make_out(void)
{
	int folder = folder_with_links();
	make_link(folder, "../outside/planted", "dangling");
	make_link(folder, outside("planted"), "dangling-absolute");
	for (size_t way = 0; way < WAYS; way++) {
		const char *path = way_out(way, "planted");
		__wasi_path_create_directory(folder, path);
		__wasi_path_symlink("anywhere", folder, path);
		for (int follow = 0; follow < 2; follow++)
			open_below(folder, path, follow, __WASI_OFLAGS_CREAT);
	}
	const char *names[] = { "dangling", "dangling-absolute", "dangling/", "dangling-absolute/" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		for (int follow = 0; follow < 2; follow++)
			open_below(folder, names[i], follow, __WASI_OFLAGS_CREAT);
		__wasi_path_create_directory(folder, names[i]);
	}
	return write_nonce(outside("planted"));
}

int attack_wasi_remove_out(void)
{
	int folder = folder_with_links();
	for (size_t way = 0; way < WAYS; way++) {
		__wasi_path_unlink_file(folder, way_out(way, "secret"));
		__wasi_path_remove_directory(folder, way_out(way, "secret"));
	}
	return unlink(need("secret")) ? refused("unlink") : DONE;
}

static const __wasi_timestamp_t second = 1000000000;
static const __wasi_fstflags_t both_times = __WASI_FSTFLAGS_ATIM | __WASI_FSTFLAGS_MTIM;

static int date(const char *path)
{
	struct timespec times[] = { { 1, 0 }, { 1, 0 } };
	return utimensat(AT_FDCWD, path, times, 0) ? refused("utimensat") : DONE;
}

int attack_wasi_date_out(void)
{
	int folder = folder_with_links();
	for (size_t way = 0; way < WAYS; way++)
		for (int follow = 0; follow < 2; follow++)
			__wasi_path_filestat_set_times(folder, follow, way_out(way, "secret"), second, second, both_times);
	return date(need("secret"));
}

/* Somebody exchanges the parent for a link while something is made in it. */
int attack_wasi_race_make(void)
{
	int folder = own_folder();
	while (race_goes_on()) {
		__wasi_path_create_directory(folder, "sub/planted");
		make_file(folder, "made/file");
		__wasi_path_rename(folder, "made/file", folder, "sub/planted");
		__wasi_path_symlink("anywhere", folder, "sub/planted");
		__wasi_path_remove_directory(folder, "sub/planted");
		__wasi_path_unlink_file(folder, "sub/planted");
	}
	return write_nonce(outside("planted"));
}

/* ---- protected paths ---- */

int attack_wasi_write_hook(void)
{
	return write_nonce(PATH_OF("%s/.git/hooks/pre-commit", need("scratch")));
}

/* The folder above is moved away and another put in its place. */
int attack_wasi_swap_hooks(void)
{
	int folder = own_folder();
	__wasi_path_rename(folder, ".git", folder, "git-before");
	__wasi_path_rename(folder, ".git/", folder, "git-before/");
	__wasi_path_create_directory(folder, ".git");
	__wasi_path_create_directory(folder, ".git/hooks");
	return attack_wasi_write_hook();
}

int attack_wasi_create_protected(void)
{
	int folder = own_folder();
	__wasi_path_unlink_file(folder, ".env");
	make_file(folder, "made/env");
	__wasi_path_rename(folder, "made/env", folder, ".env");
	__wasi_path_link(folder, 0, "made/env", folder, ".env");
	return write_nonce(PATH_OF("%s/.env", need("scratch")));
}

/* ---- what is granted for reading ---- */

/* Rights are asked for, and set, that the policy does not give. */
int attack_wasi_read_only_write(void)
{
	__wasi_fd_t fd;
	const char *granted = need("granted");
	int reading = open(granted, O_RDONLY);
	if (reading >= 0) {
		__wasi_fd_fdstat_set_rights(reading, UINT64_MAX, UINT64_MAX);
		__wasi_fd_fdstat_set_flags(reading, __WASI_FDFLAGS_APPEND);
		__wasi_ciovec_t text = { (const uint8_t *)nonce(), strlen(nonce()) };
		__wasi_size_t written;
		__wasi_fd_write(reading, &text, 1, &written);
		__wasi_fd_pwrite(reading, &text, 1, 0, &written);
		__wasi_fd_allocate(reading, 0, 1 << 20);
	}
	for (int folder = FIRST_FOLDER; folder < LAST_FOLDER; folder++)
		for (const char *path = granted + 1; path; path = strchr(path, '/') ? strchr(path, '/') + 1 : NULL)
			if (!__wasi_path_open(folder, 1, path, 0, UINT64_MAX, UINT64_MAX, __WASI_FDFLAGS_APPEND, &fd))
				write((int)fd, nonce(), strlen(nonce()));
	return write_nonce(granted);
}

/* Gives the read-only file a second, writable name. */
int attack_wasi_read_only_link(void)
{
	const char *second_name = PATH_OF("%s/second", argument("scratch") ? argument("scratch") : "/tmp");
	if (link(need("granted"), second_name))
		return refused("link");
	return write_nonce(second_name);
}

int attack_wasi_read_only_truncate(void)
{
	const char *granted = need("granted");
	int reading = open(granted, O_RDONLY);
	if (reading < 0)
		return refused(granted);
	__wasi_fd_filestat_set_size(reading, 0);
	close(reading);
	/* Without a right to write: only the flag asks for it. */
	for (int folder = FIRST_FOLDER; folder < LAST_FOLDER; folder++)
		for (const char *path = granted + 1; path; path = strchr(path, '/') ? strchr(path, '/') + 1 : NULL) {
			__wasi_fd_t fd;
			__wasi_path_open(folder, 1, path, __WASI_OFLAGS_TRUNC, __WASI_RIGHTS_FD_READ, 0, 0, &fd);
		}
	return open(granted, O_WRONLY | O_TRUNC) < 0 ? refused("open") : DONE;
}

int attack_wasi_read_only_date(void)
{
	int reading = open(need("granted"), O_RDONLY);
	if (reading >= 0)
		__wasi_fd_filestat_set_times(reading, second, second, both_times);
	return date(need("granted"));
}

/* ---- how a policy spells its paths ---- */

int attack_wasi_confused_prefix(void)
{
	return spill_path(need("target"));
}

int attack_wasi_granted_symlink(void)
{
	return spill_path(need("target"));
}
