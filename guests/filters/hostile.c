// What a filter may try on its server: one attack, named by the configuration. Most happen when the header fields of
// a request whose path is /attack come, so that other requests show what it cost them.

#define OWN_ALLOCATOR
#include "proxy_wasm.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

enum attack {
    ATTACK_NONE,
#define ATTACK(name) ATTACK_##name,
#include "hostile.def"
#undef ATTACK
    ATTACKS
};

static enum attack attack;
// The request that attacks; 0: none does.
static id attacker;
static volatile uint32_t sink;
static bool is_allocator_hostile;

static void loop(void)
{
    for (;;)
        sink++;
}

// Not longer than a callback may take where nobody says more about it, but not much shorter.
static void dawdle(void)
{
    for (int i = 0; i < 160000000; i++)
        sink++;
}

#pragma clang diagnostic ignored "-Winfinite-recursion"
static int recurse(volatile uint32_t depth)
{
    volatile char frame[KIB];

    frame[depth % KIB] = depth;
    return recurse(depth + 1) + frame[depth % KIB];
}

// --- the allocator ---

void *EXPORT(proxy_on_memory_allocate)(size_t bytes)
{
    char *value;
    size_t got;

    if (!is_allocator_hostile)
        return allocate(bytes);
    switch (attack) {
    case ATTACK_allocate_nothing:
        return NULL;
    case ATTACK_allocate_outside:
        return (void *)(__builtin_wasm_memory_size(0) * 65536 - 4);
    case ATTACK_allocate_over_itself:
        // Where the host is to write the pointer and the length, and the stack.
        return (void *)8;
    case ATTACK_allocate_and_call:
        // Each answer needs another allocation.
        proxy_get_header_map_pairs(REQUEST_HEADERS, &value, &got);
        return allocate(bytes);
    case ATTACK_allocate_and_loop:
        loop();
    default:
        return allocate(bytes);
    }
}

// --- memory and time ---

static void memory_hog(void)
{
    while (__builtin_wasm_memory_grow(0, 16) != (size_t)-1)
        ;
    // All of it, so that it is no mere promise.
    for (size_t at = (size_t)&__heap_base; at < __builtin_wasm_memory_size(0) * 65536; at += 4 * KIB)
        *(volatile char *)at = 1;
}

// A little more with every request: nothing is ever given back.
static void memory_creep(void)
{
    __builtin_wasm_memory_grow(0, 64);
}

// --- header fields ---

static void header_storm(void)
{
    char name[] = "x-storm-00000000";

    for (uint32_t i = 0; i < 1000000; i++) {
        for (uint32_t at = 0; at < 8; at++)
            name[8 + at] = 'a' + (i >> (4 * at) & 15);
        if (proxy_add_header_map_value(REQUEST_HEADERS, name, sizeof name - 1, TEXT("storm")) != OK)
            return;
    }
}

static void header_giant(void)
{
    char *value = allocate(8 * MIB);

    if (value == NULL)
        return;
    for (size_t i = 0; i < 8 * MIB; i++)
        value[i] = 'x';
    proxy_add_header_map_value(REQUEST_HEADERS, TEXT("x-giant"), value, 8 * MIB);
}

static void header_newline(void)
{
    proxy_add_header_map_value(REQUEST_HEADERS, TEXT("x-split"), TEXT("a\r\nx-injected: yes"));
    proxy_add_header_map_value(REQUEST_HEADERS, TEXT("x-split\r\nx-injected"), TEXT("yes"));
    proxy_replace_header_map_value(REQUEST_HEADERS, TEXT(":path"), TEXT("/ HTTP/1.1\r\nx-injected: yes\r\n\r\n"));
    proxy_replace_header_map_value(REQUEST_HEADERS, TEXT(":method"), TEXT("GET /attack HTTP/1.1\r\nx-injected:"));
    proxy_replace_header_map_value(REQUEST_HEADERS, TEXT(":authority"), TEXT("a\r\nx-injected: yes"));
}

