"""Who convicts: a test of ./check, or a campaign, in a build of its own.

A judge runs its command within a time, in a process group that dies with it,
and says whether something was convicted and by which words.  A command that
cannot run at all convicts nobody.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TALLY = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.M)
# The last words of a case, without its folder, and how it ended.
FAILED = re.compile(r"(?:^ +(?:\S*/)?(\S.*)\n)?^FAIL ([^:\n]*)(.*)$", re.M)
BROKEN = re.compile(r"^  (I\d+)\b[^:]*: (.*)$", re.M)


class Verdict:
    def __init__(self, convicted, words, seconds, ran=True):
        self.convicted, self.words = convicted, words
        self.seconds, self.ran = seconds, ran


class Build:
    """A copy of the sources, and what is built of it."""

    def __init__(self, folder):
        self.source = os.path.join(folder, "source")
        self.folder = os.path.join(folder, "build")
        self.log = os.path.join(folder, "build.log")
        self.tests = None

    @property
    def drivers(self):
        return os.path.join(self.folder, "drivers-lib")

    def run(self, *words):
        with open(self.log, "wb") as log:
            done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=log,
                                  stderr=subprocess.STDOUT)
        return done.returncode == 0

    def configure(self):
        gold = ["-D%s_LINKER_FLAGS=-fuse-ld=gold" % kind for kind in
                ("CMAKE_EXE", "CMAKE_SHARED", "CMAKE_MODULE")]
        return self.run(
            "cmake", "-S", self.source, "-B", self.folder, "-G", "Ninja",
            "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DHF_WERROR=OFF",
            "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1 -g1", "-DHF_TEST_FLAGS=-O0",
            "-DHF_CLI_STATIC=OFF", *gold)

    def command(self, name):
        """A test's words, as tests.txt of the build has them."""
        if self.tests is None:
            with open(os.path.join(self.folder, "tests.txt")) as f:
                self.tests = {line.split("|")[0]: line.split("|")[3:]
                              for line in f.read().splitlines()}
        if name not in self.tests:
            raise LookupError("there is no test '%s'" % name)
        return self.tests[name]

    def make(self, judges):
        """All that these judges run, and the modules that they load."""
        targets = {"campaign_parts", "holdfast-fault", "holdfast-trace"}
        for kind, name, *_ in judges:
            for word in self.command(name) if kind == "test" else ():
                if word.startswith(self.folder + os.sep):
                    targets.add(os.path.relpath(word, self.folder))
        return self.run("ninja", "-C", self.folder, "-j",
                        os.environ.get("HF_MUTANTS_JOBS",
                                       str(os.cpu_count() or 1)),
                        *sorted(targets))


def run_for(command, seconds, env):
    """(output, status); the status is None if the time was up."""
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=subprocess.STDOUT, env=env,
                                 start_new_session=True)
        try:
            status = child.wait(seconds)
        except subprocess.TimeoutExpired:
            # First the one that knows whom it has started.
            child.terminate()
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                pass
            status = None
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()
        out.seek(0)
        return out.read().decode(errors="replace"), status


def command_of(build, judge):
    kind, *words = judge
    if kind == "test":
        return build.command(words[0]) + words[1:]
    store, faults, minutes, seed = words
    return [sys.executable,
            os.path.join(build.source, "tests", "campaign", "conduct.py"),
            "--test", "--build", build.folder, "--stores", store, "--faults",
            faults, "--minutes", minutes, "--seed", seed]


def judge(build, words, expect, seconds):
    env = dict(os.environ, HF_SOURCE_DIR=build.source,
               HF_BUILD_DIR=build.folder, HF_SANITIZE="",
               HOLDFAST_DRIVER_PATH=build.drivers)
    env["TMPDIR"] = tempfile.mkdtemp(prefix="hf-mutant-")
    os.chmod(env["TMPDIR"], 0o711)  # the servers' accounts pass through
    begin = time.monotonic()
    try:
        output, status = run_for(command_of(build, words), seconds, env)
    finally:
        shutil.rmtree(env["TMPDIR"], ignore_errors=True)
    took = time.monotonic() - begin
    with open(os.path.join(os.path.dirname(build.log), "judge.log"),
              "w") as log:
        log.write(output)
    tally = TALLY.search(output)
    if status is None:
        return Verdict(False, "no verdict within %d s" % seconds, took)
    if not tally:
        return Verdict(False, "the judge could not run: status %d: %s"
                       % (status, output.strip()[-200:]), took, False)
    found = ([m.groups() for m in BROKEN.finditer(output)]
             if words[0] == "campaign"
             else [(m.group(2) + ":", m.group(1) or m.group(3)[2:])
                   for m in FAILED.finditer(output)])
    if words[0] == "campaign" and expect:
        other = sorted({i for i, _ in found} - set(expect))
        found = [f for f in found if f[0] in expect]
        if other and not found:
            return Verdict(False, "convicted of %s, which is not what it breaks"
                           % " ".join(other), took)
    if int(tally.group(2)) == 0 or not found:
        return Verdict(False, "all is well: " + tally.group(0), took)
    return Verdict(True, " ".join(w for w in found[0] if w), took)
