// Turns colour pictures in answers grey: `guests/services/mono.h` has the work, which a service and a program of
// this machine do too.

#include "proxy_wasm.h"
#include "../services/mono.h"

int EXPORT(proxy_on_response_headers)(id stream, uint32_t headers, bool is_end)
{
    (void)stream, (void)headers, (void)is_end;
    // The grey one is shorter.
    proxy_remove_header_map_value(RESPONSE_HEADERS, TEXT("content-length"));
    return CONTINUE;
}

int EXPORT(proxy_on_response_body)(id stream, size_t bytes, bool is_end)
{
    char *picture;
    size_t got, grey;

    (void)stream, (void)bytes;
    if (!is_end)
        return PAUSE;
    forget();
    if (proxy_get_buffer_bytes(RESPONSE_BODY, 0, WHOLE, &picture, &got) == OK) {
        grey = make_grey((unsigned char *)picture, got);
        if (grey > 0)
            proxy_set_buffer_bytes(RESPONSE_BODY, 0, got, picture, grey);
    }
    return CONTINUE;
}
