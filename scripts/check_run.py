"""Run one job of ./check to its end, and judge it.

A *job* is one command that ends with `N passed, N failed, N skipped`; nothing
else is known of it here.  It gets a session and an empty folder of its own;
whatever it leaves behind is killed, and told.  A command without that last
line, that dies, or that exceeds its limit counts as one failed test.

A heavy job runs `nice`d: it takes the processors when nobody else wants them,
so that a test that must keep a lease of a second gets them when it wakes up.
Where the kernel shares the processors among sessions first (autogroup), being
nice inside one's own session helps nobody: the session is made nice, too.
HF_NICE says how nice, for a machine that has other work besides: 0 is not.

A test with leases of a second that fails while eight others run may only have
been too slow.  So it has a second run, alone, when all others are done, and
both outcomes are shown.  Not where an invariant fell, a sanitizer spoke or a
program crashed, and not where time plays no part: what fails there has failed.
"""

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
LIMIT = 600  # seconds for a test that names none
NICE = int(os.environ.get("HF_NICE", "10"))
TALLY = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$")
EXCUSED = re.compile(r"^skip [^:]*: (needs|this store) ")
# No second run behind these: expect.h and conduct.py say `unsafe: `; a crash
# (SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV) is told by runner.c, by in-turn, by
# beside.py (128 + n) and by a shell, each in its own words.
FALLEN = re.compile(
    r"Sanitizer|runtime error|unsafe: "
    r"|(killed by|died of) signal (4|6|7|8|11)\b"
    r"|ended with status (-(4|6|7|8|11)|13[24569])\b"
    r"|(^ *|: line \d+: +\d+ )(Illegal instruction|Aborted|Bus error"
    r"|Floating point exception|Segmentation fault)\b")
TIMELESS = {"unit", "sim", "fuzz", "abi", "sweep", "examples"}
RUNNING = set()  # sessions of the jobs under way
SANITIZE = {"asan": "address", "tsan": "thread"}
MEMORY = "/dev/shm"


def scratch():
    """Where the jobs' folders are: in memory, if there is plenty.

    A database flushes to the disk, and on a busy one that takes seconds, which
    are missing where a lease is to be kept.  TMPDIR has the last word.
    """
    try:
        there = os.statvfs(MEMORY)
    except OSError:
        return None
    if (os.environ.get("TMPDIR") or there.f_flag & os.ST_NOEXEC
            or there.f_bavail * there.f_frsize < 6 << 30
            or not os.access(MEMORY, os.W_OK)):
        return None  # what tempfile thinks best
    return MEMORY


SCRATCH = scratch()
# Fresh databases are made once and copied (tests/harness/sql-server).
TEMPLATES = tempfile.TemporaryDirectory(prefix="hf-templates-", dir=SCRATCH)


class Job:
    """cores: how many a heavy job keeps busy."""

    def __init__(self, name, group, command, flags=(), build=None, cores=1):
        self.name, self.group, self.command = name, group, command
        self.flags, self.build, self.cores = set(flags), build, cores
        self.limit = LIMIT
        for flag in self.flags:
            if flag.startswith("limit="):
                self.limit = int(flag[6:])
        if build in SANITIZE:
            self.limit *= 3
        self.heavy = "heavy" in self.flags
        self.processor = 0.0  # seconds
        self.again = False  # this is its second run


class Tally:
    """What was counted so far; shared by the workers."""

    def __init__(self):
        self.lock = threading.Lock()
        self.passed = self.failed = self.skipped = 0
        self.jobs = []  # (seconds, seconds of a processor, name)
        self.failures = []
        self.again = []

    def add(self, job, counts, seconds):
        with self.lock:
            self.passed += counts[0]
            self.failed += counts[1]
            self.skipped += counts[2]
            self.jobs.append((seconds, job.processor, job.name))
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


def kill_all():
    for session in list(RUNNING):
        kill_session(session)


def start(job, folder, out, quick):
    command = list(job.command)
    if job.build == "tsan" and needs_fixed_addresses():
        command = ["setarch", "-R"] + command
    if job.heavy:
        command = ["nice", "-n", str(NICE)] + command
    child = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out,
        stderr=subprocess.STDOUT, start_new_session=True,
        env=environment(job, folder, quick))
    if job.heavy:
        try:
            with open("/proc/%d/autogroup" % child.pid, "w") as f:
                f.write(str(NICE))
        except OSError:
            pass  # a kernel without it
    return child


def reap(child, job, wait):
    """Its status once it has ended, else None; its processor time is added."""
    if child.returncode is None:
        pid, status, used = os.wait4(child.pid, 0 if wait else os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            job.processor = used.ru_utime + used.ru_stime
    return child.returncode


def run_command(job, folder, out, quick):
    """Run to the end or the limit; its status, or a sentence what was wrong."""
    try:
        child = start(job, folder, out, quick)
    except OSError as problem:
        return "cannot start %s: %s" % (job.command[0], problem.strerror)
    RUNNING.add(child.pid)
    trouble, status = None, None
    try:
        deadline = time.monotonic() + job.limit
        while (status := reap(child, job, False)) is None:
            if time.monotonic() > deadline:
                trouble = "exceeded its limit of %d s" % job.limit
                break
            time.sleep(0.02)
        if status is not None and status < 0:
            trouble = "died of signal %d" % -status
        elif status is not None and status > 1:
            trouble = "ended with status %d" % status
    finally:
        # Whatever is left of it goes, and is told.
        deadline = time.monotonic() + 1
        while trouble is None and members(child.pid):
            if time.monotonic() > deadline:
                trouble = "left a process behind"
            time.sleep(0.02)
        RUNNING.discard(child.pid)
        kill_session(child.pid)
        reap(child, job, True)
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


def has_second_run(job, output, trouble):
    """Of what failed: may it only have been too slow?"""
    if job.heavy or job.again or not job.build or job.group in TIMELESS:
        return False
    lines = [line for line in output.split("\n")
             if not line.startswith(("ok ", "skip "))]
    return not any(FALLEN.search(line) for line in lines + [trouble or ""])


def run_job(job, tally, quick, verbose):
    """Was it good?  None: it is to run once more, alone."""
    path = os.path.join(LOGS, job.name.replace("/", "_") + ".log")
    folder = tempfile.mkdtemp(prefix="hf-check-", dir=SCRATCH)
    os.chmod(folder, 0o711)  # databases run under accounts of their own
    begin = time.monotonic()
    try:
        with open(path, "wb") as out:
            ending = run_command(job, folder, out, quick)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    with open(path, errors="replace") as f:
        output = f.read()
    counts, trouble = judge(output, ending)
    seconds = time.monotonic() - begin
    if counts[1] and has_second_run(job, output, trouble):
        job.again = True
        tally.again.append(job.name)
        say("slow %s: not good beside others, and runs once more, alone\n%s"
            % (job.name, "\n".join("     | " + line for line
                                   in output.rstrip("\n").split("\n"))))
        return None
    tally.add(job, counts, seconds)
    head = "%-4s %-36s %5d passed, %d failed, %d skipped  %6.1f s, %.1f busy" % (
        "FAIL" if counts[1] else "ok", job.name, *counts, seconds,
        job.processor)
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
