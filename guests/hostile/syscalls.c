/* System-call surface and ABI: reach a call that the wall does not mean to offer. */
#include "hostile.h"
#include "uring.h"

#include <arpa/inet.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <linux/userfaultfd.h>
#include <asm/ldt.h>
#include <pthread.h>
#include <sys/fanotify.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/quota.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#define I386_USERFAULTFD 374
#define X32_BIT 0x40000000

/* ---- other ways into the kernel ---- */

static long int80(long number, long first)
{
	long result;
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(first), "c"(0), "d"(0)
			 : "memory", "r8", "r9", "r10", "r11");
	return result;
}

int attack_int80(void)
{
	long fd = int80(I386_USERFAULTFD, UFFD_USER_MODE_ONLY);
	if (fd >= 0)
		return held();
	errno = (int)-fd;
	return refused("int 0x80 userfaultfd");
}

int attack_elf32(void)
{
	const char *path = PATH_OF("%s32", own_path());
	char *words[] = { (char *)own_path(), "elf32", (char *)nonce(), NULL };
	char *environment[] = { NULL };
	execve(path, words, environment);
	return refused(path);
}

int attack_x32(void)
{
	return syscall(X32_BIT | SYS_userfaultfd, UFFD_USER_MODE_ONLY) < 0 ? refused("x32 userfaultfd") : held();
}

/* ---- io_uring ---- */

int attack_uring_setup(void)
{
	struct uring ring;
	return uring_open(&ring) ? held() : refused("io_uring_setup");
}

int attack_uring_openat(void)
{
	struct uring ring;
	char secret[256] = "";
	if (!uring_open(&ring))
		return refused("io_uring_setup");
	struct io_uring_sqe sqe = { .opcode = IORING_OP_OPENAT, .fd = AT_FDCWD, .addr = (uintptr_t)need("secret") };
	int fd = (int)uring_do(&ring, &sqe);
	if (fd < 0)
		return refused("IORING_OP_OPENAT");
	sqe = (struct io_uring_sqe){
		.opcode = IORING_OP_READ, .fd = fd, .addr = (uintptr_t)secret, .len = sizeof secret - 1
	};
	if (uring_do(&ring, &sqe) <= 0)
		return refused("IORING_OP_READ");
	puts(secret);
	return DONE;
}

int attack_uring_connect(void)
{
	struct uring ring;
	struct sockaddr_in server = { .sin_family = AF_INET,
				      .sin_port = htons(need_number("tcp4")),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (!uring_open(&ring))
		return refused("io_uring_setup");
	struct io_uring_sqe sqe = { .opcode = IORING_OP_SOCKET, .fd = AF_INET, .off = SOCK_STREAM };
	int fd = (int)uring_do(&ring, &sqe);
	if (fd < 0)
		return refused("IORING_OP_SOCKET");
	sqe = (struct io_uring_sqe){
		.opcode = IORING_OP_CONNECT, .fd = fd, .addr = (uintptr_t)&server, .off = sizeof server
	};
	if (uring_do(&ring, &sqe) < 0)
		return refused("IORING_OP_CONNECT");
	sqe = (struct io_uring_sqe){
		.opcode = IORING_OP_SEND, .fd = fd, .addr = (uintptr_t)nonce(), .len = strlen(nonce())
	};
	return uring_do(&ring, &sqe) > 0 ? DONE : refused("IORING_OP_SEND");
}

/*
 * The launcher left a ring behind whose registered file 0 is the secret:
 * registered files survive close_range(2), and need no path.
 */
int attack_uring_inherited(void)
{
	struct uring ring;
	struct io_uring_params params = { 0 };
	char secret[256] = "";
	int fd;
	if (sscanf(need("ring"), "%d,%u,%u,%u,%u,%u,%u,%u", &fd, &params.sq_off.tail, &params.sq_off.ring_mask,
		   &params.sq_off.array, &params.cq_off.head, &params.cq_off.tail, &params.cq_off.ring_mask,
		   &params.cq_off.cqes) != 8)
		unready("ring=");
	if (!uring_adopt(&ring, fd, &params))
		return refused("mmap ring");
	struct io_uring_sqe sqe = { .opcode = IORING_OP_READ,
				    .flags = IOSQE_FIXED_FILE,
				    .fd = 0,
				    .addr = (uintptr_t)secret,
				    .len = sizeof secret - 1 };
	if (uring_do(&ring, &sqe) <= 0)
		return refused("IORING_OP_READ");
	puts(secret);
	return DONE;
}

/* ---- namespaces ---- */

int attack_clone3_newuser(void)
{
	struct clone_args call = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };
	long child = syscall(SYS_clone3, &call, sizeof call);
	if (child < 0)
		return refused("clone3");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return held();
}

