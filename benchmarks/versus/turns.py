"""Who held when, worked out from what the lanes wrote down.

A Turn is one lock and unlock of one lane, with its four instants.  Pure: knows
nothing of locks, processes or servers, so that turns_test.py can show that a
lock which does not exclude is caught.  The rules are those of judge.c.
"""

import collections
import statistics

Turn = collections.namedtuple("Turn", "worker asked got gave done")


def read_turns(path, worker):
    with open(path) as f:
        return [Turn(worker, *map(int, line.split())) for line in f]


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def rate(turns, begin, end):
    """Turns a second of those that ended in the window."""
    inside = sum(begin <= turn.done <= end for turn in turns)
    return inside * 1e9 / (end - begin)


def pairs_us(turns):
    """p50 and p99 of what lock and unlock take, without what is between."""
    took = [(t.done - t.gave + t.got - t.asked) / 1e3 for t in turns]
    return statistics.median(took), quantile(took, 0.99)


def contest(turns, workers, begin, end):
    """What a contest for one key was like."""
    ordered = sorted(turns, key=lambda turn: turn.got)
    overlaps, handovers, free_at, last = 0, 0, 0, None
    for turn in ordered:
        overlaps += turn.got < free_at
        free_at = max(free_at, turn.gave)
        if last and begin <= turn.got <= end:
            handovers += (turn.worker != last.worker
                          and turn.asked < last.gave)
        last = turn
    of = collections.Counter(turn.worker for turn in turns)
    counts = [of[worker] for worker in workers]
    return {"grants": rate(turns, begin, end),
            "handovers": handovers * 1e9 / (end - begin),
            "fairness": min(counts) / max(counts) if max(counts) else 0,
            "longest_ms": max(t.got - t.asked for t in turns) / 1e6
            if turns else 0,
            "overlaps": overlaps}
