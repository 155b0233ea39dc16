/* The multi-call module: finds the attack, announces it, runs it. */
#include "attack.h"

#define FAMILY(family)
#define ATTACK(function) int attack_##function(void);
#include "attacks.def"
#undef FAMILY
#undef ATTACK

static const struct {
	const char *name;
	int (*run)(void);
} table[] = {
#define FAMILY(family)
#define ATTACK(function) { #function, attack_##function },
#include "attacks.def"
};

static int argument_count;
static char **arguments;

const char *argument(const char *key)
{
	size_t length = strlen(key);
	for (int i = 3; i < argument_count; i++)
		if (!strncmp(arguments[i], key, length) && arguments[i][length] == '=')
			return arguments[i] + length + 1;
	return NULL;
}

const char *need(const char *key)
{
	const char *value = argument(key);
	if (value)
		return value;
	errno = 0;
	unready(key);
}

long need_number(const char *key)
{
	return strtol(need(key), NULL, 0);
}

const char *nonce(void)
{
	return arguments[2];
}

int refused(const char *call)
{
	fprintf(stderr, "refused: %s: %s\n", call, strerror(errno));
	return REFUSED;
}

_Noreturn void unready(const char *step)
{
	fprintf(stderr, "unready: %s: %s\n", step, strerror(errno));
	_Exit(UNREADY);
}

int held(void)
{
	char byte;
	if (write(STDOUT_FILENO, "held\n", 5) != 5)
		unready("write held");
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return DONE;
}

bool spill(int fd)
{
	static char bytes[65536];
	ssize_t length = read(fd, bytes, sizeof bytes);
	if (length <= 0)
		return false;
	fflush(stdout);
	return write(STDOUT_FILENO, bytes, (size_t)length) == length;
}

int spill_path(const char *path)
{
	int fd = open(path, O_RDONLY);
	if (fd < 0)
		return refused(path);
	bool any = spill(fd);
	close(fd);
	return any ? DONE : refused(path);
}

int open_below(int folder, const char *path, __wasi_lookupflags_t follow, __wasi_oflags_t how)
{
	__wasi_fd_t fd;
	__wasi_errno_t error = __wasi_path_open(folder, follow, path, how, UINT64_MAX, UINT64_MAX, 0, &fd);
	/* Rights that a file can't have are no reason to refuse one that it can. */
	if (error)
		error = __wasi_path_open(folder, follow, path, how, __WASI_RIGHTS_FD_READ, __WASI_RIGHTS_FD_READ, 0, &fd);
	errno = error;
	return error ? -1 : (int)fd;
}

bool spill_below(int folder, const char *path)
{
	bool any = false;
	for (int follow = 0; follow < 2; follow++) {
		int fd = open_below(folder, path, follow, 0);
		if (fd < 0)
			continue;
		any |= spill(fd);
		close(fd);
	}
	return any;
}

int write_nonce(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0644);
	if (fd < 0)
		return refused(path);
	ssize_t length = (ssize_t)strlen(nonce());
	bool whole = write(fd, nonce(), (size_t)length) == length;
	close(fd);
	return whole ? DONE : refused("write");
}

bool race_goes_on(void)
{
	enum { RACE_MS = 300 };
	static struct timespec start;
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (start.tv_sec == 0)
		start = now;
	return (now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < RACE_MS;
}

int own_folder(void)
{
	int folder = open(need("scratch"), O_RDONLY | O_DIRECTORY);
	__wasi_errno_t error = folder < 0 ? __WASI_ERRNO_BADF : __wasi_path_create_directory(folder, "made");
	if (error == 0 || error == __WASI_ERRNO_EXIST)
		return folder;
	folder = open("/tmp", O_RDONLY | O_DIRECTORY);
	if (folder < 0)
		unready("/tmp");
	__wasi_path_create_directory(folder, "made");
	return folder;
}

void make_link(int folder, const char *target, const char *name)
{
	__wasi_path_unlink_file(folder, name);
	/* A wall may refuse some targets; then there is nothing to follow. */
	__wasi_path_symlink(target, folder, name);
}

static bool same_name(const char *typed, const char *function)
{
	for (; *typed || *function; typed++, function++)
		if (*typed != *function && !(*typed == '-' && *function == '_'))
			return false;
	return true;
}

int main(int count, char **words)
{
	argument_count = count;
	arguments = words;
	for (size_t i = 0; count > 2 && i < sizeof table / sizeof *table; i++)
		if (same_name(words[1], table[i].name)) {
			setvbuf(stdout, NULL, _IOLBF, 0);
			printf("begin %s\n", nonce());
			return table[i].run();
		}
	fprintf(stderr, "usage: hostile.wasm ATTACK NONCE [KEY=VALUE…]\n");
	return 2;
}
