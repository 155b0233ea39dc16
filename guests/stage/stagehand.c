/*
 * The suite's own side of the stage: what has to be done with the attacker's
 * user id, or by calls that the Rust side has no safe wrapper for.
 *
 *   stagehand victim NONCE SECRET DIRECTORY     a process worth attacking
 *   stagehand victim-namespaced NONCE SECRET    the same, in namespaces of its own
 *   stagehand flip DIRECTORY OTHER              exchanges the two names until it is killed
 *   stagehand handle FILE                       prints the file's handle
 *   stagehand find-key NONCE                    succeeds if the user keyring holds it
 *   stagehand take WHAT                         succeeds if this user gets one more
 *   stagehand loopback-up                       and gives it the addresses below
 *   stagehand links-up                          the same, and a second link with index 77
 *   stagehand share-port                        a TCP and a UDP server at a port that others may share
 *   stagehand launch [FLAW…] -- PROGRAM ARGS…   a launcher with flaws, then exec
 *   stagehand supervise -- PROGRAM ARGS…        a launcher that is no wall: forks and waits
 *   stagehand without-namespaces ID -- PROGRAM ARGS…
 *                                               as this user, where the kernel gives no user namespaces
 *
 * Flaws: leak-directory=PATH leak-file=PATH leak-pidfd=PID leak-ring=FILE
 *        session-key=NONCE:SECRET user-key=NONCE:SECRET enter=PATH terminal=REPORT
 * A flaw may complete one of the guest's arguments, such as `ring=`.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/rtnetlink.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { KEY_SECONDS = 60, LEAK_FD = 100 };

static _Noreturn void fail(const char *step)
{
	fprintf(stderr, "stagehand: %s: %s\n", step, strerror(errno));
	exit(99);
}

/* ---- victim ---- */

static char secret_in_memory[65];

/* One key for the System V objects of this nonce: its first digits, as the warden computes it. */
static key_t key_of(const char *nonce)
{
	char digits[8] = "";
	memcpy(digits, nonce, 7);
	return (key_t)strtol(digits, NULL, 16) + 1;
}

static int secret_file(const char *secret)
{
	int fd = memfd_create("secret", 0);
	if (fd < 0 || write(fd, secret, strlen(secret)) < 0)
		fail("memfd_create");
	lseek(fd, 0, SEEK_SET);
	return fd;
}

/* For each bit of the secret's first 64 a copy of the same, or of another, open file. */
static int spell_bits(const char *secret)
{
	char digits[17] = "";
	memcpy(digits, secret, 16);
	uint64_t word = strtoull(digits, NULL, 16);
	int same = open("/dev/null", O_RDONLY), other = open("/dev/null", O_RDONLY), first = 300;
	if (dup2(same, first) < 0)
		fail("dup2");
	for (int bit = 0; bit < 64; bit++)
		if (dup2(word >> bit & 1 ? same : other, first + 1 + bit) < 0)
			fail("dup2");
	return first;
}

static void share_secret(const char *nonce, const char *secret)
{
	struct {
		long type;
		char text[65];
	} message = { .type = 1 };
	int segment = shmget(key_of(nonce), 4096, IPC_CREAT | 0600);
	int queue = msgget(key_of(nonce), IPC_CREAT | 0600);
	snprintf(message.text, sizeof message.text, "%s", secret);
	if (segment < 0 || queue < 0 || msgsnd(queue, &message, strlen(secret) + 1, 0))
		fail("System V IPC");
	strcpy(shmat(segment, NULL, 0), secret);

	char name[128];
	snprintf(name, sizeof name, "/%s", nonce);
	mqd_t posix = mq_open(name, O_CREAT | O_RDWR, 0600, NULL);
	if (posix < 0 || mq_send(posix, secret, strlen(secret) + 1, 0))
		fail("mq_open");

	snprintf(name, sizeof name, "/dev/shm/%s", nonce);
	int fd = open(name, O_CREAT | O_WRONLY, 0600);
	if (fd < 0 || write(fd, secret, strlen(secret)) < 0)
		fail("/dev/shm");
}

static void *map_secret_file(const char *directory)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/secret", directory);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *mapped = fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	if (mapped == MAP_FAILED)
		fail(path);
	close(fd);
	return mapped;
}

/* Answers each line on stdin with what its memory holds now. */
static _Noreturn void stay(void)
{
	char line[16];
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof line, stdin))
		printf("memory=%s\n", secret_in_memory);
	exit(0);
}

