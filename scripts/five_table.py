#!/usr/bin/env python3
"""five_table.py - the table of docs/choosing.md, made of what the tests saw.

    scripts/five_table.py               write it into the page
    scripts/five_table.py --run BUILD [TARGET...]
                                        run tests/faults/five on every store, or
                                        on these, first (20 s each), and keep
                                        what it saw
    scripts/five_table.py --check       is it what it should be?

tests/faults/five.tsv has what was seen: target, case, what, milliseconds.  The
rows are the lines `hf_five(...)` of tests/faults/CMakeLists.txt, so that no
store is in the table without its tests, nor tested without its row.  A cell is
made by this script alone: what was seen, and the bound that the test asserts.
"""

import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs/choosing.md")
SEEN = os.path.join(ROOT, "tests/faults/five.tsv")
TARGETS = os.path.join(ROOT, "tests/faults/CMakeLists.txt")
BEGIN = "<!-- made by scripts/five_table.py -->"
END = "<!-- end -->"

NAMES = {
    "sqlite": "`sqlite:`",
    "redis": "`redis:`, one server",
    "sentinel": "`redis+sentinel:`, a primary, two replicas",
    "cluster": "`redis+cluster:`, three primaries",
    "redlock": "`redlock:`, five servers",
    "postgres": "`postgres:`",
    "mariadb": "`mysql:`",
    "odbc-sqlite": "`odbc:`, a SQLite file",
    "odbc-postgres": "`odbc:`, PostgreSQL",
    "zookeeper": "`zookeeper:`, one server",
    "zookeeper3": "`zookeeper:`, three servers",
    "etcd": "`etcd:`, one server",
    "etcd3": "`etcd:`, three servers",
}
# No connection that could drop: the process stands still instead.
FILES = {"sqlite", "odbc-sqlite"}
# Where the death of a process is known at once (HF_CAP_CRASH_AT_ONCE).
SEE_DEATHS = {"sqlite"}
HEAD = [
    "Store",
    "The holder crashes: the next has it after",
    "Its connection drops and is back in time: kept, HELD again after",
    "... and stays away: told LOST, the next has it after",
    "It restarts: it has it again after",
    "A waiter's connection drops and is back in time: it has it, once free, "
    "after",
    "... and stays away: passed over after",
    "A waiter crashes: passed over after",
]


class Problem(Exception):
    pass


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def targets():
    return re.findall(r"(?m)^ *hf_five\(([\w-]+) ", read(TARGETS))


def seen():
    """(target, case, what): seconds, as text."""
    found = {}
    for line in read(SEEN).splitlines():
        target, case, what, ms = line.split("\t")
        number = int(ms) / 1000
        found[target, case, what] = (
            "%.1f s" % number if number >= 0.1 else "%.2f s" % number)
    return found


def row(target, times):
    def saw(case, what="next"):
        if (target, case, what) not in times:
            raise Problem("%s has no '%s' of %s %s: run --run" % (
                os.path.relpath(SEEN, ROOT), what, target, case))
        return times[target, case, what]

    death = "at once" if target in SEE_DEATHS else "L"
    told = "when it goes on" if target in FILES else (
        saw("holder_cut_off", "told"))
    return [
        NAMES[target],
        "%s (%s)" % (saw("holder_crashes"), death),
        "%s (5 s)" % saw("holder_cut", "held"),
        "%s, %s (L)" % (told, saw("holder_cut_off")),
        "%s (%s)" % (saw("holder_restarts", "again"), death),
        "%s (5 s)" % saw("waiter_cut"),
        "%s (L or 5 s)" % saw("waiter_cut_off"),
        "%s (%s)" % (saw("waiter_crashes"), death),
    ]


def table():
    times = seen()
    rows = [HEAD, ["---"] * len(HEAD)]
    for target in targets():
        if target not in NAMES:
            raise Problem("name '%s' in scripts/five_table.py" % target)
        rows.append(row(target, times))
    strays = {key[0] for key in times} - set(targets())
    if strays:
        raise Problem("%s has %s, which is not tested" % (
            os.path.relpath(SEEN, ROOT), ", ".join(sorted(strays))))
    return "".join("| %s |\n" % " | ".join(cells) for cells in rows)


def parts():
    """The page before, in and behind the table."""
    text = read(PAGE)
    if BEGIN not in text or END not in text:
        raise Problem("docs/choosing.md has no place for the table")
    before, _, rest = text.partition(BEGIN + "\n")
    inside, _, behind = rest.partition(END)
    return before, inside, behind


def run(build, wanted):
    """What the programs see of these, beside what is known of the others."""
    lines = {}
    for line in read(os.path.join(build, "tests.txt")).splitlines():
        words = line.split("|")
        lines[words[0]] = words[3:]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "seen")
        env = dict(os.environ, HOLDFAST_TEST_FIVE=path,
                   HOLDFAST_DRIVER_PATH=os.path.join(
                       os.path.abspath(build), "drivers-lib"))
        for target in wanted:
            if "five-" + target not in lines:
                raise Problem("%s has no test of %s" % (build, target))
            print(target, flush=True)
            if subprocess.run(lines["five-" + target], env=env).returncode:
                raise Problem("the tests of %s failed" % target)
        kept = [line for line in read(SEEN).splitlines(True)
                if line.split("\t")[0] not in wanted]
        with open(SEEN, "w", encoding="utf-8") as f:
            f.write("".join(kept) + read(path))


def write():
    before, _, behind = parts()
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write(before + BEGIN + "\n" + table() + END + behind)


def check():
    if parts()[1] != table():
        raise Problem("the table of docs/choosing.md was changed by hand, or "
                      "is old: run scripts/five_table.py")


def main():
    words = sys.argv[1:]
    try:
        if words == ["--check"]:
            check()
            print("ok five.table\n1 passed, 0 failed, 0 skipped")
        elif words[:1] == ["--run"] and len(words) > 1:
            run(words[1], words[2:] or targets())
            write()
        elif not words:
            write()
        else:
            sys.exit(__doc__)
    except Problem as problem:
        print("FAIL five.table: %s\n0 passed, 1 failed, 0 skipped" % problem)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
