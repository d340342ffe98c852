/* statements.h - every statement of the queue, in one list.
 *
 * X(name, writes, template); the template's words are in dialect.h.  A
 * statement that writes changes one row of one table, found by its primary key
 * and judged by its own columns (a join also looks at its session): no two can
 * wait for each other in a circle, and none decides on a row that it has not
 * locked. */
#ifndef HF_DRIVERS_SQL_STATEMENTS_H
#define HF_DRIVERS_SQL_STATEMENTS_H

/* The shape of a statement is SQL's. */
/* clang-format off */

/* What a changed queue answers: counter, the head of its body, its length. */
#define SQL_QUEUE_ANSWER "counter, @head(body), @len(body)"

/* 1 key, 2 run, 3 kind, 4 before, 5 behind, 6 rid, 7 sid. */
#define SQL_JOIN_SET                                                           \
    "UPDATE @queue SET body = @cat(body, ?4, @text(@from(counter) + 1), ?5),"  \
    " counter = @from(counter) + @int(?2), kind = ?3, used_us = @now"          \
    " WHERE k = @key(?1) AND (body = '' OR kind = ?3)"                         \
    " AND @pos(?6, body) = 0 AND @pos(?6, tombs) = 0"                          \
    " AND EXISTS (SELECT 1 FROM @session WHERE sid = ?7 AND exp_us > @now)"

#define SQL_CUT_SET                                                            \
    "UPDATE @queue SET body = replace(body, ?2, ''), used_us = @now"           \
    " WHERE k = @key(?1) AND @pos(?2, body) > 0"

#define SQL_SESSION_ANSWER "exp_us - @now, @now, news, renewals"

