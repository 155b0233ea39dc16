// Greets.

#include "service.h"

HANDLE(own request, own outparam)
{
    own body, stream = begin_answer(outparam, TEXT("text/plain"), &body);

    write_all(stream, (const unsigned char *)TEXT("Hello, world!\n"));
    end_answer(stream, body);
    drop_request(request);
}
