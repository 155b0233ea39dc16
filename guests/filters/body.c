// Masks a word in bodies, in both directions: each letter of it becomes a star. The word is the configuration. A
// body is held until all of it is there, for the word may lie on the edge of two parts.

#include "proxy_wasm.h"

static char word[64];
static size_t word_bytes;

bool EXPORT(proxy_on_configure)(id plugin, size_t bytes)
{
    char *text;

    (void)plugin;
    forget();
    if (bytes == 0 || bytes > sizeof word ||
        proxy_get_buffer_bytes(CONFIGURATION, 0, bytes, &text, &word_bytes) != OK)
        return false;
    __builtin_memcpy(word, text, word_bytes);
    return true;
}

static bool mask(char *text, size_t bytes)
{
    bool found = false;

    for (size_t at = 0; at + word_bytes <= bytes; at++) {
        if (is_same(text + at, word_bytes, word, word_bytes)) {
            for (size_t i = 0; i < word_bytes; i++)
                text[at + i] = '*';
            found = true;
        }
    }
    return found;
}

static int mask_body(enum buffer buffer, bool is_end)
{
    char *text;
    size_t got;

    if (!is_end)
        return PAUSE;
    forget();
    if (proxy_get_buffer_bytes(buffer, 0, WHOLE, &text, &got) == OK && mask(text, got))
        proxy_set_buffer_bytes(buffer, 0, got, text, got);
    return CONTINUE;
}

int EXPORT(proxy_on_request_body)(id stream, size_t bytes, bool is_end)
{
    (void)stream, (void)bytes;
    return mask_body(REQUEST_BODY, is_end);
}

int EXPORT(proxy_on_response_body)(id stream, size_t bytes, bool is_end)
{
    (void)stream, (void)bytes;
    return mask_body(RESPONSE_BODY, is_end);
}
