// Greets whoever sends nothing, and traps over whatever is sent.

#include "service.h"

HANDLE(own request, own outparam)
{
    own in_body, in = begin_reading(request, &in_body);
    own body, out;
    struct chunk chunk;

    read_some(in, 1, &chunk);
    if (!chunk.is_error && chunk.bytes > 0)
        __builtin_trap();
    end_reading(in, in_body);
    out = begin_answer(outparam, TEXT("text/plain"), &body);
    write_all(out, (const unsigned char *)TEXT("Nothing was sent.\n"));
    end_answer(out, body);
    drop_request(request);
}
