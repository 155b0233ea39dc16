/*
 * What the kernel counts for each user, not for each domain: taken whole by a guest, it is gone for
 * whoever started it. The witness is another program of that user, which asks for one more.
 */
#include "hostile.h"

#include <linux/aio_abi.h>
#include <mqueue.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <time.h>

/* Takes until there is no more, holds if there was any, and leaves it to the witness whether it was all. */
static int hoard(const char *call, bool (*take)(long), long most)
{
	long taken = 0;
	while (taken < most && take(taken))
		taken++;
	return taken > 0 ? held() : refused(call);
}

static bool take_instance(long number)
{
	(void)number;
	return inotify_init1(IN_CLOEXEC) >= 0;
}

int attack_inotify_hoard(void)
{
	allow_most_descriptors();
	return hoard("inotify_init1", take_instance, 10000);
}

/* A file may be watched once by each instance. */
enum { FILES_WATCHED = 8000, INSTANCES = 60 };

static bool take_watch(long number)
{
	static int instance;
	long file = number % FILES_WATCHED;
	if (file == 0)
		instance = inotify_init1(IN_CLOEXEC);
	const char *path = PATH_OF("/tmp/watched-%ld", file);
	if (number < FILES_WATCHED)
		close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	return inotify_add_watch(instance, path, IN_MODIFY) >= 0;
}

int attack_watch_hoard(void)
{
	return hoard("inotify_add_watch", take_watch, (long)FILES_WATCHED * INSTANCES);
}

static bool take_timer(long number)
{
	timer_t timer;
	(void)number;
	return timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0;
}

int attack_timer_hoard(void)
{
	return hoard("timer_create", take_timer, 1 << 20);
}

static bool take_signal(long number)
{
	return sigqueue(getpid(), SIGRTMAX, (union sigval){ .sival_int = (int)number }) == 0;
}

int attack_signal_hoard(void)
{
	sigset_t blocked;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGRTMAX);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	return hoard("sigqueue", take_signal, 1 << 20);
}

/* Smaller and smaller ones, for there may not be many. */
static bool take_queue(long number)
{
	static struct mq_attr next = { .mq_maxmsg = 10, .mq_msgsize = 8192 };
	const char *name = PATH_OF("/hoard-%ld", number);
	while (mq_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600, &next) < 0) {
		if (next.mq_msgsize > 1)
			next.mq_msgsize /= 2;
		else if (next.mq_maxmsg > 1)
			next.mq_maxmsg = 1;
		else
			return false;
	}
	return true;
}

int attack_queue_hoard(void)
{
	return hoard("mq_open", take_queue, 10000);
}

/* Pieces of different sizes, so that nothing is left over. */
static bool take_locked(long number)
{
	size_t bytes = number < 64 ? 1 << 20 : 4096;
	int segment = shmget(IPC_PRIVATE, bytes, IPC_CREAT | 0600);
	return segment >= 0 && (shmctl(segment, SHM_LOCK, NULL) == 0 || number < 64);
}

int attack_lock_hoard(void)
{
	struct shmid_ds unused;
	int first = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
	if (first < 0 || shmctl(first, SHM_LOCK, &unused))
		return refused("SHM_LOCK");
	return hoard("SHM_LOCK", take_locked, 2000);
}

/* One count for the whole machine (fs.aio-max-nr): enough to show that a guest gets at it. */
int attack_aio_context(void)
{
	aio_context_t context = 0;
	return attest("io_setup", syscall(SYS_io_setup, 1, &context));
}
