// The proxy-wasm ABI 0.2.1, as far as the filters here use it, and a heap that lasts for one callback. No libc:
// a filter is a module of a few hundred bytes.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT(name) __attribute__((export_name(#name), used)) name
#define IMPORT(name) __attribute__((import_module("env"), import_name(#name))) name

typedef uint32_t id;

enum status { OK, NOT_FOUND, BAD_ARGUMENT, SERIALIZATION_FAILURE, PARSE_FAILURE, BAD_EXPRESSION, INVALID_MEMORY_ACCESS,
              EMPTY, CAS_MISMATCH, RESULT_MISMATCH, INTERNAL_FAILURE, BROKEN_CONNECTION, UNIMPLEMENTED };
enum action { CONTINUE, PAUSE };
enum stream { REQUEST, RESPONSE };
enum buffer { REQUEST_BODY, RESPONSE_BODY, CALL_BODY = 4, VM_CONFIGURATION = 6, CONFIGURATION };
enum map { REQUEST_HEADERS, REQUEST_TRAILERS, RESPONSE_HEADERS, RESPONSE_TRAILERS, CALL_HEADERS = 6 };
enum metric { COUNTER, GAUGE, HISTOGRAM };
enum level { TRACE, DEBUG, INFO, WARN, ERROR, CRITICAL };

int IMPORT(proxy_log)(enum level, const char *, size_t);
int IMPORT(proxy_get_current_time_nanoseconds)(uint64_t *);
int IMPORT(proxy_set_tick_period_milliseconds)(uint32_t);
int IMPORT(proxy_set_effective_context)(id);
int IMPORT(proxy_get_buffer_bytes)(enum buffer, size_t from, size_t most, char **, size_t *);
int IMPORT(proxy_set_buffer_bytes)(enum buffer, size_t from, size_t bytes, const char *, size_t);
int IMPORT(proxy_get_header_map_pairs)(enum map, char **, size_t *);
int IMPORT(proxy_set_header_map_pairs)(enum map, const char *, size_t);
int IMPORT(proxy_get_header_map_value)(enum map, const char *, size_t, char **, size_t *);
int IMPORT(proxy_add_header_map_value)(enum map, const char *, size_t, const char *, size_t);
int IMPORT(proxy_replace_header_map_value)(enum map, const char *, size_t, const char *, size_t);
int IMPORT(proxy_remove_header_map_value)(enum map, const char *, size_t);
int IMPORT(proxy_get_property)(const char *, size_t, char **, size_t *);
int IMPORT(proxy_set_property)(const char *, size_t, const char *, size_t);
int IMPORT(proxy_get_shared_data)(const char *, size_t, char **, size_t *, uint32_t *cas);
int IMPORT(proxy_set_shared_data)(const char *, size_t, const char *, size_t, uint32_t cas);
int IMPORT(proxy_register_shared_queue)(const char *, size_t, uint32_t *queue);
int IMPORT(proxy_enqueue_shared_queue)(uint32_t queue, const char *, size_t);
int IMPORT(proxy_dequeue_shared_queue)(uint32_t queue, char **, size_t *);
int IMPORT(proxy_define_metric)(enum metric, const char *, size_t, uint32_t *metric);
int IMPORT(proxy_increment_metric)(uint32_t metric, int64_t);
int IMPORT(proxy_done)(void);
int IMPORT(proxy_continue_stream)(enum stream);
int IMPORT(proxy_close_stream)(enum stream);
int IMPORT(proxy_send_local_response)(uint32_t status, const char *details, size_t, const char *body, size_t,
                                      const char *headers, size_t, int32_t grpc_status);
int IMPORT(proxy_http_call)(const char *upstream, size_t, const char *headers, size_t, const char *body, size_t,
                            const char *trailers, size_t, uint32_t timeout_ms, uint32_t *token);

// All that is held of a body: the number that a callback is given may be of its last part alone.
enum { WHOLE = 1 << 30 };

// A string literal and its length.
#define TEXT(literal) literal, sizeof(literal) - 1

// --- the heap: what the host hands over lies here, until forget() ---

extern char __heap_base;
static char *heap_free = &__heap_base;

__attribute__((unused)) static void *allocate(size_t bytes)
{
    char *start = (char *)(((uintptr_t)heap_free + 7) & ~(uintptr_t)7);
    size_t pages = __builtin_wasm_memory_size(0);
    uint64_t end = (uint64_t)(uintptr_t)start + bytes;

    if (end > pages * 65536ull && __builtin_wasm_memory_grow(0, (end + 65535) / 65536 - pages) == (size_t)-1)
        return NULL;
    heap_free = start + bytes;
    return start;
}

// Everything that was allocated is gone.
__attribute__((unused)) static void forget(void)
{
    heap_free = &__heap_base;
}

// --- pairs: what header maps are handed over as ---

struct field {
    const char *name;
    size_t name_bytes;
    const char *value;
    size_t value_bytes;
};

__attribute__((unused)) static char *put_bytes(char *at, const char *bytes, size_t count)
{
    __builtin_memcpy(at, bytes, count);
    at[count] = 0;
    return at + count + 1;
}

// Writes `count` fields as the ABI has them: the count, all lengths, then names and values, each with a NUL.
__attribute__((unused)) static char *write_pairs(const struct field *fields, uint32_t count, size_t *bytes)
{
    size_t size = 4 + 8 * count;
    uint32_t *lengths;
    char *start, *at;

    for (uint32_t i = 0; i < count; i++)
        size += fields[i].name_bytes + fields[i].value_bytes + 2;
    start = allocate(size);
    if (start == NULL)
        return NULL;
    lengths = (uint32_t *)start;
    *lengths++ = count;
    at = start + 4 + 8 * count;
    for (uint32_t i = 0; i < count; i++) {
        *lengths++ = fields[i].name_bytes;
        *lengths++ = fields[i].value_bytes;
        at = put_bytes(at, fields[i].name, fields[i].name_bytes);
        at = put_bytes(at, fields[i].value, fields[i].value_bytes);
    }
    *bytes = size;
    return start;
}

__attribute__((unused)) static bool is_same(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    if (a_bytes != b_bytes)
        return false;
    for (size_t i = 0; i < a_bytes; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

// --- what every module exports ---

void EXPORT(proxy_abi_version_0_2_1)(void)
{
}

#ifndef OWN_ALLOCATOR
void *EXPORT(proxy_on_memory_allocate)(size_t bytes)
{
    return allocate(bytes);
}
#endif
