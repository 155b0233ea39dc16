#include "uring.h"
#include "hostile.h"

#define ENTRIES 8

bool uring_open(struct uring *ring)
{
	struct io_uring_params params = { 0 };
	int fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &params);
	return fd >= 0 && uring_adopt(ring, fd, &params);
}

bool uring_adopt(struct uring *ring, int fd, const struct io_uring_params *params)
{
	size_t size = params->cq_off.cqes + 2 * ENTRIES * sizeof(struct io_uring_cqe)
		      + params->sq_off.array + ENTRIES * sizeof(unsigned);
	char *rings = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_SQ_RING);
	void *sqes = mmap(NULL, ENTRIES * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			  IORING_OFF_SQES);
	if (rings == MAP_FAILED || sqes == MAP_FAILED)
		return false;
	*ring = (struct uring){
		.fd = fd,
		.sq_tail = (unsigned *)(rings + params->sq_off.tail),
		.sq_mask = (unsigned *)(rings + params->sq_off.ring_mask),
		.sq_array = (unsigned *)(rings + params->sq_off.array),
		.cq_head = (unsigned *)(rings + params->cq_off.head),
		.cq_tail = (unsigned *)(rings + params->cq_off.tail),
		.cq_mask = (unsigned *)(rings + params->cq_off.ring_mask),
		.cqes = (struct io_uring_cqe *)(rings + params->cq_off.cqes),
		.sqes = sqes,
	};
	return true;
}

long uring_do(struct uring *ring, const struct io_uring_sqe *sqe)
{
	unsigned tail = *ring->sq_tail, slot = tail & *ring->sq_mask;
	ring->sqes[slot] = *sqe;
	ring->sq_array[slot] = slot;
	__atomic_store_n(ring->sq_tail, tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		return -1;
	unsigned head = *ring->cq_head;
	if (head == __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE)) {
		errno = EAGAIN;
		return -1;
	}
	long result = ring->cqes[head & *ring->cq_mask].res;
	__atomic_store_n(ring->cq_head, head + 1, __ATOMIC_RELEASE);
	if (result >= 0)
		return result;
	errno = (int)-result;
	return -1;
}
