/* How a guest ends: by its own code, by a fault, by a limit. Each act that no limit stops ends by itself. */
#include "portable.h"

enum { LONGEST_S = 20, MOST_MB = 1024 };

void probe_exit_code(void)
{
	int code = atoi(word(0));
	printf("code: %d\n", code);
	fflush(stdout);
	if (words() > 1 && !strcmp(word(1), "at once"))
		_Exit(code);
	exit(code);
}

/* ---- faults; volatile keeps the compiler from knowing what happens ---- */

static volatile int zero = 0, one = 1, least = INT_MIN, minus_one = -1;
static void (*volatile no_function)(void);
static char *volatile nowhere = (char *)0xfffffff0;
static volatile int *volatile null;

/* It never gets as deep as the compiler must believe; the sum afterwards keeps the call from becoming a jump. */
static __attribute__((noinline)) int deeper(int depth)
{
	volatile char room[512];
	if (depth == least)
		return 0;
	room[depth % sizeof room] = (char)depth;
	return deeper(depth + 1) + room[depth % sizeof room];
}

void probe_fault(void)
{
	const char *fault = word(0);
	printf("fault: %s\n", fault);
	fflush(stdout);
	if (!strcmp(fault, "abort"))
		abort();
	if (!strcmp(fault, "trap"))
		__builtin_trap();
	if (!strcmp(fault, "division by zero"))
		printf("quotient: %d\n", one / zero);
	if (!strcmp(fault, "quotient too large"))
		printf("quotient: %d\n", least / minus_one);
	if (!strcmp(fault, "read nowhere"))
		printf("byte: %d\n", *nowhere);
	if (!strcmp(fault, "write nowhere"))
		*nowhere = 1;
	if (!strcmp(fault, "write at null")) {
		*null = 1;
		printf("null: written\n");
	}
	if (!strcmp(fault, "call null"))
		no_function();
	if (!strcmp(fault, "recursion"))
		printf("depth: %d\n", deeper(0));
}

/* ---- limits ---- */

void probe_loop(void)
{
	printf("loop: begins\n");
	time_t end = time(NULL) + LONGEST_S;
	for (volatile uint64_t rounds = 0;; rounds++)
		if (rounds % (1 << 24) == 0 && time(NULL) > end)
			break;
	printf("loop: ended by itself\n");
}

void probe_sleep(void)
{
	printf("sleep: begins\n");
	sleep(LONGEST_S);
	printf("sleep: ended by itself\n");
}

/* Touches memory, a megabyte at a time; what nobody can see a compiler leaves out. */
void probe_allocate(void)
{
	static char *volatile memory;
	int most = atoi(word(0));
	for (int megabytes = 0; megabytes < most; megabytes++) {
		memory = malloc(1 << 20);
		if (!memory) {
			says("malloc", -1);
			return;
		}
		memset(memory, 1, 1 << 20);
	}
	tells("allocated", "%d", most);
}

void probe_flood(void)
{
	static char chunk[65536];
	memset(chunk, 'f', sizeof chunk);
	chunk[sizeof chunk - 1] = '\n';
	for (int i = 0; i < 16 * atoi(word(0)); i++)
		if (write(STDOUT_FILENO, chunk, sizeof chunk) < 0)
			exit(3);
}

void probe_open_many(void)
{
	int most = atoi(word(1)), last = 0;
	for (int count = 0; last >= 0 && count < most; count++)
		last = open(word(0), O_RDONLY);
	says("open many", last);
}

/* One byte each megabyte: it is the size that counts, not the room. */
void probe_grow_file(void)
{
	int fd = open(in(word(0), "grown"), O_WRONLY | O_CREAT, 0644);
	int most = atoi(word(1));
	says("open", fd);
	for (int megabytes = 0; megabytes < most; megabytes++)
		if (pwrite(fd, "x", 1, (off_t)megabytes << 20) != 1) {
			says("pwrite", -1);
			return;
		}
	tells("grown to", "%d", most);
}

void probe_fill_tmp(void)
{
	static char chunk[1 << 20];
	int fd = open(in(word(0), "fill"), O_WRONLY | O_CREAT, 0644);
	int most = atoi(word(1));
	memset(chunk, 1, sizeof chunk);
	says("open", fd);
	for (int megabytes = 0; megabytes < most; megabytes++)
		if (write(fd, chunk, sizeof chunk) < 0) {
			says("write", -1);
			return;
		}
	tells("filled", "%d", most);
}
