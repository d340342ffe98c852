"""Throwaway servers of a campaign, as children that die with the conductor.

A server is a command that becomes the server (tests/harness has them for all
but Redis), a question that tells when it serves, and signals for all of its
processes: PostgreSQL is a tree of them.
"""

import os
import signal
import socket
import subprocess
import time

HARNESS = os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "harness")
PATIENCE = 60  # seconds for a server to come up, or to end
POLITE = {"postgres": signal.SIGINT}  # the fast way to end, for each


class NoServer(Exception):
    pass


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ask(port, question, seconds=1):
    """What a server answers to these bytes, b"" if it does not."""
    said = b""
    try:
        with socket.create_connection(("127.0.0.1", port), seconds) as s:
            s.settimeout(seconds)
            s.sendall(question)
            while True:
                part = s.recv(65536)
                if not part:
                    break
                said += part
                if question.startswith(b"PING") or len(said) > 1 << 20:
                    break
    except OSError:
        pass
    return said


class Server:
    def __init__(self, name, argv, folder, ready, env=None):
        self.name, self.argv, self.ready = name, argv, ready
        self.env = dict(os.environ, **(env or {}))
        self.log = os.path.join(folder, name + ".log")
        self.process = None
        self.paused = False
        self.asked = None  # to come back, or to end: since then
        self.deaf = None  # it runs and serves nobody: since then
        self.clock = os.path.join(folder, name + ".clock")

    def shim_clock(self, shim):
        """Its wall clock can be set (F20)."""
        self.env.update(LD_PRELOAD=shim, HF_CLOCK_SHIM=self.clock)
        self.set_clock(0)

    def set_clock(self, seconds):
        with open(self.clock, "r+b" if os.path.exists(self.clock) else "wb",
                  buffering=0) as f:
            f.write(int(seconds * 10**9).to_bytes(8, "little", signed=True))

    def start(self):
        # What it said in an earlier life must not be taken for ready.
        self.log_from = (os.path.getsize(self.log)
                         if os.path.exists(self.log) else 0)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL"] + self.argv, env=self.env,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.paused = False

    def said(self, words):
        with open(self.log, "rb") as log:
            log.seek(self.log_from)
            return words in log.read()

    def wait_ready(self):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.process.poll() is not None:
                # Its port may be somebody's for a moment.
                time.sleep(0.5)
                self.start()
            if self.ready(self):
                return
            time.sleep(0.02)
        with open(self.log, errors="replace") as log:
            raise NoServer("%s does not come up: %s"
                           % (self.name, log.read()[-3000:]))

    def revive(self):
        """One step of ending and starting again, without a wait; True: it
        serves."""
        now = time.monotonic()
        if self.asked is None:
            self.asked, self.begun = now, 0
        if now > self.asked + PATIENCE:
            raise NoServer("%s does not come back" % self.name)
        if not self.begun and self.runs():
            if now > self.asked + PATIENCE / 2:
                self.kill()
            return False  # it is still ending
        if not self.begun or (not self.runs() and now > self.begun + 0.5):
            self.start()
            self.begun = now
        if not self.runs() or not self.ready(self):
            return False
        self.asked = None
        return True

    def runs(self):
        return self.process is not None and self.process.poll() is None

    def tree(self):
        pids, found = [self.process.pid], []
        while pids:
            pid = pids.pop()
            found.append(pid)
            try:
                with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
                    pids += [int(word) for word in f.read().split()]
            except OSError:
                pass
        return found

    def signal_all(self, number):
        """The first of them first: then no more are born."""
        for pid in self.tree():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def pause(self):
        self.signal_all(signal.SIGSTOP)
        self.signal_all(signal.SIGSTOP)  # those born in between
        self.paused = True

    def resume(self):
        if self.runs():
            self.signal_all(signal.SIGCONT)
        self.paused = False

    def kill(self):
        if self.runs():
            self.pause()
            self.signal_all(signal.SIGKILL)
        self.process.wait(PATIENCE)

    def ask_to_end(self):
        if self.runs():
            self.resume()
            self.process.send_signal(POLITE.get(self.name, signal.SIGTERM))

    def end(self):
        """Politely; with force when that does not help."""
        self.ask_to_end()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()


class Relay:
    """The links between clients and servers, and among servers."""

    def __init__(self, program, to_ports, mark=None):
        words = ["--mark", mark] if mark else []
        self.process = subprocess.Popen(
            [program] + words + [str(port) for port in to_ports],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ports = [int(word)
                      for word in self.process.stdout.readline().split()[1:]]

    def say(self, *words):
        """How many connections its strikes have ended so far."""
        self.process.stdin.write(" ".join(str(w) for w in words) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline().split()[1])

    def stop(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self.process.stdout.close()
