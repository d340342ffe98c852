#!/usr/bin/env python3
"""Torture every store and prove from what the clients wrote down that no
promise was broken.

For each store: servers of its own, clients in several processes that take
locks in every way, faults by seed, then a checker that reads all diaries
(tests/campaign).  A violation is drawn as a timeline, and its diaries are kept
in build/campaign.  A seed begins the same dice again; but which fault finds
somebody to strike, and what the clients make of it, is up to the machine, and
a new kind of fault changes all that is drawn after it.

Status: 0 nothing is broken, 1 something is, 2 something could not be run.
"""

import argparse
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
import faults  # noqa: E402
import report  # noqa: E402
import sitting  # noqa: E402
import stores  # noqa: E402
from servers import NoServer  # noqa: E402

EVERYBODY = list(stores.STORES) + list(stores.UNSAFE)


def read_options():
    parser = argparse.ArgumentParser(
        prog="campaign", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stores", metavar="NAME,...", default="all",
                        help="of " + ", ".join(stores.STORES) + "; and, not "
                        "safe, " + ", ".join(stores.UNSAFE))
    parser.add_argument("--faults", metavar="N,...", default="all",
                        help="of " + ", ".join("%d (%s)" % (n, row[0])
                                               for n, row in
                                               sorted(faults.TABLE.items()))
                        + "; none: no fault at all")
    parser.add_argument("--minutes", type=float, default=1,
                        help="for each store, breaks included (default 1)")
    parser.add_argument("--seed", type=int, default=None,
                        help="default: the time")
    parser.add_argument("--jobs", type=int, default=1,
                        help="so many stores beside each other (default 1)")
    parser.add_argument("--claim", action="store_true",
                        help="judge as if no page allowed two holders under "
                        "any fault: must be convicted, with faults that a page "
                        "names")
    parser.add_argument("--report", metavar="FILE",
                        help="put the columns of these stores into that page, "
                        "which keeps the others; with --claim the convictions")
    parser.add_argument("--test", action="store_true",
                        help="as a job of ./check: one line per store, and the "
                        "sum of passed and failed ones last")
    parser.add_argument("--planted", action="store_true",
                        help="each client has keys of its own and believes "
                        "that they are everybody's: must be convicted")
    parser.add_argument("--build", default=os.environ.get("HF_BUILD_DIR"),
                        help=argparse.SUPPRESS)
    parser.add_argument("--no-clock", action="store_true",
                        help=argparse.SUPPRESS)  # sanitizers want no preload
    parser.add_argument("--page", help=argparse.SUPPRESS)  # of this run alone
    options = parser.parse_args()
    if options.report and (options.planted or options.test):
        parser.error("--report is for what is no test")
    options.seconds = options.minutes * 60
    options.stores = (list(stores.STORES) if options.stores == "all"
                      else options.stores.split(","))
    for name in options.stores:
        if name not in EVERYBODY:
            parser.error("no store '%s'" % name)
    if options.faults == "all":
        options.faults = None
    elif options.faults == "none":
        options.faults = [0]
    else:
        options.faults = [int(n) for n in options.faults.split(",")]
        for n in options.faults:
            if n not in faults.TABLE:
                parser.error("no fault %d" % n)
    if options.seed is None:
        options.seed = int(time.time())
    if not options.build:
        parser.error("say --build FOLDER")
    options.keep = os.path.join(options.build, "campaign")
    options.date, options.commit = time.strftime("%Y-%m-%d"), find_commit()
    return options


def find_commit():
    """What is being run: read before it takes its time."""
    def git(*words):
        done = subprocess.run(["git", "-C", HERE, *words], text=True,
                              capture_output=True)
        return done.stdout.strip() if done.returncode == 0 else None
    try:
        commit = git("rev-parse", "--short=10", "HEAD")
        changed = git("status", "--porcelain", "--", ":/", ":!/docs")
    except OSError:
        commit = None
    if not commit:
        return "commit not known"
    return "commit " + commit + (" with changes" if changed else "")


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def is_unsafe(problem):
    """False: a machine that is too busy may be guilty of it (I6, I9, a server
    that is slow to start), and ./check may try again.  Never of a crash, nor
    of what is left behind."""
    return not (re.match(r"I(6|9)\b", problem)
                or re.match(r"I10: (?!client |the checker )[^:]* ("
                            r"does not come (up|back)|"
                            r"did not find a leader again)\b", problem))


def show_problems(problems):
    if any(is_unsafe(problem) for problem in problems):
        print("  unsafe: violated, from what the clients were told:")
    for problem in problems[:20]:
        print("  " + problem)


