// Sends back what was sent, part by part as it comes.

#include "service.h"

HANDLE(own request, own outparam)
{
    own in_body, in = begin_reading(request, &in_body);
    own body, out = begin_answer(outparam, TEXT("application/octet-stream"), &body);
    struct chunk chunk;

    for (;;) {
        char *mark = heap_free;

        read_some(in, 64 << 10, &chunk);
        if (chunk.is_error || !write_all(out, chunk.start, chunk.bytes))
            break;
        heap_free = mark;
    }
    end_answer(out, body);
    end_reading(in, in_body);
    drop_request(request);
}