static int victim(const char *nonce, const char *secret, const char *directory)
{
	snprintf(secret_in_memory, sizeof secret_in_memory, "%s", secret);
	share_secret(nonce, secret);
	char *mapped = map_secret_file(directory);
	if (chdir(directory))
		fail(directory);
	printf("address=%p descriptor=%d bits=%d mapped=%lx-%lx key=%d\n", (void *)secret_in_memory,
	       secret_file(secret), spell_bits(secret), (long)mapped, (long)mapped + 4096, key_of(nonce));
	fflush(stdout);
	stay();
}

static int victim_namespaced(const char *secret)
{
	if (unshare(CLONE_NEWUTS) && unshare(CLONE_NEWUSER | CLONE_NEWUTS))
		fail("unshare");
	if (sethostname(secret, strlen(secret)))
		fail("sethostname");
	printf("hostname=%s\n", secret);
	fflush(stdout);
	stay();
}

/* ---- small services ---- */

static int flip(const char *one, const char *other)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		if (renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE))
			fail("renameat2");
}

static int handle(const char *path)
{
	static struct {
		struct file_handle head;
		unsigned char bytes[MAX_HANDLE_SZ];
	} handle = { .head.handle_bytes = MAX_HANDLE_SZ };
	int mount;
	if (name_to_handle_at(AT_FDCWD, path, &handle.head, &mount, 0))
		fail(path);
	printf("%d:", handle.head.handle_type);
	for (unsigned i = 0; i < handle.head.handle_bytes; i++)
		printf("%02x", handle.head.f_handle[i]);
	putchar('\n');
	return 0;
}

static int find_key(const char *nonce)
{
	return syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, "user", nonce, 0) < 0;
}

/* Without capabilities, some of which lift the very limits. */
static void drop_capabilities(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };
	if (syscall(SYS_capset, &header, none))
		fail("capset");
}

static bool take_signal(void)
{
	sigset_t blocked;
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGRTMAX);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	return sigqueue(getpid(), SIGRTMAX, (union sigval){ 0 }) == 0;
}

static bool take_queue(void)
{
	struct mq_attr smallest = { .mq_maxmsg = 1, .mq_msgsize = 1 };
	bool taken = mq_open("/one-more", O_RDWR | O_CREAT, 0600, &smallest) >= 0;
	mq_unlink("/one-more");
	return taken;
}

static bool take_locked(void)
{
	int segment = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
	bool taken = segment >= 0 && shmctl(segment, SHM_LOCK, NULL) == 0;
	shmctl(segment, IPC_RMID, NULL);
	return taken;
}

/* What the kernel counts for each user: is there one left? */
static int take(const char *what)
{
	timer_t timer;
	bool taken = false;
	drop_capabilities();
	if (!strcmp(what, "inotify"))
		taken = inotify_init1(0) >= 0;
	else if (!strcmp(what, "watch"))
		taken = inotify_add_watch(inotify_init1(0), "/", IN_MODIFY) >= 0;
	else if (!strcmp(what, "timer"))
		taken = timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0;
	else if (!strcmp(what, "signal"))
		taken = take_signal();
	else if (!strcmp(what, "queue"))
		taken = take_queue();
	else if (!strcmp(what, "lock"))
		taken = take_locked();
	else
		fail(what);
	return taken ? 0 : 1;
}

/*
 * Addresses of this host besides 127.0.0.0/8 and ::1: two of the internet at large, one that is
 * only to be found out, the metadata services of cloud machines, and a link-local one.
 */
static const char *const own_v4[] = { "192.0.2.9", "198.51.100.77", "169.254.169.254" };
static const char *const own_v6[] = { "2001:db8::9", "fd00:ec2::254", "fe80::1" };

static void add_v4(int fd, int number, const char *text)
{
	struct ifreq alias;
	struct sockaddr_in *address = (struct sockaddr_in *)&alias.ifr_addr;
	memset(&alias, 0, sizeof alias);
	snprintf(alias.ifr_name, sizeof alias.ifr_name, "lo:%d", number);
	address->sin_family = AF_INET;
	inet_pton(AF_INET, text, &address->sin_addr);
	if (ioctl(fd, SIOCSIFADDR, &alias))
		fail(text);
	inet_pton(AF_INET, "255.255.255.255", &address->sin_addr);
	if (ioctl(fd, SIOCSIFNETMASK, &alias))
		fail(text);
}

static void add_v6(int fd, const char *text)
{
	/* struct in6_ifreq of linux/ipv6.h, which cannot be included beside netinet/in.h */
	struct {
		struct in6_addr address;
		uint32_t prefix;
		int index;
	} added = { .prefix = 128, .index = (int)if_nametoindex("lo") };
	inet_pton(AF_INET6, text, &added.address);
	if (ioctl(fd, SIOCSIFADDR, &added))
		fail(text);
}

