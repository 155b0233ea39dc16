/* What a guest is given: arguments, variables, a folder, streams, clocks, randomness, devices. */
#include "portable.h"

#include <poll.h>
#include <sys/time.h>

extern char **environ;

void probe_arguments(void)
{
	for (int i = 0; i < words(); i++) {
		printf("argument %d: ", i);
		for (const char *letter = word(i); *letter; letter++)
			*letter > ' ' && *letter <= '~' ? putchar(*letter) : printf("\\%02x", (unsigned char)*letter);
		putchar('\n');
	}
}

static int by_name(const void *one, const void *other)
{
	return strcmp(*(char *const *)one, *(char *const *)other);
}

void probe_environment(void)
{
	size_t count = 0;
	while (environ[count])
		count++;
	qsort(environ, count, sizeof *environ, by_name);
	for (size_t i = 0; i < count; i++) {
		const char *end = strchr(environ[i], '=');
		tells(strndup(environ[i], end - environ[i]), "%s", end + 1);
	}
	tells("missing", "%s", getenv("MISSING") ? "there" : "none");
}

/* Where relative paths begin. */
void probe_place(void)
{
	char path[PATH_MAX] = "";
	says("getcwd", getcwd(path, sizeof path) ? 0 : -1);
	tells("getcwd gave", "%s", path);
	opens("open file", "file", O_RDONLY);
	opens("open ./file", "./file", O_RDONLY);
	opens("open sub/../file", "sub/../file", O_RDONLY);
	opens("open ../readable/file", "../readable/file", O_RDONLY);
	looks("stat .", ".", true);
	looks("stat ..", "..", true);
	opens("create here", "here", O_WRONLY | O_CREAT);
	says("chdir sub", chdir("sub"));
	opens("open inner", "inner", O_RDONLY);
	opens("open ../file", "../file", O_RDONLY);
	says("chdir missing", chdir("missing"));
}

static void reads_clock(const char *name, clockid_t clock)
{
	struct timespec first = { 0 }, second = { 0 }, step = { 0 };
	says(name, clock_gettime(clock, &first));
	clock_gettime(clock, &second);
	long long passed = (second.tv_sec - first.tv_sec) * 1000000000LL + second.tv_nsec - first.tv_nsec;
	tells("goes on", "%s", passed >= 0 ? "yes" : "no");
	says("resolution", clock_getres(clock, &step));
	tells("resolution is fine", "%s", step.tv_sec == 0 && step.tv_nsec > 0 && step.tv_nsec <= 10000000 ? "yes" : "no");
}

void probe_clocks(void)
{
	struct timespec now, before, after, nap = { 0, 20000000 };
	struct timeval time_of_day;
	reads_clock("realtime", CLOCK_REALTIME);
	reads_clock("monotonic", CLOCK_MONOTONIC);
	clock_gettime(CLOCK_REALTIME, &now);
	gettimeofday(&time_of_day, NULL);
	/* 2026 began 1767225600 s after 1970 did. */
	tells("this century", "%s", now.tv_sec > 1767225600 && now.tv_sec < 4102444800 ? "yes" : "no");
	tells("gettimeofday agrees", "%s", labs((long)(time_of_day.tv_sec - now.tv_sec)) <= 1 ? "yes" : "no");
	clock_gettime(CLOCK_MONOTONIC, &before);
	says("nanosleep", nanosleep(&nap, NULL));
	clock_gettime(CLOCK_MONOTONIC, &after);
	long long slept = (after.tv_sec - before.tv_sec) * 1000000000LL + after.tv_nsec - before.tv_nsec;
	tells("slept long enough", "%s", slept >= nap.tv_nsec ? "yes" : "no");
}

void probe_randomness(void)
{
	unsigned char one[256] = { 0 }, other[256] = { 0 };
	int counts[256] = { 0 }, different = 0;
	says("getentropy", getentropy(one, sizeof one));
	says("getentropy again", getentropy(other, sizeof other));
	says("getentropy too much", getentropy((unsigned char[257]){ 0 }, 257));
	for (int i = 0; i < 256; i++)
		different += counts[one[i]]++ == 0;
	tells("differs each time", "%s", memcmp(one, other, sizeof one) ? "yes" : "no");
	tells("looks random", "%s", different > 100 ? "yes" : "no");
}

