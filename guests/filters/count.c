// Counts, in each place that outlives a request: a metric, shared data, a queue, memory of the instance. The answer
// tells: x-shared is how many requests all instances have seen, x-kept how many this one has.

#include "proxy_wasm.h"

static uint32_t metric, queue, kept;

bool EXPORT(proxy_on_vm_start)(id plugin, size_t bytes)
{
    (void)plugin, (void)bytes;
    return proxy_define_metric(COUNTER, TEXT("requests_counted"), &metric) == OK &&
           proxy_register_shared_queue(TEXT("paths"), &queue) == OK;
}

// Adds one to the number in shared data, however many others do so.
static uint32_t add_one(void)
{
    uint32_t number, cas;
    char *value;
    size_t bytes;

    do {
        number = 0;
        cas = 0;
        if (proxy_get_shared_data(TEXT("requests"), &value, &bytes, &cas) == OK && bytes == sizeof number)
            __builtin_memcpy(&number, value, sizeof number);
        number++;
    } while (proxy_set_shared_data(TEXT("requests"), (char *)&number, sizeof number, cas) == CAS_MISMATCH);
    return number;
}

static size_t decimal(uint32_t number, char *text)
{
    char turned[10];
    size_t bytes = 0;

    do
        turned[bytes++] = '0' + number % 10;
    while ((number /= 10) > 0);
    for (size_t i = 0; i < bytes; i++)
        text[i] = turned[bytes - 1 - i];
    return bytes;
}

int EXPORT(proxy_on_request_headers)(id stream, uint32_t headers, bool is_end)
{
    char *path;
    size_t bytes;

    (void)stream, (void)headers, (void)is_end;
    forget();
    kept++;
    proxy_increment_metric(metric, 1);
    if (proxy_get_property(TEXT("request\0path"), &path, &bytes) == OK)
        proxy_enqueue_shared_queue(queue, path, bytes);
    return CONTINUE;
}

int EXPORT(proxy_on_response_headers)(id stream, uint32_t headers, bool is_end)
{
    char text[10];

    (void)stream, (void)headers, (void)is_end;
    forget();
    proxy_add_header_map_value(RESPONSE_HEADERS, TEXT("x-shared"), text, decimal(add_one(), text));
    proxy_add_header_map_value(RESPONSE_HEADERS, TEXT("x-kept"), text, decimal(kept, text));
    return CONTINUE;
}

void EXPORT(proxy_on_queue_ready)(id plugin, uint32_t ready)
{
    char *path;
    size_t bytes;

    (void)plugin;
    forget();
    while (proxy_dequeue_shared_queue(ready, &path, &bytes) == OK)
        proxy_log(INFO, path, bytes);
}
