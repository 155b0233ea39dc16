/* The multi-call binary: finds the attack, announces it, runs it. */
#include "hostile.h"

#include <dirent.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

struct attack {
	const char *family;
	const char *name; /* NULL on the row that opens a family */
	int (*run)(void);
};

#define FAMILY(family)
#define ATTACK(function) int attack_##function(void);
#include "attacks.def"
#undef FAMILY
#undef ATTACK

static const struct attack table[] = {
#define FAMILY(family) { #family, NULL, NULL },
#define ATTACK(function) { NULL, #function, attack_##function },
#include "attacks.def"
};
#define ROWS (sizeof table / sizeof *table)

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

const char *own_path(void)
{
	return arguments[0];
}

int refused(const char *call)
{
	fprintf(stderr, "refused: %s: %s\n", call, strerrorname_np(errno));
	return REFUSED;
}

_Noreturn void unready(const char *step)
{
	fprintf(stderr, "unready: %s: %s\n", step, strerrorname_np(errno));
	_exit(UNREADY);
}

void allow_most_descriptors(void)
{
	struct rlimit most;
	getrlimit(RLIMIT_NOFILE, &most);
	most.rlim_cur = most.rlim_max;
	setrlimit(RLIMIT_NOFILE, &most);
}

_Noreturn void linger(void)
{
	char byte;
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	_exit(DONE);
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

pid_t lingering_child(void)
{
	pid_t child = fork();
	if (child < 0)
		unready("fork");
	if (child > 0)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

int attest(const char *call, long result)
{
	if (result == -1 && (errno == EPERM || errno == ENOSYS || errno == EACCES))
		return refused(call);
	printf("reached %s %s: %s\n", nonce(), call, result == -1 ? strerrorname_np(errno) : "done");
	return DONE;
}

bool spill(int fd)
{
	char bytes[65536];
	ssize_t length = read(fd, bytes, sizeof bytes);
	if (length <= 0)
		return false;
	fflush(stdout);
	return write(STDOUT_FILENO, bytes, length) == length;
}

int spill_path(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return refused(path);
	/* A file of /proc gives a page at a time, and what is looked for may stand on a later one. */
	enum { MOST_READS = 16 };
	int reads = 0;
	while (reads < MOST_READS && spill(fd))
		reads++;
	close(fd);
	if (reads > 0)
		return DONE;
	return refused(path);
}

int hold_path(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
	return fd < 0 ? refused(path) : held();
}

int write_nonce(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644);
	if (fd < 0)
		return refused(path);
	ssize_t length = (ssize_t)strlen(nonce());
	bool whole = write(fd, nonce(), length) == length;
	close(fd);
	return whole ? DONE : refused("write");
}

bool copy_file(const char *from, const char *to, mode_t mode)
{
	char bytes[65536];
	ssize_t length;
	int in = open(from, O_RDONLY | O_CLOEXEC);
	if (in < 0)
		return false;
	int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	if (out < 0) {
		close(in);
		return false;
	}
	while ((length = read(in, bytes, sizeof bytes)) > 0)
		if (write(out, bytes, length) != length)
			break;
	struct stat made;
	bool has_mode = fstat(out, &made) == 0 && (made.st_mode & 07777) == mode;
	bool whole = length == 0 && (has_mode || fchmod(out, mode) == 0);
	close(in);
	close(out);
	return whole;
}

int on_each_victim(int (*act)(pid_t))
{
	const char *victim = argument("victim");
	if (victim && atoi(victim) != getpid() && act(atoi(victim)) == DONE)
		return DONE;
	DIR *proc = opendir("/proc");
	if (!proc)
		return refused("/proc");
	int ending = REFUSED;
	for (struct dirent *entry; ending != DONE && (entry = readdir(proc));) {
		pid_t pid = atoi(entry->d_name);
		if (pid > 0 && pid != getpid())
			ending = act(pid);
	}
	closedir(proc);
	return ending;
}

static bool any_spilled;
static const char *spilled_file;

static int spill_of(pid_t pid)
{
	any_spilled |= spill_path(PATH_OF("/proc/%d/%s", pid, spilled_file)) == DONE;
	return REFUSED;
}

int spill_each(const char *file)
{
	spilled_file = file;
	on_each_victim(spill_of);
	return any_spilled ? DONE : REFUSED;
}

/* Files made in a user namespace need an owner that is mapped. */
static int map_own_ids(uid_t uid, gid_t gid)
{
	const char *files[] = { "/proc/self/setgroups", "/proc/self/uid_map", "/proc/self/gid_map" };
	const char *texts[] = { "deny", PATH_OF("0 %d 1", uid), PATH_OF("0 %d 1", gid) };
	for (int i = 0; i < 3; i++) {
		int fd = open(files[i], O_WRONLY | O_CLOEXEC);
		if (fd < 0 || write(fd, texts[i], strlen(texts[i])) < 0)
			return -1;
		close(fd);
	}
	return 0;
}

int own_mounts(void)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	if (unshare(CLONE_NEWNS)) {
		if (unshare(CLONE_NEWUSER | CLONE_NEWNS) || map_own_ids(uid, gid))
			return -1;
	}
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

bool race_goes_on(void)
{
	enum { RACE_MS = 300 };
	static struct timespec start;
	struct timespec now;
	const char *asked = argument("race-ms");
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (start.tv_sec == 0)
		start = now;
	long passed = (now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000;
	return passed < (asked ? atol(asked) : RACE_MS);
}

static bool same_name(const char *typed, const char *function)
{
	for (; *typed || *function; typed++, function++)
		if (*typed != *function && !(*typed == '-' && *function == '_'))
			return false;
	return true;
}

static int list(void)
{
	const char *family = "";
	for (size_t i = 0; i < ROWS; i++) {
		if (table[i].family) {
			family = table[i].family;
			continue;
		}
		printf("%s ", family);
		for (const char *letter = table[i].name; *letter; letter++)
			putchar(*letter == '_' ? '-' : *letter);
		putchar('\n');
	}
	return 0;
}

int main(int count, char **words)
{
	if (count == 2 && !strcmp(words[1], "--list"))
		return list();
	argument_count = count;
	arguments = words;
	if (count < 3) {
		fprintf(stderr, "usage: hostile ATTACK NONCE [KEY=VALUE…] | hostile --list\n");
		return 2;
	}
	for (size_t i = 0; i < ROWS; i++)
		if (table[i].name && same_name(words[1], table[i].name)) {
			setvbuf(stdout, NULL, _IOLBF, 0);
			printf("begin %s\n", nonce());
			return table[i].run();
		}
	fprintf(stderr, "hostile: no attack '%s'; see hostile --list\n", words[1]);
	return 2;
}
