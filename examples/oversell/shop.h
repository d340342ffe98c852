/* shop.h - the two parts of the demonstration. */
#ifndef SHOP_H
#define SHOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PROCESSES 4
#define THREADS 4 /* a process */
#define ITEMS 200
#define BUYERS 400 /* a multiple of all threads */

/* The folder's two files. */
#define SHOP_FILE "shop.db"
#define LOCKS_FILE "locks.db"

enum way { WITHOUT_LOCK, PROCESS_LOCK, HOLDFAST };

struct sale {
    int sold, left;
    double seconds;
};

/* All buyers come at once; what the books say afterwards. */
struct sale shop_open_doors(const char *dir, enum way way);

struct pause {
    uint64_t first_token, second_token;
    double next_after_s; /* from the pause to the next holder */
    bool plain_accepted, fenced_accepted;
    int plain_left, plain_sold, fenced_left, fenced_sold;
    char told[160]; /* what holdfast tells the one who comes back */
};

/* A holder is stopped past its lease and comes back.  False: the next one
 * was not granted in time; try again. */
bool pause_holder(const char *dir, struct pause *ret);

/* The two databases that the paused holder writes to have ITEMS_PAUSED. */
#define ITEMS_PAUSED 10
#define LEASE_MS 2000

void folder_path(char *ret, size_t cap, const char *dir, const char *file);
void folder_url(char *ret, size_t cap, const char *dir);

double now_s(void);

/* fork() whose child dies with its parent. */
pid_t start_process(void);

#endif
