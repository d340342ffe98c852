"""Runs a command beside throwaway servers; what with-zookeeper and with-etcd
share.  Knows how servers are started, waited for and ended, not what they are:
each is a command line made from fresh ports, and a question that it answers
when it is ready.  If this process is killed, the kernel kills the servers.
"""

import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 60  # seconds for servers to come up, on a machine that is busy


class NoServer(Exception):
    pass


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def anybody():
    """For a server whose certificate is not the question."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def ask(port, question, tls=False):
    """What is answered until the end; b"" if nobody does."""
    said = b""
    try:
        s = socket.create_connection(("127.0.0.1", port), 2)
        with anybody().wrap_socket(s) if tls else s as asked:
            asked.sendall(question)
            while True:
                more = asked.recv(65536)
                if not more:
                    return said
                said += more
    except OSError:
        return said


def make_certificates(root):
    folder = os.path.join(root, "certs")
    made = subprocess.run([os.path.join(HERE, "make-certs"), folder],
                          capture_output=True, text=True)
    if made.returncode != 0:
        raise NoServer("no certificates: " + made.stderr.strip())
    return folder


class Server:
    """One process; `words` and `env` make its command line."""

    def __init__(self, name, root, words, env):
        self.log = os.path.join(root, name + ".log")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL"] + [str(w) for w in words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=dict(os.environ, **env))

    def stop(self):
        """At once: what it has is thrown away with its folder."""
        self.process.kill()
        self.process.wait()


def await_all(servers, ready):
    """Until all of them are; False: one has ended, perhaps for its port."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if any(s.process.poll() is not None for s in servers):
            return False
        if ready():
            return True
        time.sleep(0.02)
    return False


def start_all(what, make, running):
    """make(attempt) gives (servers, ready, result); tried on fresh ports."""
    for attempt in range(3):
        servers, ready, result = make(attempt)
        running += servers
        if await_all(servers, ready):
            return result
        for server in servers:
            server.stop()
            running.remove(server)
    said = ""
    for server in servers:
        with open(server.log, errors="replace") as log:
            said += log.read()[-2000:]
    raise NoServer("%s does not come up: %s" % (what, said))


def wait_for(child):
    """Its status.  Told to end, we tell it, and wait no longer than we must:
    nothing is raised from a handler, which might interrupt the tidying up."""
    def pass_on(number, _frame):
        signal.alarm(5)
        child.send_signal(signal.SIGKILL if number == signal.SIGALRM
                          else signal.SIGTERM)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        signal.signal(number, pass_on)
    status = child.wait()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    return 128 - status if status < 0 else status


def main(name, makers):
    """makers[word](root, running) starts servers, appends them to running and
    returns what the command finds in its environment."""
    if len(sys.argv) < 3:
        sys.exit("%s: say which servers, and what to run" % name)
    wanted = sys.argv[1].split("+")
    for word in wanted:
        if word not in makers:
            sys.exit("%s: no servers '%s'; there are %s"
                     % (name, word, ", ".join(makers)))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    root = tempfile.mkdtemp(prefix="hf-" + name + "-")
    running = []
    try:
        certs = make_certificates(root)
        env = dict(os.environ, HOLDFAST_TEST_CERTS=certs,
                   HOLDFAST_TEST_CA=os.path.join(certs, "ca.pem"))
        for word in wanted:
            env.update(makers[word](root, running))
        return wait_for(subprocess.Popen(sys.argv[2:], env=env))
    except NoServer as problem:
        print("FAIL %s: %s\n0 passed, 1 failed, 0 skipped" % (name, problem))
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        for server in reversed(running):
            server.stop()
        shutil.rmtree(root, ignore_errors=True)
