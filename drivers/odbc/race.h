/* race.h - the trial of a database by two connections; see race.c. */
#ifndef HF_DRIVERS_ODBC_RACE_H
#define HF_DRIVERS_ODBC_RACE_H

#include "odbc.h"

enum { ODBC_RACE_ROUNDS = 1000 };

typedef enum odbc_race_end {
    ODBC_RACE_FINE,  /* every round had one winner */
    ODBC_RACE_LOST,  /* one did not: this database cannot hold locks */
    ODBC_RACE_FAILED /* it could not be tried, and *err */
} odbc_race_end;

typedef struct odbc_race odbc_race;

/* On a row of its own in this table (rid, v, used_us), until then. */
odbc_race_end odbc_race_run(sql_conn *one, sql_conn *other, const char *table,
                            hf_nsec until, unsigned *ret_rounds, hf_error *err);

#endif
