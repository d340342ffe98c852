#!/usr/bin/env python3
"""Build everything, run every test, add up.

A *job* is one command that ends with `N passed, N failed, N skipped`
(check_run.py).  Jobs come from three places: the checks of the sources below,
the builds (gcc, clang, and gcc with each sanitizer), and the tests that each
build's tests.txt lists (cmake/tests.cmake), which wait for that build alone.

Two queues are worked off side by side.  Heavy jobs (builds, clang-tidy, the
simulator: what computes without a pause) run `nice`d, as many as there are
cores.  All others sleep most of the time and mind how long they are kept
waiting: four a core, of which those marked calm, at most one a core, come
first, then the longest allowed; one more each second while these leave a third
of the processors' time to the heavy ones, or to nobody.  Jobs marked serial run
alone, at the end.

On the build server (CI=true) a skipped test counts as a failed one, unless its
reason begins with `needs ` (the machine lacks something that no package brings)
or `this store ` (it does not promise what is tested).

Groups: a name such as `unit` or `behaviour`; `asan` and `tsan` for all tests
of that build, `asan:unit` for one group of it; `plain` for all of the plain
build.  Without a name: all, but for `interop`, other libraries as they come from
their registries, which only --peers runs.
"""

import argparse
import os
import signal
import sys
import threading
import time

from check_run import BUILD, LOGS, ROOT, Job, Tally, kill_all, run_job, say

CORES = os.cpu_count() or 1
AT_ONCE = 4 * CORES  # of the jobs that are not heavy
CALM_AT_ONCE = CORES
MOST_AT_ONCE = 7 * CORES  # while they leave so much of the processors' time:
LEFT_OVER = 0.35
LOOK_S = 1.0  # between two looks at that

# name, arguments of cmake; the first is the one that the plain tests run in.
# In this order they are made, so that the longest tests are not the last.  The
# product is optimised as its users' is, the tests not at all; and where the
# linker plays no part, it is the quicker one.
QUICK_LINKER = ["-D%s_LINKER_FLAGS=-fuse-ld=gold" % kind for kind in
                ("CMAKE_EXE", "CMAKE_SHARED", "CMAKE_MODULE")]
BUILDS = {
    "plain": ["-DCMAKE_BUILD_TYPE=RelWithDebInfo",
              "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O2 -g1",
              "-DHF_TEST_FLAGS=-O0;-U_FORTIFY_SOURCE"],  # that wants -O
    "asan": ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O1 -g1",
             "-DHF_TEST_FLAGS=-O0", "-DHF_SANITIZE=address"] + QUICK_LINKER,
    "tsan": ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O1 -g1",
             "-DHF_TEST_FLAGS=-O0", "-DHF_SANITIZE=thread"] + QUICK_LINKER,
    # For what it warns of, and that it links: no test runs in it, so that
    # nothing is gained by making it fast.
    "clang": ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O0",
              "-DCMAKE_C_COMPILER=clang-14"] + QUICK_LINKER,
}

# group, command, needs the plain build's compile database, cores
SOURCE_GROUPS = [
    ("docs", ["scripts/check_docs.py"], False, 1),
    ("source", ["scripts/check_source.py"], False, 1),
    ("format", ["scripts/check_format.sh"], False, 1),
    ("tidy", ["scripts/check_tidy.py", "build/plain"], True, CORES),
    ("install", ["scripts/check_install.sh"], False, CORES),
]


class Idleness:
    """How much of the processors' time nobody wanted who is in a hurry.

    What the heavy jobs take is as good as idle: they are nice.
    """

    def __init__(self):
        self.since, self.before = 0.0, (0, 0)

    def enough(self):
        """Was LEFT_OVER left since the last look, LOOK_S ago or longer?"""
        now = time.monotonic()
        if now - self.since < LOOK_S:
            return False
        with open("/proc/stat") as f:
            fields = [int(n) for n in f.readline().split()[1:9]]
        idle, total = fields[1] + fields[3], sum(fields)
        passed = total - self.before[1]
        left = (idle - self.before[0]) / passed if passed > 0 else 0
        known = self.since > 0
        self.since, self.before = now, (idle, total)
        return known and left > LEFT_OVER


class Queues:
    """What waits and what runs; the main thread starts, a thread each waits."""

    def __init__(self, args, tally):
        self.args, self.tally = args, tally
        self.changed = threading.Condition()
        self.heavy, self.light, self.serial = [], [], []
        self.running = []
        self.idleness = Idleness()

    def add(self, jobs):
        with self.changed:
            for job in jobs:
                if job.heavy:
                    self.heavy.append(job)
                elif "serial" in job.flags:
                    self.serial.append(job)
                else:
                    self.light.append(job)
            self.light.sort(key=lambda j: ("calm" not in j.flags, -j.limit))
            self.changed.notify()

    def next_heavy(self):
        """Always the first, or a build would wait for ever for two cores."""
        busy = sum(j.cores for j in self.running if j.heavy)
        if self.heavy and busy + self.heavy[0].cores <= CORES:
            return self.heavy.pop(0)
        return None

    def next_light(self):
        light = [j for j in self.running if not j.heavy]
        calm = sum("calm" in j.flags for j in light)
        if len(light) >= AT_ONCE and (len(light) >= MOST_AT_ONCE
                                      or not self.idleness.enough()):
            return None
        for job in self.light:
            if "calm" not in job.flags or calm < CALM_AT_ONCE:
                self.light.remove(job)
                return job
        return None

    def next_job(self):
        job = self.next_heavy() or self.next_light()
        if not job and not self.running and self.serial:
            job = self.serial.pop(0)
        return job

    def work_off(self, job, then):
        try:
            good = run_job(job, self.tally, self.args.quick, self.args.verbose)
            if good is None:
                with self.changed:
                    self.serial.append(job)
            else:
                then(job, good)
        except Exception as problem:  # a list that cannot be read
            self.tally.failed += 1
            say("FAIL %s: %s" % (job.name, problem))
        finally:
            with self.changed:
                self.running.remove(job)
                self.changed.notify()

    def run(self, then):
        """Until nothing waits; then(job, good) may add what a job allows."""
        workers = []
        try:
            with self.changed:
                while True:
                    job = self.next_job()
                    if job:
                        self.running.append(job)
                        workers.append(threading.Thread(
                            target=self.work_off, args=(job, then)))
                        workers[-1].start()
                    elif self.running:
                        self.changed.wait(LOOK_S if self.light else None)
                    else:
                        break
        except BaseException:  # interrupted: end what runs
            kill_all()
            raise
        finally:
            for worker in workers:
                worker.join()


