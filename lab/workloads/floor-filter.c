/*
 * The floor of calls: runs a program behind a filter of one instruction, which allows everything. Where it may write to
 * a folder the filter has a look at modes before that.
 *
 *     floor-filter [--processes] [--read FOLDER] [--write FOLDER] [--protect FILE] COMMAND [ARGUMENT…]
 *
 * Why it is the least: a wall that tells calls apart by a filter has the kernel look for one at each call
 * (`SYSCALL_WORK_SECCOMP` takes the call off its fast way in). For a number that the filter allows whatever
 * the arguments are, the kernel has known that since the filter was loaded (`seccomp_cache_prepare`, Linux
 * 5.11), and tests one bit. Of this filter that is every number; of palisade's, those without a check. So
 * the floor has the way off the fast one and the bit in it, and no instruction of any filter but for openat(2): what palisade
 * takes more is its checks of arguments and its Landlock rules.
 *
 * `--read`, `--write` and `--protect` are mounts, and with `--write` openat(2) is looked at too (mounts.h). With
 * `--processes` the program has a pid namespace (processes.h).
 */
#define _GNU_SOURCE
#include "mounts.h"
#include "processes.h"

static int die(const char *what)
{
	fprintf(stderr, "floor-filter: %s: %s\n", what, strerror(errno));
	return 125;
}

int main(int argc, char **argv)
{
	struct sock_filter filter[GUARD_LENGTH + 2];
	int length = 0;
	int apart = argc > 1 && strcmp(argv[1], "--processes") == 0;
	argc -= apart;
	argv += apart;
	int taken = mount_by_words(argv + 1, argc - 2);
	if (taken < 0)
		return die(unmounted);
	argc -= taken;
	argv += taken;
	if (argc < 2) {
		fprintf(stderr, "usage: floor-filter [--processes] [--read FOLDER] [--write FOLDER] [--protect FILE] COMMAND [ARGUMENT...]\n");
		return 125;
	}
	if (apart && own_processes() != 0)
		return die("processes");
	if (writes)
		filter[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	length += guard_modes(filter + length);
	filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { .len = length, .filter = filter };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return die("no_new_privs");
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
		return die("seccomp");
	execv(argv[1], argv + 1);
	return die(argv[1]);
}
