/* A server of HTTP/1.1 on descriptor 3, with the habits of all kinds of programs.
 *
 * What it does at its start is its first argument; what it does with a request is its path. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { LISTENER = 3, HEAD_BYTES = 65536 };

static atomic_bool unwell;
static atomic_int accepted, asked;
static const char *name = "";
/* So many answers for its health are errors at first. */
static int warm_after;

static void pause_ms(long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };
	nanosleep(&time, NULL);
}

static void leave(int signal)
{
	(void)signal;
	const char text[] = "leaving\n";
	if (write(1, text, sizeof text - 1) < 0)
		_exit(1);
	_exit(0);
}

/* Whether somebody took it. */
static int say(int fd, const char *bytes, size_t length)
{
	while (length > 0) {
		ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);
		if (sent <= 0)
			return 0;
		bytes += sent;
		length -= (size_t)sent;
	}
	return 1;
}

static void say_for_ever(int fd, const char *begin, const char *again)
{
	if (say(fd, begin, strlen(begin)))
		while (say(fd, again, strlen(again)))
			;
	dprintf(1, "nobody takes more\n");
}

static int fork_children(int count)
{
	int born = 0;
	for (int i = 0; i < count; i++) {
		pid_t child = fork();
		if (!child)
			for (;;)
				pause();
		born += child > 0;
	}
	return born;
}

/* A call that the guest's supervisor answers: how long the longest of so many took, in µs. */
static long call(int count)
{
	struct sockaddr_un nowhere = { .sun_family = AF_UNIX, .sun_path = "/nowhere" };
	long longest = 0;
	for (int i = 0; i < count; i++) {
		struct timespec begin, end;
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		clock_gettime(CLOCK_MONOTONIC, &begin);
		if (fd < 0 || !connect(fd, (struct sockaddr *)&nowhere, sizeof nowhere) || errno != ENOENT)
			return -1;
		clock_gettime(CLOCK_MONOTONIC, &end);
		close(fd);
		long us = (end.tv_sec - begin.tv_sec) * 1000000 + (end.tv_nsec - begin.tv_nsec) / 1000;
		longest = us > longest ? us : longest;
	}
	return longest;
}

static void *call_for_ever(void *argument)
{
	while (call(1) >= 0)
		;
	return argument;
}

/* So much memory, in files of the domain's own that nothing maps. */
static int fill_file(size_t bytes)
{
	char page[4096];
	memset(page, 'x', sizeof page);
	int fd = open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
	for (size_t done = 0; fd >= 0 && done < bytes; done += sizeof page)
		if (write(fd, page, sizeof page) != sizeof page)
			return -1;
	return fd;
}

/* Held by a process that is nobody's child any more, and in no one's memory. */
static int hide(size_t bytes)
{
	int ends[2];
	char filled = 0;
	if (pipe(ends))
		return 0;
	if (!fork()) {
		setsid();
		if (fork())
			_exit(0);
		filled = fill_file(bytes) >= 0;
		if (write(ends[1], &filled, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	int is_filled = read(ends[0], &filled, 1) == 1 && filled;
	close(ends[0]);
	close(ends[1]);
	return is_filled;
}

static void *write_lines(void *argument)
{
	char lines[4096];
	memset(lines, '\n', sizeof lines);
	while (write(1, lines, sizeof lines) > 0)
		;
	return argument;
}

/* At once: nobody finds half of it when this process is killed. */
static void answer(int fd, const char *status, const char *body, size_t length)
{
	char head[256];
	int size = snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n", status, length);
	char *whole = malloc((size_t)size + length);
	memcpy(whole, head, (size_t)size);
	memcpy(whole + size, body, length);
	say(fd, whole, (size_t)size + length);
	free(whole);
}

static void answer_text(int fd, const char *status, const char *text)
{
	answer(fd, status, text, strlen(text));
}

static void stream(int fd)
{
	say(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 47);
	for (int i = 0; i < 10; i++) {
		say(fd, "5\r\npart\n\r\n", 10);
		pause_ms(60);
	}
	say(fd, "0\r\n\r\n", 5);
}

static void answer_call(int fd, int is_done)
{
	answer_text(fd, "200 OK", is_done ? "done" : strerrorname_np(errno));
}

static void connect_to_port(int fd, int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int socket_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	answer_call(fd, socket_fd >= 0 && !connect(socket_fd, (struct sockaddr *)&to, sizeof to));
	close(socket_fd);
}

/* To a socket's file, or to a name of no file. */
static void connect_to_unix(int fd, const char *name, int is_abstract)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	size_t length = strnlen(name, sizeof to.sun_path - 2);
	memcpy(to.sun_path + is_abstract, name, length);
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)is_abstract + length);
	int socket_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	answer_call(fd, socket_fd >= 0 && !connect(socket_fd, (struct sockaddr *)&to, size));
	close(socket_fd);
}

