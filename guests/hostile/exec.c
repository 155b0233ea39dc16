/* Execution control: run code that no grant made executable. */
#include "sockets.h"

#include <sys/sendfile.h>

/* The planted program is this one again, as the control `own-payload`: it only holds. */
static char *payload_words[] = { "hostile", "own-payload", NULL, NULL };
static char *no_environment[] = { NULL };

static char **payload(void)
{
	payload_words[2] = (char *)nonce();
	return payload_words;
}

/* ---- from memory ---- */

static int program_in_memory(void)
{
	struct stat about;
	int program = open(own_path(), O_RDONLY | O_CLOEXEC);
	int memory = memfd_create("planted", MFD_CLOEXEC);
	if (program < 0 || fstat(program, &about))
		unready(own_path());
	if (memory < 0)
		return -1;
	for (off_t done = 0; done < about.st_size;)
		if (sendfile(memory, program, &done, about.st_size - done) <= 0)
			unready("sendfile");
	close(program);
	return memory;
}

int attack_memfd_fexecve(void)
{
	int memory = program_in_memory();
	if (memory < 0)
		return refused("memfd_create");
	/* By path, since fexecve(3) would use execveat(2), the other attack. */
	execve(PATH_OF("/proc/self/fd/%d", memory), payload(), no_environment);
	return refused("execve /proc/self/fd");
}

int attack_memfd_execveat(void)
{
	int memory = program_in_memory();
	if (memory < 0)
		return refused("memfd_create");
	syscall(SYS_execveat, memory, "", payload(), no_environment, AT_EMPTY_PATH);
	return refused("execveat");
}

/* ---- from a writable directory ---- */

/* The dynamic loader maps a file that nobody made executable. */
int attack_ld_so(void)
{
	char loader[] = "/lib64/ld-linux-x86-64.so.2";
	const char *program = PATH_OF("%s-dynamic", own_path());
	const char *planted = "/tmp/planted";
	if (!copy_file(program, planted, 0644)) {
		planted = PATH_OF("%s/planted", need("scratch"));
		if (!copy_file(program, planted, 0644))
			return refused(planted);
	}
	char *words[] = { loader, (char *)planted, "own-payload", (char *)nonce(), NULL };
	execve(loader, words, no_environment);
	return refused(loader);
}

static int run_planted_in(const char *directory)
{
	const char *planted = PATH_OF("%s/planted", directory);
	if (!copy_file(own_path(), planted, 0755))
		return refused(planted);
	execve(planted, payload(), no_environment);
	return refused("execve");
}

int attack_copy_exec(void)
{
	const char *only = argument("into");
	const char *directories[] = { "/tmp", argument("scratch"), argument("readable"), "/var/tmp", "/run", "/dev" };
	if (only)
		return run_planted_in(only);
	for (size_t i = 0; i < sizeof directories / sizeof *directories; i++)
		if (directories[i])
			run_planted_in(directories[i]);
	return REFUSED;
}

int attack_shm_exec(void)
{
	return run_planted_in("/dev/shm");
}

/* Whoever looks at the path while the call waits sees now one file, now another. */
static char raced[256];

static void *exchange(void *planted)
{
	for (;;) {
		memcpy(raced, planted, sizeof raced);
		__asm__ volatile("" : : : "memory");
		memcpy(raced, "/nonexistent", sizeof "/nonexistent");
		__asm__ volatile("" : : : "memory");
	}
	return NULL;
}

int attack_exec_race(void)
{
	static char planted[sizeof raced];
	const char *only = argument("into");
	snprintf(planted, sizeof planted, "%s/planted", only ? only : "/tmp");
	if (!copy_file(own_path(), planted, 0755))
		return refused(planted);
	in_thread(exchange, planted);
	while (race_goes_on())
		execve(raced, payload(), no_environment);
	errno = EACCES;
	return refused("execve");
}

/* ---- round a command list ---- */

int attack_shell_route(void)
{
	char *words[] = { "sh", "-c", PATH_OF("exec '%s'", need("tool")), NULL };
	execve("/bin/sh", words, no_environment);
	return refused("/bin/sh");
}

/* ---- privileges from a file ---- */

static int run_privileged(const char *name)
{
	const char *path = PATH_OF("%s/%s", need("readable"), name);
	execve(path, payload(), no_environment);
	return refused(path);
}

int attack_setuid_exec(void)
{
	return run_privileged("setuid");
}

int attack_setgid_exec(void)
{
	return run_privileged("setgid");
}

int attack_filecaps_exec(void)
{
	return run_privileged("filecaps");
}

/* ---- code made at run time ---- */

int attack_mmap_rwx(void)
{
	void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return code == MAP_FAILED ? refused("mmap") : held();
}

int attack_mprotect_exec(void)
{
	void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return mprotect(code, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) ? refused("mprotect") : held();
}

/* ---- the policy itself ---- */

int attack_policy_off(void)
{
	return write_nonce(need("policy"));
}
