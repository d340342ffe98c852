"""Peers that are told what to do, line by line; peer.c has the lines.

A Program is a process, a Lane one owner in it, a Side all that is ours or
theirs.  Knows nothing of libraries, stores or tests.
"""

import queue
import subprocess
import threading

from fetch import Failed

STARTING = 90  # seconds
PATIENCE = 60  # seconds for an answer that must come


class Answer:
    def __init__(self, words):
        self.word = words[0]
        self.asked, self.done = int(words[1]), int(words[2])
        self.text = " ".join(words[3:])

    def __str__(self):
        return "%s (%s)" % (self.word, self.text) if self.text else self.word


class Program:
    def __init__(self, name, argv):
        self.name = name
        self.lanes, self.guard = {}, threading.Lock()
        self.serial = 0
        # Its own errors go to our output, which is shown when a test fails.
        self.child = subprocess.Popen(argv, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)
        self.ready = threading.Event()
        self.reader = threading.Thread(target=self.listen, daemon=True)
        self.reader.start()
        if not self.ready.wait(STARTING) or self.child.poll() is not None:
            self.kill()
            raise Failed("%s did not start" % name)

    def listen(self):
        for line in self.child.stdout:
            words = line.split()
            if words == ["ready"]:
                self.ready.set()
            elif words:
                with self.guard:
                    lane = self.lanes.get(words[0])
                if lane:
                    lane.said.put(Answer(words[1:]))
        self.ready.set()
        with self.guard:
            for lane in self.lanes.values():
                lane.said.put(None)

    def lane(self, name, kind, at, lease_ms):
        """Without a name it gets one."""
        with self.guard:
            self.serial += 1
            lane = Lane(self, name or "lane%d" % self.serial)
            self.lanes[lane.name] = lane
        lane.expect("open %s %s %d" % (kind, at, lease_ms), "opened")
        return lane

    def tell(self, line):
        with self.guard:
            self.child.stdin.write(line + "\n")
            self.child.stdin.flush()

    def close_lanes(self):
        """Those that have nothing to do; the others are forgotten."""
        with self.guard:
            lanes, self.lanes = self.lanes, {}
        for lane in lanes.values():
            if not lane.busy and self.child.poll() is None:
                self.tell(lane.name + " close")

    def crash(self):
        self.tell("- crash")
        self.child.wait(PATIENCE)

    def kill(self):
        self.child.kill()
        self.child.wait()
        self.child.stdin.close()


class Lane:
    def __init__(self, program, name):
        self.program, self.name = program, name
        self.said, self.busy = queue.Queue(), False

    def __str__(self):
        return "%s's %s" % (self.program.name, self.name)

    def ask(self, line):
        self.line, self.busy = line, True
        self.program.tell("%s %s" % (self.name, line))

    def hear(self, word, seconds=PATIENCE):
        """The answer to the last line; what it may be is in `word`."""
        try:
            said = self.said.get(timeout=seconds)
        except queue.Empty:
            raise Failed("%s: no answer to '%s' in %d s"
                         % (self, self.line, seconds))
        self.busy = False
        if said is None:
            raise Failed("%s ended during '%s'" % (self, self.line))
        if said.word not in word.split("|"):
            raise Failed("%s: '%s' was answered by %s, not %s"
                         % (self, self.line, said, word))
        return said

    def expect(self, line, word, seconds=PATIENCE):
        self.ask(line)
        return self.hear(word, seconds)

    def stays_silent(self, seconds):
        """No answer for so long; one that comes is there to be heard."""
        try:
            said = self.said.get(timeout=seconds)
        except queue.Empty:
            return True
        self.said.put(said)
        return False

    def is_silent(self, seconds):
        if not self.stays_silent(seconds):
            raise Failed("%s: '%s' was answered too early: %s"
                         % (self, self.line, self.said.get()))


class Side:
    """Ours or theirs: opens lanes in a process that is there when needed, and
    stays for those who come after, since some are slow to start."""

    def __init__(self, name, argv, running):
        self.name, self.argv, self.running = name, argv, running
        self.guard = threading.Lock()

    def start(self):
        return Program(self.name, self.argv)

    def program(self):
        with self.guard:
            there = self.running.get(self.name)
            if not there or there.child.poll() is not None:
                there = self.running[self.name] = self.start()
            return there


def end(running):
    for program in running.values():
        program.kill()
    running.clear()
