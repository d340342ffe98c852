/* strings.c - what a URL says, kept for the life of a port.
 *
 * A port needs the words of its URL (passwords among them) whenever it opens a
 * connection, and the URL itself lives only while it is opened.  One piece of
 * memory has them all, so that one call frees them. */
#include <string.h>

#include "port.h"

const char *sql_strings_put(sql_strings *strings, const char *text)
{
    size_t len = text ? strlen(text) + 1 : 0;
    char *at = strings->to ? strings->to + strings->len : NULL;

    if (len == 0)
        return NULL;
    if (at)
        memcpy(at, text, len);
    strings->len += len;
    return at;
}
