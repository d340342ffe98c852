"""One sitting of a campaign: a store, its clients, faults by seed, a verdict.

The order of things: servers, relay, clients; faults for as long as was asked,
in a long sitting with breaks; then everything is healed, two leases pass in
peace, everybody is asked to end, and what is left behind is looked for.  Then
the checker reads the diaries.
"""

import ctypes
import os
import random
import re
import resource
import signal
import subprocess
import tempfile
import shutil
import time

import diary
import faults
import stores
from servers import NoServer, PATIENCE
from store import UNKNOWN

HERE = os.path.dirname(os.path.abspath(__file__))
THREADS = (3, 1, 2, 1)  # of each client
KEYS = 3
END_S = 90  # for a client to end
EVERY_S = 100  # a break so often, in which wake-ups are judged
CLAIM_S = 120  # at most, until what must be convicted has had its chance
TRACE_SEIZE, TRACE_INTERRUPT, TRACE_DETACH = 0x4206, 0x4207, 17
WAIT_ALL = 0x40000000  # also for threads
BE_REAPER = 36
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p,
                        ctypes.c_void_p]


class Life:
    def __init__(self, process):
        self.process = process
        self.stopped = False
        self.keeper = None  # the thread that is stopped, and since when
        self.limits = {}  # as they were


class Sitting:
    def __init__(self, options, name, seed):
        self.options, self.name, self.seed = options, name, seed
        self.build = options.build
        self.rng = random.Random("%s %d" % (name, seed))
        self.lives, self.next_life = {}, 1
        self.problems, self.injected, self.tried = [], {}, {}
        self.heals = []  # (when, number, strikes, heal)
        self.output, self.restarts = "", 0

    # ---- Clients ----

    def spawn(self):
        life = self.next_life
        self.next_life += 1
        env = dict(os.environ, HF_CLOCK_SHIM=self.clock_files[life % 2],
                   HOLDFAST_DRIVER_PATH=os.path.join(self.build,
                                                     "drivers-lib"),
                   **self.store.env)
        if self.options.planted:
            env["HF_CAMPAIGN_PLANTED"] = "yes"
        if self.clocks:
            env["LD_PRELOAD"] = self.part("campaign_clock.so")
        with open(os.path.join(self.folder, "life-%05d.log" % life),
                  "wb") as log:
            self.lives[life] = Life(subprocess.Popen(
                [self.part("campaign_client"), self.store.url, self.folder,
                 str(life), str(self.store.lease_ms), str(KEYS),
                 str(THREADS[life % len(THREADS)]),
                 str(self.seed * 1000 + life)],
                env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def part(self, name):
        return os.path.join(self.build, "tests", "campaign", name)

    def pick(self, rng, inside, seconds=0.3):
        """A client that holds, or waits and does not hold; None: nobody came
        for so long."""
        end = time.monotonic() + seconds
        while True:
            held, waiting = self.arena.read()
            fit = [n for n, life in self.lives.items() if not life.stopped
                   and (held[n] if inside else waiting[n] and not held[n])]
            if fit or time.monotonic() > end:
                return rng.choice(fit) if fit else None
            time.sleep(0.002)

    def kill_life(self, n):
        self.diary.write("KILL", task=n)
        life = self.lives.pop(n)
        life.process.kill()
        life.process.wait()

    def signal_life(self, n, number):
        if n not in self.lives:
            return
        life = self.lives[n]
        if number == signal.SIGSTOP:
            self.diary.write("STOP", task=n)
            life.stopped = True
        elif number == signal.SIGCONT:
            self.diary.write("CONTINUE", task=n)
            life.stopped = False
        life.process.send_signal(number)

    def lull(self, rng, since=0, seconds=0.5):
        """Stops a client inside a section, by a request that it made after
        this instant; it believes to its deadline that it holds.  None: nobody
        stayed long enough."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            n = self.pick(rng, inside=True, seconds=0)
            path = os.path.join(self.folder, "life-%05d.diary" % (n or 0))
            if n is not None and diary.holds_alone(path, since):
                self.signal_life(n, signal.SIGSTOP)
                if diary.holds_alone(path, since):
                    return n
                self.signal_life(n, signal.SIGCONT)
            time.sleep(0.002)
        return None

    def stop_keeper(self, n):
        """Its oldest thread that is not one of the client's own; False: it
        cannot be done here."""
        folder = "/proc/%d/task" % self.lives[n].process.pid
        try:
            for thread in sorted(map(int, os.listdir(folder)))[1:]:
                with open("%s/%d/comm" % (folder, thread)) as f:
                    if f.read() != "camp%d\n" % thread:
                        break
            else:
                return False
        except OSError:
            return False  # it ended in this moment
        since = diary.now_ns()
        if (LIBC.ptrace(TRACE_SEIZE, thread, None, None) != 0
                or LIBC.ptrace(TRACE_INTERRUPT, thread, None, None) != 0):
            return False
        os.waitpid(thread, WAIT_ALL)
        self.lives[n].keeper = thread, since
        return True

    def resume_keeper(self, n):
        if n not in self.lives or not self.lives[n].keeper:
            return
        thread, since = self.lives[n].keeper
        self.lives[n].keeper = None
        self.diary.write("STALL", life=n, called=since)
        if LIBC.ptrace(TRACE_DETACH, thread, None, None) != 0:
            os.waitpid(thread, WAIT_ALL)  # it has died meanwhile

    def suspend(self, on):
        """Everybody but the conductor."""
        if not on and self.store.relay:
            self.store.relay.process.send_signal(signal.SIGCONT)
        for n in self.lives:
            self.signal_life(n, signal.SIGSTOP if on else signal.SIGCONT)
        for server in self.store.everybody():
            if on:
                server.pause()
            else:
                server.resume()
        if on and self.store.relay:
            self.store.relay.process.send_signal(signal.SIGSTOP)

    def limit_life(self, n, what, value):
        """None: as it was."""
        if n not in self.lives or self.lives[n].process.poll() is not None:
            return
        life = self.lives[n]
        old = life.limits.setdefault(what, resource.prlimit(life.process.pid,
                                                            what))
        resource.prlimit(life.process.pid, what,
                         old if value is None else (value, old[1]))

    @staticmethod
    def first_free_descriptor(pid):
        used = {int(name) for name in os.listdir("/proc/%d/fd" % pid)}
        return min(n for n in range(len(used) + 1) if n not in used)

    @staticmethod
    def memory_of(pid):
        with open("/proc/%d/statm" % pid) as f:
            return int(f.read().split()[0]) * resource.getpagesize()

    def set_clocks(self, *both):
        for path, seconds in zip(self.clock_files, both):
            with open(path, "r+b", buffering=0) as f:
                f.write((seconds * 10**9).to_bytes(8, "little", signed=True))

    def look_after(self):
        """A client that ended by itself is a crash."""
        for n, life in list(self.lives.items()):
            status = life.process.poll()
            if status is not None:
                self.problems.append("I10: client %d ended with %d: %s"
                                     % (n, status, self.last_words(n)))
                self.diary.write("KILL", task=n)
                del self.lives[n]
                self.spawn()

    def last_words(self, n):
        with open(os.path.join(self.folder, "life-%05d.log" % n),
                  errors="replace") as log:
            return " / ".join(log.read().splitlines()[-5:])

    # ---- Faults ----

    def choose_faults(self):
        # A claim that two holders cannot be is refuted by the worst.
        wanted = self.options.faults or (
            self.store.worst if self.options.claim else sorted(faults.TABLE))
        return [n for n in wanted
                if n in faults.TABLE and n not in self.store.why_not]

    def inject(self, possible):
        busy = {one for _, _, strikes, _ in self.heals for one in strikes}
        free = [n for n in possible if not busy & set(faults.TABLE[n][1])
                and (n != 18 or self.clocks)]
        # The one that was tried least often so far, so that all come; if it
        # finds nobody to strike, another one.
        while free:
            least = min(self.tried.get(n, 0) for n in free)
            number = self.rng.choice(
                [n for n in free if self.tried.get(n, 0) == least])
            self.tried[number] = least + 1
            if self.strike(number):
                return
            free.remove(number)

    def strike(self, number):
        _, strikes, function = faults.TABLE[number]
        self.diary.write("FAULT", code=number)
        done = function(self, self.rng)
        if done is None:
            self.diary.write("HEALED", code=number, number=1)
            return False
        self.injected[number] = self.injected.get(number, 0) + 1
        seconds, heal = done
        self.heals.append((time.monotonic() + seconds, number, strikes, heal))
        return True

    def heal(self, all_of_them=False):
        now = time.monotonic()
        for item in sorted(self.heals, key=lambda h: h[0]):
            if all_of_them or item[0] <= now:
                if item[3]() is False:
                    continue  # a server is on its way
                self.diary.write("HEALED", code=item[1])
                self.heals.remove(item)

    def heal_all(self):
        while self.heals:
            self.heal(all_of_them=True)
            self.look_after()
            time.sleep(0.02)

    def await_servers(self):
        """Elections take their time.  Servers that serve nobody although they
        all run are started again, as their operator would; that is counted,
        since their clients are not to blame."""
        begin, helped = time.monotonic(), False
        while not self.store.stands():
            waited = time.monotonic() - begin
            if waited > 2 * PATIENCE:
                raise NoServer("the servers did not find a leader again")
            if waited > PATIENCE / 2 and not helped:
                self.restart_all()
                helped = True
            time.sleep(0.1)

    def restart_all(self):
        self.restarts += 1
        self.diary.write("FAULT", code=8)
        for server in self.store.everybody():
            server.kill()
        for server in self.store.everybody():
            server.start()
        for server in self.store.everybody():
            server.wait_ready()
        self.diary.write("HEALED", code=8)

    def rest(self, seconds):
        """Nobody strikes; but a client may crash all the same.  In the second
        half all want one key, so that it shows who is served first."""
        for crowd in (0, 1):
            self.arena.set_crowd(crowd)
            end = time.monotonic() + seconds / 2
            while time.monotonic() < end:
                self.look_after()
                time.sleep(0.05)
        self.arena.set_crowd(0)

    def claims_more(self):
        """What is to be convicted must have had its chance: a fault may find
        nobody to strike several times."""
        return self.options.claim and sum(self.injected.values()) < 3

    def play(self):
        possible = self.choose_faults()
        now = time.monotonic()
        end, next_fault, next_break = (now + self.options.seconds, now + 0.5,
                                       now + EVERY_S)
        patient = now + CLAIM_S
        while now < end or (self.claims_more() and now < patient):
            self.heal()
            self.look_after()
            if possible and now >= next_fault:
                if len(self.heals) < 3:
                    self.inject(possible)
                next_fault = time.monotonic() + self.rng.uniform(
                    0.05, 1.0) * min(self.lease, 2.4)
            if now >= next_break:
                self.heal_all()
                self.await_servers()
                self.diary.write("CALM")
                self.rest(4 * self.lease + 12)
                next_break = time.monotonic() + EVERY_S
            time.sleep(0.02)
            now = time.monotonic()
        self.heal_all()
        self.await_servers()
        self.diary.write("CALM")
        self.rest(2 * self.lease)

    # ---- The end ----

    def finish(self):
        self.diary.write("FINISH")
        for life in self.lives.values():
            life.process.send_signal(signal.SIGTERM)
        end = time.monotonic() + END_S
        for n, life in self.lives.items():
            try:
                status = life.process.wait(max(1, end - time.monotonic()))
                if status != 0:
                    self.problems.append("I10: client %d ended with %d: %s" % (
                        n, status, self.last_words(n)))
            except subprocess.TimeoutExpired:
                self.problems.append("I9: client %d does not end: %s"
                                     % (n, self.last_words(n)))
                self.diary.write("KILL", task=n)
                life.process.kill()
                life.process.wait()
        self.lives = {}

    def count_entries(self):
        env = dict(os.environ, HOLDFAST_DRIVER_PATH=os.path.join(
            self.build, "drivers-lib"), **self.store.env)
        try:
            done = subprocess.run(
                [self.part("campaign_client"), "--residue", self.store.direct],
                env=env, capture_output=True, text=True, timeout=60)
        except subprocess.TimeoutExpired:
            return UNKNOWN
        if done.returncode != 0:
            return "%s: %s" % (UNKNOWN, done.stderr.strip())
        return "" if done.stdout.strip() == "0" else (
            "%s entries %s" % (done.stdout.strip(), done.stderr.strip()))

    def look_for_residue(self):
        """The killed are noticed when their lease ends; a busy machine may
        need a while to answer at all."""
        begin, left = time.monotonic(), UNKNOWN
        while left and time.monotonic() < begin + (
                PATIENCE if left.startswith(UNKNOWN) else 2 * self.lease + 10):
            left = self.count_entries() or self.store.residue()
            time.sleep(0.1)
        if left:
            self.problems.append("I8: left in the store: " + left)

    def judge(self):
        names = [os.path.join(self.folder, name)
                 for name in sorted(os.listdir(self.folder))
                 if name.endswith(".diary")]
        done = subprocess.run([self.part("campaign_checker")] + names,
                              capture_output=True, text=True)
        self.output = done.stdout + done.stderr
        if done.returncode == 1:
            self.problems += re.findall(r"^VIOLATION (.*)$", done.stdout, re.M)
        elif done.returncode != 0:
            self.problems.append("I10: the checker failed: " + self.output)
        counts = re.search(r"^counts (.*)$", done.stdout, re.M)
        words = counts.group(1).split() if counts else []
        self.counts = dict(zip(words[::2], map(int, words[1::2])))
        self.by_fault = {
            int(n): (int(injected), int(granted), int(broken))
            for n, injected, granted, broken in re.findall(
                r"^fault (\d+) injected (\d+) granted (\d+) violations (\d+)$",
                done.stdout, re.M)}

    def excuses(self):
        """Two holders at once are allowed while these are at work."""
        return () if self.options.claim else self.store.excuses

    def look_for_processes(self):
        """Servers end with all that they started; orphans become ours."""
        end = time.monotonic() + 10
        while time.monotonic() < end:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    time.sleep(0.05)
            except ChildProcessError:
                return
        with open("/proc/self/task/%d/children" % os.getpid()) as f:
            self.problems.append("I8: processes are left: " + f.read())

    def run(self):
        LIBC.prctl(BE_REAPER, 1, 0, 0, 0)
        root = tempfile.mkdtemp(prefix="hf-campaign-")
        os.chmod(root, 0o711)  # the servers' accounts pass through
        self.folder = root
        self.clock_files = [os.path.join(root, "clock-%d" % i)
                            for i in range(2)]
        self.clocks = not self.options.no_clock
        # The servers' accounts may read it there.
        self.shim = (shutil.copy(self.part("campaign_clock.so"), root)
                     if self.clocks else None)
        for path in self.clock_files:
            with open(path, "wb") as f:
                f.write(bytes(8))
        self.arena = diary.Arena(os.path.join(root, "arena"))
        self.store = (stores.STORES.get(self.name)
                      or stores.UNSAFE[self.name])(self)
        self.lease = self.store.lease_ms / 1000
        try:
            self.store.start()
            self.diary = diary.Diary(os.path.join(root, "conductor.diary"))
            self.diary.write("CONFIG", until=self.store.lease_ms * 10**6,
                             number=self.store.promises,
                             token=sum(1 << n for n in self.excuses()))
            for _ in THREADS:
                self.spawn()
            self.play()
            self.finish()
            self.look_for_residue()
            self.judge()
        except NoServer as problem:
            self.problems.append("I10: %s" % problem)
            raise
        finally:
            for life in self.lives.values():
                life.process.kill()
                life.process.wait()
            self.store.stop()
            self.look_for_processes()
            self.keep(root)

    def keep(self, root):
        """What a violation needs to be understood outlives the sitting."""
        if self.problems and not (self.options.planted
                                  or self.options.claim):
            there = os.path.join(self.options.keep, "%s-%d" % (
                self.name, self.seed))
            shutil.rmtree(there, ignore_errors=True)
            os.makedirs(there)
            for name in os.listdir(root):
                if name.endswith((".diary", ".log")):
                    shutil.copy(os.path.join(root, name), there)
            with open(os.path.join(there, "verdict"), "w") as f:
                f.write("\n".join(self.problems) + "\n\n" + self.output)
            self.kept = there
        shutil.rmtree(root, ignore_errors=True)
