/*
 * What one system call costs, operation by operation.
 *
 *     syscalls FOLDER BATCH_US BATCHES
 *
 * FOLDER holds an executable `true` and the files `open/0` to `open/99`. A batch repeats its operation
 * for about BATCH_US microseconds; the number of repeats is found once, before the first batch.
 *
 * As a WASI program it lacks the operations that WASI has no calls for: pipes, signals and processes. Its
 * `getpid` is args_sizes_get, which its host answers without the kernel, and it polls /dev/zero, which is always
 * ready.
 */
#define _GNU_SOURCE
#include "measure.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __wasi__
#include <wasi/api.h>
#else
#include <signal.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#endif

enum { BLOCK = 64, FILES = 100 };

static const char *folder;
static int zero, null;

/* A function that repeats `action` `count` times and gives the nanoseconds this took. */
#define TIMED(name, action)                                                                        \
	static double name(const struct operation *unused, long count)                             \
	{                                                                                          \
		double began_ns = now_ns();                                                        \
		(void)unused;                                                                      \
		for (long i = 0; i < count; i++)                                                   \
			action;                                                                    \
		return now_ns() - began_ns;                                                        \
	}

static void open_close(void)
{
	int file = open("open/0", O_RDONLY | O_CLOEXEC);
	if (file < 0 || close(file) != 0)
		die("open/close");
}

static void read_block(void)
{
	char block[BLOCK];
	if (read(zero, block, BLOCK) != BLOCK)
		die("read");
}

static void write_block(void)
{
	static const char block[BLOCK];
	if (write(null, block, BLOCK) != BLOCK)
		die("write");
}

static void stat_file(void)
{
	struct stat status;
	if (stat("open/0", &status) != 0)
		die("stat");
}

#ifdef __wasi__
static void ask_for_nothing(void)
{
	size_t count, bytes;
	if (__wasi_args_sizes_get(&count, &bytes) != 0)
		die("args_sizes_get");
}

static void poll_one(void)
{
	struct pollfd one = { .fd = zero, .events = POLLIN };
	if (poll(&one, 1, 0) < 0)
		die("poll");
}

TIMED(time_getpid, ask_for_nothing())
#else
static int idle[2], to_echo[2], from_echo[2];
static volatile sig_atomic_t signals;

static void round_trip(void)
{
	char byte = 0;
	if (write(to_echo[1], &byte, 1) != 1 || read(from_echo[0], &byte, 1) != 1)
		die("pipe");
}

static void install_handler(void)
{
	struct sigaction action = { .sa_handler = SIG_IGN };
	if (sigaction(SIGUSR2, &action, NULL) != 0)
		die("sigaction");
}

static void poll_one(void)
{
	struct pollfd one = { .fd = idle[0], .events = POLLIN };
	if (poll(&one, 1, 0) != 0)
		die("poll");
}

static void select_one(void)
{
	struct timeval at_once = { 0 };
	fd_set one;
	FD_ZERO(&one);
	FD_SET(idle[0], &one);
	if (select(idle[0] + 1, &one, NULL, NULL, &at_once) != 0)
		die("select");
}

static void fork_exec_wait(void)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		execl("./true", "true", (char *)NULL);
		_exit(1);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		die("fork and exec");
}

TIMED(time_getpid, syscall(SYS_getpid))
TIMED(time_pipe, round_trip())
TIMED(time_signal_install, install_handler())
TIMED(time_select, select_one())
TIMED(time_fork_exec, fork_exec_wait())
TIMED(time_kill, kill(getpid(), SIGUSR1))

/* A signal to the only thread of a process is handled before kill(2) returns. */
static double time_signal_handler(const struct operation *operation, long count)
{
	signals = 0;
	double took_ns = time_kill(operation, count);
	if (signals != count)
		die("signal handler");
	return took_ns;
}
#endif

TIMED(time_open_close, open_close())
TIMED(time_read, read_block())
TIMED(time_write, write_block())
TIMED(time_stat, stat_file())
TIMED(time_poll, poll_one())

/* Opens many files that exist and keeps them; closing is not timed. */
static double time_checked_open(const struct operation *unused, long count)
{
	static char names[FILES][16];
	int files[FILES];
	double took_ns = 0;
	(void)unused;
	for (int i = 0; i < FILES; i++)
		snprintf(names[i], sizeof names[i], "open/%d", i);
	for (long done = 0; done < count; done += FILES) {
		int batch = count - done < FILES ? count - done : FILES;
		double began_ns = now_ns();
		for (int i = 0; i < batch; i++)
			if ((files[i] = open(names[i], O_RDONLY | O_CLOEXEC)) < 0)
				die("open");
		took_ns += now_ns() - began_ns;
		for (int i = 0; i < batch; i++)
			close(files[i]);
	}
	return took_ns;
}

static struct operation operations[] = {
	{ .name = "getpid", .time_ns = time_getpid },
	{ .name = "open+close", .time_ns = time_open_close },
	{ .name = "checked-open", .time_ns = time_checked_open },
	{ .name = "read-64", .time_ns = time_read },
	{ .name = "write-64", .time_ns = time_write },
	{ .name = "stat", .time_ns = time_stat },
	{ .name = "poll", .time_ns = time_poll },
#ifndef __wasi__
	{ .name = "pipe", .time_ns = time_pipe },
	{ .name = "signal-handler", .time_ns = time_signal_handler },
	{ .name = "signal-install", .time_ns = time_signal_install },
	{ .name = "select", .time_ns = time_select },
	{ .name = "fork+exec", .time_ns = time_fork_exec },
#endif
};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

#ifndef __wasi__
static void count_signal(int number)
{
	(void)number;
	signals++;
}

/* Sends every byte back until the other end is closed. */
static void echo(void)
{
	char byte;
	close(to_echo[1]);
	close(from_echo[0]);
	while (read(to_echo[0], &byte, 1) == 1)
		if (write(from_echo[1], &byte, 1) != 1)
			break;
	_exit(0);
}

static void prepare_processes(void)
{
	struct sigaction action = { .sa_handler = count_signal };
	if (pipe2(idle, O_CLOEXEC) != 0 || pipe2(to_echo, O_CLOEXEC) != 0 ||
	    pipe2(from_echo, O_CLOEXEC) != 0 || sigaction(SIGUSR1, &action, NULL) != 0)
		die("prepare");
	switch (fork()) {
	case -1:
		die("fork");
		break;
	case 0:
		echo();
	}
}
#endif

static void prepare(void)
{
	if (chdir(folder) != 0)
		die(folder);
	zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (zero < 0 || null < 0)
		die("prepare");
#ifndef __wasi__
	prepare_processes();
#endif
}

int main(int argc, char **argv)
{
	program_name = "syscalls";
	if (argc != 4) {
		fprintf(stderr, "usage: syscalls FOLDER BATCH_US BATCHES\n");
		return 2;
	}
	folder = argv[1];
	prepare();
	measure(operations, OPERATIONS, atof(argv[2]), atoi(argv[3]));
	return 0;
}
