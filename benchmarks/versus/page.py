"""Tables and docs/performance.md, from what was measured.

A Measure is a number that can be compared: which scenario has it, and whether
more is better.  A ratio says how many times better ours is than theirs; ours
is the native lock, or the line of ours that a peer is `like` (field.py), where
that line has the number.  What the page says of a lost one is in why.py, once
for all that have the same reason; a lost one that nobody has explained is said
to be so.
"""

import os

import chart
import servers
import why

PAGE = os.path.join(servers.ROOT, "docs", "performance.md")
PICTURES = os.path.join(servers.ROOT, "docs", "img")
OURS = "Holdfast"
LEVEL = 0.9  # below this ours is called behind


class Measure:
    def __init__(self, scenario, name, title, show, more=False):
        self.scenario, self.name, self.title = scenario, name, title
        self.show, self.more = show, more

    def of(self, row):
        return row.get(self.scenario, {}).get(self.name)

    def ratio(self, ours, theirs):
        a, b = self.of(ours), self.of(theirs)
        if a is None or b is None:
            return None
        a, b = (a, b) if self.more else (b, a)
        return a / b if b else None

    def cell(self, ours, row):
        """`ours` None: not to be compared."""
        value = self.of(row)
        if value is None:
            return "failed" if "failed" in row.get(self.scenario, {}) else "–"
        ratio = None if ours is None else self.ratio(ours, row)
        if ratio is None:
            return self.show(value)
        text = "%s (%s×)" % (self.show(value), digits(ratio))
        return text if ratio >= LEVEL else "**%s**" % text


def digits(value):
    """Three digits that count."""
    if value >= 1000:
        return "{:,.0f}".format(value).replace(",", " ")
    return ("%.0f" if value >= 100 else "%.1f" if value >= 10 else "%.2f"
            ) % value


def us(value):
    return ("%s ms" % digits(value / 1000) if value >= 1000
            else "%s µs" % digits(value))


def plain(value):
    return "0" if value < 0.005 else digits(value)


MEASURES = [
    Measure("pair", "p50_us", "pair, p50", us),
    Measure("threads", "pairs", "16 threads, pairs/s", plain, True),
    Measure("handover", "p50_us", "hand-over, p50", us),
    Measure("contended", "grants", "contended, grants/s", plain, True),
    Measure("pair", "server_us", "server time a pair", us),
    Measure("waiters", "drain_ms", "200 waiters served in, ms", plain),
]
# Not compared: what they say together with the others.
TOLD = [
    Measure("pair", "p99_us", "pair, p99", us),
    Measure("pair", "requests", "requests a pair", plain),
    Measure("threads", "server_us", "server time a pair, 16 threads", us),
    Measure("contended", "handovers", "contended, hand-overs/s", plain),
    Measure("contended", "longest_ms", "longest wait, ms", plain),
    Measure("contended", "fairness", "fairness", plain),
    Measure("waiters", "idle_requests", "requests/s while 200 wait", plain),
    Measure("waiters", "requests", "requests a hand-over of these", plain),
]


def is_ours(label):
    return label.startswith(OURS)


def ours_for(store, measure, label):
    """The line of ours that this one is compared with; None: it is ours."""
    if is_ours(label):
        return None
    rows = store["rows"]
    like = rows.get(store.get("like", {}).get(label, OURS), {})
    return rows[OURS] if measure.of(like) is None else like


def table(store, measures, compared):
    lines = ["| | " + " | ".join(m.title for m in measures) + " |",
             "|---|" + "---:|" * len(measures)]
    for label, row in store["rows"].items():
        lines.append("| %s | %s |" % (label, " | ".join(
            m.cell(ours_for(store, m, label) if compared else None, row)
            for m in measures)))
    return lines


