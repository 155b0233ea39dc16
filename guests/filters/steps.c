// Does one thing at one step of an exchange. Which, the request's path says: see README.md. The configuration is an
// upstream's name.

#include "proxy_wasm.h"

enum { ROOT = 1 };

static char upstream[64];
static size_t upstream_bytes;
// The stream that waits for a call, or that another one means: one at a time.
static id waiting;
static enum stream direction;
static bool is_leaving;
// A stream that is over, and finished by the answer to a call.
static id unfinished;
// A request is held, over which the instance fails at the next tick; another one before it has done so.
static bool is_failing, has_failed;

bool EXPORT(proxy_on_configure)(id plugin, size_t bytes)
{
    char *text;

    (void)plugin;
    forget();
    if (bytes > sizeof upstream)
        return false;
    if (bytes > 0 && proxy_get_buffer_bytes(CONFIGURATION, 0, bytes, &text, &upstream_bytes) == OK)
        __builtin_memcpy(upstream, text, upstream_bytes);
    return true;
}

static bool is_path(const char *wanted, size_t wanted_bytes)
{
    char *path;
    size_t bytes;

    return proxy_get_header_map_value(REQUEST_HEADERS, TEXT(":path"), &path, &bytes) == OK &&
           is_same(path, bytes, wanted, wanted_bytes);
}

#define IS_PATH(path) is_path(TEXT(path))

// Sets the path to what follows these words in it, if it begins with them.
static bool set_path_behind(const char *words, size_t words_bytes)
{
    char *path;
    size_t bytes;

    if (proxy_get_header_map_value(REQUEST_HEADERS, TEXT(":path"), &path, &bytes) != OK || bytes < words_bytes ||
        !is_same(path, words_bytes, words, words_bytes))
        return false;
    proxy_replace_header_map_value(REQUEST_HEADERS, TEXT(":path"), path + words_bytes, bytes - words_bytes);
    return true;
}

static void say(const char *words, size_t words_bytes, uint64_t number)
{
    char line[80], turned[20];
    size_t digits = 0;

    __builtin_memcpy(line, words, words_bytes);
    do
        turned[digits++] = '0' + number % 10;
    while ((number /= 10) > 0);
    while (digits > 0)
        line[words_bytes++] = turned[--digits];
    proxy_log(INFO, line, words_bytes);
}

static int call(void)
{
    const struct field fields[3] = {
        { TEXT(":method"), TEXT("GET") },
        { TEXT(":path"), TEXT("/") },
        { TEXT(":authority"), upstream, upstream_bytes },
    };
    size_t bytes;
    uint32_t token;
    char *headers = write_pairs(fields, 3, &bytes);

    return proxy_http_call(upstream, upstream_bytes, headers, bytes, NULL, 0, NULL, 0, 30000, &token);
}

// Waits for an answer of the upstream.
static int call_and_wait(id stream, enum stream way)
{
    if (call() != OK)
        __builtin_trap();
    waiting = stream;
    direction = way;
    return PAUSE;
}

static void answer(void)
{
    proxy_send_local_response(418, NULL, 0, TEXT("answered by a filter\n"), NULL, 0, -1);
}

// As many calls as it gets.
static void call_much(void)
{
    uint32_t count = 0;
    int status;

    while ((status = call()) == OK)
        count++;
    say(TEXT("calls until refused: "), count);
    say(TEXT("refused with "), status);
}

// Whether this is the first time: it is shared by all instances.
static bool is_first(void)
{
    char *value;
    size_t bytes;
    uint32_t cas;

    if (proxy_get_shared_data(TEXT("seen"), &value, &bytes, &cas) == OK)
        return false;
    proxy_set_shared_data(TEXT("seen"), TEXT("yes"), 0);
    return true;
}

static void set_other_path(void)
{
    proxy_replace_header_map_value(REQUEST_HEADERS, TEXT(":path"), TEXT("/a/../astray"));
}

// Sets another path when it is shown the head once more, in an instance after the one that failed, and holds it for more.
static int lead_astray(void)
{
    is_failing = is_first();
    has_failed = !is_failing;
    if (!has_failed) {
        proxy_set_tick_period_milliseconds(10);
        return CONTINUE;
    }
    set_other_path();
    return PAUSE;
}

void EXPORT(proxy_on_tick)(id plugin)
{
    (void)plugin;
    if (is_failing)
        __builtin_trap();
}

int EXPORT(proxy_on_request_headers)(id stream, uint32_t headers, bool is_end)
{
    (void)headers, (void)is_end;
    forget();
    if (IS_PATH("/lead-astray"))
        return lead_astray();
    if (IS_PATH("/stray-call"))
        return call(), CONTINUE;
    if (IS_PATH("/many-calls"))
        return call_much(), PAUSE;
    if (set_path_behind(TEXT("/wait?")))
        return call_and_wait(stream, REQUEST);
    set_path_behind(TEXT("/go-to?"));
    if (IS_PATH("/be-answered"))
        waiting = stream;
    if (IS_PATH("/answer-other")) {
        proxy_set_effective_context(waiting);
        answer();
    }
    if (IS_PATH("/answer-and-trap")) {
        answer();
        __builtin_trap();
    }
    return CONTINUE;
}