/* So that groups of IPv6, ff00::/8, are reached by the loopback device: only local routes may. */
static void add_group_route(void)
{
	struct {
		struct nlmsghdr head;
		struct rtmsg route;
		struct rtattr to_head;
		struct in6_addr to;
		struct rtattr by_head;
		int by;
	} ask = { .head = { .nlmsg_len = sizeof ask,
			    .nlmsg_type = RTM_NEWROUTE,
			    .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_ACK },
		  .route = { .rtm_family = AF_INET6,
			     .rtm_dst_len = 8,
			     .rtm_table = RT_TABLE_LOCAL,
			     .rtm_protocol = RTPROT_STATIC,
			     .rtm_scope = RT_SCOPE_UNIVERSE,
			     .rtm_type = RTN_LOCAL },
		  .to_head = { .rta_len = RTA_LENGTH(sizeof ask.to), .rta_type = RTA_DST },
		  .to = { { { 0xff } } },
		  .by_head = { .rta_len = RTA_LENGTH(sizeof ask.by), .rta_type = RTA_OIF },
		  .by = (int)if_nametoindex("lo") };
	struct {
		struct nlmsghdr head;
		struct nlmsgerr about;
	} answer;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0 || send(fd, &ask, sizeof ask, 0) < 0 || recv(fd, &answer, sizeof answer, 0) < 0)
		fail("rtnetlink");
	errno = -answer.about.error;
	if (errno)
		fail("ff00::/8");
}

/* So that groups of IPv4 are, too. */
static void add_group_route4(int fd)
{
	struct rtentry route = { .rt_flags = RTF_UP, .rt_dev = (char *)"lo" };
	struct sockaddr_in groups = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xe0000000) };
	struct sockaddr_in mask = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xf0000000) };
	memcpy(&route.rt_dst, &groups, sizeof groups);
	memcpy(&route.rt_genmask, &mask, sizeof mask);
	if (ioctl(fd, SIOCADDRT, &route))
		fail("224.0.0.0/4");
}

static int loopback_up(void)
{
	struct ifreq loopback = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_MULTICAST };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), fd6 = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || fd6 < 0 || ioctl(fd, SIOCSIFFLAGS, &loopback))
		fail("lo up");
	for (int i = 0; i < (int)(sizeof own_v4 / sizeof *own_v4); i++)
		add_v4(fd, i + 1, own_v4[i]);
	for (int i = 0; i < (int)(sizeof own_v6 / sizeof *own_v6); i++)
		add_v6(fd6, own_v6[i]);
	add_group_route();
	add_group_route4(fd);
	return 0;
}

/* A pair of Ethernet devices: what leaves by the first arrives at the second, and nobody is there. */
static int links_up(void)
{
	enum { INDEX = 77 };
	struct {
		struct nlmsghdr head;
		struct ifinfomsg link;
		struct rtattr name_head;
		char name[8];
		struct rtattr info_head, kind_head;
		char kind[8];
	} ask = { .head = { .nlmsg_len = sizeof ask,
			    .nlmsg_type = RTM_NEWLINK,
			    .nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK },
		  .link = { .ifi_family = AF_UNSPEC, .ifi_index = INDEX },
		  .name_head = { .rta_len = RTA_LENGTH(sizeof ask.name), .rta_type = IFLA_IFNAME },
		  .name = "beside",
		  .info_head = { .rta_len = RTA_LENGTH(sizeof ask.kind_head + sizeof ask.kind),
				 .rta_type = IFLA_LINKINFO },
		  .kind_head = { .rta_len = RTA_LENGTH(sizeof "veth"), .rta_type = IFLA_INFO_KIND },
		  .kind = "veth" };
	struct {
		struct nlmsghdr head;
		struct nlmsgerr about;
	} answer;
	struct ifreq links[] = { { .ifr_name = "veth0" }, { .ifr_name = "beside" } };
	loopback_up();
	int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (netlink < 0 || send(netlink, &ask, sizeof ask, 0) < 0 || recv(netlink, &answer, sizeof answer, 0) < 0)
		fail("rtnetlink");
	errno = -answer.about.error;
	if (errno)
		fail("a second link");
	for (int i = 0; i < 2; i++) {
		/* Without addresses of its own it sends nothing by itself. */
		char path[64];
		snprintf(path, sizeof path, "/proc/sys/net/ipv6/conf/%s/addr_gen_mode", links[i].ifr_name);
		int setting = open(path, O_WRONLY | O_CLOEXEC);
		links[i].ifr_flags = IFF_UP | IFF_MULTICAST;
		if (setting < 0 || write(setting, "1", 1) != 1 || ioctl(fd, SIOCSIFFLAGS, &links[i]))
			fail(path);
		close(setting);
	}
	return 0;
}

