"""The table of a campaign: faults by stores.

What a sitting came to is kept as a file per store, so that stores may be
tortured one after the other, on different days, and stand in one table.
"""

import json
import os
import re
import time

import faults


def result(one, options):
    return {"store": one.name, "seed": one.seed, "minutes": options.minutes,
            "date": time.strftime("%Y-%m-%d"), "counts": one.counts,
            "injected": one.injected, "by_fault": one.by_fault,
            "why_not": one.store.why_not, "excuses": one.store.excuses,
            "violations": len(one.problems),
            "hangs": count(one.problems, 9), "left": count(one.problems, 8),
            "kinds": len(one.injected)}


def count(problems, invariant):
    return sum(bool(re.match(r"I%d\b" % invariant, p)) for p in problems)


def save(folder, row):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, row["store"] + ".json"), "w") as f:
        json.dump(row, f)


def load(folder, names):
    """The last result of each store that has one, in this order."""
    rows = []
    for name in names:
        path = os.path.join(folder, name + ".json")
        if os.path.exists(path):
            with open(path) as f:
                rows.append(json.load(f))
    return rows


def pick(table, number):
    """A key that was a number before it was written to a file."""
    return table.get(number, table.get(str(number)))


def cell(row, number):
    if pick(row["why_not"], number):
        return "·"
    injected = pick(row["injected"], number)
    if not injected:
        return "0"
    _, granted, broken = pick(row["by_fault"], number) or (0, 0, 0)
    text = "%d (%d)" % (injected, granted)
    return "**%s, %d broken**" % (text, broken) if broken else text


def line(name, cells):
    return "| %s | %s |" % (name, " | ".join(str(c) for c in cells))


def table(rows):
    """How often each fault struck, and in brackets how many locks were taken
    while it was at work or less than a lease later."""
    lines = [line("fault", [row["store"] for row in rows]),
             "|---|" + "---|" * len(rows)]
    for number in faults.order():
        lines.append(line("%s %s" % (faults.label(number),
                                     faults.TABLE[number][0]),
                          [cell(row, number) for row in rows]))
    for word, name in (("granted", "acquisitions"), ("lost", "holds lost"),
                       ("fenced", "stale writes refused"),
                       ("order_pairs", "places compared"),
                       ("wakes", "wake-ups judged"),
                       ("allowed", "two holders, as the page allows")):
        lines.append(line(name, [row["counts"].get(word, 0) for row in rows]))
    lines.append(line("**faults injected**",
                      [sum(row["injected"].values()) for row in rows]))
    lines.append(line("of kinds", [row.get("kinds", 0) for row in rows]))
    for word, name in (("violations", "**violations**"),
                       ("hangs", "of these hangs"),
                       ("left", "of these something left behind")):
        lines.append(line(name, [row.get(word, 0) for row in rows]))
    return "\n".join(lines)


def reasons(rows):
    """Why a cell is empty."""
    found = {}
    for row in rows:
        for number, why in row["why_not"].items():
            found.setdefault((row["store"], why), []).append(int(number))
    return "\n".join("- %s: %s (%s)" % (
        name, why, ", ".join(faults.label(n) for n in faults.order()
                             if n in numbers))
        for (name, why), numbers in sorted(found.items()))


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
sense there. Two holders are allowed only under the faults for which the store's
page says so (listed below); `--claim` judges as if it did not.

%s

Again: `./campaign --stores NAME --minutes N --seed S`, with

%s

Allowed by the page ([guarantees](guarantees.md#stores-and-promises)): two holders
while these are at work or less than a lease later:

%s

Where a dot is, and why:

%s
"""


def allowed(rows):
    return "\n".join("- %s: %s" % (row["store"], ", ".join(
        faults.label(n) for n in row["excuses"])) for row in rows
        if row.get("excuses"))


def write(path, rows):
    runs = "\n".join("- %(store)s: %(minutes)g minutes, seed %(seed)d, "
                     "%(date)s" % row for row in rows)
    with open(path, "w") as f:
        f.write(PAGE % (table(rows), runs, allowed(rows), reasons(rows)))
