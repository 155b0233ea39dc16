// Looks at every request and every answer, and does nothing: what it costs to be asked.

#include "proxy_wasm.h"

int EXPORT(proxy_on_request_headers)(id stream, uint32_t headers, bool is_end)
{
    (void)stream, (void)headers, (void)is_end;
    return CONTINUE;
}

int EXPORT(proxy_on_response_headers)(id stream, uint32_t headers, bool is_end)
{
    (void)stream, (void)headers, (void)is_end;
    return CONTINUE;
}