/* Belongs to the guest's user: SO_REUSEPORT shares among sockets of one user. */
static int share_port(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof address;
	int yes = 1, fds[2];
	for (int i = 0; i < 2; i++) {
		fds[i] = socket(AF_INET, (i ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);
		if (fds[i] < 0 || setsockopt(fds[i], SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes)
		    || bind(fds[i], (void *)&address, sizeof address)
		    || getsockname(fds[i], (void *)&address, &length))
			fail("share-port");
	}
	if (listen(fds[0], 64))
		fail("listen");
	printf("shared=%d\n", ntohs(address.sin_port));
	fflush(stdout);
	for (;;)
		close(accept(fds[0], NULL, NULL));
}

/* ---- launchers ---- */

static void leak(int fd, const char *what)
{
	static int next = LEAK_FD;
	if (fd < 0 || dup2(fd, next++) < 0)
		fail(what);
	close(fd);
}

static void leak_pidfd(const char *pid)
{
	int pidfd = (int)syscall(SYS_pidfd_open, atoi(pid), 0);
	if (pidfd < 0)
		fail("pidfd_open");
	/* pidfd_open(2) sets close-on-exec; the flaw is to have lost it. */
	leak(pidfd, "pidfd");
}

static char *leak_ring(const char *file)
{
	static char offsets[128];
	struct io_uring_params params = { 0 };
	int ring = (int)syscall(SYS_io_uring_setup, 8, &params);
	int secret = open(file, O_RDONLY | O_CLOEXEC);
	if (ring < 0 || secret < 0 || syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, &secret, 1))
		fail("io_uring");
	leak(ring, "ring");
	snprintf(offsets, sizeof offsets, "ring=%d,%u,%u,%u,%u,%u,%u,%u", LEAK_FD, params.sq_off.tail,
		 params.sq_off.ring_mask, params.sq_off.array, params.cq_off.head, params.cq_off.tail,
		 params.cq_off.ring_mask, params.cq_off.cqes);
	return offsets;
}

static void add_key(char *pair, int keyring)
{
	char *secret = strchr(pair, ':');
	*secret++ = 0;
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0)
		fail("KEYCTL_JOIN_SESSION_KEYRING");
	/* Who came by su(1) or sudo(8) may not have the user's own keyring in the session's. */
	if (keyring == KEY_SPEC_USER_KEYRING && syscall(SYS_keyctl, KEYCTL_LINK, keyring, KEY_SPEC_SESSION_KEYRING))
		fail("KEYCTL_LINK");
	long key = syscall(SYS_add_key, "user", pair, secret, strlen(secret), keyring);
	if (key < 0 || syscall(SYS_keyctl, KEYCTL_SET_TIMEOUT, key, KEY_SECONDS))
		fail("add_key");
}

