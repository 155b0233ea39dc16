// Asks another server whether a request may pass: GET / with the request's field authorization. 200 is yes, and
// everything else, silence too, is 403 for the client. The configuration is the upstream's name.

#include "proxy_wasm.h"

enum { MOST_CALLS = 256 };

static char upstream[64];
static size_t upstream_bytes;
// Which stream waits for which call.
static struct { uint32_t token; id stream; } waiting[MOST_CALLS];

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

static void refuse(void)
{
    proxy_send_local_response(403, TEXT("auth_refused"), TEXT("refused\n"), NULL, 0, -1);
}

static bool call(id stream)
{
    struct field fields[4] = {
        { TEXT(":method"), TEXT("GET") },
        { TEXT(":path"), TEXT("/") },
        { TEXT(":authority"), upstream, upstream_bytes },
        { TEXT("authorization"), TEXT("") },
    };
    char *value, *headers;
    size_t bytes;
    uint32_t token;

    if (proxy_get_header_map_value(REQUEST_HEADERS, TEXT("authorization"), &value, &bytes) == OK) {
        fields[3].value = value;
        fields[3].value_bytes = bytes;
    }
    headers = write_pairs(fields, 4, &bytes);
    for (int i = 0; headers != NULL && i < MOST_CALLS; i++) {
        if (waiting[i].stream != 0)
            continue;
        if (proxy_http_call(upstream, upstream_bytes, headers, bytes, NULL, 0, NULL, 0, 1000, &token) != OK)
            return false;
        waiting[i].token = token;
        waiting[i].stream = stream;
        return true;
    }
    return false;
}

int EXPORT(proxy_on_request_headers)(id stream, uint32_t headers, bool is_end)
{
    (void)headers, (void)is_end;
    forget();
    if (!call(stream))
        refuse();
    return PAUSE;
}

void EXPORT(proxy_on_http_call_response)(id context, uint32_t token, uint32_t headers, size_t body, uint32_t trailers)
{
    char *status;
    size_t bytes;
    bool passes;

    (void)context, (void)body, (void)trailers;
    forget();
    // No header fields: there was no answer.
    passes = headers > 0 && proxy_get_header_map_value(CALL_HEADERS, TEXT(":status"), &status, &bytes) == OK &&
             is_same(status, bytes, TEXT("200"));
    for (int i = 0; i < MOST_CALLS; i++) {
        if (waiting[i].stream == 0 || waiting[i].token != token)
            continue;
        proxy_set_effective_context(waiting[i].stream);
        waiting[i].stream = 0;
        if (passes)
            proxy_continue_stream(REQUEST);
        else
            refuse();
        return;
    }
}

// A client that went away waits no more.
void EXPORT(proxy_on_delete)(id stream)
{
    for (int i = 0; i < MOST_CALLS; i++)
        if (waiting[i].stream == stream)
            waiting[i].stream = 0;
}
