/*
 * Resource exhaustion. Every bomb is bounded: it stops a little past the limit
 * that it is meant to break, and holds there for the witness to count.
 */
#include "hostile.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

int attack_fork_bomb(void)
{
	for (long left = need_number("count"); left > 0; left--) {
		pid_t child = fork();
		if (child < 0)
			return refused("fork");
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
	}
	return held();
}

static _Noreturn void *wait_forever(void *unused)
{
	(void)unused;
	for (;;)
		pause();
}

int attack_thread_bomb(void)
{
	pthread_attr_t small;
	pthread_t thread;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 16384);
	for (long left = need_number("count"); left > 0; left--)
		if ((errno = pthread_create(&thread, &small, wait_forever, NULL)))
			return refused("pthread_create");
	return held();
}

int attack_zombie_hoard(void)
{
	for (long left = need_number("count"); left > 0; left--) {
		pid_t child = fork();
		if (child < 0)
			return refused("fork");
		if (child == 0)
			_exit(0);
	}
	return held();
}

static int touch(int flags, int fd)
{
	size_t size = (size_t)need_number("megabytes") << 20;
	char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (bytes == MAP_FAILED)
		return refused("mmap");
	for (size_t at = 0; at < size; at += 4096)
		bytes[at] = 1;
	return held();
}

int attack_memory_bomb(void)
{
	return touch(MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

/* Some walls only let memory files pass that can never be executed; older kernels have none. */
static int memory_file(void)
{
	enum { NOEXEC_SEAL = 8 };
	int fd = memfd_create("bomb", MFD_CLOEXEC | NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("bomb", MFD_CLOEXEC);
	return fd < 0 ? open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : fd;
}

int attack_memfd_bomb(void)
{
	int fd = memory_file();
	if (fd < 0)
		return refused("memfd_create");
	if (ftruncate(fd, need_number("megabytes") << 20))
		return refused("ftruncate");
	return touch(MAP_SHARED, fd);
}

int attack_shared_bomb(void)
{
	return touch(MAP_SHARED | MAP_ANONYMOUS, -1);
}

int attack_descriptor_bomb(void)
{
	allow_most_descriptors();
	for (long left = need_number("count"); left > 0; left--)
		if (dup(STDIN_FILENO) < 0)
			return refused("dup");
	return held();
}

int attack_file_size(void)
{
	static char chunk[1 << 20];
	int fd = open(PATH_OF("%s/planted", need("scratch")), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return refused("open");
	signal(SIGXFSZ, SIG_IGN);
	for (int i = 0; i < 4; i++)
		if (write(fd, chunk, sizeof chunk) != sizeof chunk)
			return refused("write");
	return DONE;
}

int attack_output_flood(void)
{
	static char chunk[65536];
	memset(chunk, '.', sizeof chunk);
	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < 128; i++)
		if (write(STDOUT_FILENO, chunk, sizeof chunk) < 0)
			return refused("write");
	return DONE;
}

/* Sleeps through the time that it was given, deaf to polite signals. */
int attack_overtime(void)
{
	for (int number = 1; number < 32; number++)
		signal(number, SIG_IGN);
	struct timespec rest = { .tv_sec = 1, .tv_nsec = 500000000 };
	while (nanosleep(&rest, &rest))
		;
	return DONE;
}

/* A stopped process uses no time at all; a launcher that stops with it forgets its clock. */
int attack_stop_self(void)
{
	return kill(getpid(), SIGSTOP) ? refused("kill") : DONE;
}

static int burn(void)
{
	struct timespec used;
	do
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	while (used.tv_sec * 1000 + used.tv_nsec / 1000000 < 1700);
	return held();
}

int attack_cpu_burn(void)
{
	return burn();
}

int attack_cpu_burn_caught(void)
{
	struct rlimit most;
	signal(SIGXCPU, SIG_IGN);
	getrlimit(RLIMIT_CPU, &most);
	most.rlim_cur = most.rlim_max;
	setrlimit(RLIMIT_CPU, &most);
	return burn();
}

/*
 * Burns in children of this many ms each, one after the other, three seconds in all. Their times are
 * added to nobody's (wait_task_zombie in kernel/exit.c).
 */
static int burn_in_children(long each_ms)
{
	struct timespec used;
	for (long left_ms = 3000; left_ms > 0; left_ms -= each_ms) {
		pid_t child = fork();
		if (child < 0)
			return refused("fork");
		if (child == 0) {
			do
				clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
			while (used.tv_sec * 1000 + used.tv_nsec / 1000000 < each_ms);
			_exit(0);
		}
		/* Waits for all to be gone, and gets none: ECHILD. */
		wait(NULL);
	}
	return attest("burning", 0);
}

int attack_cpu_burn_unreaped(void)
{
	signal(SIGCHLD, SIG_IGN);
	return burn_in_children(200);
}

static void ignore(int number)
{
	(void)number;
}

int attack_cpu_burn_nocldwait(void)
{
	struct sigaction lets_go = { .sa_handler = ignore, .sa_flags = SA_NOCLDWAIT };
	sigaction(SIGCHLD, &lets_go, NULL);
	return burn_in_children(200);
}

/* Each is gone before anybody looks. */
int attack_cpu_burn_storm(void)
{
	signal(SIGCHLD, SIG_IGN);
	return burn_in_children(3);
}

int attack_real_time(void)
{
	struct sched_param first = { .sched_priority = 1 };
	return sched_setscheduler(0, SCHED_FIFO, &first) ? refused("sched_setscheduler") : held();
}

int attack_nice_up(void)
{
	return setpriority(PRIO_PROCESS, 0, -5) ? refused("setpriority") : held();
}

int attack_oom_score(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return refused("oom_score_adj");
	return write(fd, "-500", 4) == 4 ? held() : refused("write");
}

/* Leaves its session and its parent, and wears a name that breaks parsers of /proc/PID/stat. */
static void become_daemon(void)
{
	if (fork())
		return;
	setsid();
	if (fork())
		_exit(0);
	prctl(PR_SET_NAME, "x) Z 0 0 0");
	for (int number = 1; number < 32; number++)
		signal(number, SIG_IGN);
}

int attack_survivor(void)
{
	pid_t self = getpid();
	become_daemon();
	if (getpid() == self)
		return DONE;
	int null = open("/dev/null", O_RDWR);
	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	sleep(3);
	_exit(0);
}

int attack_stdout_held(void)
{
	pid_t self = getpid();
	become_daemon();
	if (getpid() != self)
		sleep(3);
	return DONE;
}

static long monotonic_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static _Noreturn void flee_until(long end)
{
	while (monotonic_ms() < end)
		if (fork() > 0)
			_exit(0);
	_exit(0);
}

/*
 * Flees from whoever ends processes one by one: each of these lives only until it has
 * a successor. Their ancestor rests, for the witness to find, and leaves no zombies.
 */
int attack_fork_flight(void)
{
	enum { CHAINS = 48 };
	pid_t ancestor = fork();
	if (ancestor < 0)
		return refused("fork");
	if (ancestor > 0) {
		/* The guest ends while the flight is on. */
		usleep(50000);
		return DONE;
	}
	signal(SIGCHLD, SIG_IGN);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	for (int chain = 0; chain < CHAINS; chain++)
		if (fork() == 0)
			flee_until(monotonic_ms() + 10000);
	sleep(11);
	_exit(0);
}