/* What waits to be read on stdin would be the next command of the user's shell. */
static void report_typed(const char *report)
{
	char typed[4096];
	int out = open(report, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
	ssize_t length = read(STDIN_FILENO, typed, sizeof typed);
	if (length == 0 || (length < 0 && errno == EIO))
		length = sprintf(typed, "hung up\n");
	if (length > 0 && write(out, typed, length) != length)
		fail(report);
}

/*
 * Plays the shell: leads a session on stdin's terminal, lets a child go on with
 * the launch, and reports what was typed meanwhile.
 */
static void lead_terminal(const char *report)
{
	int status;
	if (setsid() < 0 || ioctl(STDIN_FILENO, TIOCSCTTY, 0))
		fail("TIOCSCTTY");
	signal(SIGHUP, SIG_IGN);
	pid_t child = fork();
	if (child < 0)
		fail("fork");
	if (child == 0) {
		signal(SIGHUP, SIG_DFL);
		return;
	}
	if (waitpid(child, &status, 0) < 0)
		fail("waitpid");
	report_typed(report);
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void complete(char **words, const char *prefix, char *whole)
{
	for (; *words; words++)
		if (!strcmp(*words, prefix))
			*words = whole;
}

static const char *value_of(char *word, const char *key)
{
	size_t length = strlen(key);
	return strncmp(word, key, length) ? NULL : word + length;
}

static void have_flaw(char *flaw, char **program)
{
	const char *value;
	if ((value = value_of(flaw, "leak-directory=")))
		leak(open(value, O_RDONLY | O_DIRECTORY), value);
	else if ((value = value_of(flaw, "leak-file=")))
		leak(open(value, O_RDONLY), value);
	else if ((value = value_of(flaw, "leak-pidfd=")))
		leak_pidfd(value);
	else if ((value = value_of(flaw, "leak-ring=")))
		complete(program, "ring=", leak_ring(value));
	else if ((value = value_of(flaw, "session-key=")))
		add_key((char *)value, KEY_SPEC_SESSION_KEYRING);
	else if ((value = value_of(flaw, "user-key=")))
		add_key((char *)value, KEY_SPEC_USER_KEYRING);
	else if ((value = value_of(flaw, "enter="))) {
		if (chdir(value))
			fail(value);
	} else if ((value = value_of(flaw, "terminal=")))
		lead_terminal(value);
	else
		fail(flaw);
}

static char **after_dashes(char **words)
{
	while (*words && strcmp(*words, "--"))
		words++;
	if (!*words)
		fail("no --");
	return words + 1;
}

static int launch(char **words)
{
	char **program = after_dashes(words);
	for (; strcmp(*words, "--"); words++)
		have_flaw(*words, program);
	execvp(*program, program);
	fail(*program);
}

static int supervise(char **words)
{
	char **program = after_dashes(words);
	int status;
	pid_t child = fork();
	if (child < 0)
		fail("fork");
	if (child == 0) {
		execvp(*program, program);
		fail(*program);
	}
	if (waitpid(child, &status, 0) < 0)
		fail("waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip)
#define IF(test, value, then) BPF_JUMP(BPF_JMP | test | BPF_K, value, then, 0)
#define ANSWER(action) BPF_STMT(BPF_RET | BPF_K, action)

/*
 * The host refuses user namespaces, as container runtimes' filters do: clone3, whose
 * flags a filter cannot read, is hidden. Nothing else is refused, so that whatever
 * else fails behind a wall fails because of the wall.
 */
static void refuse_user_namespaces(void)
{
	struct sock_filter lines[] = {
		LOAD(arch),
		UNLESS(AUDIT_ARCH_X86_64, 7),
		LOAD(nr),
		UNLESS(SYS_clone3, 1),
		ANSWER(SECCOMP_RET_ERRNO | ENOSYS),
		IF(BPF_JEQ, SYS_clone, 1),
		UNLESS(SYS_unshare, 2),
		LOAD(args[0]),
		IF(BPF_JSET, CLONE_NEWUSER, 1),
		ANSWER(SECCOMP_RET_ALLOW),
		ANSWER(SECCOMP_RET_ERRNO | EPERM),
	};
	struct sock_fprog filter = { sizeof lines / sizeof *lines, lines };
	/* Root needs no promise, and so makes none: set-uid files still work for the guest. */
	if (geteuid() && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		fail("PR_SET_NO_NEW_PRIVS");
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter))
		fail("seccomp");
}

static void become(const char *id)
{
	uid_t user = (uid_t)atoi(id);
	if (geteuid() == user)
		return;
	if (setgroups(0, NULL) || setresgid(user, user, user) || setresuid(user, user, user))
		fail("setresuid");
}

static int without_namespaces(char **words)
{
	char **program = after_dashes(words);
	refuse_user_namespaces();
	become(*words);
	execvp(*program, program);
	fail(*program);
}

int main(int count, char **words)
{
	const char *role = count > 1 ? words[1] : "";
	if (!strcmp(role, "victim") && count == 5)
		return victim(words[2], words[3], words[4]);
	if (!strcmp(role, "victim-namespaced") && count == 4)
		return victim_namespaced(words[3]);
	if (!strcmp(role, "flip") && count == 4)
		return flip(words[2], words[3]);
	if (!strcmp(role, "handle") && count == 3)
		return handle(words[2]);
	if (!strcmp(role, "find-key") && count == 3)
		return find_key(words[2]);
	if (!strcmp(role, "take") && count == 3)
		return take(words[2]);
	if (!strcmp(role, "loopback-up"))
		return loopback_up();
	if (!strcmp(role, "links-up"))
		return links_up();
	if (!strcmp(role, "share-port"))
		return share_port();
	if (!strcmp(role, "launch"))
		return launch(words + 2);
	if (!strcmp(role, "supervise"))
		return supervise(words + 2);
	if (!strcmp(role, "without-namespaces") && count > 2)
		return without_namespaces(words + 2);
	fprintf(stderr, "stagehand: no role '%s'\n", role);
	return 99;
}
