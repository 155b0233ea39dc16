/* Terminal and IPC: reach another program without a file of its own. */
#include "hostile.h"

#include <mqueue.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>

/* ---- terminal ---- */

/* CVE-2017-5226: types into the terminal that the launcher came from. */
int attack_tiocsti(void)
{
	for (const char *letter = nonce(); *letter; letter++)
		if (ioctl(STDIN_FILENO, TIOCSTI, letter))
			return refused("TIOCSTI");
	char enter = '\n';
	return ioctl(STDIN_FILENO, TIOCSTI, &enter) ? refused("TIOCSTI") : DONE;
}

int attack_tioclinux(void)
{
	enum { PASTE_SELECTION = 3 };
	char subcode = PASTE_SELECTION;
	return attest("TIOCLINUX", ioctl(STDIN_FILENO, TIOCLINUX, &subcode));
}

/* ---- sockets ---- */

static int send_nonce_to(const struct sockaddr_un *name, socklen_t length)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return refused("socket");
	if (connect(fd, (void *)name, length))
		return refused("connect");
	return write(fd, nonce(), strlen(nonce())) > 0 ? DONE : refused("write");
}

int attack_abstract_socket(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	size_t length = strlen(nonce());
	memcpy(name.sun_path + 1, nonce(), length);
	return send_nonce_to(&name, offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

static int connect_in(const char *directory)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX, .sun_path = "host.sock" };
	if (chdir(directory))
		return refused(directory);
	return send_nonce_to(&name, sizeof name);
}

int attack_path_socket(void)
{
	return connect_in(need("outside"));
}

/* Datagrams need no connection, and one of a pair can send to any name. */
static int send_in(const char *directory)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX, .sun_path = "host.dgram" };
	int pair[2] = { socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), -1 };
	if (pair[0] < 0 && socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair))
		return refused("socketpair");
	if (chdir(directory))
		return refused("chdir");
	ssize_t sent = sendto(pair[0], nonce(), strlen(nonce()), 0, (void *)&name, sizeof name);
	return sent < 0 ? refused("sendto") : DONE;
}

int attack_path_datagram(void)
{
	return send_in(need("outside"));
}

int attack_datagram_in_folder(void)
{
	const char *only = argument("from");
	return send_in(only ? only : need("readable"));
}

/* Takes a name by which others look for a service. */
int attack_abstract_name(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	size_t length = strlen(nonce());
	memcpy(name.sun_path + 1, nonce(), length);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return refused("socket");
	if (bind(fd, (void *)&name, offsetof(struct sockaddr_un, sun_path) + 1 + length))
		return refused("bind");
	return listen(fd, 1) ? refused("listen") : held();
}

/* A socket of the host lies in a folder that may be read: reading is not talking. */
int attack_granted_socket(void)
{
	const char *only = argument("from");
	return connect_in(only ? only : need("readable"));
}

/* A read-only mount does not stop a write into a FIFO. */
int attack_granted_fifo(void)
{
	const char *only = argument("from");
	return write_nonce(PATH_OF("%s/host.fifo", only ? only : need("readable")));
}

/* ---- System V and POSIX ---- */

int attack_sysv_shm(void)
{
	int segment = shmget((key_t)need_number("key"), 0, 0);
	if (segment < 0)
		return refused("shmget");
	const char *secret = shmat(segment, NULL, SHM_RDONLY);
	if (secret == (void *)-1)
		return refused("shmat");
	puts(secret);
	return DONE;
}

int attack_sysv_msg(void)
{
	struct {
		long type;
		char text[256];
	} message = { 0 };
	int queue = msgget((key_t)need_number("key"), 0);
	if (queue < 0)
		return refused("msgget");
	if (msgrcv(queue, &message, sizeof message.text - 1, 0, IPC_NOWAIT) < 0)
		return refused("msgrcv");
	puts(message.text);
	return DONE;
}

int attack_posix_mq(void)
{
	char message[8192] = "";
	mqd_t queue = mq_open(PATH_OF("/%s", nonce()), O_RDONLY | O_NONBLOCK);
	if (queue < 0)
		return refused("mq_open");
	if (mq_receive(queue, message, sizeof message, NULL) < 0)
		return refused("mq_receive");
	puts(message);
	return DONE;
}

int attack_dev_shm(void)
{
	return spill_path(PATH_OF("/dev/shm/%s", nonce()));
}

/* ---- signals ---- */

int attack_kill_all(void)
{
	return kill(-1, SIGKILL) ? refused("kill -1") : DONE;
}

int attack_kill_victim(void)
{
	return kill((pid_t)need_number("victim"), SIGKILL) ? refused("kill") : DONE;
}

/* The victim shares the launcher's process group, as in a shell pipeline. */
int attack_kill_group(void)
{
	signal(SIGTERM, SIG_IGN);
	return kill(0, SIGTERM) ? refused("kill 0") : DONE;
}

int attack_stop_victim(void)
{
	return kill((pid_t)need_number("victim"), SIGSTOP) ? refused("kill") : DONE;
}

/* A stop that the launcher passes on to its own process group, as for Ctrl-Z. */
int attack_stop_group(void)
{
	return kill(0, SIGSTOP) ? refused("kill 0") : DONE;
}

int attack_tgkill(void)
{
	long victim = need_number("victim");
	return syscall(SYS_tgkill, victim, victim, SIGKILL) ? refused("tgkill") : DONE;
}

int attack_sigqueue(void)
{
	siginfo_t spoofed = { .si_signo = SIGTERM, .si_code = SI_QUEUE };
	return syscall(SYS_rt_sigqueueinfo, need_number("victim"), SIGTERM, &spoofed) ? refused("rt_sigqueueinfo")
										      : DONE;
}

/* By a descriptor that the launcher left open: pid namespaces do not stop it. */
int attack_pidfd_signal(void)
{
	return syscall(SYS_pidfd_send_signal, need_number("pidfd"), SIGKILL, NULL, 0) ? refused("pidfd_send_signal")
										     : DONE;
}

int attack_hostname(void)
{
	return sethostname(nonce(), strlen(nonce())) ? refused("sethostname") : DONE;
}
