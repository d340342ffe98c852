"""One sitting of a campaign: a store, its clients, faults by seed, a verdict.

The order of things: servers, relay, clients; faults for as long as was asked;
then everything is healed, two leases pass in peace, everybody is asked to end,
and what is left behind is looked for.  Then the checker reads the diaries.
"""

import os
import random
import re
import signal
import subprocess
import tempfile
import shutil
import time

import diary
import faults
import stores

HERE = os.path.dirname(os.path.abspath(__file__))
THREADS = (3, 1, 2, 1)  # of each client
KEYS = 3
END_S = 90  # for a client to end


class Life:
    def __init__(self, process):
        self.process = process
        self.stopped = False


class Sitting:
    def __init__(self, options, name, seed):
        self.options, self.name, self.seed = options, name, seed
        self.build = options.build
        self.rng = random.Random("%s %d" % (name, seed))
        self.lives, self.next_life = {}, 1
        self.problems, self.injected = [], {}
        self.heals = []  # (when, number, strikes, heal)
        self.output = ""
        self.kills = 0

    # ---- Clients ----

    def spawn(self):
        life = self.next_life
        self.next_life += 1
        env = dict(os.environ, HF_CLOCK_SHIM=self.clock,
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

    def pick(self, rng, inside):
        """A client that holds, or waits and does not hold; None: nobody."""
        held, waiting = self.arena.read()
        fit = [n for n, life in self.lives.items() if not life.stopped
               and (held[n] if inside else waiting[n] and not held[n])]
        return rng.choice(fit) if fit else None

    def kill_life(self, n):
        self.diary.write("KILL", task=n)
        self.kills += 1
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

    def set_clock(self, seconds):
        with open(self.clock, "r+b", buffering=0) as f:
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
        wanted = self.options.faults or sorted(faults.TABLE)
        return [n for n in wanted
                if n in faults.TABLE and n not in self.store.why_not]

    def inject(self, possible):
        busy = {strikes for _, _, strikes, _ in self.heals}
        free = [n for n in possible if faults.TABLE[n][1] not in busy
                and (faults.TABLE[n][1] != faults.CLOCK or self.clocks)]
        if not free:
            return
        # The one that came least often so far, so that all come.
        least = min(self.injected.get(n, 0) for n in free)
        number = self.rng.choice(
            [n for n in free if self.injected.get(n, 0) == least])
        _, strikes, function = faults.TABLE[number]
        self.diary.write("FAULT", code=number)
        done = function(self, self.rng)
        if done is None:
            self.diary.write("HEALED", code=number)
            return
        self.injected[number] = self.injected.get(number, 0) + 1
        seconds, heal = done
        self.heals.append((time.monotonic() + seconds, number, strikes, heal))

    def heal(self, all_of_them=False):
        now = time.monotonic()
        for item in sorted(self.heals, key=lambda h: h[0]):
            if all_of_them or item[0] <= now:
                item[3]()
                self.diary.write("HEALED", code=item[1])
                self.heals.remove(item)

    def play(self):
        possible = self.choose_faults()
        end = time.monotonic() + self.options.seconds
        calm = not possible
        next_fault = time.monotonic() + 0.5
        while time.monotonic() < end:
            self.heal()
            self.look_after()
            if not calm and time.monotonic() >= next_fault:
                if len(self.heals) < 2:
                    self.inject(possible)
                next_fault = time.monotonic() + self.rng.uniform(
                    0.05, 1.0) * self.lease
            time.sleep(0.02)
        self.heal(all_of_them=True)
        self.diary.write("CALM")
        calm_until = time.monotonic() + 2 * self.lease
        while time.monotonic() < calm_until:
            self.look_after()
            time.sleep(0.05)

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
            return "nobody can say"
        return "" if done.stdout.strip() == "0" else (
            "%s entries %s" % (done.stdout.strip(), done.stderr.strip()))

    def look_for_residue(self):
        """The killed are noticed when their lease ends."""
        end = time.monotonic() + 2 * self.lease + 10
        left = "?"
        while left and time.monotonic() < end:
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

    def run(self):
        root = tempfile.mkdtemp(prefix="hf-campaign-")
        os.chmod(root, 0o711)  # the servers' accounts pass through
        self.folder = root
        self.clock = os.path.join(root, "clock")
        self.clocks = not self.options.no_clock
        with open(self.clock, "wb") as f:
            f.write(bytes(8))
        self.arena = diary.Arena(os.path.join(root, "arena"))
        self.store = stores.STORES[self.name](self)
        self.lease = self.store.lease_ms / 1000
        try:
            self.store.start()
            self.diary = diary.Diary(os.path.join(root, "conductor.diary"))
            self.diary.write("CONFIG", until=self.store.lease_ms * 10**6,
                             number=self.store.promises)
            for _ in THREADS:
                self.spawn()
            self.play()
            self.finish()
            self.look_for_residue()
            self.judge()
        finally:
            for life in self.lives.values():
                life.process.kill()
                life.process.wait()
            self.store.stop()
            self.keep(root)

    def keep(self, root):
        """What a violation needs to be understood outlives the sitting."""
        if self.problems and not self.options.planted:
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
