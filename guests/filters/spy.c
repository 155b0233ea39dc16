// Looks around: what the field `x-act` says, with `x-name`, `x-value` and `x-number`. The answer is the host's word for it,
// a status, and behind that what it handed over; a number as such. Requests without the field go on.

#include "proxy_wasm.h"

int IMPORT(proxy_resolve_shared_queue)(const char *vm_id, size_t, const char *name, size_t, uint32_t *queue);
int IMPORT(proxy_get_metric)(uint32_t metric, uint64_t *value);
int IMPORT(proxy_record_metric)(uint32_t metric, uint64_t value);

// The stream that waits for a call.
static id waiting;

static struct text {
    char *start;
    size_t bytes;
} act, name, value;

static bool field(const char *key, size_t key_bytes, struct text *text)
{
    text->start = "";
    text->bytes = 0;
    return proxy_get_header_map_value(REQUEST_HEADERS, key, key_bytes, &text->start, &text->bytes) == OK;
}

static uint32_t number_of(struct text text)
{
    uint32_t number = 0;

    for (size_t i = 0; i < text.bytes; i++)
        number = 10 * number + (uint32_t)(text.start[i] - '0');
    return number;
}

static size_t decimal(uint64_t number, char *text)
{
    char turned[20];
    size_t bytes = 0;

    do
        turned[bytes++] = '0' + number % 10;
    while ((number /= 10) > 0);
    for (size_t i = 0; i < bytes; i++)
        text[i] = turned[bytes - 1 - i];
    return bytes;
}

static int tell(int status, const char *more, size_t more_bytes)
{
    char *text = allocate(32 + more_bytes);
    size_t bytes = decimal(status, text);

    text[bytes++] = ' ';
    if (status == OK)
        __builtin_memcpy(text + bytes, more, more_bytes);
    proxy_send_local_response(200, NULL, 0, text, bytes + (status == OK ? more_bytes : 0), NULL, 0, -1);
    return PAUSE;
}

static int tell_number(int status, uint64_t number)
{
    char text[20];

    return tell(status, text, decimal(number, text));
}

#define IS(word) is_same(act.start, act.bytes, TEXT(word))

// Parts of a property's path stand with `.` between them.
static int get_property(void)
{
    char *path = allocate(name.bytes), *got = "";
    size_t bytes = 0;
    int status;

    for (size_t i = 0; i < name.bytes; i++)
        path[i] = name.start[i] == '.' ? 0 : name.start[i];
    status = proxy_get_property(path, name.bytes, &got, &bytes);
    return tell(status, got, bytes);
}

// Of the upstream `x-name`, for the host `x-value`.
static int call(id stream)
{
    const struct field fields[3] = {
        { TEXT(":method"), TEXT("GET") },
        { TEXT(":path"), TEXT("/") },
        { TEXT(":authority"), value.start, value.bytes },
    };
    size_t bytes;
    uint32_t token;
    char *headers = write_pairs(fields, 3, &bytes);
    int status = proxy_http_call(name.start, name.bytes, headers, bytes, NULL, 0, NULL, 0, 5000, &token);

    if (status != OK)
        return tell(status, NULL, 0);
    waiting = stream;
    return PAUSE;
}

int EXPORT(proxy_on_request_headers)(id stream, uint32_t headers, bool is_end)
{
    struct text digits;
    uint32_t number, got = 0, cas;
    uint64_t figure = 0;
    char *bytes = "";
    size_t count = 0;
    int status;

    (void)headers, (void)is_end;
    forget();
    if (!field(TEXT("x-act"), &act))
        return CONTINUE;
    field(TEXT("x-name"), &name);
    field(TEXT("x-value"), &value);
    field(TEXT("x-number"), &digits);
    number = number_of(digits);
    if (IS("set-data"))
        return tell(proxy_set_shared_data(name.start, name.bytes, value.start, value.bytes, 0), NULL, 0);
    if (IS("get-data")) {
        status = proxy_get_shared_data(name.start, name.bytes, &bytes, &count, &cas);
        return tell(status, bytes, count);
    }
    if (IS("register-queue")) {
        status = proxy_register_shared_queue(name.start, name.bytes, &got);
        return tell_number(status, got);
    }
    if (IS("resolve-queue")) {
        status = proxy_resolve_shared_queue(value.start, value.bytes, name.start, name.bytes, &got);
        return tell_number(status, got);
    }
    if (IS("enqueue"))
        return tell(proxy_enqueue_shared_queue(number, value.start, value.bytes), NULL, 0);
    if (IS("dequeue")) {
        status = proxy_dequeue_shared_queue(number, &bytes, &count);
        return tell(status, bytes, count);
    }
    if (IS("define-metric")) {
        status = proxy_define_metric(COUNTER, name.start, name.bytes, &got);
        return tell_number(status, got);
    }
    if (IS("define-gauge")) {
        status = proxy_define_metric(GAUGE, name.start, name.bytes, &got);
        return tell_number(status, got);
    }
    if (IS("get-metric")) {
        status = proxy_get_metric(number, &figure);
        return tell_number(status, figure);
    }
    if (IS("record-metric"))
        return tell(proxy_record_metric(number, number_of(value)), NULL, 0);
    if (IS("increment-metric"))
        return tell(proxy_increment_metric(number, 1), NULL, 0);
    if (IS("property"))
        return get_property();
    if (IS("call"))
        return call(stream);
    return tell(BAD_ARGUMENT, NULL, 0);
}

void EXPORT(proxy_on_http_call_response)(id plugin, uint32_t token, uint32_t headers, size_t body_bytes, uint32_t trailers)
{
    char *body = "";
    size_t bytes = 0;

    (void)plugin, (void)token, (void)trailers;
    forget();
    if (headers > 0)
        proxy_get_buffer_bytes(CALL_BODY, 0, body_bytes, &body, &bytes);
    proxy_set_effective_context(waiting);
    tell(headers > 0 ? OK : NOT_FOUND, body, bytes);
}
