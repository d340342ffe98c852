#!/usr/bin/env python3
"""Shows that turns.py counts what it should, and catches two holders."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import turns as judge  # noqa: E402
from turns import Turn  # noqa: E402

SECOND = 10 ** 9


def in_turn():
    """Two who take turns, each waiting while the other holds."""
    return [Turn(i % 2, i * 100 - 150, i * 100, i * 100 + 90, i * 100 + 95)
            for i in range(10)]


def counts_hand_overs():
    found = judge.contest(in_turn(), [0, 1], 0, 1000)
    return (found["overlaps"] == 0 and found["fairness"] == 1
            and round(found["handovers"] * 1000 / SECOND) == 9)


def same_again_is_no_hand_over():
    turns = [turn._replace(worker=0) for turn in in_turn()]
    found = judge.contest(turns, [0, 1], 0, 1000)
    return found["handovers"] == 0 and found["fairness"] == 0


def who_came_later_was_not_handed():
    turns = [turn._replace(asked=turn.got - 5) for turn in in_turn()]
    return judge.contest(turns, [0, 1], 0, 1000)["handovers"] == 0


def two_holders_are_seen():
    turns = in_turn()
    turns[4] = turns[4]._replace(gave=turns[5].got + 1)
    return judge.contest(turns, [0, 1], 0, 1000)["overlaps"] == 1


def one_inside_a_long_one_is_seen():
    turns = [Turn(0, 0, 10, 1000, 1001), Turn(1, 0, 20, 30, 31),
             Turn(2, 0, 500, 510, 511)]
    return judge.contest(turns, [0, 1, 2], 0, 2000)["overlaps"] == 2


def rates_and_times():
    turns = [Turn(0, t, t + 40, t + 1040, t + 1050)
             for t in range(0, 20000, 2000)]
    return (judge.pairs_us(turns) == (0.05, 0.05)
            and judge.rate(turns, 0, 10000) == 5 * SECOND / 10000)


def nobody_had_it():
    found = judge.contest([], [0, 1], 0, 1000)
    return found["grants"] == 0 and found["longest_ms"] == 0


TESTS = [counts_hand_overs, same_again_is_no_hand_over,
         who_came_later_was_not_handed, two_holders_are_seen,
         one_inside_a_long_one_is_seen, rates_and_times, nobody_had_it]


def main():
    failed = 0
    for test in TESTS:
        good = test()
        failed += not good
        print("%s %s" % ("ok" if good else "FAIL", test.__name__))
    print("%d passed, %d failed, 0 skipped" % (len(TESTS) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
