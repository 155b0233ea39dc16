// Colour → grey: a PPM picture (P6, 8 bits a channel) becomes a PGM one (P5), in place. No libc, so that the
// same source is a component, a filter and a program of this machine.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Reads a number and the space around it; comments are not looked for. 0: there is none.
static size_t read_number(const unsigned char *text, size_t bytes, size_t *at)
{
    size_t number = 0;

    while (*at < bytes && (text[*at] == ' ' || text[*at] == '\n'))
        ++*at;
    while (*at < bytes && text[*at] >= '0' && text[*at] <= '9' && number < 100000)
        number = number * 10 + (text[(*at)++] - '0');
    return number;
}

// A function of its own: beside the numbers of the head, a compiler of WebAssembly to machine code keeps the loop's
// own on the stack. And some pixels a turn, for a guest looks at its limit of time at each.
__attribute__((noinline)) static void make_pixels_grey(const unsigned char *colour, unsigned char *grey, size_t pixels)
{
    // ITU-R BT.601, in 256ths.
#pragma GCC unroll 8
    for (size_t i = 0; i < pixels; i++, colour += 3)
        grey[i] = (77 * colour[0] + 150 * colour[1] + 29 * colour[2]) >> 8;
}

// The bytes of the grey picture; 0: this is no colour picture, and nothing was changed.
static size_t make_grey(unsigned char *picture, size_t bytes)
{
    size_t at = 2, width, height, head, pixels;

    if (bytes < 2 || picture[0] != 'P' || picture[1] != '6')
        return 0;
    width = read_number(picture, bytes, &at);
    height = read_number(picture, bytes, &at);
    if (read_number(picture, bytes, &at) != 255)
        return 0;
    head = at + 1;
    pixels = width * height;
    if (width == 0 || height == 0 || head > bytes || pixels > (bytes - head) / 3)
        return 0;
    picture[1] = '5';
    make_pixels_grey(picture + head, picture + head, pixels);
    return head + pixels;
}
