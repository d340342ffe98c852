/* record_text.h - records written byte by byte, for the tests of the codec.
 * They include the harness's expect.h before it. */
#ifndef HF_DRIVERS_ZOOKEEPER_RECORD_TEXT_H
#define HF_DRIVERS_ZOOKEEPER_RECORD_TEXT_H

#include "record.h"

typedef struct record {
    unsigned char bytes[2048];
    size_t len;
} record;

static inline void put(record *t, uint64_t number, unsigned size)
{
    while (size-- > 0)
        t->bytes[t->len++] = (unsigned char)(number >> (8 * size));
}

static inline void put_text(record *t, const char *what)
{
    put(t, strlen(what), 4);
    memcpy(t->bytes + t->len, what, strlen(what));
    t->len += strlen(what);
}

static inline void put_header(record *t, int32_t xid, int64_t zxid,
                              int32_t error)
{
    put(t, (uint32_t)xid, 4);
    put(t, (uint64_t)zxid, 8);
    put(t, (uint32_t)error, 4);
}

static inline void put_stat(record *t)
{
    for (unsigned i = 1; i <= 4; i++)
        put(t, 0x100000000ull + i, 8);
    for (unsigned i = 5; i <= 7; i++)
        put(t, i, 4);
    put(t, 0xfedcba9876543210ull, 8);
    put(t, 9, 4);
    put(t, 10, 4);
    put(t, 11, 8);
}

static inline void expect_stat(const zk_stat *stat)
{
    EXPECT_EQ(stat->czxid, 0x100000001ll);
    EXPECT_EQ(stat->mzxid, 0x100000002ll);
    EXPECT_EQ(stat->ctime, 0x100000003ll);
    EXPECT_EQ(stat->mtime, 0x100000004ll);
    EXPECT_EQ(stat->version, 5);
    EXPECT_EQ(stat->cversion, 6);
    EXPECT_EQ(stat->aversion, 7);
    EXPECT_EQ(stat->ephemeral_owner, (int64_t)0xfedcba9876543210ull);
    EXPECT_EQ(stat->data_length, 9);
    EXPECT_EQ(stat->children, 10);
    EXPECT_EQ(stat->pzxid, 11);
}

#endif
