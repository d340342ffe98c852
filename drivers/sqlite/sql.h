/* sql.h - every statement of the driver, in one list.
 *
 * X(name, text).  Statements are prepared when first used and kept.  hf_entry
 * has one row that is no entry: under the empty key, which no resource can
 * have, `token` is the counter of the whole file and `exp_ns` the number up to
 * which the counter is safe against a power cut.  It stands there and not in
 * hf_meta so that an uncontended join changes one page and not two. */
#ifndef HF_DRIVERS_SQLITE_SQL_H
#define HF_DRIVERS_SQLITE_SQL_H

/* The shape of a statement is SQL's. */
/* clang-format off */
#define SQ_SEAT_SELECT                                                         \
    "SELECT e.num, e.rid, e.sid, e.mode, e.places, e.run, e.wake, e.granted,"  \
    " e.closed, e.exp_ns, e.broken_until, s.exp_ns, s.ttl_ns, s.pid, s.pidns," \
    " s.start, s.slot, e.token"
#define SQ_SEAT_COLUMNS SQ_SEAT_SELECT " FROM hf_entry e "
#define SQ_WITH_SESSION "LEFT JOIN hf_session s ON s.sid = e.sid "

#define SQ_STATEMENTS(X)                                                       \
    X(BEGIN_WRITE, "BEGIN IMMEDIATE")                                          \
    X(BEGIN_READ, "BEGIN")                                                     \
    X(COMMIT, "COMMIT")                                                        \
    X(ROLLBACK, "ROLLBACK")                                                    \
    /* Numbers. */                                                             \
    X(COUNTER, "SELECT token, exp_ns FROM hf_entry WHERE key = x''"            \
               " AND num = 0")                                                 \
    X(COUNTED, "UPDATE hf_entry SET token = ?1 WHERE key = x'' AND num = 0")   \
    X(RESERVE, "UPDATE hf_entry SET exp_ns = ?1 WHERE key = x'' AND num = 0")  \
    /* Sessions. */                                                            \
    X(ATTACH, "INSERT INTO hf_session(sid, slot, pid, pidns, start, host,"     \
              " name, ttl_ns, exp_ns, news)"                                   \
              " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0)"                \
              " ON CONFLICT DO NOTHING")                                       \
    X(SESSION, "SELECT exp_ns, news FROM hf_session WHERE sid = ?1")           \
    X(SESSIONS, "SELECT sid, exp_ns, pid, pidns, start, slot FROM hf_session"  \
                " WHERE sid > ?1 ORDER BY sid LIMIT 1")                        \
    X(RENEW, "UPDATE hf_session SET exp_ns = ?2, ttl_ns = ?3 WHERE sid = ?1")  \
    X(SESSION_DROP, "DELETE FROM hf_session WHERE sid = ?1 RETURNING news")    \
    X(SESSION_ENTRIES,                                                         \
      "DELETE FROM hf_entry WHERE sid = ?1 AND (granted = 0 OR exp_ns <= ?2)"  \
      " RETURNING key, mode, granted")                                         \
    /* News and tombs. */                                                      \
    X(NEWS_PUT, "INSERT OR REPLACE INTO hf_news(sid, rid, reason, told)"       \
                " VALUES (?1, ?2, ?3, ?4)")                                    \
    X(NEWS_FLAG, "UPDATE hf_session SET news = news | ?2 WHERE sid = ?1")      \
    X(NEWS_GET, "SELECT reason FROM hf_news WHERE sid = ?1 AND rid = ?2")      \
    X(NEWS_ALL, "SELECT rid, reason FROM hf_news WHERE sid = ?1 AND told = 0") \
    X(NEWS_TOLD, "UPDATE hf_news SET told = 1 WHERE sid = ?1 AND rid = ?2")    \
    X(NEWS_READ, "UPDATE hf_session SET news = news & ~1 WHERE sid = ?1 AND"   \
                 " NOT EXISTS (SELECT 1 FROM hf_news WHERE sid = ?1"           \
                 " AND told = 0)")                                             \
    X(NEWS_DROP, "DELETE FROM hf_news WHERE sid = ?1")                         \
    /* A join. */                                                              \
    X(JOINER, "SELECT c.token, c.exp_ns, s.exp_ns, s.news FROM hf_entry c"     \
              " LEFT JOIN hf_session s ON s.sid = ?1"                          \
              " WHERE c.key = x'' AND c.num = 0")                              \
    X(LAST, "SELECT num, mode, places, granted FROM hf_entry WHERE key = ?1"   \
            " ORDER BY num DESC LIMIT 1")                                      \
    X(INSERT, "INSERT INTO hf_entry(key, num, rid, sid, mode, places, granted,"\
              " token, run, wake, exp_ns, born_ns, lease_ns, closed,"          \
              " broken_until, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8,"  \
              " ?9, ?10, ?11, ?12, ?13, 0, 0, ?14)")                           \
    /* My own entry. */                                                        \
    X(MINE, "SELECT e.mode, e.granted, e.token, e.run, e.places, e.exp_ns,"    \
            " e.broken_until, e.lease_ns, s.exp_ns, e.sid FROM hf_entry e "    \
            SQ_WITH_SESSION "WHERE e.key = ?1 AND e.num = ?2 AND e.rid = ?3"   \
            " AND e.closed = 0")                                               \
    X(FIND, "SELECT num FROM hf_entry WHERE key = ?1 AND rid = ?2")            \
    X(DELETE, "DELETE FROM hf_entry WHERE key = ?1 AND num = ?2")              \
    X(CONFIRM, "UPDATE hf_entry SET exp_ns = ?3, lease_ns = ?4"                \
               " WHERE key = ?1 AND num = ?2")                                 \
    X(KEEP, "UPDATE hf_entry SET sid = x'', closed = 1, exp_ns = ?3,"          \
            " lease_ns = ?4, broken_until = 0 WHERE key = ?1 AND num = ?2")    \
    X(PUBLISH, "UPDATE hf_entry SET value = ?3 WHERE key = ?1 AND num = ?2")   \
    X(BREAK, "UPDATE hf_entry SET broken_until = ?3"                           \
             " WHERE key = ?1 AND num = ?2")                                   \
    /* Queues. */                                                              \
    X(NEXT, SQ_SEAT_COLUMNS SQ_WITH_SESSION                                    \
      "WHERE e.key = ?1 AND e.num > ?2 ORDER BY e.num LIMIT 1")                \
    /* The same from the head, with the counter: for who may be granted. */    \
    X(HEAD, SQ_SEAT_SELECT ", c.token, c.exp_ns FROM hf_entry c, hf_entry e "  \
      SQ_WITH_SESSION "WHERE c.key = x'' AND c.num = 0 AND e.key = ?1"         \
      " AND e.num > ?2 ORDER BY e.num LIMIT 1")                                \
    X(BEFORE, SQ_SEAT_COLUMNS SQ_WITH_SESSION                                  \
      "WHERE e.key = ?1 AND e.num < ?2 ORDER BY e.num DESC LIMIT 1")           \
    X(FIRST_WAITS, SQ_SEAT_COLUMNS SQ_WITH_SESSION                             \
      "WHERE e.key = ?1 AND e.num > ?2 AND e.granted = 0"                      \
      " ORDER BY e.num LIMIT 1")                                               \
    X(GRANT, "UPDATE hf_entry SET granted = 1, token = ?3"                     \
             " WHERE key = ?1 AND num = ?2")                                   \
    X(PERMITS, "SELECT used, upto FROM hf_permit WHERE key = ?1")              \
    X(PERMITS_ADD, "INSERT INTO hf_permit(key, used, upto)"                    \
                   " VALUES (?1, ?2, ?3) ON CONFLICT(key) DO UPDATE"           \
                   " SET used = used + ?2, upto = max(upto, ?3)")              \
    X(PERMITS_NONE, "DELETE FROM hf_permit WHERE key = ?1 AND used <= 0")      \
    /* Looking. */                                                             \
    X(LIST, "SELECT e.key, e.num, e.rid, e.sid, e.mode, e.places, e.granted,"  \
            " e.token, e.exp_ns, e.born_ns, e.closed, e.broken_until, e.value,"\
            " s.exp_ns, s.pid, s.host, s.name FROM hf_entry e "                \
            SQ_WITH_SESSION "WHERE (e.key, e.num) > (?1, ?2) AND e.key >= ?3"  \
            " AND (?4 IS NULL OR e.key < ?4) AND (?5 IS NULL OR e.sid = ?5)"   \
            " ORDER BY e.key, e.num LIMIT ?6")

/* clang-format on */

enum sq_sql {
#define SQ_ENUM(name, text) SQL_##name,
    SQ_STATEMENTS(SQ_ENUM) SQL_COUNT
#undef SQ_ENUM
};

#endif
