// Turns the colour picture on stdin grey, as `component/mono.c` and `../filters/mono.c` do: the work with nothing
// around it.

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../mono.h"

int main(void)
{
    size_t size = 1 << 20, bytes = 0;
    unsigned char *picture = malloc(size);
    ssize_t got;

    while (picture != NULL && (got = read(0, picture + bytes, size - bytes)) > 0) {
        bytes += got;
        if (bytes == size)
            picture = realloc(picture, size *= 2);
    }
    if (picture == NULL || (bytes = make_grey(picture, bytes)) == 0) {
        fputs("mono: this is no PPM picture\n", stderr);
        return 1;
    }
    return fwrite(picture, 1, bytes, stdout) == bytes && fflush(stdout) == 0 ? 0 : 1;
}
