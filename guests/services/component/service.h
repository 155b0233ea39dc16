// wasi:http by hand: the canonical ABI of what `wit/` declares, and a heap that lasts for one request. No libc.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FROM(module, name) __attribute__((import_module(module), import_name(name)))
#define TYPES "wasi:http/types@0.2.0"
#define STREAMS "wasi:io/streams@0.2.0"
#define POLL "wasi:io/poll@0.2.0"

// A resource of the host.
typedef int32_t own;

// result<own T> and result<_, E>; `is_error` is all that is asked of an error.
struct result {
    uint8_t is_error;
    int32_t value;
    int32_t rest[6];
};

// result<u64, stream-error>
struct room {
    uint8_t is_error;
    uint64_t bytes;
};

// result<list<u8>, stream-error>
struct chunk {
    uint8_t is_error;
    unsigned char *start;
    size_t bytes;
};

FROM(TYPES, "[constructor]fields") own new_fields(void);
FROM(TYPES, "[method]fields.append")
void append(own fields, const char *name, size_t, const char *value, size_t, struct result *);
FROM(TYPES, "[method]incoming-request.consume") void consume(own request, struct result *body);
FROM(TYPES, "[method]incoming-body.stream") void stream_in(own body, struct result *stream);
FROM(TYPES, "[constructor]outgoing-response") own new_response(own fields);
FROM(TYPES, "[method]outgoing-response.body") void body_of(own response, struct result *body);
FROM(TYPES, "[method]outgoing-body.write") void stream_out(own body, struct result *stream);
FROM(TYPES, "[static]outgoing-body.finish") void finish(own body, int32_t has_trailers, own trailers, struct result *);
FROM(TYPES, "[static]response-outparam.set")
void set(own outparam, int32_t is_error, int32_t response, int32_t, int64_t, int32_t, int32_t, int32_t, int32_t);
FROM(TYPES, "[resource-drop]incoming-body") void drop_incoming_body(own);
FROM(TYPES, "[resource-drop]incoming-request") void drop_request(own);
FROM(STREAMS, "[method]input-stream.blocking-read") void read_some(own stream, uint64_t most, struct chunk *);
FROM(STREAMS, "[resource-drop]input-stream") void drop_input(own);
FROM(STREAMS, "[method]output-stream.check-write") void check_write(own stream, struct room *);
FROM(STREAMS, "[method]output-stream.write") void write_some(own stream, const unsigned char *, size_t, struct result *);
FROM(STREAMS, "[method]output-stream.flush") void flush(own stream, struct result *);
FROM(STREAMS, "[method]output-stream.subscribe") own subscribe(own stream);
FROM(STREAMS, "[resource-drop]output-stream") void drop_output(own);
FROM(POLL, "[method]pollable.block") void block(own pollable);
FROM(POLL, "[resource-drop]pollable") void drop_pollable(own);

#define TEXT(literal) literal, sizeof(literal) - 1

// --- the heap ---

extern char __heap_base;
static char *heap_free = &__heap_base;

__attribute__((export_name("cabi_realloc"), used)) void *reallocate(void *old, size_t old_bytes, size_t align,
                                                                    size_t bytes)
{
    char *start = (char *)(((uintptr_t)heap_free + align - 1) & ~(uintptr_t)(align - 1));
    size_t pages = __builtin_wasm_memory_size(0);
    uint64_t end = (uint64_t)(uintptr_t)start + bytes;

    // What was allocated last grows where it is: a body that comes in parts stays in one piece.
    if (old_bytes > 0 && (char *)old + old_bytes == heap_free) {
        start = old;
        end = (uint64_t)(uintptr_t)start + bytes;
    }
    if (end > pages * 65536ull && __builtin_wasm_memory_grow(0, (end + 65535) / 65536 - pages) == (size_t)-1)
        __builtin_trap();
    if (old_bytes > 0 && start != old)
        __builtin_memcpy(start, old, old_bytes < bytes ? old_bytes : bytes);
    heap_free = start + bytes;
    return start;
}

// --- requests and answers ---

// What a kept instance was given for the request before is done with.
__attribute__((unused)) static own begin_reading(own request, own *body)
{
    struct result result;

    heap_free = &__heap_base;
    consume(request, &result);
    *body = result.value;
    stream_in(*body, &result);
    return result.value;
}

__attribute__((unused)) static void end_reading(own stream, own body)
{
    drop_input(stream);
    drop_incoming_body(body);
}

// Begins a 200 of that content type. Its body is written to `stream`.
__attribute__((unused)) static own begin_answer(own outparam, const char *type, size_t type_bytes, own *body)
{
    own fields = new_fields(), response;
    struct result result;

    append(fields, TEXT("content-type"), type, type_bytes, &result);
    response = new_response(fields);
    body_of(response, &result);
    *body = result.value;
    set(outparam, 0, response, 0, 0, 0, 0, 0, 0);
    stream_out(*body, &result);
    return result.value;
}

static void wait_for(own stream)
{
    own pollable = subscribe(stream);

    block(pollable);
    drop_pollable(pollable);
}

// false: nobody takes any more.
static bool write_all(own stream, const unsigned char *bytes, size_t count)
{
    struct room room;
    struct result result;

    while (count > 0) {
        size_t part;

        check_write(stream, &room);
        if (room.is_error)
            return false;
        if (room.bytes == 0) {
            wait_for(stream);
            continue;
        }
        part = count < room.bytes ? count : room.bytes;
        write_some(stream, bytes, part, &result);
        if (result.is_error)
            return false;
        bytes += part;
        count -= part;
    }
    return true;
}

static void end_answer(own stream, own body)
{
    struct result result;

    flush(stream, &result);
    drop_output(stream);
    finish(body, 0, 0, &result);
}

#define HANDLE __attribute__((export_name("wasi:http/incoming-handler@0.2.0#handle"), used)) void handle
