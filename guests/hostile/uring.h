/* Just enough of io_uring(7) to submit one request at a time, without liburing. */
#ifndef URING_H
#define URING_H

#include <linux/io_uring.h>
#include <stdbool.h>

struct uring {
	int fd;
	unsigned *sq_tail, *sq_mask, *sq_array;
	unsigned *cq_head, *cq_tail, *cq_mask;
	struct io_uring_cqe *cqes;
	struct io_uring_sqe *sqes;
};

/* A new ring of 8 entries; false with errno set. */
bool uring_open(struct uring *ring);
/* A ring that came as a descriptor, with the offsets that its maker printed. */
bool uring_adopt(struct uring *ring, int fd, const struct io_uring_params *params);
/* Submits `sqe` and waits; the result as the call would return it, -1 with errno. */
long uring_do(struct uring *ring, const struct io_uring_sqe *sqe);

#endif
