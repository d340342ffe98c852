#!/usr/bin/env python3
"""Build everything, run every test, add up.

A *job* is one command that ends with `N passed, N failed, N skipped`; check
knows nothing else about it.  Jobs come from three places: the checks of the
sources below, the builds (gcc, clang, and gcc with each sanitizer), and the
tests that each build's tests.txt lists (cmake/tests.cmake).  A few jobs run
side by side, two a core, since most of them sleep most of the time; builds and jobs marked serial run alone.

A command without that last line, that dies, or that exceeds its limit counts
as one failed test.  On the build server (CI=true) a skipped test counts as a
failed one, unless its reason begins with `needs ` (the machine lacks something
that no package brings) or `this store ` (it does not promise what is tested).

Groups: a name such as `unit` or `behaviour`; `asan` and `tsan` for all tests
of that build, `asan:unit` for one group of it; `plain` for all of the plain
build.  Without a name: all.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "build")
LOGS = os.path.join(BUILD, "check")
CI = os.environ.get("CI", "") not in ("", "0", "false")
JOBS = 2 * (os.cpu_count() or 1)
LIMIT = 300  # seconds for a test that names none
TALLY = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$")
EXCUSED = re.compile(r"^skip [^:]*: (needs|this store) ")

# name, arguments of cmake; the first is the one that the plain tests run in.
BUILDS = {
    "plain": ["-DCMAKE_BUILD_TYPE=RelWithDebInfo"],
    "clang": ["-DCMAKE_BUILD_TYPE=RelWithDebInfo",
              "-DCMAKE_C_COMPILER=clang-14"],
    "asan": ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O1 -g",
             "-DHF_SANITIZE=address"],
    "tsan": ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O1 -g",
             "-DHF_SANITIZE=thread"],
}
RUNNING = set()  # sessions of the jobs under way
# Fresh databases are made once and copied (tests/harness/sql-server).
TEMPLATES = tempfile.TemporaryDirectory(prefix="hf-templates-")
SANITIZE = {"asan": "address", "tsan": "thread"}

# group, command, needs the plain build's compile database
SOURCE_GROUPS = [
    ("source", ["scripts/check_source.py"], False),
    ("docs", ["scripts/check_docs.py"], False),
    ("format", ["scripts/check_format.sh"], False),
    ("tidy", ["scripts/check_tidy.py", "build/plain"], True),
    ("install", ["scripts/check_install.sh"], False),
]


class Job:
    def __init__(self, name, group, command, flags=(), build=None):
        self.name, self.group, self.command = name, group, command
        self.flags, self.build = set(flags), build
        self.limit = LIMIT
        for flag in self.flags:
            if flag.startswith("limit="):
                self.limit = int(flag[6:])
        if build in SANITIZE:
            self.limit *= 3


class Tally:
    """What was counted so far; shared by the workers."""

    def __init__(self):
        self.lock = threading.Lock()
        self.passed = self.failed = self.skipped = 0
        self.times = []
        self.failures = []

    def add(self, job, counts, seconds):
        with self.lock:
            self.passed += counts[0]
            self.failed += counts[1]
            self.skipped += counts[2]
            self.times.append((seconds, job.name))
            if counts[1]:
                self.failures.append(job.name)


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def environment(job, folder, quick):
    env = dict(os.environ, TMPDIR=folder, HF_SOURCE_DIR=ROOT, LC_ALL="C.UTF-8")
    for name in ("HOLDFAST_URL", "HOLDFAST_DRIVER_PATH", "MAKEFLAGS"):
        env.pop(name, None)
    env["HF_QUICK"] = "1" if quick else ""
    env["HF_SQL_TEMPLATES"] = TEMPLATES.name
    env["HF_SANITIZE"] = SANITIZE.get(job.build, "")
    if job.build:
        there = os.path.join(BUILD, job.build)
        env["HF_BUILD_DIR"] = there
        env["HOLDFAST_DRIVER_PATH"] = os.path.join(there, "drivers-lib")
    env["ASAN_OPTIONS"] = "detect_stack_use_after_return=1:strict_strings=1"
    env["UBSAN_OPTIONS"] = "print_stacktrace=1:halt_on_error=1"
    env["TSAN_OPTIONS"] = ("halt_on_error=1:die_after_fork=0:suppressions="
                           + os.path.join(ROOT, "scripts/tsan.supp"))
    return env


def needs_fixed_addresses():
    """gcc 12's TSan dies at random where the kernel shuffles more than this."""
    try:
        with open("/proc/sys/vm/mmap_rnd_bits") as f:
            return int(f.read()) > 28
    except (OSError, ValueError):
        return False


