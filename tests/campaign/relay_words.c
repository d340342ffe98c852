/* relay_words.c - the words that the relay is told, one command per line.
 *
 * They change what a link is, or what is to become of its connections; nothing
 * is sent or received here. */
#include "relay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QUIET_MOST_MS = 1000 };

/* LINK is a number from 0, or `all`; `up` is towards the server:
 *   hold LINK up|down|both on|off   nothing passes in that direction
 *   front LINK up|down|both on|off  the same, for those without a name
 *   apart LINK on|off, name WORD on|off   hold those with a name, with this one
 *   refuse LINK on|off              a new connection is ended at once
 *   cut LINK                        all its connections end, with a RST
 *   delay LINK MS JITTER            each way, of all bytes from now on
 *   before LINK, after LINK         the next bytes of a client, or of a server,
 *                                   are thrown away, and its connection ends
 *   half LINK, noise LINK           of those only half arrive, or others
 *   calm LINK                       the last four are taken back, if they have
 *                                   not struck
 *   swap LINK TO                    its connections go on at TO's server, when
 *                                   nothing is under way; who is busy for a
 *                                   second is cut */
static void cut_link(int which)
{
    for (int i = 0; i < CONNS; i++) {
        if (relay_conns[i].fd[0] >= 0 && relay_conns[i].link == which)
            relay_end(&relay_conns[i], true);
    }
}

/* A proxy re-routes between two commands; one that threw away an answer and
 * went on would break every protocol. */
static void swap_link(int which, int to)
{
    for (int i = 0; i < CONNS; i++) {
        conn *c = &relay_conns[i];

        if (c->fd[0] < 0 || c->link != which || c->name[0])
            continue;
        c->swap_port = relay_links[to].to_port;
        c->swap_by = relay_now() + QUIET_MOST_MS * INT64_C(1000000);
    }
}

static void hold_name(const char *word, bool on)
{
    for (int i = 0; i < NAMES; i++) {
        if (on ? relay_held_names[i][0] == '\0'
               : !strcmp(relay_held_names[i], word)) {
            snprintf(relay_held_names[i], sizeof relay_held_names[i], "%s",
                     on ? word : "");
            return;
        }
    }
}

static void obey_link(int which, char words[4][40])
{
    link_state *l = &relay_links[which];
    bool on = strcmp(words[words[3][0] ? 3 : 2], "on") == 0;
    bool *held = strcmp(words[0], "front") == 0 ? l->front : l->hold;

    if (held == l->front || strcmp(words[0], "hold") == 0) {
        if (strcmp(words[2], "down") != 0)
            held[UP] = on;
        if (strcmp(words[2], "up") != 0)
            held[DOWN] = on;
    } else if (strcmp(words[0], "refuse") == 0) {
        l->refuse = on;
    } else if (strcmp(words[0], "cut") == 0) {
        cut_link(which);
    } else if (strcmp(words[0], "delay") == 0) {
        l->delay_ms = (int)strtol(words[2], NULL, 10);
        l->jitter_ms = (int)strtol(words[3], NULL, 10);
    } else if (strcmp(words[0], "apart") == 0) {
        l->apart = on;
    } else if (strcmp(words[0], "swap") == 0) {
        swap_link(which, (int)(strtoul(words[2], NULL, 10) % LINKS));
    } else if (strcmp(words[0], "calm") == 0) {
        l->strike[UP] = l->strike[DOWN] = 0;
    } else if (strcmp(words[0], "before") == 0) {
        l->strike[UP] = CUT;
    } else if (strcmp(words[0], "after") == 0) {
        l->strike[DOWN] = CUT;
    } else if (strcmp(words[0], "half") == 0) {
        l->strike[DOWN] = HALF;
    } else if (strcmp(words[0], "noise") == 0) {
        l->strike[DOWN] = NOISE;
    }
}

static void obey(const char *line)
{
    char words[4][40] = {"", "", "", ""};

    sscanf(line, "%39s %39s %39s %39s", words[0], words[1], words[2], words[3]);
    if (strcmp(words[0], "name") == 0) {
        hold_name(words[1], strcmp(words[2], "on") == 0);
    } else {
        for (int i = 0; i < relay_link_count; i++) {
            if (strcmp(words[1], "all") == 0 || strtol(words[1], NULL, 10) == i)
                obey_link(i, words);
        }
    }
    printf("ok %u\n", relay_struck);
    fflush(stdout);
}

bool relay_read_words(void)
{
    static char text[4096];
    static size_t len;
    ssize_t n = read(STDIN_FILENO, text + len, sizeof text - 1 - len);
    char *end;

    if (n <= 0)
        return false;
    len += (size_t)n;
    text[len] = '\0';
    while ((end = strchr(text, '\n')) != NULL) {
        *end = '\0';
        obey(text);
        len -= (size_t)(end + 1 - text);
        memmove(text, end + 1, len + 1);
    }
    return true;
}