def run_one(options, name):
    """The sitting, or None: it could not be run."""
    one = sitting.Sitting(options, name, options.seed)
    begin, busy = time.monotonic(), processor_seconds()
    try:
        one.run()
    except NoServer as problem:
        print("FAIL %s: %s" % (name, problem))
        show_problems(one.problems)  # what it had seen before is no excuse
        return None
    counts = one.counts
    if options.planted or options.claim:
        return run_planted(one, options)
    if not counts.get("granted") or (one.choose_faults() and not one.injected):
        one.problems.append("nothing was shown: nobody was granted anything, "
                            "or nothing befell anybody")
    print("%s %s: %d acquisitions, %d faults of %d kinds, %d lost, %d stale "
          "writes refused, %d places compared, %d wake-ups, %d allowed by the "
          "page, %d broken, %d s, %.1f s of the processors" % (
              "FAIL" if one.problems else "ok", name, counts["granted"],
              sum(one.injected.values()), len(one.injected), counts["lost"],
              counts["fenced"], counts["order_pairs"], counts["wakes"],
              counts["allowed"], len(one.problems),
              time.monotonic() - begin, processor_seconds() - busy))
    if one.problems:
        show_problems(one.problems)
        print(one.output)
        print("  diaries in %s; again: ./campaign --stores %s --seed %d "
              "--minutes %g" % (getattr(one, "kept", "?"), name, options.seed,
                                options.minutes))
    sys.stdout.flush()
    return one


def run_planted(one, options):
    """Convicted is good."""
    two = [p for p in one.problems if p.startswith("I1 ")]
    print("%s %s: convicted is good: %d acquisitions, %d faults, %d "
          "violations%s" % ("ok" if two else "FAIL", one.name,
                            one.counts["granted"], sum(one.injected.values()),
                            len(one.problems),
                            ": " + two[0] if two else ""))
    if two and options.report:
        report.put(options.report, EVERYBODY, convictions={
            one.name: "%s, and %d more; %s" % (
                two[0], len(one.problems) - 1, report.describe(one, options))})
    one.problems = [] if two else ["the checker saw nothing"]
    return one


def run_here(options):
    """One store after the other: how many are broken, how many missing."""
    broken, missing = 0, 0
    for name in options.stores:
        one = run_one(options, name)
        missing += one is None
        broken += bool(one and one.problems)
        if one and options.page:
            for page in {options.page, options.report} - {None}:
                report.put(page, EVERYBODY, [report.column(one, options)])
    return broken, missing


def run_beside(options):
    """Each store in a conductor of its own, some at a time; what each says is
    shown when it is done."""
    waiting, running = list(options.stores), {}
    try:
        return watch_them(options, waiting, running)
    finally:
        for _, child in running.values():
            child.terminate()
        for _, child in running.values():
            child.wait()


def watch_them(options, waiting, running):
    broken, missing = 0, 0
    while waiting or running:
        while waiting and len(running) < options.jobs:
            name, said = waiting.pop(0), tempfile.TemporaryFile("w+")
            running[name] = said, subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", sys.executable, __file__]
                + sys.argv[1:] + [
                    "--stores", name, "--jobs", "1", "--seed",
                    str(options.seed), "--build", options.build]
                + (["--page", options.page] if options.page else []),
                stdout=said)
        for name, (said, child) in list(running.items()):
            if child.poll() is None:
                continue
            said.seek(0)
            for line in said:
                if not re.match(r"\||seed |\d+ passed", line):
                    sys.stdout.write(line)
            sys.stdout.flush()
            said.close()
            broken += child.returncode == 1
            missing += child.returncode not in (0, 1)
            del running[name]
        time.sleep(0.2)
    return broken, missing


def end_once(number, frame):
    """A second signal must not disturb the tidying up."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.default_int_handler(number, frame)


def main():
    options = read_options()
    signal.signal(signal.SIGTERM, end_once)
    print("seed %d" % options.seed)
    sys.stdout.flush()
    run = run_beside if options.jobs > 1 else run_here
    quiet = (options.page or options.test or options.planted or options.claim)
    with tempfile.TemporaryDirectory(prefix="hf-campaign-") as folder:
        if not quiet:
            options.page = os.path.join(folder, "page.md")
        try:
            broken, missing = run(options)
        except KeyboardInterrupt:
            return 130
        if not quiet and os.path.exists(options.page):
            with open(options.page, encoding="utf-8") as f:
                print("\n".join(re.findall(r"^\|.*", f.read(), re.M)))
    if options.test:
        print("%d passed, %d failed, 0 skipped" % (
            len(options.stores) - broken - missing, broken + missing))
    return 1 if broken else 2 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