// What a message is framed by is the server's; fields without a name are nobody's.
static void header_names(void)
{
    proxy_replace_header_map_value(REQUEST_HEADERS, TEXT("content-length"), TEXT("7"));
    proxy_replace_header_map_value(REQUEST_HEADERS, TEXT("transfer-encoding"), TEXT("chunked"));
    proxy_add_header_map_value(REQUEST_HEADERS, TEXT(""), TEXT("no name"));
    proxy_add_header_map_value(REQUEST_HEADERS, TEXT(":pseudo"), TEXT("of nobody"));
    proxy_add_header_map_value(REQUEST_HEADERS, TEXT("x-bytes"), TEXT("\xff\xfe\0\x01"));
    proxy_remove_header_map_value(REQUEST_HEADERS, TEXT(":path"));
    proxy_remove_header_map_value(REQUEST_HEADERS, TEXT(":method"));
}

// What concerns one connection alone, and is not to go on to the next.
static void hop_by_hop(enum map map)
{
    struct field fields[] = { { TEXT("Connection"), TEXT("upgrade, x-kept") }, { TEXT("upgrade"), TEXT("websocket") },
                              { TEXT("keep-alive"), TEXT("timeout=1") },       { TEXT("TE"), TEXT("trailers") },
                              { TEXT("proxy-connection"), TEXT("close") },     { TEXT("x-kept"), TEXT("yes") } };
    size_t bytes;
    char *pairs;

    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        proxy_add_header_map_value(map, fields[i].name, fields[i].name_bytes, fields[i].value, fields[i].value_bytes);
        proxy_replace_header_map_value(map, fields[i].name, fields[i].name_bytes, fields[i].value,
                                       fields[i].value_bytes);
    }
    pairs = write_pairs(fields, sizeof fields / sizeof *fields, &bytes);
    proxy_set_header_map_pairs(map, pairs, bytes);
}

// Lengths that are not the body's, for whoever believes them: behind what they say, another message begins.
static void lie_of_length(enum map map)
{
    struct field fields[] = { { TEXT("content-length"), TEXT("3") }, { TEXT("Transfer-Encoding"), TEXT("chunked") } };
    size_t bytes;
    char *pairs = write_pairs(fields, 2, &bytes);

    proxy_set_header_map_pairs(map, pairs, bytes);
    proxy_replace_header_map_value(map, TEXT("content-length"), TEXT("3"));
    proxy_add_header_map_value(map, TEXT("Content-Length"), TEXT("0"));
    proxy_add_header_map_value(map, TEXT("content-length "), TEXT("0"));
    proxy_add_header_map_value(map, TEXT("transfer-encoding"), TEXT("chunked"));
    proxy_add_header_map_value(map, TEXT("transfer-encoding\0"), TEXT("chunked"));
    proxy_add_header_map_value(map, TEXT("x-length"), TEXT("a\r\ncontent-length: 0"));
}

#define SMUGGLED "0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n"

// What stands behind a body: more than anybody wants, and what only a head may say.
static void trailer_storm(enum map map)
{
    struct field fields[] = { { TEXT("content-length"), TEXT("3") }, { TEXT("transfer-encoding"), TEXT("chunked") },
                              { TEXT("host"), TEXT("another") },     { TEXT(":path"), TEXT("/smuggled") },
                              { TEXT("authorization"), TEXT("x") },  { TEXT("x-a\r\nx-injected"), TEXT("yes") },
                              { TEXT("x-b"), TEXT("a\r\nx-injected: yes") } };
    char name[] = "x-storm-00000000";
    size_t bytes;
    char *pairs = write_pairs(fields, sizeof fields / sizeof *fields, &bytes);

    proxy_set_header_map_pairs(map, pairs, bytes);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        proxy_add_header_map_value(map, fields[i].name, fields[i].name_bytes, fields[i].value, fields[i].value_bytes);
    for (uint32_t i = 0; i < 1000000; i++) {
        for (uint32_t at = 0; at < 8; at++)
            name[8 + at] = 'a' + (i >> (4 * at) & 15);
        if (proxy_add_header_map_value(map, name, sizeof name - 1, TEXT("storm")) != OK)
            return;
    }
}

// Counts and lengths that promise more than there is.
static void pairs_lie(void)
{
    uint32_t lies[][4] = {
        { 0xffffffff, 0, 0, 0 }, { 1, 0xffffffff, 0xffffffff, 0 }, { 1, 0x7fffffff, 0x7fffffff, 0 }, { 2, 1, 1, 0 },
        { 1, 0, 0, 0 }, { 0x20000000, 0, 0, 0 },
    };

    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++)
        proxy_set_header_map_pairs(REQUEST_HEADERS, (char *)lies[i], sizeof *lies);
}