/* A user namespace together with every other flag that there may be, in turn: of those that clone(2) knows, of those that clone3
 * alone has, and of those that no kernel has yet. Flags that take a stack of the child's or change who waits for it are no part. */
int attack_clone3_flags(void)
{
	const uint64_t shares = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_VFORK | CLONE_PARENT | CLONE_PTRACE
				| CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | CLONE_PIDFD | 0xff;
	static const uint64_t with_all = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET;
	pid_t chosen = 4000;
	for (int bit = 0; bit < 64 + 2; bit++) {
		struct clone_args call = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };
		if (bit < 64)
			call.flags |= UINT64_C(1) << bit;
		else if (bit == 64)
			call.flags |= with_all;
		else {
			call.set_tid = (uintptr_t)&chosen;
			call.set_tid_size = 1;
		}
		if (call.flags & shares)
			continue;
		long child = syscall(SYS_clone3, &call, sizeof call);
		if (child < 0)
			continue;
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
		return held();
	}
	return refused("clone3");
}

int attack_clone_newuser(void)
{
	long child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, 0);
	if (child < 0)
		return refused("clone");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return held();
}

int attack_unshare_newuser(void)
{
	lingering_child();
	return unshare(CLONE_NEWUSER) ? refused("unshare") : held();
}

int attack_unshare_mount(void)
{
	if (own_mounts())
		return refused("unshare");
	return mount(nonce(), "/tmp", "tmpfs", 0, NULL) ? refused("mount") : held();
}

int attack_unshare_netfilter(void)
{
	enum { NETFILTER = 12 };
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return refused("unshare");
	return socket(AF_NETLINK, SOCK_RAW, NETFILTER) < 0 ? refused("socket") : held();
}

static int tell_hostname(void)
{
	char name[HOST_NAME_MAX + 1] = "";
	gethostname(name, sizeof name);
	puts(name);
	return DONE;
}

static int join_namespaces_of(pid_t pid)
{
	int user = open(PATH_OF("/proc/%d/ns/user", pid), O_RDONLY | O_CLOEXEC);
	int uts = open(PATH_OF("/proc/%d/ns/uts", pid), O_RDONLY | O_CLOEXEC);
	if (uts < 0)
		return refused("open ns/uts");
	setns(user, CLONE_NEWUSER);
	return setns(uts, CLONE_NEWUTS) ? refused("setns") : tell_hostname();
}

int attack_setns_proc(void)
{
	return on_each_victim(join_namespaces_of);
}

int attack_setns_pidfd(void)
{
	int pidfd = (int)need_number("pidfd");
	if (setns(pidfd, CLONE_NEWUTS) && setns(pidfd, CLONE_NEWUSER | CLONE_NEWUTS))
		return refused("setns");
	return tell_hostname();
}

/* ---- check against use ---- */

static char raced_path[PATH_MAX];
static struct sockaddr_in raced_server;
static volatile bool race_over;

/* Both writes have to happen, in this order. */
#define BARRIER() __asm__ volatile("" : : : "memory")

static void *rewrite_path(void *unused)
{
	const char *granted = need("granted"), *secret = need("secret");
	(void)unused;
	while (!race_over) {
		strcpy(raced_path, secret);
		BARRIER();
		strcpy(raced_path, granted);
		BARRIER();
	}
	return NULL;
}

int attack_race_path(void)
{
	pthread_t rewriter;
	char line[4096];
	bool any = false;
	if (pthread_create(&rewriter, NULL, rewrite_path, NULL))
		unready("pthread_create");
	while (!any && race_goes_on()) {
		int fd = open(raced_path, O_RDONLY | O_CLOEXEC);
		ssize_t length = fd < 0 ? 0 : read(fd, line, sizeof line - 1);
		line[length > 0 ? length : 0] = 0;
		if (fd >= 0)
			close(fd);
		any = length > 0 && !strstr(line, "granted");
	}
	race_over = true;
	pthread_join(rewriter, NULL);
	if (!any)
		return refused("open");
	fputs(line, stdout);
	return DONE;
}

