/* Ends at once, with success. It has no libc, so what it takes is what a start takes. */

void _start(void)
{
#if defined(__x86_64__)
	__asm__ volatile("syscall" : : "a"(231L /* exit_group */), "D"(0L));
#elif defined(__aarch64__)
	register long number __asm__("x8") = 94; /* exit_group */
	register long code __asm__("x0") = 0;
	__asm__ volatile("svc 0" : : "r"(number), "r"(code));
#else
#error "true.c knows x86-64 and aarch64"
#endif
	__builtin_unreachable();
}