static void pairs_cut_off(void)
{
    struct field fields[] = { { TEXT("x-a"), TEXT("1") }, { TEXT("x-b"), TEXT("2") } };
    size_t bytes;
    char *pairs = write_pairs(fields, 2, &bytes);

    for (size_t cut = 0; cut < bytes; cut++)
        proxy_set_header_map_pairs(REQUEST_HEADERS, pairs, cut);
}

// --- bodies ---

static void body_bomb(void)
{
    char *block = allocate(MIB);

    for (int i = 0; block != NULL && i < 4096; i++)
        if (proxy_set_buffer_bytes(REQUEST_BODY, 0x7fffffff, 0, block, MIB) != OK)
            return;
}

static void body_out_of_range(void)
{
    size_t edges[] = { 0, 1, 0x7fffffff, 0x80000000, 0xffffffff };
    char *text;
    size_t bytes;

    for (int from = 0; from < 5; from++)
        for (int most = 0; most < 5; most++) {
            proxy_get_buffer_bytes(REQUEST_BODY, edges[from], edges[most], &text, &bytes);
            proxy_get_buffer_bytes(77, edges[from], edges[most], &text, &bytes);
            proxy_set_buffer_bytes(RESPONSE_BODY, edges[from], edges[most], TEXT(""));
            proxy_set_buffer_bytes(CONFIGURATION, edges[from], edges[most], TEXT("x"));
            proxy_set_buffer_bytes(-1, edges[from], edges[most], TEXT("x"));
        }
}

// --- calls to others ---

static int call(const char *upstream, size_t upstream_bytes, const char *authority, size_t authority_bytes)
{
    struct field fields[] = { { TEXT(":method"), TEXT("GET") },
                              { TEXT(":path"), TEXT("/called") },
                              { TEXT(":authority"), authority, authority_bytes } };
    size_t bytes;
    uint32_t token;
    char *headers = write_pairs(fields, 3, &bytes);

    return headers == NULL ? INTERNAL_FAILURE
                           : proxy_http_call(upstream, upstream_bytes, headers, bytes, NULL, 0, NULL, 0, 60000, &token);
}

static void call_storm(void)
{
    for (int i = 0; i < 100000; i++)
        if (call(TEXT("granted"), TEXT("granted")) != OK)
            return;
}

// Names and addresses that no policy grants.
static void call_anywhere(void)
{
    call(TEXT("secret"), TEXT("secret"));
    call(TEXT("127.0.0.1:80"), TEXT("127.0.0.1:80"));
    call(TEXT("http://169.254.169.254/"), TEXT("169.254.169.254"));
    call(TEXT(""), TEXT(""));
    call(TEXT("granted\0secret"), TEXT("secret"));
}

static void call_nonsense(void)
{
    struct field fields[] = { { TEXT(":method"), TEXT("G\r\nET") }, { TEXT(":path"), TEXT("no path") } };
    size_t bytes;
    uint32_t token;
    char *headers = write_pairs(fields, 2, &bytes);

    proxy_http_call(TEXT("granted"), headers, bytes, NULL, 0, NULL, 0, 0, &token);
    proxy_http_call(TEXT("granted"), NULL, 0, NULL, 0, NULL, 0, 0xffffffff, &token);
    proxy_http_call(TEXT("granted"), headers, 3, headers, bytes, headers, bytes, 1, &token);
}

// A second request inside of the first one.
static void call_smuggle(void)
{
    static const struct {
        const char *text;
        size_t bytes;
    } paths[] = { { TEXT("/called HTTP/1.1\r\nhost: a\r\n\r\nGET /smuggled") },
                  { TEXT("/called\0/smuggled") },
                  { TEXT("/called /smuggled") },
                  { TEXT("/called") } };
    uint32_t token;
    size_t bytes;

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct field fields[] = { { TEXT(":method"), TEXT("POST") },
                                  { TEXT(":path"), paths[i].text, paths[i].bytes },
                                  { TEXT(":authority"), TEXT("granted") },
                                  { TEXT("content-length"), TEXT("3") },
                                  { TEXT("transfer-encoding"), TEXT("chunked") },
                                  { TEXT("connection"), TEXT("upgrade") },
                                  { TEXT("upgrade"), TEXT("websocket") } };
        char *headers = write_pairs(fields, 7, &bytes);

        proxy_http_call(TEXT("granted"), headers, bytes, TEXT(SMUGGLED), NULL, 0, 1000, &token);
    }
}

