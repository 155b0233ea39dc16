// Says of its answer what is not so: about the connection, in one field about another, and that it is longer than it is;
// that it is shorter, if something was sent.

#include "service.h"

static const struct {
    const char *name;
    size_t name_bytes;
    const char *value;
    size_t value_bytes;
} lies[] = {
    { TEXT("Connection"), TEXT("upgrade") },
    { TEXT("upgrade"), TEXT("websocket") },
    { TEXT("keep-alive"), TEXT("timeout=1") },
    { TEXT("transfer-encoding"), TEXT("chunked") },
    { TEXT("proxy-connection"), TEXT("keep-alive") },
    { TEXT("x-split"), TEXT("a\r\nx-injected: yes\r\n\r\n<html>") },
    { TEXT("x-split\r\nx-injected"), TEXT("yes") },
    { TEXT("x-nul\0"), TEXT("a\0b") },
    { TEXT(":status"), TEXT("101") },
};

HANDLE(own request, own outparam)
{
    own in_body, in = begin_reading(request, &in_body);
    own fields = new_fields(), response, body, stream;
    struct result result;
    struct chunk chunk;

    read_some(in, 1, &chunk);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        append(fields, lies[i].name, lies[i].name_bytes, lies[i].value, lies[i].value_bytes, &result);
    if (!chunk.is_error && chunk.bytes > 0)
        append(fields, TEXT("content-length"), TEXT("3"), &result);
    else
        append(fields, TEXT("content-length"), TEXT("4000"), &result);
    append(fields, TEXT("Content-Length"), TEXT("0"), &result);
    response = new_response(fields);
    body_of(response, &result);
    body = result.value;
    set(outparam, 0, response, 0, 0, 0, 0, 0, 0);
    stream_out(body, &result);
    stream = result.value;
    write_all(stream, (const unsigned char *)TEXT("0\r\n\r\nHTTP/1.1 200 Smuggled\r\ncontent-length: 0\r\n\r\n"));
    end_answer(stream, body);
    end_reading(in, in_body);
    drop_request(request);
}
