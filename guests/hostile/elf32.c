/* A whole 32-bit program: another system-call table. Freestanding, since there may be no 32-bit libc. */
#define NR_READ 3
#define NR_WRITE 4
#define NR_EXIT 1
#define NR_USERFAULTFD 374
#define UFFD_USER_MODE_ONLY 1

static long call(long number, long first, long second, long third)
{
	long result;
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(first), "c"(second), "d"(third) : "memory");
	return result;
}

void _start(void)
{
	char byte;
	long refused = call(NR_USERFAULTFD, UFFD_USER_MODE_ONLY, 0, 0) < 0;
	if (refused)
		call(NR_WRITE, 2, (long)"refused: userfaultfd: EPERM\n", 28);
	else
		call(NR_WRITE, 1, (long)"held\n", 5);
	while (!refused && call(NR_READ, 0, (long)&byte, 1) > 0)
		;
	call(NR_EXIT, refused, 0, 0);
	__builtin_unreachable();
}
