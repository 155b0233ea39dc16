// Asks the server behind the `?` of its path, by HTTP, and says what came of it: `answered STATUS`, `failed ERROR`, or
// `refused ERROR` where it was not sent at all; an error is its place in error-code.

#include "service.h"

#define HANDLER "wasi:http/outgoing-handler@0.2.0"

// option<string>
struct maybe_text {
    uint8_t is_some;
    char *start;
    size_t bytes;
};

// result<own future-incoming-response, error-code>, whose error has 8 bytes in one.
struct sent {
    uint8_t is_error;
    uint64_t rest[7];
};

// option<result<result<own incoming-response, error-code>>>
struct answered {
    uint8_t is_some;
    uint64_t is_taken, is_error, rest[6];
};

FROM(TYPES, "[method]incoming-request.path-with-query") void path_of(own request, struct maybe_text *);
FROM(TYPES, "[constructor]outgoing-request") own new_request(own fields);
FROM(TYPES, "[method]outgoing-request.set-authority") int32_t set_authority(own, int32_t is_some, const char *, size_t);
FROM(TYPES, "[method]outgoing-request.set-path-with-query") int32_t set_path(own, int32_t is_some, const char *, size_t);
FROM(TYPES, "[method]outgoing-request.set-scheme")
int32_t set_scheme(own, int32_t is_some, int32_t scheme, const char *, size_t);
FROM(TYPES, "[method]future-incoming-response.subscribe") own subscribe_to_answer(own future);
FROM(TYPES, "[method]future-incoming-response.get") void get_answer(own future, struct answered *);
FROM(TYPES, "[resource-drop]future-incoming-response") void drop_future(own);
FROM(TYPES, "[method]incoming-response.status") int32_t status_of(own response);
FROM(TYPES, "[resource-drop]incoming-response") void drop_response(own);
FROM(HANDLER, "handle") void send(own request, int32_t has_options, own options, struct sent *);

enum { HTTP };

static void say(own stream, const char *words, size_t words_bytes, uint32_t number)
{
    char turned[10];
    size_t digits = 0;

    write_all(stream, (const unsigned char *)words, words_bytes);
    do
        turned[digits++] = '0' + number % 10;
    while ((number /= 10) > 0);
    while (digits > 0)
        write_all(stream, (const unsigned char *)&turned[--digits], 1);
}

// The low byte of a payload is its variant's tag, the low half a handle.
static void tell_answer(own out, own future)
{
    struct answered answered;
    own pollable = subscribe_to_answer(future);

    block(pollable);
    drop_pollable(pollable);
    get_answer(future, &answered);
    if ((uint8_t)answered.is_error) {
        say(out, TEXT("failed "), (uint8_t)answered.rest[0]);
    } else {
        say(out, TEXT("answered "), status_of((own)answered.rest[0]));
        drop_response((own)answered.rest[0]);
    }
    drop_future(future);
}

HANDLE(own request, own outparam)
{
    struct maybe_text path;
    struct sent sent;
    own body, out, asked;
    size_t at = 0;

    path_of(request, &path);
    while (at < path.bytes && path.start[at] != '?')
        at++;
    at += at < path.bytes;
    asked = new_request(new_fields());
    set_scheme(asked, 1, HTTP, NULL, 0);
    set_path(asked, 1, TEXT("/"));
    set_authority(asked, 1, path.start + at, path.bytes - at);
    send(asked, 0, 0, &sent);
    out = begin_answer(outparam, TEXT("text/plain"), &body);
    if (sent.is_error)
        say(out, TEXT("refused "), (uint8_t)sent.rest[0]);
    else
        tell_answer(out, (own)sent.rest[0]);
    end_answer(out, body);
    drop_request(request);
}
