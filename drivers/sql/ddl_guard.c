/* ddl_guard.c - the guard: a database that refuses writes with an old token.
 *
 * A lock cannot stop a holder that was paused past its lease from writing when
 * it wakes up; only what is written to can.  The guard is one row for each
 * protected thing with the largest token that has written, and a routine that
 * is called inside the writer's own transaction.
 *
 * Two writers there at once: both want the row.  Who gets it keeps it until its
 * transaction ends; the other then compares with what was committed, not with
 * what it had read before (PostgreSQL judges the WHERE of ON CONFLICT on the
 * newest version, or ends a REPEATABLE READ transaction with 40001; MariaDB
 * reads with FOR UPDATE).  So an old token that comes later is refused, and one
 * that came earlier has committed before the newer one goes on.
 * Paused inside its transaction: it still has the row, nobody passes it, and
 * the server's idle timeout ends it.  Equal tokens are one holder's. */
#include <string.h>

#include "ddl.h"

static const char one_line[] =
    "-- A table that belongs to the lock needs no more than a column "
    "(bigint NOT NULL\n"
    "-- DEFAULT 0) and a condition; no row changed means that the token is old "
    "and\n"
    "-- that the transaction is to be rolled back:\n"
    "--   UPDATE stock SET n = n - 1, fence = :token\n"
    "--    WHERE id = :id AND fence <= :token;";

static const char mysql_note[] =
    "-- (The client must count found rows, not changed ones: "
    "CLIENT_FOUND_ROWS; or let\n"
    "-- every write change something, as n = n - 1 does.)";

static const char postgres_guard[] =
    "\n"
    "-- For everything else: a row for each thing that is protected, with the "
    "largest\n"
    "-- token that has written.\n"
    "CREATE TABLE IF NOT EXISTS %T (\n"
    "    resource text COLLATE \"C\" PRIMARY KEY,\n"
    "    token bigint NOT NULL\n"
    ") WITH (fillfactor = 50);\n"
    "\n"
    "-- Call it first in the transaction that writes.  An old token ends that\n"
    "-- transaction with SQLSTATE HF001.\n"
    "CREATE OR REPLACE FUNCTION %T(of_resource text, of_token bigint)\n"
    "RETURNS bigint LANGUAGE plpgsql SET search_path FROM CURRENT AS $hf$\n"
    "BEGIN\n"
    "    IF of_token IS NULL OR of_token < 1 THEN\n"
    "        RAISE EXCEPTION 'holdfast: % is no token', of_token\n"
    "            USING ERRCODE = 'HF001';\n"
    "    END IF;\n"
    "    INSERT INTO %T AS g (resource, token)\n"
    "    VALUES (of_resource, of_token)\n"
    "    ON CONFLICT (resource) DO UPDATE SET token = excluded.token\n"
    "        WHERE g.token <= excluded.token;\n"
    "    IF NOT FOUND THEN\n"
    "        RAISE EXCEPTION 'holdfast: token % of % is old: a later holder "
    "has written',\n"
    "            of_token, of_resource USING ERRCODE = 'HF001';\n"
    "    END IF;\n"
    "    RETURN of_token;\n"
    "END $hf$;\n"
    "\n"
    "-- The application's account needs:\n"
    "--   GRANT SELECT, INSERT, UPDATE ON %T TO app;\n"
    "--\n"
    "--   BEGIN;\n"
    "--   SELECT %T('stock/4587', :token);\n"
    "--   UPDATE ...; INSERT ...;\n"
    "--   COMMIT;";

static const char mysql_guard[] =
    "\n"
    "-- For everything else: a row for each thing that is protected, with the "
    "largest\n"
    "-- token that has written.\n"
    "CREATE TABLE IF NOT EXISTS %T (\n"
    "    resource VARBINARY(1000) NOT NULL PRIMARY KEY,\n"
    "    token BIGINT UNSIGNED NOT NULL\n"
    ") ENGINE=InnoDB ROW_FORMAT=DYNAMIC;\n"
    "\n"
    "-- Call it first in the transaction that writes, and roll back if it "
    "fails: an old\n"
    "-- token ends the call with SQLSTATE 45000.  A procedure, since functions "
    "that\n"
    "-- write need special rights where the binary log is on.\n"
    "DROP PROCEDURE IF EXISTS %T;\n"
    "DELIMITER //\n"
    "CREATE PROCEDURE %T(IN of_resource VARBINARY(1000),\n"
    "                    IN of_token BIGINT UNSIGNED)\n"
    "MODIFIES SQL DATA SQL SECURITY INVOKER\n"
    "BEGIN\n"
    "    DECLARE seen BIGINT UNSIGNED;\n"
    "    IF of_token IS NULL OR of_token < 1 THEN\n"
    "        SIGNAL SQLSTATE '45000'\n"
    "            SET MESSAGE_TEXT = 'holdfast: this is no token';\n"
    "    END IF;\n"
    "    INSERT INTO %T (resource, token) VALUES (of_resource, of_token)\n"
    "        ON DUPLICATE KEY UPDATE token = GREATEST(token, of_token);\n"
    "    SELECT token INTO seen FROM %T WHERE resource = of_resource\n"
    "        FOR UPDATE;\n"
    "    IF seen > of_token THEN\n"
    "        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT =\n"
    "            'holdfast: this token is old: a later holder has written';\n"
    "    END IF;\n"
    "    /*M! IF @@in_transaction = 0 THEN\n"
    "        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT =\n"
    "            'holdfast: call it inside the transaction that writes';\n"
    "    END IF; */\n"
    "END//\n"
    "DELIMITER ;\n"
    "\n"
    "-- The application's account needs:\n"
    "--   GRANT SELECT, INSERT, UPDATE ON %T TO 'app'@'%';\n"
    "--   GRANT EXECUTE ON PROCEDURE %T TO 'app'@'%';\n"
    "--\n"
    "--   START TRANSACTION;\n"
    "--   CALL %T('stock/4587', :token);\n"
    "--   UPDATE ...; INSERT ...;\n"
    "--   COMMIT;";

void sql_ddl_guard(const sql_ddl_page *page)
{
    bool mysql = page->dialect->quote == '`';

    sql_ddl_say(page, "",
                "-- The guard of a lock: a write with an old token is "
                "refused.\n--");
    sql_ddl_say(page, "", one_line);
    if (mysql)
        sql_ddl_say(page, "", mysql_note);
    if (mysql)
        sql_ddl_say(page, "guard", mysql_guard);
    else if (strcmp(page->dialect->name, "postgres") == 0)
        sql_ddl_say(page, "guard", postgres_guard);
}
