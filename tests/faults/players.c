/* players.c - processes that hold and wait, and the wires that they hang on.
 *
 * See players.h.  A player believes nothing but its own calls: it looks at its
 * hold every few milliseconds and writes down what it was told.  Its deadline
 * is read in the order clock, rest: the sum is never later than the truth, so
 * that "nobody was granted before it" is a fair question to ask of any store,
 * however late a busy machine lets anybody run.
 *
 * Whoever is to be cut off has a link of its own to each server (links.h).  A
 * store may name servers that are not in its URL (a sentinel does, a cluster
 * does), so the way to the link is not the URL: this program's own connect(),
 * which all modules in the process call, leads a player through its links,
 * wherever it has the address from. */
#include "players.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/links.h"
#include "harness/server.h"

enum { PLAYERS_MAX = 4, ROUND_MS = 5, LONGEST_MS = 150000 };

static player *players;
static int count;
static links *wires;
static const player *self; /* in a player: itself */

/* ---- The way out ------------------------------------------------------- */

/* The C library's own declaration cannot be repeated in plain C. */
__attribute__((visibility("default"))) int
connect_by_link(int fd, const struct sockaddr *to,
                socklen_t len) __asm__("connect");

int connect_by_link(int fd, const struct sockaddr *to, socklen_t len)
{
    struct sockaddr_in at;

    if (self && to->sa_family == AF_INET && len == sizeof at) {
        memcpy(&at, to, sizeof at);
        for (int i = 0; i < self->links; i++) {
            if (ntohs(at.sin_port) == self->ports[i])
                at.sin_port = htons((uint16_t)self->detours[i]);
        }
        to = (const struct sockaddr *)&at;
    }
    return (int)syscall(SYS_connect, fd, to, len);
}

/* ---- The player's own side --------------------------------------------- */

static void watch_state(player *p, hf_hold *hold)
{
    int64_t now = now_ms();
    hf_state state = hf_hold_state(hold);

    if (state == HF_LOST) {
        if (atomic_load(&p->lost_ms) == 0)
            atomic_store(&p->lost_ms, now);
        return;
    }
    if (state == HF_DOUBTFUL && atomic_load(&p->doubt_ms) == 0)
        atomic_store(&p->doubt_ms, now);
    if (state == HF_HELD && atomic_load(&p->doubt_ms) != 0 &&
        atomic_load(&p->relief_ms) == 0)
        atomic_store(&p->relief_ms, now);
    int64_t deadline = now + hf_hold_remaining_ms(hold);
    if (deadline > atomic_load(&p->deadline_ms))
        atomic_store(&p->deadline_ms, deadline);
}

static void look_once(player *p, hf_hold *hold)
{
    /* Asked first: who is granted after the question proves nothing. */
    bool taken = p->rival && atomic_load(&p->rival->step) >= GRANTED;

    if (hf_hold_check(hold, NULL) == 0 && taken)
        atomic_fetch_add(&p->wrong_checks, 1);
    watch_state(p, hold);
    if (atomic_load(&p->asks) && hf_renew(hold, NULL) == 0)
        atomic_fetch_add(&p->asked_well, 1);
    atomic_fetch_add(&p->rounds, 1);
}

static void await_cue(player *p, enum player_cue cue)
{
    int64_t until = now_ms() + LONGEST_MS;

    while (atomic_load(&p->cue) < (int)cue) {
        EXPECT(now_ms() < until);
        sleep_ms(1);
    }
}

static hf_hold *get_hold(player *p, hf_session *s)
{
    hf_lock_options opt = {HF_LOCK_OPTIONS, .wait_ms = LONGEST_MS};
    hf_hold *hold = NULL;
    hf_error err = {0};
    int code = HF_EBUSY;

    if (p->tries) {
        code = hf_try_lock(s, "k", NULL, &hold, NULL);
        p->tried_ms = now_ms();
        p->try_code = code;
    }
    if (code == 0)
        return hold;
    /* Away for a lease, a wait ends with "cannot be reached"; a program that
     * wants the lock asks again, at the end of the queue (G4). */
    int64_t until = now_ms() + LONGEST_MS;
    do
        code = hf_lock(s, "k", &opt, &hold, &err);
    while (code != 0 && hf_error_class(code) == HF_CLASS_RETRY &&
           now_ms() < until);
    EXPECT_OK(code, err);
    return hold;
}

static int play(player *p)
{
    hf_session *s;
    hf_hold *hold;
    hf_error err;

    await_cue(p, GO);
    self = p;
    EXPECT_OK(
        hf_open(&s, store_url(),
                &(hf_open_options){HF_OPEN_OPTIONS, .lease_ms = p->lease_ms,
                                   .name = p->name},
                &err),
        err);
    atomic_store(&p->step, OPEN);
    hold = get_hold(p, s);
    p->granted_ms = now_ms();
    p->token = hf_hold_token(hold);
    watch_state(p, hold);
    atomic_store(&p->step, GRANTED);

    int64_t until = now_ms() + LONGEST_MS;
    while (atomic_load(&p->cue) < RELEASE) {
        EXPECT(now_ms() < until);
        look_once(p, hold);
        sleep_ms(ROUND_MS);
    }
    p->release_code = hf_release(hold, NULL);
    p->released_ms = now_ms();
    atomic_store(&p->step, RELEASED);
    await_cue(p, END);
    hf_close(s);
    return 0;
}