def members(session):
    """The processes of a job: its session, whatever groups they made in it."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid) as f:
                fields = f.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] not in "ZX":
            found.append(int(pid))
    return found


def kill_session(session):
    for _ in range(100):  # one that forks meanwhile is met the next time
        left = members(session)
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)


def run_command(job, folder, out, quick):
    """Run to the end or the limit; its status, or a sentence what was wrong."""
    command = list(job.command)
    if job.build == "tsan" and needs_fixed_addresses():
        command = ["setarch", "-R"] + command
    try:
        child = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out,
            stderr=subprocess.STDOUT, start_new_session=True,
            env=environment(job, folder, quick))
    except OSError as problem:
        return "cannot start %s: %s" % (command[0], problem.strerror)
    RUNNING.add(child.pid)
    trouble, status = None, None
    try:
        status = child.wait(job.limit)
        if status < 0:
            trouble = "died of signal %d" % -status
        elif status > 1:
            trouble = "ended with status %d" % status
    except subprocess.TimeoutExpired:
        trouble = "exceeded its limit of %d s" % job.limit
    finally:
        # Whatever is left of it goes, and is told.
        deadline = time.monotonic() + 1
        while trouble is None and members(child.pid):
            if time.monotonic() > deadline:
                trouble = "left a process behind"
            time.sleep(0.02)
        RUNNING.discard(child.pid)
        kill_session(child.pid)
        child.wait()
    return trouble or status


def judge(output, ending):
    """(passed, failed, skipped), and a sentence where the job itself failed."""
    trouble = ending if isinstance(ending, str) else None
    lines = output.rstrip("\n").split("\n")
    found = TALLY.match(lines[-1]) if lines else None
    counts = [int(n) for n in found.groups()] if found else [0, 0, 0]
    if not trouble and not found:
        trouble = "ended without its last line 'N passed, N failed, N skipped'"
    if not trouble and sum(counts) == 0:
        trouble = "ran no test"
    if not trouble and ending != 0 and counts[1] == 0:
        trouble = "ended with status %d although nothing failed" % ending
    if CI:
        ours = [line for line in lines
                if line.startswith("skip ") and not EXCUSED.search(line)]
        if ours:
            counts[1] += len(ours)
            counts[2] -= min(len(ours), counts[2])
    if trouble and counts[1] == 0:
        counts[1] = 1
    return counts, trouble


def run_job(job, tally, quick, verbose):
    path = os.path.join(LOGS, job.name.replace("/", "_") + ".log")
    folder = tempfile.mkdtemp(prefix="hf-check-")
    os.chmod(folder, 0o711)  # databases run under accounts of their own
    start = time.monotonic()
    try:
        with open(path, "wb") as out:
            ending = run_command(job, folder, out, quick)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    with open(path, errors="replace") as f:
        output = f.read()
    counts, trouble = judge(output, ending)
    seconds = time.monotonic() - start
    tally.add(job, counts, seconds)
    head = "%-4s %-36s %5d passed, %d failed, %d skipped  %6.1f s" % (
        "FAIL" if counts[1] else "ok", job.name, *counts, seconds)
    text = [head]
    if counts[1] or verbose:
        text.append(output.rstrip("\n"))
    else:
        text += ["     " + line for line in output.split("\n")
                 if line.startswith("skip ")]
    if trouble:
        text.append("FAIL %s: %s" % (job.name, trouble))
    say("\n".join(text))
    return counts[1] == 0


def run_jobs(jobs, tally, quick, verbose):
    """Some at a time, the longest allowed first; then the serial ones."""
    together = [j for j in jobs if "serial" not in j.flags]
    together.sort(key=lambda j: j.limit)
    lock = threading.Lock()

    def work():
        while True:
            with lock:
                if not together:
                    return
                job = together.pop()
            run_job(job, tally, quick, verbose)

    workers = [threading.Thread(target=work) for _ in range(JOBS)]
    for worker in workers:
        worker.start()
    try:
        for worker in workers:
            worker.join()
    except BaseException:  # interrupted: start nothing more, end what runs
        together.clear()
        for session in list(RUNNING):
            kill_session(session)
        raise
    for job in jobs:
        if "serial" in job.flags:
            run_job(job, tally, quick, verbose)


def build_job(name):
    there = os.path.join(BUILD, name)
    script = 'cmake -S "$1" -B "$2" -G Ninja "${@:3}" && ninja -k 0 -C "$2"'
    flags = ["limit=900"]
    return Job("build." + name, "build", ["bash", "-c", "set -o pipefail; ("
               + script + ") && echo '1 passed, 0 failed, 0 skipped'", "build",
               ROOT, there] + BUILDS[name], flags)


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


def run_tests_of(build, args, tally, seen):
    """Build it, then run what it lists; nothing without the build."""
    if not wants_build(args.groups, build):
        return
    if not run_job(build_job(build), tally, args.quick, args.verbose):
        seen.update(args.groups)
        return
    seen.add(build)
    if build == "clang":
        return
    jobs = [j for j in read_manifest(build)
            if chosen(args.groups, build, j.group)
            and not (args.quick and "slow" in j.flags)]
    seen.update(j.group for j in jobs)
    seen.update("%s:%s" % (build, j.group) for j in jobs)
    if build == "plain":
        jobs += source_jobs(args.groups, True)
    run_jobs(jobs, tally, args.quick, args.verbose)


def source_jobs(groups, with_build):
    return [Job(group, group, command, ["limit=900"])
            for group, command, needs in SOURCE_GROUPS
            if needs == with_build and (not groups or group in groups)]


def run_all(args, tally):
    os.makedirs(LOGS, exist_ok=True)
    seen = {g[0] for g in SOURCE_GROUPS}
    run_jobs(source_jobs(args.groups, False), tally, args.quick, args.verbose)
    for build in BUILDS:
        if args.quick and build != "plain" and not args.groups:
            continue
        run_tests_of(build, args, tally, seen)
    for group in args.groups:
        if group not in seen:
            say("FAIL %s: there is no such group of tests" % group)
            tally.failed += 1


def report(tally, seconds):
    slow = sorted(tally.times, reverse=True)[:5]
    say("\nslowest: " + ", ".join("%s %.0f s" % (n, s) for s, n in slow))
    say("took %d min %d s" % divmod(int(seconds), 60))
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
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    args = parser.parse_args()

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
