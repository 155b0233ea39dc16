// Computes for ever before it would answer.

#include "service.h"

HANDLE(own request, own outparam)
{
    volatile int goes_on = 1;
    own body, stream;

    while (goes_on) {
    }
    stream = begin_answer(outparam, TEXT("text/plain"), &body);
    write_all(stream, (const unsigned char *)TEXT("Done.\n"));
    end_answer(stream, body);
    drop_request(request);
}
