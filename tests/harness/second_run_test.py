#!/usr/bin/env python3
"""Which failures of ./check are given a second run, and which never.

A test that was only too slow may try again, alone.  A crash, a sanitizer's
word, a broken invariant and something left behind are no matter of time: a
second run that goes well would hide them (scripts/check_run.py, and what
tests/campaign/conduct.py calls unsafe).
"""

import os
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "scripts"),
                os.path.join(HERE, "..", "campaign")]
sys.dont_write_bytecode = True
import check_run  # noqa: E402
import conduct  # noqa: E402

# (what a job printed, what was wrong with the job itself)
SLOW = [
    ("FAIL lock.waits: took longer than 60 s", None),
    ("FAIL lock.waits: exit status 1", None),
    ("FAIL lock.waits: killed by signal 9", None),
    ("FAIL lock.waits: killed by signal 15", None),
    ("", "exceeded its limit of 600 s"),
    ("", "died of signal 15"),
    ("", "ended with status 143"),
    ("    2026-01-01 [Warning] Aborted connection 7 to db", None),
    ("ok crash.killed by signal 11", None),
    ("skip crash.unsafe: needs a kernel", None),
    ("  I9: client 3 does not end: waits", None),
]
FALLEN = [
    ("ERROR: AddressSanitizer: heap-use-after-free", None),
    ("queue.c:7:3: runtime error: signed integer overflow", None),
    ("    lock.c:9: unsafe: alone is not so", None),
    ("FAIL behave_lock: ended with status -11, counted None", None),
    ("run.sh: line 3:  4711 Segmentation fault      (core dumped) holdfast",
     None),
    ("Aborted", None),
] + [("FAIL lock.waits: killed by signal %d" % n, None)
     for n in (4, 6, 7, 8, 11)
     ] + [("", "died of signal %d" % n) for n in (4, 6, 7, 8, 11)
          ] + [("", "ended with status %d" % (128 + n))
               for n in (4, 6, 7, 8, 11)]

# What a sitting of the campaign found.
FORGIVEN = [
    "I6 a wake-up took 3 s",
    "I9: client 3 does not end: waits",
    "I10: redis does not come up: bind: Address already in use",
    "I10: etcd-2 does not come back",
    "I10: the servers did not find a leader again",
]
UNSAFE = [
    "I1 two holders",
    "I8: left in the store: 2 entries",
    "I8: processes are left: 4711",
    "I10: client 3 ended with -11: ",
    "I10: client 3 ended with 1: redis does not come up",
    "I10: the checker failed: it does not come up",
]


def expect(is_so, what):
    if not is_so:
        raise AssertionError(what)


def runs_again(output, trouble, **other):
    job = check_run.Job("behaviour.x", "behaviour", ["x"], build="plain")
    for name, value in other.items():
        setattr(job, name, value)
    return check_run.has_second_run(job, output, trouble)


def slow_ones_run_again():
    for output, trouble in SLOW:
        expect(runs_again(output, trouble), (output, trouble))


def fallen_ones_do_not():
    for output, trouble in FALLEN:
        expect(not runs_again(output, trouble), (output, trouble))


def a_good_end_hides_nothing():
    text = "FAIL lock.waits: killed by signal 11\nok lock.holds\n"
    expect(not runs_again(text + "1 passed, 1 failed, 0 skipped\n", None), text)


def not_twice_nor_without_time():
    for other in ({"again": True}, {"heavy": True}, {"build": None},
                  {"group": "unit"}, {"group": "sim"}):
        expect(not runs_again(*SLOW[0], **other), other)


def only_time_is_forgiven():
    for problem in FORGIVEN:
        expect(not conduct.is_unsafe(problem), problem)
    for problem in UNSAFE:
        expect(conduct.is_unsafe(problem), problem)


def main():
    failed = 0
    cases = (slow_ones_run_again, fallen_ones_do_not, a_good_end_hides_nothing,
             not_twice_nor_without_time, only_time_is_forgiven)
    for case in cases:
        try:
            case()
            print("ok second_run.%s" % case.__name__)
        except AssertionError as problem:
            failed += 1
            print("FAIL second_run.%s: %s" % (case.__name__, problem))
    print("%d passed, %d failed, 0 skipped" % (len(cases) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