def compared(store, native=False):
    """(measure, label, ratio) of all; `native`: instead those that are beside
    another line of ours, with what they are beside the native lock."""
    found = []
    for measure in MEASURES:
        for label, row in store["rows"].items():
            ours = ours_for(store, measure, label)
            if ours is None or (native and ours is store["rows"][OURS]):
                continue
            ratio = measure.ratio(store["rows"][OURS] if native else ours, row)
            if ratio is not None:
                found.append((measure, label, ratio))
    return found


def lost(store, native=False):
    return [one for one in compared(store, native) if one[2] < LEVEL]


def count(results, native=False):
    """How many comparisons there are, and how many are lost."""
    stores = results["stores"].values()
    return (sum(len(compared(store, native)) for store in stores),
            sum(len(lost(store, native)) for store in stores))


def spent(scenario, ours, theirs):
    """With the server on its own core, how much of it each needs."""
    if scenario != "threads":
        return ""
    return " (of the server's core ours used %.0f %%, theirs %.0f %%)" % tuple(
        row[scenario]["pairs"] * row[scenario]["server_us"] / 1e4
        for row in (ours, theirs))


def reasons(name, store, native=False):
    """A line a reason: who, in what, by how much, and why."""
    found, rows = {}, store["rows"]
    for measure, label, ratio in lost(store, native):
        why_so = why.reason(name, measure.scenario, measure.name, label,
                            native)
        ours = (rows[OURS] if native else ours_for(store, measure, label))
        found.setdefault(why_so, {}).setdefault(label, []).append(
            "*%s* %s×%s" % (measure.title, digits(ratio), spent(
                measure.scenario, ours, rows[label])))
    return ["- %s: %s" % ("; ".join(
        "%s, %s" % (label, ", ".join(cells)) for label, cells in who.items()),
        why_so) for why_so, who in found.items()]


def section(name, store):
    rows = store["rows"]
    lines = ["## %s" % store["label"], "",
             "%s %s, %s; %s. Other processes used %.0f %% of the machine." % (
                 store["label"], store["version"], store["durability"],
                 store["date"], store["others"]), "",
             "![%s: bars of the tables below](img/performance-%s.svg)"
             % (store["label"], name), ""]
    lines += table(store, MEASURES, True) + [""]
    lines += table(store, TOLD, False) + [""]
    for label, note in store["notes"].items():
        lines.append("- %s: %s." % (label, note))
    for label, reason in store["left_out"].items():
        lines.append("- %s is left out: %s." % (label, reason))
    for label, row in rows.items():
        for scenario, found in row.items():
            if found.get("overlaps"):
                lines.append("- **%s: %d overlaps in %s.**" % (
                    label, found["overlaps"], scenario))
            if "failed" in found:
                lines.append("- %s failed in %s: %s" % (label, scenario,
                                                        found["failed"]))
    for native, title in ((False, "Where Holdfast is not ahead:"), (
            True, "Those that are beside another line of ours, beside the "
            "native lock, which does more:")):
        behind = reasons(name, store, native)
        if behind:
            lines += ["", title, ""] + behind
    return lines + [""]


