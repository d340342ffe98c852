/* frame.c - where a RESP frame ends, and the words of a command.
 *
 * For the proxy: it trusts both sides to speak RESP and only looks for ends.
 * The driver has a reader of its own, which trusts nobody. */
#include "harness/frame.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

size_t frame_size(const char *data, size_t len)
{
    size_t at = 0, todo = 1;

    while (todo > 0) {
        const char *end = memchr(data + at, '\n', len - at);
        long number;

        if (!end)
            return 0;
        number = strtol(data + at + 1, NULL, 10);
        todo--;
        if (data[at] == '*' && number > 0)
            todo += (size_t)number;
        if (data[at] == '$' && number >= 0)
            end += number + 2;
        at = (size_t)(end + 1 - data);
        if (at > len)
            return 0;
    }
    return at;
}

const char *frame_word(const char *data, size_t len, size_t i, size_t *ret_len)
{
    const char *at = memchr(data, '\n', len), *end = data + len;

    for (at = at ? at + 1 : end; at < end; i--) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        long size = strtol(at + 1, NULL, 10);

        if (*at != '$' || !line || size < 0)
            return NULL;
        if (i == 0) {
            *ret_len = (size_t)size;
            return line + 1;
        }
        at = line + 1 + size + 2;
    }
    return NULL;
}

bool frame_word_is(const char *data, size_t len, size_t i, const char *text)
{
    size_t size = 0;
    const char *word = frame_word(data, len, i, &size);

    return word && size == strlen(text) && strncasecmp(word, text, size) == 0;
}

size_t frame_words(const char *data)
{
    return data[0] == '*' ? (size_t)strtol(data + 1, NULL, 10) : 1;
}
