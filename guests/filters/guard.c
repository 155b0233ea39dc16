// Lets nobody reach /admin, as far as it sees what is asked for, and tells the service what it has seen: x-saw has, one
// behind the other, what it got for the names below. A service that sees something else of the same request could be led
// past it.

#include "proxy_wasm.h"

static const struct { const char *name; size_t bytes; } asked[] = {
    { TEXT(":path") }, { TEXT(":scheme") }, { TEXT(":authority") }, { TEXT("cookie") }, { TEXT("x-user") },
    { TEXT("x-original-url") },
};

static bool begins(const char *text, size_t bytes, const char *with, size_t with_bytes)
{
    return bytes >= with_bytes && is_same(text, with_bytes, with, with_bytes);
}

static bool is_guarded(const char *path, size_t bytes)
{
    return begins(path, bytes, TEXT("/admin")) && (bytes == 6 || path[6] == '/' || path[6] == '?');
}

int EXPORT(proxy_on_request_headers)(id stream, uint32_t headers, bool is_end)
{
    static char saw[4096];
    size_t saw_bytes = 0, bytes;
    char *value;

    (void)stream, (void)headers, (void)is_end;
    forget();
    if (proxy_get_header_map_value(REQUEST_HEADERS, TEXT(":path"), &value, &bytes) != OK || is_guarded(value, bytes)) {
        proxy_send_local_response(403, TEXT("guarded"), TEXT("guarded\n"), NULL, 0, -1);
        return PAUSE;
    }
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        if (proxy_get_header_map_value(REQUEST_HEADERS, asked[i].name, asked[i].bytes, &value, &bytes) != OK)
            bytes = 0;
        if (saw_bytes + bytes + 1 > sizeof saw)
            break;
        __builtin_memcpy(saw + saw_bytes, value, bytes);
        saw_bytes += bytes;
        saw[saw_bytes++] = '|';
    }
    proxy_replace_header_map_value(REQUEST_HEADERS, TEXT("x-saw"), saw, saw_bytes);
    return CONTINUE;
}