// Through the server, to this filter again.
static void call_itself(void)
{
    struct field fields[] = { { TEXT(":method"), TEXT("GET") },
                              { TEXT(":path"), TEXT("/attack") },
                              { TEXT(":authority"), TEXT("itself") } };
    uint32_t token;
    size_t bytes;
    char *headers = write_pairs(fields, 3, &bytes);

    proxy_http_call(TEXT("itself"), headers, bytes, NULL, 0, NULL, 0, 60000, &token);
}

// --- what is kept of a filter ---

static void log_flood(void)
{
    char *line = allocate(64 * KIB);

    for (size_t i = 0; i < 64 * KIB; i++)
        line[i] = 'x';
    for (int i = 0; i < 20000; i++)
        proxy_log(CRITICAL, line, 64 * KIB);
}

// Lines of somebody else, and what a terminal obeys.
static void log_escape(void)
{
    proxy_log(INFO, TEXT("one\n{\"level\":\"error\",\"message\":\"forged\"}\n"));
    proxy_log(INFO, TEXT("\033]0;title\007\033[2J\033[31mred\xff\xfe\0"));
    proxy_log(77, TEXT("no such level"));
}

static void data_flood(void)
{
    char *value = allocate(MIB);

    for (uint32_t i = 0; i < 4096; i++)
        if (proxy_set_shared_data((char *)&i, sizeof i, value, MIB, 0) != OK)
            return;
}

static void queue_flood(void)
{
    char *value = allocate(MIB);
    uint32_t queue;

    for (uint32_t i = 0; i < 10000; i++)
        if (proxy_register_shared_queue((char *)&i, sizeof i, &queue) != OK)
            break;
    for (int i = 0; i < 4096; i++)
        if (proxy_enqueue_shared_queue(queue, value, MIB) != OK)
            return;
}

// What everybody waits for who shares it.
static void data_storm(void)
{
    char *value;
    size_t bytes;
    uint32_t cas;

    for (int i = 0; i < 10000000; i++) {
        proxy_get_shared_data(TEXT("storm"), &value, &bytes, &cas);
        proxy_set_shared_data(TEXT("storm"), TEXT("value"), i % 3 ? cas : 0);
        forget();
    }
}

// Each is another timer.
static void tick_flap(void)
{
    for (uint32_t i = 0; i < 10000000; i++)
        proxy_set_tick_period_milliseconds(i % 3);
}

// Queues of others.
static void queue_guess(void)
{
    char *value;
    size_t bytes;

    for (uint32_t queue = 0; queue < 1000; queue++) {
        proxy_dequeue_shared_queue(queue, &value, &bytes);
        proxy_enqueue_shared_queue(queue, TEXT("guessed"));
    }
}

static void metric_flood(void)
{
    uint32_t metric;

    for (uint32_t i = 0; i < 100000; i++) {
        if (proxy_define_metric(i % 3, (char *)&i, sizeof i, &metric) != OK)
            break;
        proxy_increment_metric(metric, INT64_MIN);
    }
    proxy_define_metric(77, TEXT("no_such_kind"), &metric);
    proxy_define_metric(COUNTER, TEXT("name with {labels=\"forged\"} 1\nforged_total 7"), &metric);
    for (uint32_t guess = 0; guess < 1000; guess++)
        proxy_increment_metric(guess * 7919, -1);
}

static void property_flood(void)
{
    char *value = allocate(MIB);

    for (uint32_t i = 0; i < 4096; i++)
        if (proxy_set_property((char *)&i, sizeof i, value, MIB) != OK)
            return;
}

// Paths of many parts, and of none.
static void property_paths(void)
{
    char *path = allocate(MIB), *value;
    size_t bytes;

    for (int round = 0; path != NULL && round < 1000; round++) {
        for (size_t i = 0; i < MIB; i += 1 + round % 2)
            path[i] = round % 3 ? 0 : '.';
        proxy_get_property(path, MIB, &value, &bytes);
        proxy_set_property(path, MIB, TEXT("value"));
        proxy_get_property(TEXT("request\0headers\0"), &value, &bytes);
        proxy_get_property(TEXT("request\0headers\0\0\0"), &value, &bytes);
        proxy_get_property(TEXT("\0request\0path"), &value, &bytes);
    }
}

