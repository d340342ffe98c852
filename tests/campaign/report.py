"""The page of the campaign: faults by stores, and what each run was.

A column is what one run on one store came to.  The page itself is where
columns are kept: a run puts in its own and leaves the others as they stand,
each with the line that says what made it.  So stores may be tortured one after
the other, on different days and machines, and a folder of results that is gone
takes nothing with it.

    {"store", "cells": {row: text}, "run", "allowed", "why": {reason: faults}}
"""

import fcntl
import os
import re

import faults

COUNTS = (("granted", "acquisitions"), ("lost", "holds lost"),
          ("fenced", "stale writes refused"),
          ("order_pairs", "places compared"), ("wakes", "wake-ups judged"),
          ("late_wakes", "of these later than a second"),
          ("allowed", "two holders, as the page allows"))
INJECTED, KINDS = "**faults injected**", "of kinds"
BROKEN, HANGS = "**violations**", "of these hangs"
LEFT = "of these something left behind"
RESTARTS = "restarts of servers that ran and served nobody"

PAGE = """# The campaign

Written by `./campaign --report`; not by hand.

Clients in four processes take locks in every way while servers, network,
clocks and the clients themselves are struck. All that they were told is
written down, with instants of one clock, and a checker looks for what must not
be: two holders, tokens that fall, a stale write that was taken, an answer that
is not true, a loss that was told late, a wake-up that was lost, somebody
overtaken, something left behind, somebody never answered, a crash
([tests/campaign](../tests/campaign/case.h)).

At the end nothing may be left: no entry and no session in the store, no
descriptor and no thread in a client, no process. In a long run there is a break
every hundred seconds, in which wake-ups and the order are judged in peace.

A cell says how often the fault was injected and, in brackets, how many locks
were taken while it was at work or less than a lease later. A dot: it makes no
sense there. A dash: that run did not have it. Two holders are allowed only
under the faults for which the store's page says so (listed below); `--claim`
judges as if it did not.

%s

Each column is one run, and stays until that store is run again
(`./campaign --stores NAME --minutes N --seed S --report FILE`):

%s

Allowed by the page ([guarantees](guarantees.md#stores-and-promises)): two
holders while these are at work or less than a lease later:

%s

Convicted, as they must be: set-ups that are unsafe by their page, under
`--claim`:

%s

Where a dot is, and why:

%s
"""


# ---- What a run came to -----------------------------------------------------

def count(problems, invariant):
    return sum(bool(re.match(r"I%d\b" % invariant, p)) for p in problems)


def labels(numbers):
    return ", ".join(faults.label(n) for n in faults.order() if n in numbers)


def name_row(number):
    return "%s %s" % (faults.label(number), faults.TABLE[number][0])


def cell(one, number):
    if number in one.store.why_not:
        return "·"
    injected = one.injected.get(number, 0)
    if not injected:
        return "0"
    _, granted, broken = one.by_fault.get(number, (0, 0, 0))
    text = "%d (%d)" % (injected, granted)
    return "**%s, %d broken**" % (text, broken) if broken else text


def describe(one, options):
    """What must be known to run it again, and what ran."""
    only = ("" if options.faults is None and not options.claim
            else ", no faults" if options.faults == [0]
            else ", only %s" % labels(one.injected))
    return "%g minutes, seed %d%s, %s, %s" % (
        options.minutes, one.seed, only, options.date, options.commit)


def column(one, options):
    """Of a sitting that is over."""
    cells = {name_row(n): cell(one, n) for n in faults.TABLE}
    cells.update((name, one.counts.get(word, 0)) for word, name in COUNTS)
    cells.update({INJECTED: sum(one.injected.values()),
                  KINDS: len(one.injected), BROKEN: len(one.problems),
                  HANGS: count(one.problems, 9),
                  LEFT: count(one.problems, 8), RESTARTS: one.restarts})
    why = {}
    for number, reason in one.store.why_not.items():
        why.setdefault(reason, set()).add(number)
    return {"store": one.name, "run": describe(one, options),
            "cells": {row: str(text) for row, text in cells.items()},
            "allowed": labels(one.store.excuses),
            "why": {reason: labels(some) for reason, some in why.items()}}


# ---- The page ---------------------------------------------------------------

def rows():
    return ([name_row(n) for n in faults.order()]
            + [name for _, name in COUNTS]
            + [INJECTED, KINDS, BROKEN, HANGS, LEFT, RESTARTS])


def line(name, cells):
    return "| %s | %s |" % (name, " | ".join(cells))


def table(columns):
    lines = [line("fault", [c["store"] for c in columns]),
             "|---|" + "---|" * len(columns)]
    for row in rows():
        lines.append(line(row, [c["cells"].get(row, "-") for c in columns]))
    return "\n".join(lines)


def items(text, after):
    """(name, rest) of the list that follows a line with these words."""
    _, found, rest = text.partition(after)
    listed = re.match(r"[^\n]*\n(?:[^-\n][^\n]*\n)*\n((?:- [^\n]*\n)*)", rest)
    return (re.findall(r"^- (\w+): (.*)$", listed.group(1), re.M)
            if found and listed else [])


def read(text):
    """The columns of a page, and its convictions, by name."""
    lines = [[word.strip() for word in row.strip("|").split("|")]
             for row in re.findall(r"^\|.*\|$", text, re.M)]
    if not lines:
        return {}, {}
    columns = {name: {"store": name, "run": "not known", "allowed": "",
                      "why": {}, "cells": {row[0]: row[i] for row in lines[2:]
                                           if i < len(row)}}
               for i, name in enumerate(lines[0]) if i}
    for word, after in (("run", "seed S"), ("allowed", "Allowed by the page")):
        for name, rest in items(text, after):
            if name in columns:
                columns[name][word] = rest
    for name, rest in items(text, "Where a dot is"):
        found = re.match(r"(.*) \((F[^)]*)\)$", rest)
        if found and name in columns:
            columns[name]["why"][found.group(1)] = found.group(2)
    return columns, dict(items(text, "Convicted, as they must be"))


def listed(lines):
    return "\n".join("- %s: %s" % item for item in lines) or "- none"


def render(columns, convictions):
    return PAGE % (
        table(columns), listed((c["store"], c["run"]) for c in columns),
        listed((c["store"], c["allowed"]) for c in columns if c["allowed"]),
        listed(sorted(convictions.items())),
        listed(sorted((c["store"], "%s (%s)" % reason) for c in columns
                      for reason in c["why"].items())))


def put(path, names, columns=(), convictions=()):
    """Into the page, beside what it has; stores in the order of names."""
    lock = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        text = ""
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                text = f.read()
        old, convicted = read(text)
        old.update((c["store"], c) for c in columns)
        convicted.update(convictions)
        with open(path + ".new", "w", encoding="utf-8") as f:
            f.write(render([old[n] for n in names if n in old], convicted))
        os.replace(path + ".new", path)
    finally:
        os.close(lock)
