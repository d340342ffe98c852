"""Drives `holdfast run` on a pseudo-terminal, as a shell would start it.

A job-control shell puts each job into a group of its own and makes it the
terminal's foreground; so does start() here.  Every wait is bounded.
"""

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time

HOLDFAST = sys.argv[1]
LIMIT = 20


def fail(why):
    print("terminal: " + why)
    sys.exit(1)


class Job:
    """One command in the foreground of a terminal of its own."""

    def __init__(self, *words):
        self.seen = b""
        # The shell: a session leader that owns the terminal.
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            child = os.fork()
            if child == 0:
                os.setpgid(0, 0)
                os.tcsetpgrp(0, os.getpid())
                signal.signal(signal.SIGTTOU, signal.SIG_DFL)
                os.execv(HOLDFAST, [HOLDFAST] + list(words))
            try:
                os.setpgid(child, child)
            except OSError:
                pass  # it has done so itself, and begun
            while True:
                _, status = os.waitpid(child, os.WUNTRACED)
                if not os.WIFSTOPPED(status):
                    break
                os.tcsetpgrp(0, os.getpgrp())
                os.write(1, b"SHELL: stopped\n")
                os.read(0, 1)  # the user types `fg`
                os.tcsetpgrp(0, child)
                os.kill(-child, signal.SIGCONT)
            mine = os.tcgetpgrp(0) == child
            code = (128 + os.WTERMSIG(status) if os.WIFSIGNALED(status)
                    else os.WEXITSTATUS(status))
            died = os.WIFSIGNALED(status)
            os.tcsetpgrp(0, os.getpgrp())
            os.write(1, b"SHELL: status %d died %d back %d\n"
                     % (code, died, mine))
            os._exit(0)

    def expect(self, text):
        text = text.encode()
        end = time.monotonic() + LIMIT
        while text not in self.seen:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                fail("no %r in %r" % (text, self.seen))
            try:
                more = os.read(self.fd, 4096)
            except OSError:
                more = b""
            if not more:
                fail("ended without %r: %r" % (text, self.seen))
            self.seen += more
        self.seen = self.seen[self.seen.index(text) + len(text):]

    def type(self, keys):
        os.write(self.fd, keys)

    def end(self):
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def is_held(key):
    return subprocess.run([HOLDFAST, "run", "-n", key, "--", "true"]
                          ).returncode == 1


def reads():
    job = Job("run", "k", "--", "bash", "-c",
              'echo ready; read -r x; echo "read <$x>"; exit 4')
    job.expect("ready")
    job.type(b"words\n")
    job.expect("read <words>")
    job.expect("SHELL: status 4 died 0 back 1")
    job.end()


def interrupts():
    """Ctrl-C ends the command, and us by the signal, as a shell wants it."""
    job = Job("run", "k", "--", "bash", "-c", "echo ready; exec sleep 60")
    job.expect("ready")
    job.type(b"\x03")
    job.expect("SHELL: status 130 died 1 back 1")
    job.end()


def interrupts_handled():
    # Not bash: hit by INT between fork and wait it may send itself INT for
    # ever.
    job = Job("run", "k", "--", "sh", "-c",
              "trap 'exit 9' INT; echo ready; while :; do sleep 0.05; done")
    job.expect("ready")
    job.type(b"\x03")
    job.expect("SHELL: status 9 died 0 back 1")
    job.end()


def interrupts_wait():
    holder = subprocess.Popen([HOLDFAST, "hold", "k"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)
    holder.stdout.readline()
    job = Job("run", "-v", "k", "--", "true")
    end = time.monotonic() + LIMIT
    while b"waits" not in subprocess.check_output([HOLDFAST, "ls", "k"]):
        if time.monotonic() > end:
            fail("no waiter is seen")
        time.sleep(0.02)
    job.type(b"\x03")
    job.expect("SHELL: status 130 died 1 back 1")
    job.end()
    holder.stdin.close()
    holder.wait(LIMIT)


def stops():
    """Ctrl-Z: the command stops, the lock stays; again: we stop too; fg."""
    job = Job("run", "--lease", "20", "k", "--", "bash", "-c",
              'echo ready; read -r x; echo "read <$x>"; exit 5')
    job.expect("ready")
    job.type(b"\x1a")
    job.expect("the command is stopped, 'k' stays held")
    if not is_held("k"):
        fail("Ctrl-Z gave the lock away")
    job.type(b"\x1a")
    job.expect("SHELL: stopped")
    job.type(b"\n")
    time.sleep(0.3)
    job.type(b"again\n")
    job.expect("read <again>")
    job.expect("SHELL: status 5 died 0 back 1")
    job.end()


def pipeline():
    """stdout is no terminal: the command gets it when it asks."""
    job = Job("run", "outer", "--", "bash", "-c",
              '"$0" run inner -- bash -c "read -r x; echo got \\$x" | cat',
              HOLDFAST)
    time.sleep(0.3)
    job.type(b"it\n")
    job.expect("got it")
    job.expect("SHELL: status 0 died 0 back 1")
    job.end()


for test in (reads, interrupts, interrupts_handled, interrupts_wait, stops,
             pipeline):
    test()
    print("terminal: %s is fine" % test.__name__)