// What the server alone may say.
static void property_override(void)
{
    char *value;
    size_t bytes;

    proxy_set_property(TEXT("source\0address"), TEXT("1.2.3.4:5"));
    proxy_set_property(TEXT("route_name"), TEXT("another"));
    proxy_set_property(TEXT("cluster_name"), TEXT("secret"));
    proxy_set_property(TEXT("\0\0\0"), TEXT("nothing"));
    proxy_get_property(TEXT(""), &value, &bytes);
    proxy_get_property(TEXT("\0"), &value, &bytes);
}

// --- the calls themselves ---

// Every pointer of every call, at every edge of memory.
static void pointers(void)
{
    uintptr_t end = __builtin_wasm_memory_size(0) * 65536;
    uintptr_t edges[] = { end - 1, end, end + 1, 0x7fffffff, 0xfffffffc, 0xffffffff };
    size_t lengths[] = { 0, 1, 8, 0x7fffffff, 0xffffffff };
    char *text;
    size_t bytes;

    for (int i = 0; i < 6; i++) {
        char *edge = (char *)edges[i];

        for (int j = 0; j < 5; j++) {
            size_t length = lengths[j];

            proxy_log(INFO, edge, length);
            proxy_get_header_map_value(REQUEST_HEADERS, edge, length, &text, &bytes);
            proxy_add_header_map_value(REQUEST_HEADERS, edge, length, edge, length);
            proxy_set_header_map_pairs(REQUEST_HEADERS, edge, length);
            proxy_set_buffer_bytes(REQUEST_BODY, 0, 0, edge, length);
            proxy_get_property(edge, length, &text, &bytes);
            proxy_set_shared_data(edge, length, edge, length, 0);
            proxy_send_local_response(200, edge, length, edge, length, edge, length, 0);
            proxy_http_call(edge, length, edge, length, edge, length, edge, length, 1, (uint32_t *)edge);
        }
        proxy_get_header_map_value(REQUEST_HEADERS, TEXT(":path"), (char **)edge, (size_t *)edge);
        proxy_get_header_map_pairs(REQUEST_HEADERS, (char **)edge, (size_t *)edge);
        proxy_get_current_time_nanoseconds((uint64_t *)edge);
        proxy_register_shared_queue(TEXT("edge"), (uint32_t *)edge);
        proxy_get_shared_data(TEXT("edge"), (char **)edge, (size_t *)edge, (uint32_t *)edge);
    }
}

// Streams of others, and of nobody.
static void contexts(void)
{
    for (id other = 0; other < 2000; other++) {
        if (proxy_set_effective_context(other) != OK || other == attacker)
            continue;
        proxy_add_header_map_value(REQUEST_HEADERS, TEXT("x-from-another"), TEXT("yes"));
        proxy_add_header_map_value(RESPONSE_HEADERS, TEXT("x-from-another"), TEXT("yes"));
        proxy_continue_stream(REQUEST);
        proxy_continue_stream(RESPONSE);
    }
    proxy_set_effective_context(0xffffffff);
    proxy_add_header_map_value(77, TEXT("x"), TEXT("y"));
}

static void answer(const char *headers, size_t bytes)
{
    proxy_send_local_response(200, TEXT("attack"), TEXT("answered by the filter\n"), headers, bytes, -1);
}

static void answer_split(void)
{
    struct field fields[] = { { TEXT("x-split"), TEXT("a\r\nx-injected: yes\r\n\r\n<html>") },
                              { TEXT("content-length"), TEXT("3") },
                              { TEXT("transfer-encoding"), TEXT("chunked") },
                              { TEXT(":status"), TEXT("abc") } };
    size_t bytes;
    char *headers = write_pairs(fields, 4, &bytes);

    answer(headers, bytes);
}

static void answer_nonsense(void)
{
    uint32_t numbers[] = { 0, 1, 99, 100, 101, 199, 204, 304, 600, 1000, 0xffffffff };

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        proxy_send_local_response(numbers[i], NULL, 0, TEXT("body"), NULL, 0, 1 << 30);
}