/* Listens by a name of no file, for as long as it lives. */
static void listen_at(int fd, const char *name)
{
	struct sockaddr_un own = { .sun_family = AF_UNIX };
	size_t length = strnlen(name, sizeof own.sun_path - 2);
	memcpy(own.sun_path + 1, name, length);
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
	int socket_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	answer_call(fd, socket_fd >= 0 && !bind(socket_fd, (struct sockaddr *)&own, size) && !listen(socket_fd, 8));
}

static void read_file(int fd, const char *path)
{
	static _Thread_local char text[1 << 20];
	size_t held = 0;
	ssize_t got = 0;
	int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	while (file >= 0 && (got = read(file, text + held, sizeof text - held)) > 0)
		held += (size_t)got;
	if (file < 0 || got < 0)
		answer_call(fd, 0);
	else
		answer(fd, "200 OK", text, held);
	close(file);
}

static void list_folder(int fd, const char *path)
{
	static _Thread_local char text[1 << 16];
	size_t held = 0;
	DIR *folder = opendir(path);
	struct dirent *entry;
	if (!folder) {
		answer_call(fd, 0);
		return;
	}
	while ((entry = readdir(folder)) && held + sizeof entry->d_name + 2 < sizeof text)
		held += (size_t)snprintf(text + held, sizeof text - held, "%s\n", entry->d_name);
	closedir(folder);
	answer(fd, "200 OK", text, held);
}

/* Calls that a program makes to look around; what it sees, or why not. */
static int look_around(int fd, const char *path)
{
	if (!strncmp(path, "/connect/", 9))
		connect_to_port(fd, atoi(path + 9));
	else if (!strncmp(path, "/unix/", 6))
		connect_to_unix(fd, path + 5, 0);
	else if (!strncmp(path, "/abstract/", 10))
		connect_to_unix(fd, path + 10, 1);
	else if (!strncmp(path, "/listen/", 8))
		listen_at(fd, path + 8);
	else if (!strncmp(path, "/read/", 6))
		read_file(fd, path + 5);
	else if (!strncmp(path, "/list/", 6))
		list_folder(fd, path + 5);
	else if (!strncmp(path, "/signal/", 8))
		answer_call(fd, !kill(atoi(path + 8), 0));
	else
		return 0;
	return 1;
}

