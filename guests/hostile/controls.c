/*
 * Controls: acts that every wall grants. They show that the guest runs and that
 * the witness can see through the wall, for attacks that no grant allows.
 */
#include "sockets.h"

#include <sys/eventfd.h>

int attack_own_eventfd(void)
{
	return eventfd(0, EFD_CLOEXEC) < 0 ? refused("eventfd") : held();
}

int attack_own_handle(void)
{
	return hold_path(need("granted"), O_RDONLY);
}

int attack_own_socket(void)
{
	int pair[2];
	return socketpair(AF_UNIX, SOCK_STREAM, 0, pair) ? refused("socketpair") : held();
}

int attack_own_child(void)
{
	lingering_child();
	return held();
}

/* What the execution attacks plant: it only holds, and /proc/PID/exe tells where it lies. */
int attack_own_payload(void)
{
	return held();
}

int attack_granted_read(void)
{
	return spill_path(need("granted"));
}

int attack_granted_write(void)
{
	return write_nonce(PATH_OF("%s/planted", need("scratch")));
}

int attack_granted_connect(void)
{
	return deliver(V4("tcp4"), SOCK_STREAM, 0);
}

int attack_granted_datagram(void)
{
	return deliver(v4(ELSEWHERE4, 9), SOCK_DGRAM, 0);
}
