/* Information leaks: what the launcher left in sight. */
#include "hostile.h"

extern char **environ;

int attack_environment(void)
{
	for (char **entry = environ; *entry; entry++)
		puts(*entry);
	return spill_path("/proc/self/environ") == DONE || *environ ? DONE : REFUSED;
}

int attack_descriptor_left(void)
{
	bool any = false;
	for (int fd = 3; fd < 1024; fd++) {
		lseek(fd, 0, SEEK_SET);
		any |= spill(fd);
	}
	return any ? DONE : refused("read");
}

int attack_cmdline_victim(void)
{
	return spill_each("cmdline");
}
