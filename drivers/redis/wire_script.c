/* wire_script.c - a script is called by its digest, or by its text.
 *
 * The server keeps scripts it has seen and knows each by the SHA-1 of its text;
 * EVALSHA sends 40 bytes instead of a page.  A server that has not seen it (it
 * was restarted, or somebody flushed) says NOSCRIPT and has done nothing; the
 * wire then sends the same call once more by its text, which teaches it.
 *
 * SHA-1 is a name here, not a protection, so forty lines of our own do: the
 * driver then needs no other library for a plain connection.  Pure. */
#include <string.h>

#include "wire.h"

static uint32_t turn(uint32_t x, unsigned by)
{
    return x << by | x >> (32 - by);
}

static void digest_block(uint32_t h[5], const uint8_t *block)
{
    uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];

    for (unsigned i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (unsigned i = 16; i < 80; i++)
        w[i] = turn(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (unsigned i = 0; i < 80; i++) {
        uint32_t f, next;

        if (i < 20)
            f = ((b & c) | (~b & d)) + 0x5a827999;
        else if (i < 40)
            f = (b ^ c ^ d) + 0x6ed9eba1;
        else if (i < 60)
            f = ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
        else
            f = (b ^ c ^ d) + 0xca62c1d6;
        next = turn(a, 5) + f + e + w[i];
        e = d;
        d = c;
        c = turn(b, 30);
        b = a;
        a = next;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
}

void redis_script_ready(redis_script *script)
{
    uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
                     0xc3d2e1f0};
    const uint8_t *text = (const uint8_t *)script->text;
    size_t len = strlen(script->text), at = 0, rest;
    uint8_t last[128] = {0};
    uint64_t bits = (uint64_t)len * 8;

    for (; len - at >= 64; at += 64)
        digest_block(h, text + at);
    /* The end: what is left, a one bit, zeros, the length in bits. */
    memcpy(last, text + at, len - at);
    last[len - at] = 0x80;
    rest = len - at < 56 ? 64 : 128;
    for (unsigned i = 0; i < 8; i++)
        last[rest - 1 - i] = (uint8_t)(bits >> (8 * i));
    for (at = 0; at < rest; at += 64)
        digest_block(h, last + at);
    for (unsigned i = 0; i < 40; i++)
        script->sha[i] =
            "0123456789abcdef"[h[i / 8] >> (28 - 4 * (i % 8)) & 15];
    script->sha[40] = '\0';
}

void resp_script(hf__buf *out, const redis_call *call,
                 const redis_script *script, unsigned keys, unsigned words)
{
    resp_command(out, words + 3);
    resp_text(out, call->by_text ? "EVAL" : "EVALSHA");
    resp_text(out, call->by_text ? script->text : script->sha);
    resp_number(out, keys);
}
