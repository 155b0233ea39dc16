// A service as a program of this machine: HTTP/1.1 on the socket that it is given as descriptor 3. One thread, epoll,
// connections kept, pipelined requests answered in order.
//
//     /        Hello, world!           /pid    its process
//     /echo    what was sent           /exit   ends the process, without an answer
//     /mono    that picture, grey      /hang   is never answered
//     /bytes=N   as many of x

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../mono.h"

enum { LISTENER = 3, MOST_EVENTS = 256, FIRST_SIZE = 16 << 10, MOST_BYTES = 64 << 20 };

struct bytes {
    char *start;
    size_t count, size;
};

struct connection {
    int socket;
    bool is_hanging, is_ending, wants_room;
    struct bytes in, out;
    // What of `out` is sent already.
    size_t sent;
};

// A request in a connection's buffer, its body decoded.
struct request {
    const char *path;
    size_t path_bytes;
    char *body;
    size_t body_bytes;
    bool is_last;
    // Where the next one begins.
    size_t end;
};

static int epoll;

static bool make_room(struct bytes *bytes, size_t more)
{
    size_t size = bytes->size ? bytes->size : FIRST_SIZE;
    char *start;

    if (bytes->count + more > MOST_BYTES)
        return false;
    while (size < bytes->count + more)
        size *= 2;
    if (size == bytes->size)
        return true;
    start = realloc(bytes->start, size);
    if (start == NULL)
        return false;
    bytes->start = start;
    bytes->size = size;
    return true;
}

static bool put(struct bytes *bytes, const char *text, size_t count)
{
    if (!make_room(bytes, count))
        return false;
    memcpy(bytes->start + bytes->count, text, count);
    bytes->count += count;
    return true;
}

static void end_connection(struct connection *connection)
{
    close(connection->socket);
    free(connection->in.start);
    free(connection->out.start);
    free(connection);
}

// The value of a field in `head`, or NULL.
static const char *find_field(const char *head, const char *end, const char *name)
{
    size_t length = strlen(name);

    while ((head = memchr(head, '\n', end - head)) != NULL) {
        head++;
        if ((size_t)(end - head) > length && strncasecmp(head, name, length) == 0 && head[length] == ':') {
            for (head += length + 1; *head == ' '; head++)
                ;
            return head;
        }
    }
    return NULL;
}

// The bytes that the chunks at `at` take, and how many of them are the body's, which is joined at `into`, unless that is
// NULL. 0: not all are there; -1: nonsense.
static ssize_t join_chunks(const char *at, size_t bytes, char *into, size_t *joined)
{
    const char *from = at, *end = at + bytes, *line;
    size_t size;
    char *digits;

    *joined = 0;
    for (;;) {
        line = memchr(from, '\n', end - from);
        if (line == NULL)
            return 0;
        size = strtoul(from, &digits, 16);
        if (digits == from || size > MOST_BYTES)
            return -1;
        line++;
        if ((size_t)(end - line) < size + 2)
            return 0;
        if (size == 0)
            return line + 2 - at;
        if (into != NULL)
            memmove(into + *joined, line, size);
        *joined += size;
        from = line + size + 2;
    }
}

// 1: there is a request; 0: more must come; -1: nonsense.
static int parse(char *start, size_t bytes, struct request *request)
{
    char *head_end = memmem(start, bytes, "\r\n\r\n", 4);
    const char *space, *path_end, *field;
    ssize_t chunks;

    if (head_end == NULL)
        return 0;
    request->body = head_end + 4;
    space = memchr(start, ' ', head_end - start);
    path_end = space == NULL ? NULL : memchr(space + 1, ' ', head_end - space - 1);
    if (path_end == NULL)
        return -1;
    request->path = space + 1;
    request->path_bytes = path_end - request->path;
    field = find_field(start, head_end, "connection");
    request->is_last = field != NULL && strncasecmp(field, "close", 5) == 0;
    request->body_bytes = 0;
    request->end = request->body - start;
    if ((field = find_field(start, head_end, "transfer-encoding")) != NULL) {
        // Only what is whole is joined, for it is done in place.
        chunks = join_chunks(request->body, bytes - request->end, NULL, &request->body_bytes);
        if (chunks <= 0)
            return chunks;
        join_chunks(request->body, bytes - request->end, request->body, &request->body_bytes);
        request->end += chunks;
    } else if ((field = find_field(start, head_end, "content-length")) != NULL) {
        request->body_bytes = strtoul(field, NULL, 10);
        if (request->body_bytes > MOST_BYTES)
            return -1;
        if (bytes - request->end < request->body_bytes)
            return 0;
        request->end += request->body_bytes;
    }
    return 1;
}

static bool is_path(const struct request *request, const char *path)
{
    return request->path_bytes == strlen(path) && memcmp(request->path, path, request->path_bytes) == 0;
}

