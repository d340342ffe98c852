"""The table of a campaign: faults by stores."""

import time

import faults


def cell(one, number):
    if number in one.store.why_not:
        return "·"
    injected, granted, broken = one.by_fault.get(number, (0, 0, 0))
    injected = one.injected.get(number, 0)
    if not injected:
        return "0"
    text = "%d (%d)" % (injected, granted)
    return "**%s, %d broken**" % (text, broken) if broken else text


def table(sittings):
    """How often each fault struck, and in brackets how many locks were taken
    while it was at work or less than a lease later."""
    lines = ["| fault | " + " | ".join(one.name for one in sittings) + " |",
             "|---|" + "---|" * len(sittings)]
    for number, (name, _, _) in sorted(faults.TABLE.items()):
        lines.append("| F%d %s | " % (number, name) + " | ".join(
            cell(one, number) for one in sittings) + " |")
    for word, name in (("granted", "acquisitions"), ("lost", "holds lost"),
                       ("fenced", "stale writes refused"),
                       ("order_pairs", "places compared")):
        lines.append("| %s | " % name + " | ".join(
            str(one.counts.get(word, 0)) for one in sittings) + " |")
    lines.append("| **faults injected** | " + " | ".join(
        str(sum(one.injected.values())) for one in sittings) + " |")
    lines.append("| **violations** | " + " | ".join(
        str(len(one.problems)) for one in sittings) + " |")
    return "\n".join(lines)


def reasons(sittings):
    """Why a cell is empty."""
    found = {}
    for one in sittings:
        for number, why in one.store.why_not.items():
            found.setdefault((one.name, why), []).append(number)
    return "\n".join("- %s: %s (%s)" % (
        name, why, ", ".join("F%d" % n for n in sorted(numbers)))
        for (name, why), numbers in sorted(found.items()))


def write(path, sittings, options):
    with open(path, "w") as f:
        f.write("""# The campaign

Written by `./campaign --report`; not by hand. Seed %d, %g minutes of faults
for each store, %s.

Clients in four processes take locks in every way while servers, network,
clocks and the clients themselves are struck. All that they were told is
written down, with instants of one clock, and a checker looks for what must not
be: two holders, tokens that fall, a stale write that was taken, an answer that
is not true, a loss that was told late, somebody overtaken, something left
behind, somebody never answered (I1 to I5, I7 to I9 in
[tests/campaign](../tests/campaign/case.h)).

A cell says how often the fault was injected and, in brackets, how many locks
were taken while it was at work or less than a lease later. A dot: it makes no
sense there.

%s

Where a dot is, and why:

%s
""" % (options.seed, options.minutes, time.strftime("%Y-%m-%d"),
            table(sittings), reasons(sittings)))
