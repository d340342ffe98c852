"""The table of docs/mutants.md, from the last result of each planted bug."""

HEAD = """# Planted bugs

Written by `./campaign --mutants --report`; not by hand.

A test that cannot fail shows nothing. So wrong changes, each of a few lines, are
planted one by one in a copy of the sources ([tests/mutants](../tests/mutants)),
and the tests that guard that promise are run against real servers: a campaign
(with the numbers of its [faults](campaign.md)), or a test of `./check`. Each must
convict its bug within its time; `--sound` runs it on the sources as they are, where
it must find nothing.
The core has %s more, which the simulator convicts (`tests/sim`), and the models
have theirs (`models`).

%d planted, %d convicted.

| bug | what is wrong | convicted by | of | after |
|---|---|---|---|---|
"""


def shorten(text, most):
    text = " ".join(text.replace("|", "/").split())
    if len(text) <= most:
        return text
    return text[:most - 3].rsplit(" ", 1)[0] + " ..."


def judge_words(words):
    kind, name, *rest = words.split()
    if kind == "test":
        return "`%s`" % " ".join([name] + rest)
    faults, minutes, seed = rest
    return "campaign on %s, %s, seed %s" % (
        name, "no faults" if faults == "none"
        else "faults " + faults.replace(",", ", "), seed)


def row(m, result):
    if not result or result["mark"] != m.mark():
        return "| %s | %s | not tried yet | | |" % (m.name, m.wrong)
    if not result["convicted"]:
        return "| %s | %s | **nobody** | %s | |" % (
            m.name, m.wrong, shorten(result["words"], 90))
    return "| %s | %s | %s | %s | %.0f s |" % (
        m.name, m.wrong, judge_words(result["judge"]),
        shorten(result["words"], 90), result["seconds"])


def count_simulated():
    import os
    import re
    root = os.path.dirname(os.path.dirname(os.path.dirname(
        os.path.abspath(__file__))))
    with open(os.path.join(root, "src", "core", "mutant.h")) as f:
        return len(re.findall(r"^    X\(", f.read(), re.M))


def write(path, all_mutants, results):
    good = sum(1 for m in all_mutants if m.name in results
               and results[m.name]["mark"] == m.mark()
               and results[m.name]["convicted"])
    rows = [row(m, results.get(m.name)) for m in all_mutants]
    with open(path, "w", encoding="utf-8") as f:
        f.write(HEAD % (count_simulated(), len(all_mutants), good)
                + "\n".join(rows) + "\n")
