// Does at the head of a request, at that of an answer or at the end of a stream what the request's field `x-NAME-request`,
// `x-NAME-answer` or `x-NAME-end` says: see README.md. The configuration is its NAME. It inspects nothing but heads.

#include "proxy_wasm.h"

static char name[16];
static size_t name_bytes;
// The stream that waits for a call: one at a time.
static id waiting;
static enum stream direction;
// Of a filter that is named `feeds`.
static uint32_t queue;

bool EXPORT(proxy_on_configure)(id plugin, size_t bytes)
{
    char *text;
    uint32_t cas;

    (void)plugin;
    forget();
    if (bytes == 0 || bytes > sizeof name ||
        proxy_get_buffer_bytes(CONFIGURATION, 0, bytes, &text, &name_bytes) != OK)
        return false;
    __builtin_memcpy(name, text, name_bytes);
    if (proxy_get_shared_data(TEXT("stopped"), &text, &bytes, &cas) == OK && is_same(name, name_bytes, text, bytes))
        __builtin_trap();
    if (is_same(name, name_bytes, TEXT("feeds")))
        return proxy_register_shared_queue(TEXT("feeds"), &queue) == OK;
    return true;
}

// Feeds itself for ever, once it has something.
void EXPORT(proxy_on_queue_ready)(id plugin, uint32_t ready)
{
    char *text;
    size_t bytes;

    (void)plugin;
    forget();
    if (proxy_dequeue_shared_queue(ready, &text, &bytes) == OK)
        proxy_enqueue_shared_queue(ready, text, bytes);
}

static struct text {
    char *start;
    size_t bytes;
} act;

static bool is_act(const char *wanted, size_t wanted_bytes)
{
    return is_same(act.start, act.bytes, wanted, wanted_bytes);
}

#define IS_ACT(wanted) is_act(TEXT(wanted))

// A line: the filter's name, and these words.
static void say(const char *words, size_t words_bytes, const char *more, size_t more_bytes)
{
    char *line = allocate(name_bytes + words_bytes + more_bytes);

    __builtin_memcpy(line, name, name_bytes);
    __builtin_memcpy(line + name_bytes, words, words_bytes);
    __builtin_memcpy(line + name_bytes + words_bytes, more, more_bytes);
    proxy_log(INFO, line, name_bytes + words_bytes + more_bytes);
}

static void find_act(const char *step, size_t step_bytes)
{
    char field[40] = "x-";

    forget();
    __builtin_memcpy(field + 2, name, name_bytes);
    __builtin_memcpy(field + 2 + name_bytes, step, step_bytes);
    act = (struct text){ 0 };
    proxy_get_header_map_value(REQUEST_HEADERS, field, 2 + name_bytes + step_bytes, &act.start, &act.bytes);
}

static int call(void)
{
    const struct field fields[3] = {
        { TEXT(":method"), TEXT("GET") },
        { TEXT(":path"), TEXT("/") },
        { TEXT(":authority"), TEXT("gate") },
    };
    size_t bytes;
    uint32_t token;
    char *headers = write_pairs(fields, 3, &bytes);

    return proxy_http_call(TEXT("gate"), headers, bytes, NULL, 0, NULL, 0, 30000, &token);
}

static int do_act(id stream, enum stream way)
{
    if (IS_ACT("respond"))
        proxy_send_local_response(418, NULL, 0, TEXT("answered by a filter\n"), NULL, 0, -1);
    if (IS_ACT("trap"))
        __builtin_trap();
    if (IS_ACT("break"))
        proxy_close_stream(way);
    if (IS_ACT("call") && call() != OK)
        __builtin_trap();
    if (IS_ACT("wait")) {
        if (call() != OK)
            __builtin_trap();
        waiting = stream;
        direction = way;
        return PAUSE;
    }
    return CONTINUE;
}

int EXPORT(proxy_on_request_headers)(id stream, uint32_t headers, bool is_end)
{
    char *path, *stopped;
    size_t bytes;

    (void)headers, (void)is_end;
    find_act(TEXT("-request"));
    say(TEXT(" sees a request: "), act.start, act.bytes);
    if (IS_ACT("path") && proxy_get_header_map_value(REQUEST_HEADERS, TEXT("x-path"), &path, &bytes) == OK)
        proxy_replace_header_map_value(REQUEST_HEADERS, TEXT(":path"), path, bytes);
    if (IS_ACT("stop") && proxy_get_header_map_value(REQUEST_HEADERS, TEXT("x-stopped"), &stopped, &bytes) == OK)
        proxy_set_shared_data(TEXT("stopped"), stopped, bytes, 0);
    if (IS_ACT("feed"))
        proxy_enqueue_shared_queue(queue, TEXT("food"));
    return do_act(stream, REQUEST);
}

int EXPORT(proxy_on_response_headers)(id stream, uint32_t headers, bool is_end)
{
    (void)headers, (void)is_end;
    find_act(TEXT("-answer"));
    say(TEXT(" sees an answer: "), act.start, act.bytes);
    proxy_add_header_map_value(RESPONSE_HEADERS, TEXT("x-seen"), name, name_bytes);
    return do_act(stream, RESPONSE);
}

void EXPORT(proxy_on_http_call_response)(id plugin, uint32_t token, uint32_t headers, size_t body, uint32_t trailers)
{
    (void)plugin, (void)token, (void)headers, (void)body, (void)trailers;
    forget();
    say(TEXT(" hears of a call"), TEXT(""));
    proxy_set_effective_context(waiting);
    proxy_continue_stream(direction);
}

void EXPORT(proxy_on_log)(id stream)
{
    char *seen;
    size_t bytes;

    find_act(TEXT("-end"));
    if (proxy_get_header_map_value(RESPONSE_HEADERS, TEXT("x-seen"), &seen, &bytes) == OK)
        say(TEXT(" sees that it was seen by "), seen, bytes);
    say(TEXT(" sees the end: "), act.start, act.bytes);
    do_act(stream, RESPONSE);
}
