/* body.h - a queue as it is written in its row.
 *
 *     |X17.RID.SID.RUN.PLACES.LEASE.EXP.BRK.BORN|S18....
 *
 * In order of num, one entry behind the other.  The letter is the mode (X, S,
 * P); RID and SID are 22 letters of base64url ('-' alone as SID: closed, it
 * stays until EXP); RUN numbers belong to it from NUM on; LEASE is a fixed
 * lease in ms (0: none) and EXP its end (0: does not run); BRK: broken, goes
 * then; BORN: when it joined, for eyes only.  Instants are microseconds of the
 * server's clock.
 *
 * Nobody marks who holds: the rule of driver.h over this order does, and the
 * order never changes but by leaving.  So to be granted is to stand where one
 * stands: stable until one leaves, and anybody can see it.  A join appends, a
 * leave cuts its own text out (REPLACE): both are one statement on one row that
 * reads nothing before.  num is the token. */
#ifndef HF_DRIVERS_SQL_BODY_H
#define HF_DRIVERS_SQL_BODY_H

#include <sys/types.h>

#include <holdfast/driver.h>

enum {
    SQL_ID_LEN = 22,
    SQL_ENTRY_MAX = 200 /* characters of one entry */
};

void sql_id_text(const hf_id *id, char ret[SQL_ID_LEN + 1]);
bool sql_id_from(const char *text, size_t len, hf_id *ret);

typedef struct sql_entry {
    const char *text; /* in the body */
    size_t len;
    uint64_t num;
    hf_id rid, sid;
    hf_mode mode;
    bool closed;
    uint32_t run, places;
    int64_t lease_ms, exp_us, brk_us, born_us;
} sql_entry;

/* Text of an entry: before the number and behind it, as a join sends them. */
void sql_entry_before(const sql_entry *entry, char ret[SQL_ENTRY_MAX]);
void sql_entry_behind(const sql_entry *entry, char ret[SQL_ENTRY_MAX]);
void sql_entry_text(const sql_entry *entry, char ret[SQL_ENTRY_MAX]);
/* The same around an instant that the server is to fill in (CHANGE). */
typedef enum sql_field { SQL_EXP, SQL_BRK } sql_field;
void sql_entry_around(const sql_entry *entry, sql_field field,
                      char ret_before[SQL_ENTRY_MAX],
                      char ret_behind[SQL_ENTRY_MAX]);

/* Walks a body: the next entry at *io, and moves on.  false: the end, or (then
 * *io is not at the NUL) a text that no holdfast has written. */
bool sql_body_next(const char **io, sql_entry *ret);
/* All of them; hfd_alloc'ed.  -1: not ours; -2: no memory.  A body that was cut
 * at its end (whole false) answers the entries that are whole. */
ssize_t sql_body_read(const char *body, bool whole, sql_entry **ret);

#endif