/* ---- The test's side --------------------------------------------------- */

bool store_has_wires(void)
{
    return store_is_remote() && strcmp(test_target(), "odbc-sqlite") != 0;
}

player *player_cast(const char *name)
{
    if (!players)
        players = shared_memory(PLAYERS_MAX * sizeof *players);
    EXPECT(count < PLAYERS_MAX);
    player *p = &players[count++];
    p->name = name;
    fflush(NULL);
    pid_t pid = fork(); /* which shared memory could not hold twice */
    EXPECT(pid >= 0);
    if (pid == 0) {
        int code = play(p);
        fflush(NULL);
        _exit(code);
    }
    p->pid = pid;
    return p;
}

hf_session *curtain_rise(void)
{
    if (store_has_wires())
        wires = links_start(NULL);
    return open_store();
}

void curtain_fall(hf_session *judge)
{
    hf_close(judge);
    links_stop(wires);
    munmap(players, PLAYERS_MAX * sizeof *players);
}

static void add_link(player *p, int port)
{
    for (int i = 0; i < p->links; i++) {
        if (p->ports[i] == port)
            return;
    }
    EXPECT(port > 0 && p->links < PLAYER_LINKS);
    int link = links_add(wires, port);
    p->ports[p->links] = port;
    p->detours[p->links] = links_port(wires, link);
    p->numbers[p->links++] = link;
}

/* The port of each server whose Unix socket stands in this variable. */
static void add_named(player *p, const char *variable)
{
    const char *at = getenv(variable);

    while (at && *at) {
        size_t len = strcspn(at, " ");
        server s = {.port = 0};

        snprintf(s.socket, sizeof s.socket, "%.*s", (int)len, at);
        add_link(p, atoi(server_info(&s, "tcp_port")));
        at += len + (at[len] == ' ');
    }
}

/* To every server that the URL names, or that those will name. */
static void add_links(player *p)
{
    static const char *const marks[] = {"127.0.0.1:", "Port="};

    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const char *at = store_url();

        while ((at = strstr(at, marks[i])) != NULL) {
            at += strlen(marks[i]);
            add_link(p, atoi(at));
        }
    }
    EXPECT(p->links > 0);
    add_named(p, "HOLDFAST_TEST_SENTINEL_SOCKET");
    add_named(p, "HOLDFAST_TEST_CLUSTER_SOCKETS");
}

void player_go(player *p, int64_t lease_ms, bool linked)
{
    p->lease_ms = lease_ms;
    if (linked && store_has_wires())
        add_links(p);
    atomic_store(&p->cue, GO);
}

void player_await(player *p, enum player_step step)
{
    int64_t until = now_ms() + PATIENCE_MS;

    while (atomic_load(&p->step) < (int)step) {
        if (waitpid(p->pid, NULL, WNOHANG) != 0)
            FAIL_TEST("the %s has ended", p->name);
        if (now_ms() > until)
            FAIL_TEST("the %s is at step %d, expected %d", p->name,
                      atomic_load(&p->step), (int)step);
        sleep_ms(1);
    }
}

int64_t player_release(player *p)
{
    int64_t now = now_ms();

    atomic_store(&p->cue, RELEASE);
    player_await(p, RELEASED);
    return now;
}

void player_end(player *p)
{
    atomic_store(&p->cue, END);
    EXPECT_EQ(reap(p->pid), 0);
}

int64_t player_kill(player *p)
{
    EXPECT(kill(p->pid, SIGKILL) == 0);
    EXPECT_EQ(reap(p->pid), 128 + SIGKILL);
    return now_ms();
}

int64_t player_cut(player *p)
{
    if (!store_has_wires()) {
        siginfo_t info;

        EXPECT(kill(p->pid, SIGSTOP) == 0);
        EXPECT(waitid(P_PID, (id_t)p->pid, &info, WSTOPPED) == 0);
        return now_ms();
    }
    EXPECT(player_wires(p) > 0); /* that way it went */
    for (int i = 0; i < p->links; i++) {
        links_refuse(wires, p->numbers[i], true);
        links_cut(wires, p->numbers[i]);
    }
    AWAIT(player_wires(p) == 0);
    return now_ms();
}

int64_t player_mend(player *p)
{
    if (!store_has_wires())
        EXPECT(kill(p->pid, SIGCONT) == 0);
    for (int i = 0; i < p->links; i++)
        links_refuse(wires, p->numbers[i], false);
    return now_ms();
}

int player_wires(player *p)
{
    int open = 0;

    for (int i = 0; i < p->links; i++)
        open += links_open(wires, p->numbers[i]);
    return open;
}

void note_time(const char *what, int64_t ms)
{
    const char *path = getenv("HOLDFAST_TEST_FIVE");

    if (!path || !*path)
        return;
    FILE *f = fopen(path, "ae");
    EXPECT(f != NULL);
    fprintf(f, "%s\t%s\t%s\t%lld\n", test_target(), test_name(), what,
            (long long)ms);
    EXPECT(fclose(f) == 0);
}