void probe_devices(void)
{
	char bytes[16] = "x";
	int fd = (int)says("open /dev/zero", open("/dev/zero", O_RDONLY));
	tells("read zeros", "%ld", (long)read(fd, bytes, sizeof bytes));
	tells("zeros", "%d", bytes[0]);
	close(fd);
	fd = (int)says("open /dev/null", open("/dev/null", O_RDWR));
	tells("read nothing", "%ld", (long)read(fd, bytes, sizeof bytes));
	tells("write nothing", "%ld", (long)write(fd, bytes, sizeof bytes));
	close(fd);
	fd = (int)says("open /dev/full", open("/dev/full", O_WRONLY));
	says("write to what is full", write(fd, bytes, sizeof bytes));
	close(fd);
	fd = (int)says("open /dev/urandom", open("/dev/urandom", O_RDONLY));
	tells("read randomness", "%ld", (long)read(fd, bytes, sizeof bytes));
	close(fd);
	looks("stat /dev/null", "/dev/null", true);
	const char *others[] = { "/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/fuse", "/dev/tty", "/dev/ptmx" };
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		opens(others[i], others[i], O_RDWR);
}

void probe_processes(void)
{
	looks("stat /proc", "/proc", true);
	looks("stat /sys", "/sys", true);
	looks("stat /proc/self/mem", "/proc/self/mem", true);
}

/* ---- streams ---- */

void probe_input(void)
{
	uint32_t sum = 5381;
	long length = 0;
	char bytes[4096];
	for (ssize_t part; (part = read(STDIN_FILENO, bytes, sizeof bytes)) != 0; length += part) {
		if (part < 0) {
			says("read", -1);
			return;
		}
		for (ssize_t i = 0; i < part; i++)
			sum = sum * 33 + (unsigned char)bytes[i];
	}
	tells("bytes", "%ld", length);
	tells("sum", "%u", sum);
	tells("read again", "%ld", (long)read(STDIN_FILENO, bytes, 1));
	says("seek", lseek(STDIN_FILENO, 0, SEEK_SET));
	says("write to it", write(STDIN_FILENO, "x", 1));
}

void probe_streams(void)
{
	char byte;
	fprintf(stderr, "to stderr\n");
	for (int fd = 0; fd < 3; fd++) {
		struct stat about;
		tells("terminal", "%d", isatty(fd));
		says("fstat", fstat(fd, &about));
		says("seek", lseek(fd, 0, SEEK_CUR));
	}
	says("read stdout", read(STDOUT_FILENO, &byte, 1));
	says("write nothing", write(STDOUT_FILENO, "", 0));
	says("fsync", fsync(STDOUT_FILENO));
	says("fcntl", fcntl(99, F_GETFL));
	says("close stdin", close(STDIN_FILENO));
	says("read what is closed", read(STDIN_FILENO, &byte, 1));
	fflush(stdout);
	says("close stderr", close(STDERR_FILENO));
	says("write what is closed", write(STDERR_FILENO, "x", 1));
}

void probe_polling(void)
{
	struct pollfd watched[] = { { STDIN_FILENO, POLLIN, 0 }, { STDOUT_FILENO, POLLOUT, 0 } };
	tells("poll for writing", "%d", poll(watched + 1, 1, 1000));
	tells("ready to write", "%d", !!(watched[1].revents & POLLOUT));
	tells("poll for reading", "%d", poll(watched, 1, 1000));
	tells("ready to read", "%d", !!(watched[0].revents & (POLLIN | POLLHUP)));
	tells("poll both", "%d", poll(watched, 2, -1));
	struct timespec nap = { 0, 1000000 };
	says("sleep", nanosleep(&nap, NULL));
	watched[0].fd = 99;
	tells("poll what is closed", "%d", poll(watched, 1, 0));
}
