"""Reads what the workers of a mixed run wrote down: were there two holders?

Two witnesses, each enough to convict.  The counter in the store must have been
1 in every section; and on the clock that all processes share, nobody may have
the lock before every earlier holder has begun to give it back.  Knows nothing
of locks or servers, so that a planted overlap shows that it can convict.
"""


class Verdict:
    def __init__(self, sections):
        """sections: of (asked, got, gave, inside, worker), in any order."""
        ordered = sorted(sections, key=lambda s: s[1])
        self.sections = len(ordered)
        self.by_worker = {}
        self.crowded = sum(1 for s in ordered if s[3] != 1)
        self.overlaps = 0
        self.handovers = 0  # asked while another had it, and got it next
        free_at = None
        before = None
        for section in ordered:
            asked, got, gave, _, worker = section
            self.by_worker[worker] = self.by_worker.get(worker, 0) + 1
            if free_at is not None and got < free_at:
                self.overlaps += 1
            if before and before[4] != worker and asked < before[2]:
                self.handovers += 1
            free_at = gave if free_at is None else max(free_at, gave)
            before = section

    def guilty(self):
        return self.overlaps > 0 or self.crowded > 0

    def __str__(self):
        return "%d sections, %d handed over, %d overlaps, %d crowded; %s" % (
            self.sections, self.handovers, self.overlaps, self.crowded,
            ", ".join("%s %d" % item
                      for item in sorted(self.by_worker.items())))


def read_log(path, worker):
    with open(path) as f:
        return [tuple(int(n) for n in line.split()) + (worker,) for line in f]
