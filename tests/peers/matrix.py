#!/usr/bin/env python3
"""The table of docs/interop.md, written from what the runs found.

    tests/peers/matrix.py       after ./check --peers

Every system leaves its outcomes in build/peers/matrix; a row is a library, a
column a test of `interop`.  The table stands between two marks in the page.
A system that has not been run here keeps the rows that the page has.  The order
is that of pairs.py.
"""

import glob
import json
import os

import fetch
import pairs

PAGE = os.path.join(fetch.ROOT, "docs", "interop.md")
FOLDER = os.path.join(fetch.FOLDER, "matrix")
BEGIN, END = "<!-- matrix: begin -->\n", "<!-- matrix: end -->\n"
COLUMNS = [("we_hold", "waits for ours"), ("they_hold", "ours waits"),
           ("try_it", "try"), ("again", "again"), ("order", "order"),
           ("shared", "shared"), ("we_renew", "we renew"),
           ("they_renew", "it renews"), ("they_do_not_free", "robbed"),
           ("we_do_not_free", "we are robbed"), ("they_crash", "it crashes"),
           ("we_crash", "we crash"), ("tokens", "tokens"), ("storm", "storm"),
           ("nothing_left", "left")]


def cell(found, test):
    # Who has another layout has been asked for nothing else.
    word, detail = found.get(test) or found.get(test + "_apart") or [
        "skip", ""]
    if word == "skip":
        return "–"
    return detail or "yes"


def row(name, found):
    return "| %s | %s |\n" % (name, " | ".join(
        cell(found, test) for test, _ in COLUMNS))


def keep(system, table):
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, system + ".json"), "w") as f:
        json.dump(table, f, indent=1)


def page():
    with open(PAGE) as f:
        return f.read()


def main():
    found = {}
    for path in glob.glob(os.path.join(FOLDER, "*.json")):
        with open(path) as f:
            found[os.path.basename(path)[:-len(".json")]] = json.load(f)
    before, _, rest = page().partition(BEGIN)
    old, _, after = rest.partition(END)
    rows = {}
    for line in old.splitlines(True)[2:]:  # what was known before
        rows[line.split("|")[1].strip()] = line
    for system in sorted(found, key=list(pairs.SYSTEMS).index):
        for name in found[system]:
            rows.pop(name, None)
            rows[name] = row(name, found[system][name])
    head = "| | %s |\n|%s\n" % (" | ".join(title for _, title in COLUMNS),
                                "---|" * (len(COLUMNS) + 1))
    with open(PAGE, "w") as f:
        f.write(before + BEGIN + head + "".join(rows.values()) + END + after)
    print("%d rows in %s" % (len(rows), os.path.relpath(PAGE, fetch.ROOT)))


if __name__ == "__main__":
    main()