static void *rewrite_port(void *port)
{
	while (!race_over) {
		raced_server.sin_port = htons(1);
		BARRIER();
		raced_server.sin_port = *(in_port_t *)port;
		BARRIER();
	}
	return NULL;
}

int attack_race_sockaddr(void)
{
	pthread_t rewriter;
	in_port_t port = htons(need_number("tcp4"));
	bool any = false;
	raced_server.sin_family = AF_INET;
	raced_server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (pthread_create(&rewriter, NULL, rewrite_port, &port))
		unready("pthread_create");
	while (!any && race_goes_on()) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		any = fd >= 0 && connect(fd, (void *)&raced_server, sizeof raced_server) == 0
		      && write(fd, nonce(), strlen(nonce())) > 0;
		if (fd >= 0)
			close(fd);
	}
	race_over = true;
	pthread_join(rewriter, NULL);
	return any ? DONE : refused("connect");
}

/* ---- descriptors that only one call hands out ---- */

int attack_perf_event(void)
{
	struct perf_event_attr event = { .type = PERF_TYPE_SOFTWARE,
					 .size = sizeof event,
					 .config = PERF_COUNT_SW_TASK_CLOCK,
					 .exclude_kernel = 1,
					 .exclude_hv = 1 };
	return syscall(SYS_perf_event_open, &event, 0, -1, -1, 0) < 0 ? refused("perf_event_open") : held();
}

int attack_bpf(void)
{
	union bpf_attr map = { .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1 };
	return syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof map) < 0 ? refused("bpf") : held();
}

int attack_userfaultfd(void)
{
	return syscall(SYS_userfaultfd, UFFD_USER_MODE_ONLY) < 0 ? refused("userfaultfd") : held();
}

int attack_userfaultfd_device(void)
{
	return hold_path("/dev/userfaultfd", O_RDWR);
}

int attack_fuse_device(void)
{
	return hold_path("/dev/fuse", O_RDWR);
}

int attack_fanotify(void)
{
	int fd = fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID, O_RDONLY);
	if (fd < 0)
		return refused("fanotify_init");
	fanotify_mark(fd, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, "/");
	return held();
}

/* ---- calls whose success cannot be undone: only their reach is tried ---- */

int attack_init_module(void)
{
	return attest("init_module", syscall(SYS_init_module, NULL, 0, ""));
}

int attack_finit_module(void)
{
	return attest("finit_module", syscall(SYS_finit_module, -1, "", 0));
}

int attack_kexec_load(void)
{
	return attest("kexec_load", syscall(SYS_kexec_load, 0, 1, NULL, ~0UL));
}

int attack_reboot(void)
{
	enum { MAGIC = (int)0xfee1dead, MAGIC2 = 672274793, NO_SUCH_COMMAND = 1 };
	return attest("reboot", syscall(SYS_reboot, MAGIC, MAGIC2, NO_SUCH_COMMAND, NULL));
}

int attack_swapon(void)
{
	return attest("swapon", syscall(SYS_swapon, "/nonexistent", 0));
}

int attack_settimeofday(void)
{
	struct timeval no_such_time = { .tv_sec = 0, .tv_usec = 9999999 };
	return attest("settimeofday", syscall(SYS_settimeofday, &no_such_time, NULL));
}

int attack_iopl(void)
{
	return attest("iopl", syscall(SYS_iopl, 3));
}

int attack_ioperm(void)
{
	return attest("ioperm", syscall(SYS_ioperm, 0x80, 1, 1));
}

int attack_modify_ldt(void)
{
	struct user_desc segment = { .entry_number = 0, .limit = 1, .useable = 1 };
	return attest("modify_ldt", syscall(SYS_modify_ldt, 1, &segment, sizeof segment));
}

int attack_quotactl(void)
{
	return attest("quotactl", syscall(SYS_quotactl, QCMD(Q_SYNC, 0), NULL, 0, NULL));
}

int attack_lookup_dcookie(void)
{
	return attest("lookup_dcookie", syscall(SYS_lookup_dcookie, 0, NULL, 0));
}

