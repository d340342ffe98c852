/* cluster_move_test.c - scripts that meet half of their keys.
 *
 * A lock is held, another session waits for it, and the slot is being moved.
 * For every way in which its keys can be spread over the two nodes, every
 * script is sent to both, as a client might that was told ASK, and as no client
 * should.  None may write anything, anywhere: both nodes are compared before
 * and after.  Only the renewal for slots that move is served, by the node that
 * has the sessions and by no other.
 *
 * Then the same without the question in front of the scripts: the server lets
 * one of them grant the lock a second time.  If it did not, this test could not
 * fail, and moving.lua would be for nothing. */
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cluster_fault_test.h"

enum { SPREAD_MOST = 10 };
#define P "hf:{t}:"

/* ---- One command to one node ---- */

typedef struct talk {
    int fd;
    char said[4096];
} talk;

static void talk_begin(talk *t, const server *s)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    t->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(t->fd >= 0 && strlen(s->socket) < sizeof address.sun_path);
    memcpy(address.sun_path, s->socket, strlen(s->socket));
    EXPECT(connect(t->fd, (struct sockaddr *)&address, sizeof address) == 0);
}

/* The reply's bytes, NUL-terminated; it must fit. */
static const char *hear(talk *t)
{
    size_t len = 0;

    while (len == 0 || resp_size(t->said, len) == 0) {
        ssize_t n = recv(t->fd, t->said + len, sizeof t->said - 1 - len, 0);

        EXPECT(n > 0);
        len += (size_t)n;
    }
    EXPECT(resp_size(t->said, len) == (long)len);
    t->said[len] = '\0';
    return t->said;
}

static const char *say(talk *t, hf__buf *out)
{
    EXPECT(!out->failed);
    EXPECT(send(t->fd, out->data + out->start, hf__buf_len(out),
                MSG_NOSIGNAL) == (ssize_t)hf__buf_len(out));
    hf__buf_done(out);
    return hear(t);
}

static const char *say_words(talk *t, const char *const *words, unsigned count)
{
    hf__buf out = {0};

    resp_command(&out, count);
    for (unsigned i = 0; i < count; i++)
        resp_text(&out, words[i]);
    return say(t, &out);
}

/* ---- The scripts ---- */

typedef struct act {
    const redis_script *script;
    const char *keys[4], *words[8];
} act;

static const char *run_act(talk *t, const act *a, bool asking)
{
    unsigned keys = 0, words = 0;
    hf__buf out = {0};

    while (keys < 4 && a->keys[keys])
        keys++;
    while (words < 8 && a->words[words])
        words++;
    if (asking)
        EXPECT_STR(say_words(t, (const char *const[]){"ASKING"}, 1), "+OK\r\n");
    resp_command(&out, 3 + keys + words);
    resp_text(&out, "EVAL");
    resp_text(&out, a->script->text);
    resp_number(&out, keys);
    for (unsigned i = 0; i < keys; i++)
        resp_text(&out, a->keys[i]);
    for (unsigned i = 0; i < words; i++)
        resp_text(&out, a->words[i]);
    return say(t, &out);
}

enum { ACTS_MOST = 16 };
typedef struct act_list {
    act acts[ACTS_MOST];
    unsigned count;
} act_list;

/* The holder is a, b waits; both were made by hand, so nobody else is there
 * who acts. */
#define A "0000000000000000000000000000000a"
#define B "0000000000000000000000000000000b"
#define RA "000000000000000000000000000000aa"
#define RB "000000000000000000000000000000bb"
#define THIRD "00000000000000000000000000000003"
#define HOUR "3600000000"
#define RECORD " 0 0 1 0 5 0 5 5 a 0 "

static void add_act(act_list *list, act a)
{
    EXPECT(list->count < ACTS_MOST);
    list->acts[list->count++] = a;
}

static act attach(int kind, const char *e, const char *sid)
{
    return (act){
        &redis_attach[kind], {P "n", e}, {sid, HOUR, "1", "here", "me", ""}};
}

