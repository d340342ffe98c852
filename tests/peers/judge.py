"""Reads what the peers of a storm wrote down: were there two holders?

Two witnesses, each enough to convict.  Everybody must have made a folder that
nobody else had made; and on the clock that all processes share, nobody may
have the lock before every earlier holder has begun to give it back; with
several places, before so many have.  Knows nothing of locks or servers, so
that a planted overlap shows that it can convict.
"""


class Verdict:
    def __init__(self, sections, places=1):
        """sections: of (asked, got, gave, inside, worker), in any order."""
        ordered = sorted(sections, key=lambda s: s[1])
        self.sections, self.by_worker = len(ordered), {}
        self.crowded = sum(1 for s in ordered if s[3] != 1)
        self.overlaps = self.most = 0
        self.longest = max([s[2] - s[1] for s in ordered], default=0)
        self.handovers = 0  # asked while another had it, and got it next
        inside, before = [], None  # when those who are inside give it back
        for section in ordered:
            asked, got, gave, _, worker = section
            self.by_worker[worker] = self.by_worker.get(worker, 0) + 1
            inside = [end for end in inside if end > got] + [gave]
            self.most = max(self.most, len(inside))
            self.overlaps += len(inside) > places
            if before and before[4] != worker and asked < before[2]:
                self.handovers += 1
            before = section

    def guilty(self):
        return self.overlaps > 0 or self.crowded > 0

    def stopped(self, lease_ms):
        """Somebody stood still for half of its lease, and may have lost it."""
        return self.longest > lease_ms * 500000

    def __str__(self):
        wrong = "%d overlaps, %d crowded in " % (self.overlaps, self.crowded)
        return "%s%d sections, %d handed over; %s" % (
            wrong if self.guilty() else "", self.sections, self.handovers,
            ", ".join("%s %d" % item
                      for item in sorted(self.by_worker.items())))


def read_log(path, worker):
    """Of one that did not come to its end there may be none, or a last line
    that is cut off."""
    try:
        with open(path) as f:
            lines = [line.split() for line in f if line.endswith("\n")]
    except FileNotFoundError:
        return []
    return [tuple(int(n) for n in line) + (worker,) for line in lines]


def convicts_what_is_planted():
    calm = [(0, 10, 20, 1, "a"), (5, 20, 30, 1, "b"), (25, 31, 40, 1, "a")]
    early = [(0, 10, 20, 1, "a"), (5, 19, 30, 1, "b")]
    # The long one overlaps both, although its neighbour is only one of them.
    long = [(0, 10, 90, 1, "a"), (5, 20, 30, 1, "b"), (5, 40, 50, 1, "b")]
    crowd = [(0, 10, 20, 1, "a"), (5, 21, 30, 2, "b")]
    return (not Verdict(calm).guilty() and Verdict(calm).handovers == 2
            and Verdict(early).overlaps == 1 and Verdict(long).overlaps == 2
            and Verdict(crowd).crowded == 1
            and Verdict(long).stopped(0.0001)
            and not Verdict(long).stopped(0.001)
            and not Verdict(long, 2).guilty() and Verdict(long, 2).most == 2
            and Verdict(long + early[1:], 2).overlaps == 1)
