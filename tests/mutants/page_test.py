#!/usr/bin/env python3
"""The page of planted bugs: rows stay, and go when what they rest on changes.

A small tree of sources with one bug and its judge is changed file by file: the
mark must follow.  Rows are put into a page one by one.  The page of the project
must be readable, name every bug, and count what it shows.
"""

import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "scripts")]
sys.dont_write_bytecode = True
import judges  # noqa: E402
import mutants  # noqa: E402
import sources  # noqa: E402
import table  # noqa: E402

TREE = {"drivers/x/x.c": "int x;\n",
        "drivers/x/other.c": "int y;\n",
        "drivers/x/x_test.c": '#include "x_test.h"\nTEST(one)\n',
        "drivers/x/x_test.h": "int z;\n",
        "tests/campaign/rules.py": "\n"}
ENTRY = """mutant a-bug
wrong it is wrong
judge %s
within 9
in drivers/x/x.c
-int x;
+int w;
"""


def expect(is_so, what):
    if not is_so:
        raise AssertionError(what)


def write(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def mark_of(folder, judge):
    write(folder, "x.list", ENTRY % judge)
    bug, = mutants.read_file(os.path.join(folder, "x.list"))
    return sources.Sources(folder, TREE).mark(bug)


def marks_follow(folder):
    tests = {"drivers/x/x.c", "drivers/x/x_test.c", "drivers/x/x_test.h"}
    campaigns = {"drivers/x/x.c", "tests/campaign/rules.py"}
    for judge, rests_on in (("test x_test one", tests), ("test x_test", tests),
                            ("campaign x none 1 1", campaigns)):
        for name, text in TREE.items():
            write(folder, name, text)
        before = mark_of(folder, judge)
        for name, text in TREE.items():
            write(folder, name, text + "/* changed */\n")
            expect((mark_of(folder, judge) != before) == (name in rests_on),
                   "%s, when %s has changed" % (judge, name))
            write(folder, name, text)
        expect(mark_of(folder, judge) == before, judge)
    expect(mark_of(folder, "test x_test one") != mark_of(
        folder, "test x_test"), "another judge")


def rows_stay(folder):
    path = os.path.join(folder, "page.md")
    bugs = [mutants.Mutant(name, "x") for name in ("a", "b", "c")]
    marks = {"a": "0" * 10, "b": "1" * 10, "c": "2" * 10}
    good = judges.Verdict(True, "x.one: 1 | 2", 3.4)
    bad = judges.Verdict(False, "all is well", 1)
    words = ("test", "x_test", "one")

    def put(**fresh):
        table.put(path, bugs, marks, {
            name: table.cells(verdict, words, "2026-01-01, abc, "
                              + marks[name])
            for name, verdict in fresh.items()}, 5)
        with open(path, encoding="utf-8") as f:
            return f.read()

    put(a=good)
    text = put(b=bad)
    expect(sorted(table.read(text)) == ["a", "b"], text)
    expect("3 planted, 1 convicted" in text, text)
    expect("| `x_test one` | x.one: 1 / 2 | 3 s |" in text, text)
    expect(text.count(table.NOT_TRIED) == 1, text)
    marks["a"] = "3" * 10  # something has changed
    text = put(b=good)
    expect(list(table.read(text)) == ["b"], text)
    expect("3 planted, 1 convicted" in text, text)
    expect(text.count(table.NOT_TRIED) == 2, text)


def own_page(_):
    with open(os.path.join(ROOT, "docs", "mutants.md"), encoding="utf-8") as f:
        text = f.read()
    rows, bugs = table.read(text), mutants.read_all()
    names = re.findall(r"^\| ([a-z][\w-]+) \| ", text, re.M)
    expect([n for n in names if n != "bug"] == [m.name for m in bugs], names)
    expect(text.count(table.NOT_TRIED) + len(rows) == len(bugs), len(rows))
    good = sum(r[0] != table.NOBODY for r in rows.values())
    expect("%d planted, %d convicted" % (len(bugs), good) in text, good)


def main():
    failed = 0
    cases = (marks_follow, rows_stay, own_page)
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            try:
                case(folder)
                print("ok %s" % case.__name__)
            except AssertionError as problem:
                failed += 1
                print("FAIL %s: %s" % (case.__name__, problem))
    print("%d passed, %d failed, 0 skipped" % (len(cases) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
