// Turns the colour picture that is sent grey.

#include "../mono.h"
#include "service.h"

HANDLE(own request, own outparam)
{
    own in_body, in = begin_reading(request, &in_body), body, out;
    unsigned char *picture = NULL;
    size_t bytes = 0;
    struct chunk chunk;

    for (;;) {
        read_some(in, 1 << 20, &chunk);
        if (chunk.is_error)
            break;
        // Parts lie one after the other: nothing else is allocated in between.
        if (bytes == 0)
            picture = chunk.start;
        bytes += chunk.bytes;
    }
    out = begin_answer(outparam, TEXT("image/x-portable-graymap"), &body);
    write_all(out, picture, make_grey(picture, bytes));
    end_answer(out, body);
    end_reading(in, in_body);
    drop_request(request);
}
