/* probe.h - is this MariaDB or MySQL server fit to hold locks?
 *
 * probe.c asks, probe_judge.c judges from facts alone, so that the test can
 * show it a server that we do not have. */
#ifndef HF_DRIVERS_MYSQL_PROBE_H
#define HF_DRIVERS_MYSQL_PROBE_H

#include "my.h"

/* A number that is -1, a text that is "": could not be found out. */
typedef struct my_facts {
    /* How we use it: */
    bool strict;
    bool native;
    bool returning;
    bool tls, verified, local;
    unsigned connections;
    hf_nsec lease;
    /* What it says: */
    bool mariadb;
    char version[64];
    int64_t version_number; /* 101119 */
    char account[100];      /* "app@%" */
    char galera[8], read_only[8], binlog[8], binlog_format[16];
    char semi_sync[8], semi_sync_now[8], doublewrite[8];
    int64_t flush, sync_binlog, replicas;
    int64_t wait_s, connected, most_connections, most_of_account;
    int64_t other_engines; /* of our tables: how many are not InnoDB */
} my_facts;

bool my_ask_facts(sql_conn *conn, const char *schema, const char *prefix,
                  hf_nsec deadline, my_facts *ret, hf_error *err);
void my_judge_facts(const my_facts *facts, hf_doctor_fn *emit, void *user);

#endif