/* Process accounting is per pid namespace: the witness sees its log grow. */
int attack_acct(void)
{
	const char *log = PATH_OF("%s/acct", need("outside"));
	close(open(log, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	if (acct(log))
		return refused("acct");
	if (fork() == 0)
		_exit(0);
	wait(NULL);
	acct(NULL);
	return DONE;
}

int attack_syslog(void)
{
	static char log[1 << 20];
	int length = klogctl(3, log, sizeof log);
	if (length < 0)
		return refused("syslog");
	fwrite(log, 1, length, stdout);
	return DONE;
}

int attack_vhangup(void)
{
	return vhangup() ? refused("vhangup") : DONE;
}

/* ---- changes that /proc/PID shows ---- */

int attack_personality(void)
{
	return personality(READ_IMPLIES_EXEC | ADDR_NO_RANDOMIZE) < 0 ? refused("personality") : held();
}

/* Moves the kernel's idea of the stack to 0x10000000, which only PR_SET_MM can. */
int attack_prctl_mm(void)
{
	extern char __executable_start, etext, edata;
	uintptr_t heap = (uintptr_t)sbrk(0);
	/* The variables begin where the arguments end. */
	uintptr_t words = (uintptr_t)own_path(), rest = (uintptr_t)(*environ ? *environ : own_path());
	void *page = mmap((void *)0x10000000, 4096, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (page == MAP_FAILED)
		unready("mmap");
	/* Near enough for the kernel, which only asks that the parts are in order. */
	struct prctl_mm_map map = { .start_code = (uintptr_t)&__executable_start,
				    .end_code = (uintptr_t)&etext,
				    .start_data = (uintptr_t)&etext,
				    .end_data = (uintptr_t)&edata,
				    .start_brk = heap,
				    .brk = heap,
				    .start_stack = (uintptr_t)page,
				    .arg_start = words,
				    .arg_end = rest,
				    .env_start = rest,
				    .env_end = rest,
				    .exe_fd = -1U };
	if (prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0) == 0)
		return held();
	return prctl(PR_SET_MM, PR_SET_MM_START_STACK, page, 0, 0) ? refused("PR_SET_MM") : held();
}

/* ---- socket families ---- */

static int hold_socket(int family, int type, int protocol)
{
	return socket(family, type | SOCK_CLOEXEC, protocol) < 0 ? refused("socket") : held();
}

int attack_socket_alg(void)
{
	return hold_socket(AF_ALG, SOCK_SEQPACKET, 0);
}

int attack_socket_packet(void)
{
	return hold_socket(AF_PACKET, SOCK_RAW, 0);
}

int attack_socket_key(void)
{
	enum { PF_KEY_V2 = 2 };
	return hold_socket(AF_KEY, SOCK_RAW, PF_KEY_V2);
}

int attack_socket_xdp(void)
{
	return hold_socket(AF_XDP, SOCK_RAW, 0);
}

int attack_socket_tipc(void)
{
	return hold_socket(AF_TIPC, SOCK_STREAM, 0);
}

int attack_socket_vsock(void)
{
	return hold_socket(AF_VSOCK, SOCK_STREAM, 0);
}

int attack_socket_smc(void)
{
	return hold_socket(AF_SMC, SOCK_STREAM, 0);
}

int attack_socket_netlink(void)
{
	return hold_socket(AF_NETLINK, SOCK_RAW, 0);
}

/* ---- numbers that the wall may not know ---- */

/* Newer than most allow-lists, and none of them needed by an ordinary program. */
static bool worth_reaching(int number)
{
	return (number >= 425 && number <= 433)	   /* io_uring, the mount API */
	       || number == 438			   /* pidfd_getfd */
	       || number == 442 || number == 443   /* mount_setattr, quotactl_fd */
	       || (number >= 457 && number <= 461) /* statmount, listmount, lsm_* */
	       || number >= 467;		   /* open_tree_attr and all that follow */
}

static bool answers(int number)
{
	int status = 0;
	pid_t child = fork();
	if (child < 0)
		unready("fork");
	if (child == 0) {
		alarm(1);
		syscall(number, -1L, -1L, -1L, -1L, -1L, -1L);
		_exit(errno == ENOSYS || errno == EPERM);
	}
	waitpid(child, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int attack_sweep(void)
{
	int reached = 0;
	for (int number = 335; number < 1024; number++)
		if (worth_reaching(number) && answers(number)) {
			printf("reached %s %d\n", nonce(), number);
			reached++;
		}
	errno = ENOSYS;
	return reached ? DONE : refused("every number");
}
