"""Why ours is behind where it is: measured, in words for docs/performance.md.

A reason is looked for by store, scenario, number and the beginning of the
contestant's label; the first that fits is taken.
"""

REASONS = [
]


def reason(store, scenario, name, label):
    for where, what, number, who, text in REASONS:
        if ((where, what) == (store, scenario) and number in ("", name)
                and label.startswith(who)):
            return " ".join(text.split())
    return "not taken apart."
