/* id.c - ids as hexadecimal digits, for all formats.
 *
 * A rid or sid is 16 bytes; in the store it is text, lower case, so that people
 * can read it there and Lua compares it as it is. */
#include "store.h"

char *redis_put_hex(char *at, const uint8_t *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < n; i++) {
        *at++ = digits[bytes[i] >> 4];
        *at++ = digits[bytes[i] & 15];
    }
    return at;
}

int redis_hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

void redis_id_text(char *ret, const hf_id *id)
{
    redis_put_hex(ret, id->bytes, sizeof id->bytes);
}

bool redis_id_from(hf_id *ret, const char *text, size_t len)
{
    if (len != REDIS_ID)
        return false;
    for (size_t i = 0; i < sizeof ret->bytes; i++) {
        int high = redis_hex_digit(text[2 * i]);
        int low = redis_hex_digit(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        ret->bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}
