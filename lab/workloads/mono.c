/*
 * Pictures become grey, by `guests/services/mono.h`, natively and as a guest. Natively it measures itself:
 *
 *     mono BATCHES
 *
 * `picture-KB` takes a picture of that size in, makes it grey, and gives it out, as a service does with what comes
 * and goes. As WebAssembly (see the end) the program around it does the same.
 */
#include "mono.h" /* of guests/services */

enum { MOST_BYTES = 4 << 20 };

static unsigned char room[MOST_BYTES];

#ifdef __wasm__

__attribute__((export_name("room"))) unsigned char *room_of_guest(void)
{
	return room;
}

__attribute__((export_name("mono"))) size_t mono(size_t bytes)
{
	return bytes > MOST_BYTES ? 0 : make_grey(room, bytes);
}

#else

#include "measure.h"

static unsigned char coloured[MOST_BYTES], grey[MOST_BYTES];

/* The same as that of who measures the guest: pixels that are not all alike. */
static size_t draw(int width, int height)
{
	size_t head = sprintf((char *)coloured, "P6\n%d %d\n255\n", width, height);
	size_t bytes = (size_t)width * height * 3;
	for (size_t place = 0; place < bytes; place++)
		coloured[head + place] = place * 7 + place / 1000;
	return head + bytes;
}

static double time_picture(const struct operation *operation, long count)
{
	int width = operation->parameter >> 16, height = operation->parameter & 0xffff;
	size_t bytes = draw(width, height);
	double began_ns = now_ns();
	for (long done = 0; done < count; done++) {
		memcpy(room, coloured, bytes);
		size_t made = make_grey(room, bytes);
		if (made == 0)
			die("no picture");
		memcpy(grey, room, made);
	}
	return now_ns() - began_ns;
}

#define PICTURE(kb, width, height) \
	{ .name = "picture-" #kb, .time_ns = time_picture, .parameter = (width) << 16 | (height) }

static struct operation pictures[] = {
	PICTURE(9, 64, 48), PICTURE(99, 220, 150), PICTURE(270, 300, 300), PICTURE(3300, 1100, 1000),
};

int main(int argc, char **argv)
{
	program_name = "mono";
	if (argc != 2) {
		fprintf(stderr, "usage: mono BATCHES\n");
		return 2;
	}
	measure(pictures, sizeof pictures / sizeof pictures[0], 5000, atoi(argv[1]));
	return 0;
}

#endif