static void storm(int (*act)(enum stream))
{
    for (int i = 0; i < 1000; i++) {
        act(REQUEST);
        act(RESPONSE);
        act(77);
    }
}

static int continue_stream(enum stream stream)
{
    return proxy_continue_stream(stream);
}

static int close_stream(enum stream stream)
{
    return proxy_close_stream(stream);
}

// --- when it happens ---

static bool is_attack(const char *text, size_t bytes, const char *name)
{
    size_t at = 0;

    for (; name[at] != 0 && at < bytes; at++)
        if (text[at] != (name[at] == '_' ? '-' : name[at]))
            return false;
    return name[at] == 0 && at == bytes;
}

bool EXPORT(proxy_on_vm_start)(id plugin, size_t bytes)
{
    char *text;

    (void)plugin;
    // Attacks on the start are named here, for the configuration comes later.
    if (bytes == 0 || proxy_get_buffer_bytes(VM_CONFIGURATION, 0, bytes, &text, &bytes) != OK)
        return true;
    if (is_attack(text, bytes, "trap_in_start"))
        __builtin_trap();
    if (is_attack(text, bytes, "loop_in_start"))
        loop();
    return !is_attack(text, bytes, "refuse_start");
}

bool EXPORT(proxy_on_configure)(id plugin, size_t bytes)
{
    char *text;

    (void)plugin;
    if (bytes == 0 || proxy_get_buffer_bytes(CONFIGURATION, 0, bytes, &text, &bytes) != OK)
        return false;
#define ATTACK(name) \
    if (is_attack(text, bytes, #name)) \
        attack = ATTACK_##name;
#include "hostile.def"
#undef ATTACK
    if (attack == ATTACK_tick_storm || attack == ATTACK_trap_in_tick || attack == ATTACK_dawdle_in_tick)
        proxy_set_tick_period_milliseconds(1);
    return attack != ATTACK_NONE && attack != ATTACK_refuse_configuration;
}

void EXPORT(proxy_on_tick)(id plugin)
{
    (void)plugin;
    if (attack == ATTACK_trap_in_tick)
        __builtin_trap();
    if (attack == ATTACK_dawdle_in_tick) {
        dawdle();
        return;
    }
    // Longer than the time between two.
    for (int i = 0; i < 5000000; i++)
        sink++;
    proxy_set_tick_period_milliseconds(1);
}

static int act(void)
{
    char *text;
    size_t bytes;

    switch (attack) {
    case ATTACK_trap: __builtin_trap();
    case ATTACK_loop: loop(); return CONTINUE;
    case ATTACK_dawdle: dawdle(); return CONTINUE;
    case ATTACK_recursion: sink = recurse(0); return CONTINUE;
    case ATTACK_memory_hog: memory_hog(); return CONTINUE;
    case ATTACK_memory_creep: memory_creep(); return CONTINUE;
    case ATTACK_header_storm: header_storm(); return CONTINUE;
    case ATTACK_header_giant: header_giant(); return CONTINUE;
    case ATTACK_header_newline: header_newline(); return CONTINUE;
    case ATTACK_header_names: header_names(); return CONTINUE;
    case ATTACK_hop_by_hop: hop_by_hop(REQUEST_HEADERS); return CONTINUE;
    case ATTACK_lie_of_length: lie_of_length(REQUEST_HEADERS); return CONTINUE;
    case ATTACK_call_smuggle: call_smuggle(); return CONTINUE;
    case ATTACK_call_itself: call_itself(); return PAUSE;
    case ATTACK_data_storm: data_storm(); return CONTINUE;
    case ATTACK_tick_flap: tick_flap(); return CONTINUE;
    case ATTACK_property_paths: property_paths(); return CONTINUE;
    case ATTACK_pairs_lie: pairs_lie(); return CONTINUE;
    case ATTACK_pairs_cut_off: pairs_cut_off(); return CONTINUE;
    case ATTACK_body_bomb: body_bomb(); return CONTINUE;
    case ATTACK_body_out_of_range: body_out_of_range(); return CONTINUE;
    case ATTACK_call_storm: call_storm(); return CONTINUE;
    case ATTACK_call_anywhere: call_anywhere(); return CONTINUE;
    case ATTACK_call_nonsense: call_nonsense(); return CONTINUE;
    case ATTACK_log_flood: log_flood(); return CONTINUE;
    case ATTACK_log_escape: log_escape(); return CONTINUE;
    case ATTACK_data_flood: data_flood(); return CONTINUE;
    case ATTACK_queue_flood: queue_flood(); return CONTINUE;
    case ATTACK_queue_guess: queue_guess(); return CONTINUE;
    case ATTACK_metric_flood: metric_flood(); return CONTINUE;
    case ATTACK_property_flood: property_flood(); return CONTINUE;
    case ATTACK_property_override: property_override(); return CONTINUE;
    case ATTACK_pointers: pointers(); return CONTINUE;
    case ATTACK_contexts: contexts(); return CONTINUE;
    case ATTACK_action_nonsense: return 77;
    case ATTACK_pause_forever: return PAUSE;
    case ATTACK_answer_twice: answer(NULL, 0); answer(NULL, 0); return CONTINUE;
    case ATTACK_answer_split: answer_split(); return PAUSE;
    case ATTACK_answer_nonsense: answer_nonsense(); return PAUSE;
    case ATTACK_continue_storm: storm(continue_stream); return CONTINUE;
    case ATTACK_close_storm: storm(close_stream); return CONTINUE;
    case ATTACK_allocate_nothing:
    case ATTACK_allocate_outside:
    case ATTACK_allocate_over_itself:
    case ATTACK_allocate_and_call:
    case ATTACK_allocate_and_loop:
        is_allocator_hostile = true;
        proxy_get_header_map_pairs(REQUEST_HEADERS, &text, &bytes);
        is_allocator_hostile = false;
        return CONTINUE;
    default: return CONTINUE;
    }
}

int EXPORT(proxy_on_request_headers)(id stream, uint32_t headers, bool is_end)
{
    char *path;
    size_t bytes;

    (void)headers, (void)is_end;
    forget();
    if (proxy_get_header_map_value(REQUEST_HEADERS, TEXT(":path"), &path, &bytes) != OK ||
        !is_same(path, bytes, TEXT("/attack")))
        return CONTINUE;
    attacker = stream;
    return act();
}

int EXPORT(proxy_on_request_body)(id stream, size_t bytes, bool is_end)
{
    (void)bytes;
    if (stream == attacker && is_end && attack == ATTACK_lie_of_length)
        proxy_set_buffer_bytes(REQUEST_BODY, 0, WHOLE, TEXT(SMUGGLED));
    if (stream == attacker && is_end && attack == ATTACK_trailer_storm)
        trailer_storm(REQUEST_TRAILERS);
    return CONTINUE;
}

int EXPORT(proxy_on_response_headers)(id stream, uint32_t headers, bool is_end)
{
    (void)headers, (void)is_end;
    // To whomever: there are several at a time.
    if (attack == ATTACK_dawdle_in_answer)
        dawdle();
    if (stream != attacker)
        return CONTINUE;
    if (attack == ATTACK_trap_in_answer)
        __builtin_trap();
    if (attack == ATTACK_answer_late)
        answer(NULL, 0);
    if (attack == ATTACK_hop_by_hop)
        hop_by_hop(RESPONSE_HEADERS);
    if (attack == ATTACK_lie_of_length)
        lie_of_length(RESPONSE_HEADERS);
    return CONTINUE;
}

int EXPORT(proxy_on_response_body)(id stream, size_t bytes, bool is_end)
{
    (void)bytes;
    if (stream == attacker && attack == ATTACK_trap_in_body)
        __builtin_trap();
    if (stream == attacker && is_end && attack == ATTACK_lie_of_length)
        proxy_set_buffer_bytes(RESPONSE_BODY, 0, WHOLE, TEXT(SMUGGLED));
    if (stream == attacker && is_end && attack == ATTACK_trailer_storm)
        trailer_storm(RESPONSE_TRAILERS);
    return CONTINUE;
}

void EXPORT(proxy_on_log)(id stream)
{
    if (stream != attacker)
        return;
    if (attack == ATTACK_trap_in_log)
        __builtin_trap();
    if (attack == ATTACK_loop_in_log)
        loop();
}

void EXPORT(proxy_on_delete)(id stream)
{
    if (stream != attacker)
        return;
    attacker = 0;
    if (attack == ATTACK_trap_in_delete)
        __builtin_trap();
}