#define SQL_STATEMENTS(X)                                                      \
    /* Joining.  No row: look why (LOOK). */                                   \
    X(JOIN, true, SQL_JOIN_SET " RETURNING " SQL_QUEUE_ANSWER)                 \
    X(TRY_X, true, SQL_JOIN_SET " AND body = ''"                               \
      " RETURNING " SQL_QUEUE_ANSWER)                                          \
    X(TRY_S, true, SQL_JOIN_SET " AND @pos('|X', body) = 0"                    \
      " RETURNING " SQL_QUEUE_ANSWER)                                          \
    X(TRY_P, true, SQL_JOIN_SET                                                \
      " AND @len(body) - @len(replace(body, '|P', '')) < 2 * @int(?8)"         \
      " RETURNING " SQL_QUEUE_ANSWER)                                          \
    /* The first ever, or since a purge: behind the floor.  FIRST brings the   \
     * entry along (parameters of JOIN), CREATE makes the row alone.  A clash: \
     * another was faster. */                                                  \
    X(FIRST, true,                                                             \
      "INSERT INTO @queue(k, counter, kind, body, tombs, used_us)"             \
      " SELECT @key(?1), @from(floor) + @int(?2), ?3,"                         \
      " @cat(?4, @text(@from(floor) + 1), ?5), '', @now FROM @meta"            \
      " WHERE one = 1"                                                         \
      " AND EXISTS (SELECT 1 FROM @session WHERE sid = ?7 AND exp_us > @now)"  \
      " @share RETURNING " SQL_QUEUE_ANSWER)                                   \
    X(CREATE, true,                                                            \
      "INSERT INTO @queue(k, counter, kind, body, tombs, used_us)"             \
      " SELECT @key(?1), floor, '', '', '', @now FROM @meta WHERE one = 1"     \
      " @share")                                                               \
    /* A queue that is empty: the whole entry, with a number that the client   \
     * has drawn.  1 key, 2 last of its run, 3 kind, 4 entry, 5 its number,    \
     * 6 rid, 7 sid. */                                                        \
    X(TAKE, true, "UPDATE @queue SET body = ?4, counter = @int(?2),"           \
      " kind = ?3, used_us = @now WHERE k = @key(?1) AND body = ''"            \
      " AND @pos(?6, tombs) = 0 AND @from(counter) < @int(?5)"                 \
      " AND EXISTS (SELECT 1 FROM @session WHERE sid = ?7 AND exp_us > @now)") \
    /* And one that is nothing but this entry.  1 key, 2 entry, 3 sid. */      \
    X(LEAVE_ALONE, true, "UPDATE @queue SET body = '', used_us = @now"         \
      " WHERE k = @key(?1) AND body = ?2"                                      \
      " AND EXISTS (SELECT 1 FROM @session WHERE sid = ?3 AND exp_us > @now)") \
    /* Leaving: cut my text out, while my session lives.  1 key, 2 text,       \
     * 3 'y': the statement may tell the next itself (a fourth column that is  \
     * not NULL says that it did), 4 sid. */                                   \
    X(LEAVE, true, SQL_CUT_SET                                                 \
      " AND EXISTS (SELECT 1 FROM @session WHERE sid = ?4 AND exp_us > @now)"  \
      " RETURNING " SQL_QUEUE_ANSWER)                                          \
    /* Cut a text out: of the dead, the broken, and of what LEAVE did not      \
     * find.  1 key, 2 text: one entry or several that stand together. */      \
    X(CUT, true, SQL_CUT_SET " RETURNING " SQL_QUEUE_ANSWER)                   \
    X(TOMB, true, "UPDATE @queue SET tombs = @cat(tombs, ?2)"                  \
      " WHERE k = @key(?1) AND @pos(?2, tombs) = 0")                           \
    X(UNTOMB, true, "UPDATE @queue SET tombs = replace(tombs, ?2, '')"         \
      " WHERE k = @key(?1) AND @pos(?2, tombs) > 0")                           \
    /* Changing my text: 1 key, 2 old, 3 new before, 4 microseconds from now,  \
     * 5 new behind. */                                                        \
    X(CHANGE, true, "UPDATE @queue SET body = replace(body, ?2,"               \
      " @cat(?3, @text(@now + @int(?4)), ?5)), used_us = @now"                 \
      " WHERE k = @key(?1) AND @pos(?2, body) > 0"                             \
      " RETURNING " SQL_QUEUE_ANSWER)                                          \
    /* Looking. */                                                             \
    X(LOOK, false, "SELECT counter, body, @len(body), kind, tombs, @now"       \
      " FROM @queue WHERE k = @key(?1)")                                       \
    X(LOOK_HEAD, false, "SELECT " SQL_QUEUE_ANSWER                             \
      " FROM @queue WHERE k = @key(?1)")                                       \
    X(LOOK_MANY, false, "SELECT @hex(k), @head(body), @len(body), @now"        \
      " FROM @queue WHERE k IN (@keys(?1))")                                   \
    X(LIST, false, "SELECT @hex(k), body, @now FROM @queue"                    \
      " WHERE k > @key(?1) AND k >= @key(?2) AND body <> ''"                   \
      " ORDER BY k @few")                                                      \
    X(MINE, false, "SELECT @hex(k), body, tombs FROM @queue"                   \
      " WHERE @pos(?1, body) > 0 OR @pos(?1, tombs) > 0 ORDER BY k")           \
    /* Sessions.  The row is the lease: none without it, and nothing but       \
     * ATTACH makes one. */                                                    \
    X(ATTACH, true, "INSERT INTO @session(sid, ttl_us, exp_us, renewals, pid," \
      " host, name, bell, news) VALUES (?1, @int(?2), @now + @int(?2), 0,"     \
      " @int(?3), ?4, ?5, ?6, '') RETURNING " SQL_SESSION_ANSWER)              \
    X(RENEW, true, "UPDATE @session SET exp_us = @now + @int(?2),"             \
      " ttl_us = @int(?2), renewals = renewals + 1"                            \
      " WHERE sid = ?1 AND exp_us > @now RETURNING " SQL_SESSION_ANSWER)       \
    X(BELL, true, "UPDATE @session SET bell = ?2 WHERE sid = ?1")              \
    X(SESSION, false, "SELECT " SQL_SESSION_ANSWER                             \
      " FROM @session WHERE sid = ?1")                                         \
    X(SESSIONS, false, "SELECT sid, exp_us - @now, renewals, ttl_us, pid,"     \
      " host, name, bell FROM @session WHERE sid IN (@ids(?1))")               \
    X(STALE, false, "SELECT sid FROM @session WHERE exp_us < @now - @int(?1)"  \
      " ORDER BY exp_us @few")                                                 \
    X(OVER, false, "SELECT sid, renewals, ttl_us FROM @session"                \
      " WHERE sid > ?1 ORDER BY sid @few")                                     \
    X(DETACH, true, "DELETE FROM @session WHERE sid = ?1")                     \
    /* Only if it is over now, whatever was read before. */                    \
    X(EVICT, true, "DELETE FROM @session WHERE sid = ?1 AND exp_us <= @now")   \
    X(EVICT_SEEN, true, "DELETE FROM @session WHERE sid = ?1"                  \
      " AND renewals = @int(?2)")                                              \
    X(NEWS, true, "UPDATE @session SET news = @cat(news, ?2) WHERE sid = ?1")  \
    X(NEWS_DROP, true, "UPDATE @session SET news = replace(news, ?2, '')"      \
      " WHERE sid = ?1")                                                       \
    /* Values. */                                                              \
    X(VALUE_NEW, true, "INSERT INTO @value(rid, v, used_us)"                   \
      " VALUES (?1, ?2, @now)")                                                \
    X(VALUE_SET, true, "UPDATE @value SET v = ?2, used_us = @now"              \
      " WHERE rid = ?1")                                                       \
    X(VALUE_DROP, true, "DELETE FROM @value WHERE rid = ?1")                   \
    X(VALUES_DROP, true, "DELETE FROM @value WHERE rid IN (@ids(?1))")         \
    /* 1: set so many microseconds ago, 2: behind this one. */                 \
    X(VALUES_OLD, false, "SELECT rid FROM @value"                              \
      " WHERE used_us < @now - @int(?1) AND rid > ?2 ORDER BY rid @few")       \
    X(VALUES_OF, false, "SELECT rid, v FROM @value WHERE rid IN (@ids(?1))")   \
    /* The store itself. */                                                    \
    X(META, false, "SELECT format, floor, strict, epoch, quarantine_us - @now,"\
      " max_lease_us, clock, @now FROM @meta WHERE one = 1")                   \
    X(STRICT, true, "UPDATE @meta SET strict = 1, max_lease_us = @int(?1)"     \
      " WHERE one = 1 AND strict = 0")                                         \
    X(EPOCH, true, "UPDATE @meta SET epoch = ?1, quarantine_us = @now +"       \
      " max_lease_us WHERE one = 1 AND epoch <> ?1")                           \
    X(NOW_EPOCH, false, "SELECT @epoch, epoch, quarantine_us - @now"           \
      " FROM @meta WHERE one = 1")                                             \
    X(CLOCK, true, "UPDATE @meta SET clock = ?1 WHERE one = 1 AND clock = ''") \
    /* Tidying: queues that are idle for ?1 microseconds.  Those that are      \
     * empty, oldest first, since they go; and those that are not, behind the  \
     * key ?2, since most of them stay. */                                     \
    X(IDLE, false, "SELECT @hex(k), counter FROM @queue"                       \
      " WHERE used_us < @now - @int(?1) AND body = '' AND tombs = ''"          \
      " ORDER BY used_us @few")                                                \
    X(IN_USE, false, "SELECT @hex(k), tombs FROM @queue"                       \
      " WHERE used_us < @now - @int(?1) AND k > @key(?2)"                      \
      " AND (body <> '' OR tombs <> '') ORDER BY k @few")                      \
    X(FLOOR, true, "UPDATE @meta SET floor = @int(?1)"                         \
      " WHERE one = 1 AND floor < @int(?1)")                                   \
    /* Keys (the same again where there are fewer), 33 the floor that stands,  \
     * 34 idle for so many microseconds. */                                    \
    X(PURGE, true, "DELETE FROM @queue WHERE k IN (@keys(?1)) AND body = ''"   \
      " AND tombs = '' AND counter <= @int(?33)"                               \
      " AND used_us < @now - @int(?34)")

/* clang-format on */
#endif