static bool put_answer(struct connection *connection, const char *status, const char *body, size_t bytes)
{
    char head[128];
    int length = snprintf(head, sizeof head, "HTTP/1.1 %s\r\ncontent-type: text/plain\r\ncontent-length: %zu\r\n\r\n",
                          status, bytes);

    return put(&connection->out, head, length) && put(&connection->out, body, bytes);
}

static bool put_many(struct connection *connection, size_t bytes)
{
    char *body;
    bool done;

    if (bytes > MOST_BYTES / 2 || (body = malloc(bytes + 1)) == NULL)
        return put_answer(connection, "400 Bad Request", "too many\n", 9);
    memset(body, 'x', bytes);
    done = put_answer(connection, "200 OK", body, bytes);
    free(body);
    return done;
}

static bool answer(struct connection *connection, struct request *request)
{
    char text[32];
    const char *number;

    if (is_path(request, "/"))
        return put_answer(connection, "200 OK", "Hello, world!\n", 14);
    if (is_path(request, "/echo"))
        return put_answer(connection, "200 OK", request->body, request->body_bytes);
    if (is_path(request, "/mono")) {
        size_t grey = make_grey((unsigned char *)request->body, request->body_bytes);

        return put_answer(connection, grey > 0 ? "200 OK" : "400 Bad Request", request->body, grey);
    }
    if (is_path(request, "/pid"))
        return put_answer(connection, "200 OK", text, snprintf(text, sizeof text, "%d\n", getpid()));
    if (is_path(request, "/exit"))
        _exit(3);
    if (is_path(request, "/hang")) {
        connection->is_hanging = true;
        return true;
    }
    if ((number = memchr(request->path, '=', request->path_bytes)) != NULL)
        return put_many(connection, strtoul(number + 1, NULL, 10));
    return put_answer(connection, "404 Not Found", "nothing here\n", 13);
}

// Answers all that is whole. false: the connection ends.
static bool answer_all(struct connection *connection)
{
    struct request request;
    size_t done = 0;
    int found = 0;

    while (!connection->is_hanging && !connection->is_ending &&
           (found = parse(connection->in.start + done, connection->in.count - done, &request)) > 0) {
        if (!answer(connection, &request))
            return false;
        done += request.end;
        connection->is_ending = request.is_last;
    }
    if (done > 0) {
        connection->in.count -= done;
        memmove(connection->in.start, connection->in.start + done, connection->in.count);
    }
    return found >= 0;
}

static void watch(struct connection *connection, int operation, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = connection };

    epoll_ctl(epoll, operation, connection->socket, &event);
}

// false: the connection ends.
static bool send_all(struct connection *connection)
{
    while (connection->sent < connection->out.count) {
        ssize_t sent = send(connection->socket, connection->out.start + connection->sent,
                            connection->out.count - connection->sent, MSG_NOSIGNAL);

        if (sent < 0 && errno == EAGAIN) {
            if (!connection->wants_room)
                watch(connection, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
            connection->wants_room = true;
            return true;
        }
        if (sent < 0)
            return false;
        connection->sent += sent;
    }
    connection->sent = connection->out.count = 0;
    if (connection->wants_room)
        watch(connection, EPOLL_CTL_MOD, EPOLLIN);
    connection->wants_room = false;
    return !connection->is_ending;
}

// false: the connection ends.
static bool receive(struct connection *connection)
{
    for (;;) {
        struct bytes *in = &connection->in;
        ssize_t got;

        if (!make_room(in, in->size > in->count ? 1 : FIRST_SIZE))
            return false;
        got = recv(connection->socket, in->start + in->count, in->size - in->count, 0);
        if (got < 0)
            return errno == EAGAIN;
        if (got == 0)
            return false;
        in->count += got;
        // Less than there was room for: there is no more.
        if (in->count < in->size)
            return true;
    }
}

static void accept_all(void)
{
    int socket;

    while ((socket = accept4(LISTENER, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct connection *connection = calloc(1, sizeof *connection);

        if (connection == NULL) {
            close(socket);
            return;
        }
        connection->socket = socket;
        watch(connection, EPOLL_CTL_ADD, EPOLLIN);
    }
}

static void serve(struct connection *connection, uint32_t events)
{
    bool goes_on = (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0 || receive(connection);

    if (!goes_on || !answer_all(connection) || !send_all(connection))
        end_connection(connection);
}

int main(void)
{
    struct epoll_event events[MOST_EVENTS], listener = { .events = EPOLLIN };

    signal(SIGPIPE, SIG_IGN);
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0 || fcntl(LISTENER, F_SETFL, O_NONBLOCK) < 0 ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, LISTENER, &listener) < 0) {
        perror("server: descriptor 3 must be a listening socket");
        return 1;
    }
    for (;;) {
        int count = epoll_wait(epoll, events, MOST_EVENTS, -1);

        if (count < 0 && errno != EINTR)
            return 1;
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr == NULL)
                accept_all();
            else
                serve(events[i].data.ptr, events[i].events);
        }
    }
}