def build_job(name):
    there = os.path.join(BUILD, name)
    script = ('cmake -S "$1" -B "$2" -G Ninja "${@:4}" && '
              'ninja -j "$3" -k 0 -C "$2"')
    return Job("build." + name, "build", ["bash", "-c", "set -o pipefail; ("
               + script + ") && echo '1 passed, 0 failed, 0 skipped'", "build",
               ROOT, there, str(CORES)] + BUILDS[name],
               ["heavy", "limit=1800"], cores=CORES)


def read_manifest(build):
    """The tests that this build lists, fit for it."""
    jobs = []
    with open(os.path.join(BUILD, build, "tests.txt")) as f:
        for line in f.read().splitlines():
            name, group, flags, *command = line.split("|")
            flags = set(flags.split(",")) - {""}
            if build != "plain" and flags & {"nosan", "once", "no" + build}:
                continue
            label = group + "." + name
            if build != "plain":
                label = build + ":" + label
            jobs.append(Job(label, group, command, flags, build))
    return jobs


def chosen(groups, build, group):
    if group == "interop":
        return build == "plain" and group in groups
    if not groups:
        return True
    if build == "plain" and group in groups:
        return True
    return build in groups or "%s:%s" % (build, group) in groups


def wants_build(groups, build):
    sources = {g[0] for g in SOURCE_GROUPS}
    if not groups or build in groups:
        return True
    if build == "clang":
        return False
    if any(g.startswith(build + ":") for g in groups):
        return True
    others = {g for g in groups
              if ":" not in g and g not in BUILDS and g not in sources}
    return build == "plain" and bool(others | ({"tidy"} & set(groups)))


def tests_of(build, args, seen):
    """What a build that is done allows to run."""
    seen.add(build)
    if build == "clang":
        return []
    jobs = [j for j in read_manifest(build)
            if chosen(args.groups, build, j.group)
            and not (args.quick and "slow" in j.flags)]
    seen.update(j.group for j in jobs)
    seen.update("%s:%s" % (build, j.group) for j in jobs)
    if build == "plain":
        jobs += source_jobs(args.groups, True)
    return jobs


def source_jobs(groups, with_build):
    return [Job(group, group, command, ["heavy", "limit=1800"], cores=cores)
            for group, command, needs, cores in SOURCE_GROUPS
            if needs == with_build and (not groups or group in groups)]


def run_all(args, tally):
    os.makedirs(LOGS, exist_ok=True)
    seen = {g[0] for g in SOURCE_GROUPS}
    queues = Queues(args, tally)

    def then(job, good):
        if job.group != "build":
            return
        if good:
            queues.add(tests_of(job.name[len("build."):], args, seen))
        else:  # nothing of it can run
            seen.update(args.groups)

    wanted = [b for b in BUILDS if wants_build(args.groups, b)]
    if args.quick and not args.groups:
        wanted = ["plain"]
    rest = source_jobs(args.groups, False)
    queues.add([j for j in rest if j.group != "install"])  # a few seconds
    queues.add([build_job(b) for b in wanted])
    queues.add([j for j in rest if j.group == "install"])
    queues.run(then)
    for group in args.groups:
        if group not in seen:
            say("FAIL %s: there is no such group of tests" % group)
            tally.failed += 1


def report(tally, seconds):
    slow = sorted(tally.jobs, reverse=True)[:10]
    dear = sorted(tally.jobs, key=lambda j: -j[1])[:10]
    busy = sum(j[1] for j in tally.jobs)
    say("\nslowest: " + ", ".join("%s %.0f s" % (j[2], j[0]) for j in slow))
    say("dearest: " + ", ".join("%s %.0f s" % (j[2], j[1]) for j in dear))
    say("took %d min %d s, " % divmod(int(seconds), 60)
        + "and %d min %d s of the processors" % divmod(int(busy), 60))
    if tally.again:
        say("had a second run, alone: " + " ".join(tally.again))
    if tally.failures:
        say("failed: " + " ".join(tally.failures))
    say("%d passed, %d failed, %d skipped"
        % (tally.passed, tally.failed, tally.skipped))


def main():
    parser = argparse.ArgumentParser(
        prog="check", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true",
                        help="the plain build only, without slow tests")
    parser.add_argument("-v", "--verbose", action="store_true",
                        help="show the output of tests that passed, too")
    parser.add_argument("--peers", action="store_true",
                        help="other libraries beside ours, and nothing else")
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    args = parser.parse_args()
    if args.peers:
        args.groups.append("interop")

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    tally = Tally()
    start = time.monotonic()
    try:
        run_all(args, tally)
    except BaseException as problem:  # the last line comes in any case
        tally.failed += 1
        say("FAIL check: %s" % (str(problem) or type(problem).__name__))
    report(tally, time.monotonic() - start)
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
