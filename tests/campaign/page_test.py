#!/usr/bin/env python3
"""The page of the campaign keeps what a run does not replace.

Columns are put into a page one by one, replaced, and put beside rows that an
older run did not have; the page is read back after each step.  The page of the
project itself must be readable, too, and name the run of each column.
"""

import os
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
import report  # noqa: E402
import stores  # noqa: E402

NAMES = list(stores.STORES)
PAGE = os.path.join(HERE, "..", "..", "docs", "campaign.md")


def make(name, text):
    return {"store": name, "run": "1 minutes, seed %s, a day" % text,
            "cells": {row: text for row in report.rows()},
            "allowed": "F9, F20" if name == "redis" else "",
            "why": {"it has no server (none)": "F6, F22d"}}


def read(path):
    with open(path, encoding="utf-8") as f:
        return report.read(f.read())


def expect(is_so, what):
    if not is_so:
        raise AssertionError(what)


def columns_stay(path):
    put = {}
    for name, text in (("redis", "1"), ("sqlite", "2"), ("etcd", "3 (4)"),
                       ("redis", "**5, 1 broken**")):
        put[name] = make(name, text)
        report.put(path, NAMES, [put[name]])
        expect(read(path) == (put, {}), "after %s %s: %s"
               % (name, text, read(path)))
    with open(path, encoding="utf-8") as f:
        head = next(line for line in f if line.startswith("| fault"))
    expect(head == "| fault | sqlite | redis | etcd |\n", head)


def convictions_stay(path):
    report.put(path, NAMES, convictions={"loose": "I1 two holders; seed 1"})
    report.put(path, NAMES, [make("odbc", "1")])
    columns, convicted = read(path)
    expect(list(columns) == ["odbc"], columns)
    expect(convicted == {"loose": "I1 two holders; seed 1"}, convicted)


def older_runs_lack_rows(path):
    old = make("redis", "7")
    gone = report.rows()[3]
    del old["cells"][gone]
    report.put(path, NAMES, [old])
    report.put(path, NAMES, [make("etcd", "8")])
    columns, _ = read(path)
    expect(columns["redis"]["cells"][gone] == "-", columns)
    expect(columns["etcd"]["cells"][gone] == "8", columns)


def page_is_readable(_):
    columns, _ = read(PAGE)
    expect(list(columns)[:len(NAMES)] == NAMES, list(columns))
    for name, column in columns.items():
        expect("seed" in column["run"], "%s: %s" % (name, column["run"]))


def main():
    failed = 0
    cases = (columns_stay, convictions_stay, older_runs_lack_rows,
             page_is_readable)
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            try:
                case(os.path.join(folder, "page.md"))
                print("ok page.%s" % case.__name__)
            except AssertionError as problem:
                failed += 1
                print("FAIL page.%s: %s" % (case.__name__, problem))
    print("%d passed, %d failed, 0 skipped" % (len(cases) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
