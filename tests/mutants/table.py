"""The page of planted bugs: a row each, with the run that it comes from.

The page itself is where rows are kept, as in tests/campaign/report.py: a run
puts in its own and leaves the others as they stand.  A row ends with the day
and the commit of its run and the mark of what it rests on (sources.py); one
whose mark is not that of today's sources is dropped when the page is written.
"""

import fcntl
import os
import re

HEAD = """# Planted bugs

Written by `./campaign --mutants --report`; not by hand.

A test that cannot fail shows nothing. So wrong changes, each of a few lines, are
planted one by one in a copy of the sources ([tests/mutants](../tests/mutants)),
and the tests that guard that promise are run against real servers: a campaign
(with the numbers of its [faults](campaign.md)), or a test of `./check`. Each must
convict its bug within its time; `--sound` runs it on the sources as they are, where
it must find nothing.
The core and its network have %d more, which the simulator convicts (`tests/sim`),
and the models have theirs (`models`).
Not planted, since there is nothing to plant it in: a queue read from a snapshot in
SQL. A join is one `UPDATE`, which answers with the row that it has locked.

The last column says when a row was run, on which commit, and has a mark of the
bug, the files that it changes and the sources of its judge. When one of these
changes, the row is dropped until it is run again (`--stale`).

%d planted, %d convicted.

| bug | what is wrong | convicted by | of | after | run |
|---|---|---|---|---|---|
"""
CELLS = 6
NOT_TRIED = "not tried since it changed"
NOBODY = "**nobody**"
RUN = re.compile(r"^\d{4}-\d\d-\d\d, .+, ([0-9a-f]{10})$")


def shorten(text, most):
    text = " ".join(text.replace("|", "/").split())
    if len(text) <= most:
        return text
    return text[:most - 3].rsplit(" ", 1)[0] + " ..."


def judge_words(words):
    kind, name, *rest = words
    if kind == "test":
        return "`%s`" % " ".join([name] + rest)
    faults, _, seed = rest
    return "campaign on %s, %s, seed %s" % (
        name, "no faults" if faults == "none"
        else "faults " + faults.replace(",", ", "), seed)


def cells(verdict, words, run):
    """Of one that was tried: all but its name and what is wrong."""
    if verdict.convicted:
        return [judge_words(words), shorten(verdict.words, 90),
                "%.0f s" % verdict.seconds, run]
    return [NOBODY, shorten(verdict.words, 90), "", run]


def read(text):
    """{name: cells} of the rows that say their run."""
    rows = {}
    for line in text.splitlines():
        found = [c.strip() for c in line.split("|")[1:-1]]
        if len(found) == CELLS and RUN.match(found[-1]):
            rows[found[0]] = found[2:]
    return rows


def stands(row, mark):
    return bool(row) and RUN.match(row[-1]).group(1) == mark


def load(path):
    try:
        with open(path, encoding="utf-8") as f:
            return read(f.read())
    except FileNotFoundError:
        return {}


def render(all_mutants, rows, simulated):
    lines = ["| %s |" % " | ".join([m.name, m.wrong] + (
        rows.get(m.name) or [NOT_TRIED, "", "", ""])) for m in all_mutants]
    good = sum(r[0] != NOBODY for r in rows.values())
    return (HEAD % (simulated, len(all_mutants), good)
            + "\n".join(lines) + "\n")


def put(path, all_mutants, marks, fresh, simulated):
    """Into the page, beside what still stands there; safe beside another."""
    lock = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = load(path)
        rows.update(fresh)
        rows = {name: rows[name] for name, mark in marks.items()
                if stands(rows.get(name), mark)}
        with open(path + ".new", "w", encoding="utf-8") as f:
            f.write(render(all_mutants, rows, simulated))
        os.replace(path + ".new", path)
    finally:
        os.close(lock)
