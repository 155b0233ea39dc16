/* What a program does that is a component: the first argument says what. Built for WASI preview 1 and made
 * a component of WASI 0.2 by an adapter, so that it asks wasmtime-wasi's host functions. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* Says what a call came to: `name 0`, or `name -1 reason`. */
static int tell(const char *name, int result)
{
	if (result < 0)
		printf("%s -1 %s\n", name, strerror(errno));
	else
		printf("%s 0\n", name);
	return result;
}

static void list(int count, char **words)
{
	for (int at = 0; at < count; at++)
		printf("argument %s\n", words[at]);
	for (char **variable = environ; *variable; variable++)
		printf("variable %s\n", *variable);
}

static void copy(void)
{
	char bytes[4096];
	ssize_t length;
	while ((length = read(0, bytes, sizeof bytes)) > 0)
		write(1, bytes, length);
	fprintf(stderr, "end of input\n");
}

static void use_files(void)
{
	char bytes[16] = {0};
	int file = open("note", O_CREAT | O_RDWR | O_TRUNC, 0600);
	tell("open", file);
	tell("write", write(file, "written", 7));
	tell("seek", lseek(file, 0, SEEK_SET));
	tell("read", read(file, bytes, 15));
	printf("bytes %s\n", bytes);
	close(file);
	tell("mkdir", mkdir("folder", 0700));
	tell("rename", rename("note", "folder/note"));
	struct stat status;
	tell("stat", stat("folder/note", &status));
	printf("size %lld\n", (long long)status.st_size);
	tell("absent", open("absent", O_RDONLY));
	tell("unlink", unlink("folder/note"));
	tell("rmdir", rmdir("folder"));
}

/* Ways out of the folder that the program has. `out` is a link to `/`, made by the test. */
static void escape(void)
{
	tell("parent", open("../secret", O_RDONLY));
	tell("link", open("out/etc/hostname", O_RDONLY));
	tell("link with a slash", open("out/", O_RDONLY | O_DIRECTORY));
	tell("parent with a slash", open("../", O_RDONLY | O_DIRECTORY));
	tell("make with a slash", mkdir("../made/", 0700));
	tell("rename out", rename("inside", "../inside"));
	tell("rename out with a slash", rename("inner", "../inner/"));
	tell("rename in", rename("../secret", "secret"));
	tell("hard link in", link("../secret", "secret"));
	tell("hard link out", link("inside", "../inside"));
	tell("unlink outside", unlink("../secret"));
	tell("unlink through a link", unlink("out/tmp/none"));
	tell("remove with a slash", rmdir("../sibling/"));
	tell("symbolic link", symlink("../secret", "in"));
	tell("through it", open("in", O_RDONLY));
	tell("absolute symbolic link", symlink("/etc/hostname", "absolute"));
	tell("through that", open("absolute", O_RDONLY));
}

int main(int count, char **words)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	const char *what = count > 1 ? words[1] : "list";
	if (!strcmp(what, "list"))
		list(count, words);
	else if (!strcmp(what, "copy"))
		copy();
	else if (!strcmp(what, "files"))
		use_files();
	else if (!strcmp(what, "escape"))
		escape();
	else if (!strcmp(what, "exit"))
		exit(atoi(words[2]));
	else if (!strcmp(what, "abort"))
		abort();
	else if (!strcmp(what, "unfinished")) {
		write(1, "no line", 7);
		__builtin_trap();
	} else if (!strcmp(what, "grow")) {
		/* Volatile, or the compiler leaves out what nobody uses. */
		void *volatile grown;
		do
			grown = malloc(1 << 20);
		while (grown);
		tell("malloc", -1);
	} else if (!strcmp(what, "sleep")) {
		struct timespec time = {.tv_sec = 1000000};
		nanosleep(&time, NULL);
	} else if (!strcmp(what, "poll")) {
		struct pollfd polled = {.fd = 0, .events = POLLRDNORM};
		printf("polled %d\n", poll(&polled, 1, -1));
		copy();
	} else if (!strcmp(what, "random")) {
		unsigned char bytes[64] = {0};
		int sum = 0;
		tell("getentropy", getentropy(bytes, sizeof bytes));
		for (unsigned at = 0; at < sizeof bytes; at++)
			sum += bytes[at];
		printf("sum is %s\n", sum ? "something" : "nothing");
	} else {
		fprintf(stderr, "no such thing: %s\n", what);
		return 2;
	}
	return 0;
}