/* Whether the connection goes on. */
static int serve(int fd, const char *path, const char *head, const char *body, size_t length)
{
	char text[128];
	if (!strcmp(path, "/")) {
		snprintf(text, sizeof text, "%d", getpid());
		answer_text(fd, "200 OK", text);
	} else if (!strcmp(path, "/head")) {
		answer_text(fd, "200 OK", head);
	} else if (!strcmp(path, "/echo")) {
		answer(fd, "200 OK", body, length);
	} else if (!strcmp(path, "/env")) {
		const char *count = getenv("LISTEN_FDS"), *pid = getenv("LISTEN_PID"), *name = getenv("LISTEN_FDNAMES");
		snprintf(text, sizeof text, "%s %s %s", count ? count : "-",
			pid && atoi(pid) == getpid() ? "own" : "not own", name ? name : "-");
		answer_text(fd, "200 OK", text);
	} else if (!strcmp(path, "/secret")) {
		answer_text(fd, access("/etc/shadow", F_OK) ? "200 OK" : "403 Forbidden", "");
	} else if (!strcmp(path, "/slow")) {
		pause_ms(300);
		answer_text(fd, "200 OK", "slow");
	} else if (!strcmp(path, "/stream")) {
		stream(fd);
	} else if (!strcmp(path, "/crash")) {
		abort();
	} else if (!strcmp(path, "/hang")) {
		pause_ms(3600 * 1000);
	} else if (!strcmp(path, "/cut")) {
		say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", 44);
		return 0;
	} else if (!strcmp(path, "/die")) {
		say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", 44);
		abort();
	} else if (!strcmp(path, "/shut")) {
		answer_text(fd, "200 OK", "shut");
		shutdown(LISTENER, SHUT_RDWR);
		abort();
	} else if (!strcmp(path, "/talk")) {
		for (int i = 0; i < 3; i++)
			dprintf(1, "line %d of this request\n", i);
		answer_text(fd, "200 OK", "");
	} else if (!strcmp(path, "/unwell")) {
		unwell = 1;
		answer_text(fd, "200 OK", "");
	} else if (!strcmp(path, "/health")) {
		answer_text(fd, unwell || asked++ < warm_after ? "500 Unwell" : "200 OK", "");
	} else if (!strcmp(path, "/asked")) {
		answer(fd, "200 OK", "****************", (size_t)(asked < 16 ? asked : 16));
	} else if (!strcmp(path, "/accepted")) {
		snprintf(text, sizeof text, "%d", accepted);
		answer_text(fd, "200 OK", text);
	} else if (!strcmp(path, "/name")) {
		answer_text(fd, "200 OK", name);
	} else if (!strcmp(path, "/garbage")) {
		say_for_ever(fd, "", "this is no HTTP\r\n\r\n");
		return 0;
	} else if (!strcmp(path, "/announce")) {
		say_for_ever(fd, "", "HTTP/1.1 100 Continue\r\n\r\n");
		return 0;
	} else if (!strcmp(path, "/fields")) {
		say_for_ever(fd, "HTTP/1.1 200 OK\r\n", "x-more: of them\r\n");
		return 0;
	} else if (!strcmp(path, "/long-field")) {
		say_for_ever(fd, "HTTP/1.1 200 OK\r\nx-long: ", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
		return 0;
	} else if (!strcmp(path, "/cut-head")) {
		say(fd, "HTTP/1.1 200 OK\r\ncontent-le", 27);
		return 0;
	} else if (!strcmp(path, "/endless")) {
		say_for_ever(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "5\r\npart\n\r\n");
		return 0;
	} else if (!strcmp(path, "/fork")) {
		snprintf(text, sizeof text, "%d", fork_children(1000));
		answer_text(fd, "200 OK", text);
	} else if (!strcmp(path, "/flood")) {
		pthread_t writer;
		answer_text(fd, pthread_create(&writer, NULL, write_lines, NULL) ? "500 No Thread" : "200 OK", "");
	} else if (!strncmp(path, "/call/", 6)) {
		snprintf(text, sizeof text, "%ld", call(atoi(path + 6)));
		answer_text(fd, "200 OK", text);
	} else if (!strcmp(path, "/storm")) {
		pthread_t caller;
		for (int i = 0; i < 4; i++)
			if (pthread_create(&caller, NULL, call_for_ever, NULL))
				break;
		answer_text(fd, "200 OK", "");
	} else if (!strncmp(path, "/hide/", 6)) {
		answer_text(fd, hide((size_t)atol(path + 6) << 20) ? "200 OK" : "500 No Memory", "");
	} else if (!strcmp(path, "/close")) {
		close(LISTENER);
		answer_text(fd, "200 OK", "");
	} else if (!look_around(fd, path)) {
		answer_text(fd, "404 Not Found", "");
	}
	return 1;
}

static void *connection(void *argument)
{
	int fd = (int)(long)argument;
	char *head = malloc(HEAD_BYTES + 1);
	size_t held = 0;
	for (;;) {
		char *end;
		head[held] = 0;
		while (!(end = strstr(head, "\r\n\r\n"))) {
			ssize_t got = held < HEAD_BYTES ? recv(fd, head + held, HEAD_BYTES - held, 0) : 0;
			if (got <= 0)
				goto done;
			held += (size_t)got;
			head[held] = 0;
		}
		end[2] = 0;
		char path[256] = "";
		sscanf(head, "%*s %255s", path);
		const char *field = strcasestr(head, "\r\ncontent-length:");
		size_t length = field ? strtoul(field + 17, NULL, 10) : 0, had = held - (size_t)(end + 4 - head);
		if (length > HEAD_BYTES - (size_t)(end + 4 - head))
			goto done;
		while (had < length) {
			ssize_t got = recv(fd, end + 4 + had, length - had, 0);
			if (got <= 0)
				goto done;
			had += (size_t)got;
		}
		if (!serve(fd, path, head, end + 4, length))
			goto done;
		held = had - length;
		memmove(head, end + 4 + length, held);
	}
done:
	close(fd);
	free(head);
	return NULL;
}

int main(int count, char **arguments)
{
	const char *habit = count > 1 ? arguments[1] : "";
	if (!strcmp(habit, "refuse")) {
		fprintf(stderr, "cannot start today\n");
		return 3;
	}
	if (!strcmp(habit, "silent"))
		for (;;)
			pause();
	if (!strcmp(habit, "once") && access(arguments[2], F_OK)) {
		close(open(arguments[2], O_CREAT | O_WRONLY, 0600));
		return 4;
	}
	if (!strcmp(habit, "late"))
		pause_ms(500);
	if (!strcmp(habit, "called"))
		name = arguments[2];
	if (!strcmp(habit, "warms"))
		warm_after = 5;
	signal(SIGTERM, !strcmp(habit, "stubborn") ? SIG_IGN : leave);
	signal(SIGPIPE, SIG_IGN);
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		int fd = accept(LISTENER, NULL, NULL);
		if (fd < 0) {
			if (errno == EINTR || errno == ECONNABORTED || errno == EAGAIN)
				continue;
			pause();
		}
		accepted++;
		pthread_t thread;
		if (pthread_create(&thread, NULL, connection, (void *)(long)fd))
			close(fd);
		else
			pthread_detach(thread);
	}
}