/* Every script, as its session would send it; kind 0: without the question. */
static void make_acts(int kind, act_list *ret)
{
    static const char record[] = B RECORD;

    memset(ret, 0, sizeof *ret);
    add_act(ret, (act){&redis_join[kind],
                       {P "l:" B, P "e:" B, P "g:k", P "c"},
                       {THIRD, "5", "5", record}});
    add_act(ret, (act){&redis_join[kind],
                       {P "l:" B, P "e:" B, P "g:free", P "c"},
                       {THIRD, "5", "5", record, "t"}});
    add_act(ret, (act){&redis_leave[kind], {P "e:" A, P "g:k"}, {RA, "5"}});
    add_act(ret, (act){&redis_leave[kind],
                       {P "e:" B, P "g:k"},
                       {RB, "5", "", "0", "1"}});
    add_act(ret, (act){&redis_recheck[kind], {P "n"}, {B, "", RB, "k"}});
    add_act(ret, attach(kind, P "e:" THIRD, THIRD));
    add_act(ret, (act){&redis_renew[kind], {P "n", P "e:" A}, {A, HOUR, ""}});
    add_act(ret, (act){&redis_detach[kind], {P "n"}, {A, ""}});
    add_act(
        ret,
        (act){&redis_confirm[kind], {P "n", P "g:k"}, {A, RA, "k", "1000000"}});
    add_act(
        ret,
        (act){&redis_publish[kind], {P "n", P "g:k"}, {A, RA, "k", "value"}});
    add_act(ret, (act){&redis_evict[kind],
                       {P "n", P "g:k"},
                       {"k", "0", "1", "1000000", ""}});
    add_act(ret, (act){&redis_rows[kind], {P "n"}, {A, "0", ""}});
    add_act(ret, (act){&redis_sessions[kind], {P "n"}, {NULL}});
}

/* ---- The stage ---- */

typedef struct stage {
    cluster_world w;
    talk from, to; /* the node that gives the slot away, and who takes it */
    key_list keys;
    unsigned moved; /* a bit for each key */
} stage;

static void stage_begin(stage *st)
{
    const act steps[] = {attach(1, P "e:" A, A),
                         attach(1, P "e:" B, B),
                         {&redis_join[1],
                          {P "l:" A, P "e:" A, P "g:k", P "c"},
                          {RA, "5", "5", A RECORD}},
                         {&redis_join[1],
                          {P "l:" B, P "e:" B, P "g:k", P "c"},
                          {RB, "5", "5", B RECORD}}};

    memset(st, 0, sizeof *st);
    redis_scripts_ready();
    cluster_begin(&st->w, 2, 0, "&strict=no");
    talk_begin(&st->from, st->w.node[st->w.owner]);
    talk_begin(&st->to, st->w.node[st->w.other]);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        EXPECT(run_act(&st->from, &steps[i], false)[0] != '-');
    list_keys(&st->w, st->w.owner, &st->keys);
    fprintf(stderr, "%d keys\n", st->keys.count);
    EXPECT(st->keys.count >= 8 && st->keys.count <= SPREAD_MOST);
    move_open(&st->w, st->w.owner, st->w.other);
}

static void stage_end(stage *st)
{
    close(st->from.fd);
    close(st->to.fd);
    cluster_end(&st->w);
}

/* One key over, or back; for that the slot is at rest for a moment. */
static void flip(stage *st, int i)
{
    cluster_world *w = &st->w;

    if (st->moved >> i & 1) {
        set_slot(w, w->owner, "STABLE", "");
        move_key(w, w->other, w->owner, st->keys.name[i]);
        set_slot(w, w->owner, "MIGRATING", w->id[w->other]);
    } else {
        move_key(w, w->owner, w->other, st->keys.name[i]);
    }
    st->moved ^= 1U << i;
}

static bool is_moved(const stage *st, const char *key)
{
    for (int i = 0; i < st->keys.count; i++) {
        if (strcmp(st->keys.name[i], key) == 0)
            return st->moved >> i & 1;
    }
    FAIL_TEST("no key %s", key);
}

