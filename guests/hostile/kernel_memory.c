/*
 * Memory of the kernel's that a guest has it keep: each bomb goes well past the limit on the guest's
 * memory, without much of its own.
 */
#include "hostile.h"

#include <mqueue.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/shm.h>
#include <sys/socket.h>

static char filler[65536];

/* Takes pieces of so many bytes until they make `megabytes`; processes share the descriptors. */
static int fill(const char *call, size_t piece, bool (*take)(void))
{
	size_t wanted = (size_t)need_number("megabytes") << 20;
	allow_most_descriptors();
	for (size_t taken = 0; taken < wanted; taken += piece)
		if (!take())
			return refused(call);
	return attest(call, 0);
}

static bool take_pipe(void)
{
	int ends[2];
	return pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0 &&
	       write(ends[1], filler, sizeof filler) == sizeof filler;
}

int attack_pipe_memory(void)
{
	return fill("pipe", sizeof filler, take_pipe);
}

static bool take_stream(void)
{
	int ends[2];
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0 &&
	       write(ends[1], filler, sizeof filler) == sizeof filler;
}

int attack_stream_memory(void)
{
	return fill("socketpair", sizeof filler, take_stream);
}

/* Ten datagrams wait in each (net.unix.max_dgram_qlen). */
static bool take_datagrams(void)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends))
		return false;
	for (int i = 0; i < 10; i++)
		if (write(ends[1], filler, 8192) != 8192)
			return false;
	return true;
}

int attack_datagram_memory(void)
{
	return fill("socketpair", 81920, take_datagrams);
}

static bool take_segment(void)
{
	int segment = shmget(IPC_PRIVATE, 1 << 20, IPC_CREAT | 0600);
	char *bytes = segment < 0 ? (void *)-1 : shmat(segment, NULL, 0);
	if (bytes == (void *)-1)
		return false;
	memset(bytes, 1, 1 << 20);
	return shmdt(bytes) == 0;
}

int attack_segment_memory(void)
{
	return fill("shmget", 1 << 20, take_segment);
}

static bool take_messages(void)
{
	struct {
		long type;
		char text[8192];
	} message = { .type = 1 };
	int queue = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
	for (int i = 0; i < 2; i++)
		if (queue < 0 || msgsnd(queue, &message, sizeof message.text, IPC_NOWAIT))
			return false;
	return true;
}

int attack_message_memory(void)
{
	return fill("msgsnd", 16384, take_messages);
}

/* An item of at least 200 bytes for each file in each set. */
enum { FILES_IN_SET = 900 };

static bool take_set(void)
{
	static int files[FILES_IN_SET];
	struct epoll_event all = { .events = EPOLLIN };
	for (int i = 0; files[FILES_IN_SET - 1] == 0 && i < FILES_IN_SET; i++)
		if ((files[i] = eventfd(0, EFD_CLOEXEC)) < 0)
			return false;
	int set = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < FILES_IN_SET; i++)
		if (set < 0 || epoll_ctl(set, EPOLL_CTL_ADD, files[i], &all))
			return false;
	return true;
}

int attack_epoll_memory(void)
{
	return fill("epoll_ctl", (size_t)FILES_IN_SET * 200, take_set);
}

/* A lock of at least 160 bytes on every other byte of a file, of a thousand in each: the kernel looks at all of them. */
static bool take_locks(void)
{
	int file = memfd_create("locks", MFD_CLOEXEC | 8 /* MFD_NOEXEC_SEAL */);
	for (off_t at = 0; at < 2000; at += 2) {
		struct flock lock = { .l_type = F_WRLCK, .l_start = at, .l_len = 1 };
		if (file < 0 || fcntl(file, F_SETLK, &lock))
			return false;
	}
	return true;
}

int attack_lock_memory(void)
{
	return fill("fcntl", 160000, take_locks);
}

/* A table of pages for each page that is touched: as much again as the guest has. */
static bool take_table(void)
{
	enum { REACH = 2 << 20 };
	char *area = mmap(NULL, REACH, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return area != MAP_FAILED && *(volatile char *)area == 0;
}

int attack_table_memory(void)
{
	return fill("mmap", 4096, take_table);
}
