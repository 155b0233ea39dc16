// Reads, sets, adds and removes header fields, in both directions. The same in njs and in Lua is what the lab
// compares it with:
//
//     request   set x-forwarded-host to what host says; remove x-internal
//     answer    add x-filter: palisade; remove x-powered-by

#include "proxy_wasm.h"

int EXPORT(proxy_on_request_headers)(id stream, uint32_t headers, bool is_end)
{
    char *host;
    size_t bytes;

    (void)stream, (void)headers, (void)is_end;
    forget();
    if (proxy_get_header_map_value(REQUEST_HEADERS, TEXT(":authority"), &host, &bytes) == OK)
        proxy_replace_header_map_value(REQUEST_HEADERS, TEXT("x-forwarded-host"), host, bytes);
    proxy_remove_header_map_value(REQUEST_HEADERS, TEXT("x-internal"));
    return CONTINUE;
}

int EXPORT(proxy_on_response_headers)(id stream, uint32_t headers, bool is_end)
{
    (void)stream, (void)headers, (void)is_end;
    proxy_add_header_map_value(RESPONSE_HEADERS, TEXT("x-filter"), TEXT("palisade"));
    proxy_remove_header_map_value(RESPONSE_HEADERS, TEXT("x-powered-by"));
    return CONTINUE;
}
