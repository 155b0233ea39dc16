// Fails over /trap, and holds /wait until another server has answered: what becomes of the one when the other fails
// in the same instance. The configuration is the upstream's name.

#include "proxy_wasm.h"

static char upstream[64];
static size_t upstream_bytes;
// The stream that waits: one at a time.
static id waiting;

bool EXPORT(proxy_on_configure)(id plugin, size_t bytes)
{
    char *text;

    (void)plugin;
    forget();
    if (bytes == 0 || bytes > sizeof upstream ||
        proxy_get_buffer_bytes(CONFIGURATION, 0, bytes, &text, &upstream_bytes) != OK)
        return false;
    __builtin_memcpy(upstream, text, upstream_bytes);
    return true;
}

int EXPORT(proxy_on_request_headers)(id stream, uint32_t headers, bool is_end)
{
    const struct field fields[3] = {
        { TEXT(":method"), TEXT("GET") },
        { TEXT(":path"), TEXT("/") },
        { TEXT(":authority"), upstream, upstream_bytes },
    };
    char *path, *call;
    size_t bytes, call_bytes;
    uint32_t token;

    (void)headers, (void)is_end;
    forget();
    if (proxy_get_header_map_value(REQUEST_HEADERS, TEXT(":path"), &path, &bytes) != OK)
        return CONTINUE;
    if (is_same(path, bytes, TEXT("/trap")))
        __builtin_trap();
    if (!is_same(path, bytes, TEXT("/wait")))
        return CONTINUE;
    call = write_pairs(fields, 3, &call_bytes);
    if (proxy_http_call(upstream, upstream_bytes, call, call_bytes, NULL, 0, NULL, 0, 30000, &token) != OK)
        __builtin_trap();
    waiting = stream;
    return PAUSE;
}

void EXPORT(proxy_on_http_call_response)(id context, uint32_t token, uint32_t headers, size_t body, uint32_t trailers)
{
    (void)context, (void)token, (void)headers, (void)body, (void)trailers;
    forget();
    proxy_set_effective_context(waiting);
    proxy_continue_stream(REQUEST);
}

int EXPORT(proxy_on_response_headers)(id stream, uint32_t headers, bool is_end)
{
    (void)stream, (void)headers, (void)is_end;
    forget();
    proxy_add_header_map_value(RESPONSE_HEADERS, TEXT("x-seen"), TEXT("yes"));
    return CONTINUE;
}