int EXPORT(proxy_on_response_headers)(id stream, uint32_t headers, bool is_end)
{
    (void)stream, (void)headers, (void)is_end;
    forget();
    if (IS_PATH("/make-trailers"))
        proxy_add_header_map_value(RESPONSE_HEADERS, TEXT("trailer"), TEXT("x-made"));
    return CONTINUE;
}

static int hold(id stream, bool is_end, enum stream way)
{
    return is_end ? call_and_wait(stream, way) : PAUSE;
}

int EXPORT(proxy_on_request_body)(id stream, size_t bytes, bool is_end)
{
    forget();
    if (IS_PATH("/tell-pieces"))
        say(TEXT("piece of "), bytes);
    if (IS_PATH("/lead-astray")) {
        if (has_failed)
            set_other_path();
        return has_failed ? CONTINUE : PAUSE;
    }
    if (IS_PATH("/hold-request"))
        return hold(stream, is_end, REQUEST);
    if (IS_PATH("/hold-until-end"))
        return is_end ? CONTINUE : PAUSE;
    if (IS_PATH("/make-trailers") && is_end)
        proxy_add_header_map_value(REQUEST_TRAILERS, TEXT("x-made"), TEXT("of a request"));
    return CONTINUE;
}

int EXPORT(proxy_on_response_body)(id stream, size_t bytes, bool is_end)
{
    (void)bytes;
    forget();
    if (IS_PATH("/hold-answer"))
        return hold(stream, is_end, RESPONSE);
    if (IS_PATH("/make-trailers") && is_end)
        proxy_add_header_map_value(RESPONSE_TRAILERS, TEXT("x-made"), TEXT("of an answer"));
    return CONTINUE;
}

static int tell_trailers(enum map map)
{
    char *value;
    size_t bytes;

    forget();
    if (proxy_get_header_map_value(map, TEXT("x-made"), &value, &bytes) == OK)
        proxy_log(INFO, value, bytes);
    return CONTINUE;
}

int EXPORT(proxy_on_request_trailers)(id stream, uint32_t trailers)
{
    (void)stream, (void)trailers;
    return tell_trailers(REQUEST_TRAILERS);
}

int EXPORT(proxy_on_response_trailers)(id stream, uint32_t trailers)
{
    (void)stream, (void)trailers;
    return tell_trailers(RESPONSE_TRAILERS);
}

// What is held gets the upstream's answer behind it.
void EXPORT(proxy_on_http_call_response)(id plugin, uint32_t token, uint32_t headers, size_t body, uint32_t trailers)
{
    enum buffer held = direction == REQUEST ? REQUEST_BODY : RESPONSE_BODY;
    char *text, *seen;
    size_t bytes, seen_bytes;

    (void)plugin, (void)token, (void)headers, (void)body, (void)trailers;
    forget();
    if (unfinished) {
        proxy_set_effective_context(unfinished);
        unfinished = 0;
        proxy_log(INFO, TEXT("a stream is finished"));
        proxy_done();
        return;
    }
    if (is_leaving) {
        proxy_log(INFO, TEXT("it has left"));
        proxy_done();
        return;
    }
    proxy_set_effective_context(waiting);
    set_path_behind(TEXT("/go-to?"));
    if (proxy_get_buffer_bytes(held, 0, WHOLE, &seen, &seen_bytes) == OK)
        say(TEXT("held bytes: "), seen_bytes);
    if (proxy_get_buffer_bytes(CALL_BODY, 0, WHOLE, &text, &bytes) == OK)
        proxy_set_buffer_bytes(held, WHOLE, 0, text, bytes);
    proxy_continue_stream(direction);
}

static void tell_number(const char *words, size_t words_bytes, const char *property, size_t property_bytes)
{
    uint64_t number;
    char *value;
    size_t bytes;

    if (proxy_get_property(property, property_bytes, &value, &bytes) != OK || bytes != sizeof number)
        return;
    __builtin_memcpy(&number, value, sizeof number);
    say(words, words_bytes, number);
}

void EXPORT(proxy_on_log)(id stream)
{
    (void)stream;
    forget();
    tell_number(TEXT("request's bytes: "), TEXT("request\0size"));
    tell_number(TEXT("answer's bytes: "), TEXT("response\0size"));
    tell_number(TEXT("answer's status: "), TEXT("response\0code"));
}

// The root context goes after one more call, or at once where a stream waits for one.
bool EXPORT(proxy_on_done)(id context)
{
    forget();
    if (context != ROOT) {
        if (!IS_PATH("/finish-later") || call() != OK)
            return true;
        unfinished = context;
        return false;
    }
    proxy_log(INFO, TEXT("it leaves"));
    if (unfinished)
        return true;
    is_leaving = call() == OK;
    return !is_leaving;
}