HEAD = """# Performance beside others

This page is written by `./bench --peers`; nothing in it is by hand but the
reasons. Every library runs as it is published, in its own language, in the
same run, on the same server, with the same durability.

{machine}

**{ahead} of {every} comparisons are won or level, {behind} lost**; each lost
one is named below with what is known of it. Like is compared with like: a lock
that is an open transaction is beside ours of the same form (`format=rowlock`)
where nobody waits, and beside the native lock where somebody does. Put beside
the native lock there, too, {native} of {natives} of those would be lost; they are
named as well. No two holders overlapped in *hand-over*,
*contended* and *200 waiters*, where it is looked for{but}.

## How to read it

| | processes × threads | what each does |
|---|---|---|
| pair | 1 × 1 | lock, unlock; 16 keys in turn |
| 16 threads | 1 × 16 | the same, on keys of their own |
| hand-over | 2 × 1 | from the call of unlock in one process to the return of lock in the other, which waits |
| contended | 2 × 4 | lock, unlock on one key, nothing in between |
| server time | | processor time of the server during *pair* |
| 200 waiters | 1 × 200, and a holder | all wait for one key; then each has it for a millisecond |

- Numbers are **medians of {rounds} rounds**, a round going through all
  contestants in turn. In brackets: how many times better Holdfast's number is.
  **Bold** is where it is worse by more than a tenth.
- **Two runs differ by more than that.** Of two runs on one day half of the ratios
  agreed within 1.13 times, nine in ten within 1.4, and *200 waiters*, then of one
  round, was up to 3.7 apart. Take ratios between 0.7 and 1.4 for level.
- *pair* and *hand-over* have server and clients **on one core**, where what the
  client itself costs shows; the others have the server on one core and the
  clients on the other. On two machines a round trip costs more, and everything
  that saves one is worth more.
- Loops run inside the contestants' processes, after a warm-up. A process has
  one client, as each library's guide has it; its threads share it. JVMs have
  their full compiler. On databases every client may have 16 connections
  (`SELECT FOR UPDATE` has one a thread, since a waiter keeps it).
- Libraries that sleep and look again (SET NX, SPIN, JDBC, redsync, redislock,
  redis-py, redlock) do so at their default pace, or their guide's. A library
  that never waits takes part in *pair* and *16 threads* alone.
- *Grants* count when the same thread takes the lock again; *hand-overs* are
  those to one who was waiting. *Fairness* is the fewest grants of a thread by
  the most.
- They do not all promise the same. Holdfast's locks have a lease that is
  renewed, a queue (first come, first served), and a token that rises. Locks by
  hand do the least that excludes.
- Requests are counted by the server: Redis its reads, ZooKeeper packets, etcd
  messages of gRPC, PostgreSQL statements (`pg_stat_statements`), MariaDB
  `Questions`. Renewals and pings are among them.

Floors written by hand in C, crashes, memory and the command are measured by
`./bench`; see [benchmarks](../benchmarks/README.md).
"""


def write(results):
    every, behind = count(results)
    natives, native = count(results, True)
    overlaps = sum(found.get("overlaps", 0)
                   for store in results["stores"].values()
                   for row in store["rows"].values() for found in row.values())
    text = HEAD.format(
        machine=results["machine"], every=every, ahead=every - behind,
        behind=behind, rounds=results["rounds"], native=native,
        natives=natives,
        but=" but those that are named" if overlaps else "")
    lines = [text]
    os.makedirs(PICTURES, exist_ok=True)
    for name in servers.SERVERS:
        if name not in results["stores"]:
            continue
        store = results["stores"][name]
        lines += section(name, store)
        with open(os.path.join(PICTURES, "performance-%s.svg" % name),
                  "w") as f:
            f.write(chart.draw(store["label"], panels(store["rows"])))
    with open(PAGE, "w") as f:
        f.write("\n".join(lines).rstrip("\n") + "\n")


def panels(rows):
    found = []
    for measure in MEASURES:
        bars = [(label, measure.of(row), "ours" if label == OURS else "also"
                 if is_ours(label) else "theirs",
                 measure.show(measure.of(row))) for label, row in rows.items()
                if measure.of(row) is not None]
        better = "more is better" if measure.more else "less is better"
        found.append(("%s (%s)" % (measure.title, better), bars))
    return found


def show(name, store):
    """For the terminal: one table a store."""
    print("\n%s %s, %s; others used %.0f %% of the machine" % (
        store["label"], store["version"], store["durability"],
        store["others"]))
    rows = [["", *(m.title for m in MEASURES)]]
    for label, row in store["rows"].items():
        rows.append([label] + [
            m.cell(ours_for(store, m, label), row).replace("**", "")
            for m in MEASURES])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                        for i, (cell, width) in enumerate(zip(row, widths))))
    for label, reason in store["left_out"].items():
        print("left out: %s: %s" % (label, reason))
    for measure, label, ratio in lost(store):
        print("behind: %s, %s: %s x" % (measure.title, label, digits(ratio)))
