// A tenant's service, and what a tenant may do to its neighbours.
//
//     /SIZE   an answer of so many bytes
//     /loop   no end
//     /trap   a fault

#include "service.h"

struct text {
    int32_t is_some;
    const char *start;
    size_t bytes;
};

FROM(TYPES, "[method]incoming-request.path-with-query") void path_of(own request, struct text *path);

enum { PART = 16 << 10 };

static unsigned char part[PART];
static volatile int32_t forever = 1;

// The number after the first slash, else 0.
static size_t number_in(const struct text *path)
{
    size_t number = 0;

    for (size_t at = 1; at < path->bytes && path->start[at] >= '0' && path->start[at] <= '9'; at++)
        number = number * 10 + (size_t)(path->start[at] - '0');
    return number;
}

HANDLE(own request, own outparam)
{
    struct text path;
    own body, stream;

    // What a kept instance was given for the request before is done with.
    heap_free = &__heap_base;
    path_of(request, &path);
    if (path.bytes > 1 && path.start[1] == 'l')
        while (forever)
            ;
    if (path.bytes > 1 && path.start[1] == 't')
        __builtin_trap();
    stream = begin_answer(outparam, TEXT("text/plain"), &body);
    for (size_t left = number_in(&path), length; left > 0; left -= length) {
        length = left < PART ? left : PART;
        if (!write_all(stream, part, length))
            break;
    }
    end_answer(stream, body);
    drop_request(request);
}
