/* `timers WHAT`: poll_oneoff on clocks and descriptors. Prints what differs from what must be, and nothing otherwise. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wasi/api.h>

static int failures;

static void expect(const char *what, unsigned long long is, unsigned long long must)
{
	if (is != must) {
		printf("%s: %llu, not %llu\n", what, is, must);
		failures++;
	}
}

static __wasi_timestamp_t now(__wasi_clockid_t id)
{
	__wasi_timestamp_t time = 0;
	expect("clock", __wasi_clock_time_get(id, 0, &time), 0);
	return time;
}

static __wasi_subscription_t clock_at(__wasi_clockid_t id, __wasi_timestamp_t timeout, int flags)
{
	__wasi_subscription_t wanted;
	memset(&wanted, 0, sizeof wanted);
	wanted.userdata = 70 + id;
	wanted.u.tag = __WASI_EVENTTYPE_CLOCK;
	wanted.u.u.clock.id = id;
	wanted.u.u.clock.timeout = timeout;
	wanted.u.u.clock.flags = flags;
	return wanted;
}

static __wasi_subscription_t descriptor(int tag, __wasi_fd_t fd)
{
	__wasi_subscription_t wanted;
	memset(&wanted, 0, sizeof wanted);
	wanted.userdata = 80 + fd;
	wanted.u.tag = tag;
	wanted.u.u.fd_read.file_descriptor = fd;
	return wanted;
}

#define MILLISECOND 1000000ull
#define LENGTH (20 * MILLISECOND)

static void sleeps(void)
{
	for (int id = 0; id < 2; id++)
		for (int absolute = 0; absolute < 2; absolute++) {
			__wasi_timestamp_t begin = now(1);
			__wasi_timestamp_t timeout = absolute ? now(id) + LENGTH : LENGTH;
			__wasi_subscription_t wanted = clock_at(id, timeout, absolute);
			__wasi_event_t event;
			__wasi_size_t count = 0;
			expect("poll", __wasi_poll_oneoff(&wanted, &event, 1, &count), 0);
			expect("events", count, 1);
			expect("error", event.error, 0);
			expect("userdata", event.userdata, 70 + id);
			expect("slept", now(1) - begin >= LENGTH, 1);
		}
	__wasi_subscription_t past = clock_at(1, 1, __WASI_SUBCLOCKFLAGS_SUBSCRIPTION_CLOCK_ABSTIME);
	__wasi_event_t event;
	__wasi_size_t count = 0;
	expect("past", __wasi_poll_oneoff(&past, &event, 1, &count), 0);
	expect("events", count, 1);
}

/* The nearest of several clocks, and nothing of the others. */
static void nearest(void)
{
	__wasi_subscription_t wanted[3] = {
		clock_at(1, ~0ull, 0), clock_at(0, LENGTH, 0), descriptor(__WASI_EVENTTYPE_FD_READ, 0)
	};
	__wasi_event_t events[3];
	__wasi_size_t count = 0;
	expect("poll", __wasi_poll_oneoff(wanted, events, 3, &count), 0);
	expect("events", count, 1);
	expect("which", events[0].userdata, 70);
}

static void files(void)
{
	__wasi_subscription_t wanted[4] = {
		descriptor(__WASI_EVENTTYPE_FD_READ, 0), descriptor(__WASI_EVENTTYPE_FD_WRITE, 1),
		descriptor(__WASI_EVENTTYPE_FD_READ, 77), clock_at(1, ~0ull, 0)
	};
	__wasi_event_t events[4];
	__wasi_size_t count = 0;
	expect("poll", __wasi_poll_oneoff(wanted, events, 4, &count), 0);
	expect("events", count, 3);
	expect("first", events[0].userdata, 80);
	expect("bytes", events[0].fd_readwrite.nbytes, 5);
	expect("second", events[1].type, __WASI_EVENTTYPE_FD_WRITE);
	expect("third", events[2].error, __WASI_ERRNO_BADF);
}

static void refused(void)
{
	__wasi_subscription_t wanted[2] = { clock_at(2, 1, 0), clock_at(9, 1, 0) };
	__wasi_event_t events[2];
	__wasi_size_t count = 0;
	expect("none", __wasi_poll_oneoff(wanted, events, 0, &count), __WASI_ERRNO_INVAL);
	expect("more than can be open", __wasi_poll_oneoff(wanted, events, 65537, &count), __WASI_ERRNO_INVAL);
	expect("more than there is memory for", __wasi_poll_oneoff(wanted, events, 65536, &count), __WASI_ERRNO_FAULT);
	expect("overflow", __wasi_poll_oneoff(wanted, events, 0x20000001, &count), __WASI_ERRNO_INVAL);
	expect("poll", __wasi_poll_oneoff(wanted, events, 2, &count), 0);
	expect("events", count, 2);
	expect("CPU time", events[0].error, __WASI_ERRNO_NOTSUP);
	expect("no clock", events[1].error, __WASI_ERRNO_INVAL);
	wanted[0].u.tag = 3;
	expect("poll", __wasi_poll_oneoff(wanted, events, 1, &count), 0);
	expect("no such event", events[0].error, __WASI_ERRNO_INVAL);
	/* Both lists in one place. */
	__wasi_subscription_t both[2] = { clock_at(1, 0, 0), clock_at(0, 0, 0) };
	expect("poll", __wasi_poll_oneoff(both, (__wasi_event_t *)both, 2, &count), 0);
	expect("events", count, 2);
	__wasi_event_t *written = (__wasi_event_t *)both;
	expect("first", written[0].userdata, 71);
	expect("second", written[1].userdata, 70);
}

static void forever(void)
{
	__wasi_subscription_t wanted = clock_at(1, ~0ull, 0);
	__wasi_event_t event;
	__wasi_size_t count;
	puts("waits");
	fflush(stdout);
	expect("poll", __wasi_poll_oneoff(&wanted, &event, 1, &count), 0);
}

int main(int count, char **words)
{
	const char *what = count > 1 ? words[1] : "";
	if (!strcmp(what, "sleeps")) sleeps();
	else if (!strcmp(what, "nearest")) nearest();
	else if (!strcmp(what, "files")) files();
	else if (!strcmp(what, "refused")) refused();
	else if (!strcmp(what, "forever")) forever();
	else return 99;
	return failures != 0;
}