static bool is_refusal(const char *said)
{
    return strncmp(said, "-TRYAGAIN ", 10) == 0 ||
           strncmp(said, "-ASK ", 5) == 0;
}

static void digest(stage *st, char ret[2][64])
{
    static const char *const words[] = {"DEBUG", "DIGEST"};

    snprintf(ret[0], 64, "%.60s", say_words(&st->from, words, 2));
    snprintf(ret[1], 64, "%.60s", say_words(&st->to, words, 2));
}

static void expect_stillness(stage *st, const act_list *list)
{
    char before[2][64], after[2][64];

    digest(st, before);
    for (unsigned i = 0; i < list->count; i++) {
        const act *a = &list->acts[i];

        for (int there = 0; there < 2; there++) {
            const char *said = run_act(there ? &st->to : &st->from, a, there);

            if (!is_refusal(said))
                FAIL_TEST("%s, %s, moved %x: %s", a->script->name,
                          there ? "there" : "here", st->moved, said);
        }
    }
    digest(st, after);
    EXPECT_STR(before[0], after[0]);
    EXPECT_STR(before[1], after[1]);
}

/* Who has the sessions extends one; the other sends us away, or knows
 * nothing. */
static void expect_kept(stage *st)
{
    act keep = {&redis_keep, {P "s"}, {A, HOUR}};
    bool there = is_moved(st, P "s");
    const char *said = run_act(&st->from, &keep, false);

    EXPECT(there ? is_refusal(said) : strncmp(said, "*3\r\n:1\r\n", 8) == 0);
    said = run_act(&st->to, &keep, true);
    EXPECT(strncmp(said, there ? "*3\r\n:1\r\n" : "*1\r\n:2\r\n", 8) == 0);
}

/* All keys go over, and the slot with them: the lock is what it was, and is
 * handed over to who waited. */
static void expect_arrival(stage *st, const act_list *list)
{
    for (int i = 0; i < st->keys.count; i++) {
        if (!(st->moved >> i & 1))
            move_key(&st->w, st->w.owner, st->w.other, st->keys.name[i]);
    }
    move_close(&st->w, st->w.owner, st->w.other);
    EXPECT_HAS(run_act(&st->from, &list->acts[4], false), "-MOVED ");
    EXPECT_HAS(run_act(&st->to, &list->acts[4], false), "*6\r\n:2\r\n");
    EXPECT_STR(run_act(&st->to, &list->acts[2], false), ":1\r\n");
    EXPECT_HAS(run_act(&st->to, &list->acts[4], false), "*6\r\n:1\r\n");
}

/* In the order of Gray's code: each time one key goes over, or back. */
static void every_half(void)
{
    stage st;
    act_list list;

    stage_begin(&st);
    make_acts(1, &list);
    for (unsigned i = 0; i < 1U << st.keys.count; i++) {
        if (i > 0)
            flip(&st, __builtin_ctz(i));
        expect_stillness(&st, &list);
        expect_kept(&st);
    }
    fprintf(stderr, "%u ways, %u scripts\n", 1U << st.keys.count, list.count);
    expect_arrival(&st, &list);
    stage_end(&st);
}

/* What moving.lua is for: the waiter's look, at the node that takes the slot,
 * does not see the holder, and grants. */
static void without_the_question(void)
{
    stage st;
    act_list list;
    const char *said;

    stage_begin(&st);
    make_acts(0, &list);
    for (int i = 0; i < st.keys.count; i++) {
        if (strcmp(st.keys.name[i], P "g:k") != 0)
            flip(&st, i);
    }
    EXPECT(list.acts[4].script == &redis_recheck[0]);
    said = run_act(&st.to, &list.acts[4], true);
    EXPECT_HAS(said, "*6\r\n:1\r\n"); /* granted, and so is a */
    EXPECT_STR(
        say_words(&st.from, (const char *const[]){"HEXISTS", P "g:k", RA}, 3),
        ":1\r\n");
    stage_end(&st);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {TEST(every_half),
                                      TEST(without_the_question)};

    return run_tests(argc, argv, "cluster_move", cases,
                     sizeof cases / sizeof *cases);
}
