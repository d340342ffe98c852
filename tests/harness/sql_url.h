/* sql_url.h - fresh stores on the databases that with-sql started. */
#ifndef HF_TEST_SQL_URL_H
#define HF_TEST_SQL_URL_H

/* The URL of a store for this target ("postgres", "mariadb", "odbc-sqlite",
 * ...; the list is in sql_url.c) that no other test uses; NULL: it is not a
 * target on SQL.  The same arguments in one test give the same store.  The
 * caller's to free. */
char *sql_test_url(const char *target, const char *which, const char *prefix,
                   const char *query);

/* For "postgres-strict": end the quarantine in which a store begins. */
void sql_test_settle(const char *which);

#endif
