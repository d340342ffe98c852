"""Servers for `./bench --peers`: started, asked what they did, stopped.

Each flushes what it answers for, as it would in use (Redis keeps nothing, as
everywhere in the benchmark).  Knows nothing of locks.  A server counts its own
requests; its processor time is what the kernel says of its processes.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
HARNESS = os.path.join(ROOT, "tests", "harness")
PATIENCE = 60  # seconds for a server to come up


class NoServer(Exception):
    pass


# ---- Processes --------------------------------------------------------------

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def tree(root):
    """A process and all that descend from it."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name) as f:
                    parent = int(f.read().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended meanwhile
            children.setdefault(parent, []).append(int(name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def threads(pids):
    for pid in pids:
        try:
            for tid in os.listdir("/proc/%d/task" % pid):
                yield pid, int(tid)
        except (FileNotFoundError, ProcessLookupError):
            continue


def pin(pids, cores):
    """All their threads, and those that they will start."""
    for _, tid in threads(pids):
        try:
            os.sched_setaffinity(tid, cores)
        except ProcessLookupError:
            continue


def run_ns(pids):
    """For how long each of their threads has run."""
    found = {}
    for pid, tid in threads(pids):
        try:
            with open("/proc/%d/task/%d/schedstat" % (pid, tid)) as f:
                found[tid] = int(f.read().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def ask(port, text):
    """What is answered until the end; b"" if nobody does."""
    said = b""
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as s:
            s.settimeout(2)
            s.sendall(text)
            while True:
                more = s.recv(1 << 16)
                if not more:
                    return said
                said += more
    except OSError:
        return said


def told(question, pattern):
    """What a server says that may be too busy to answer at once."""
    for _ in range(10):
        found = re.search(pattern, question(), re.M)
        if found:
            return found.group(1)
    raise NoServer("no answer that has " + pattern)


def output(*argv):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise NoServer("%s: %s" % (argv[0], done.stderr.strip()[-500:]))
    return done.stdout.strip()


# ---- The servers ------------------------------------------------------------

class Server:
    """Says where it is (`port`) and its `url` for us."""

    def __init__(self, folder):
        self.folder = os.path.join(folder, self.name)
        self.log = self.folder + ".log"
        for _ in range(3):  # somebody else may take the port
            self.port, self.ask_port = free_port(), free_port()
            with open(self.log, "ab") as log:
                self.process = subprocess.Popen(
                    ["setpriv", "--pdeathsig", "KILL"]
                    + [str(word) for word in self.words()],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            if self.comes_up():
                self.at = "127.0.0.1:%d" % self.port
                self.prepare()
                return
            self.stop()
        with open(self.log, errors="replace") as log:
            raise NoServer("%s does not come up: %s"
                           % (self.label, log.read()[-1000:]))

    def comes_up(self):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            if self.is_ready():
                return True
            time.sleep(0.05)
        return False

    def logged(self, text):
        with open(self.log, "rb") as log:
            return text in log.read()

    def prepare(self):
        pass

    def pids(self):
        return tree(self.process.pid)

    def stop(self):
        """What it has is thrown away with its folder; PostgreSQL gives its
        shared memory back first."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT if self.name == "postgres"
                                     else signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()


class Redis(Server):
    name, label = "redis", "Redis"
    durability = "keeps nothing"

    def words(self):
        os.makedirs(self.folder, exist_ok=True)
        return ["redis-server", "--port", self.port, "--bind", "127.0.0.1",
                "--save", "", "--appendonly", "no", "--dir", self.folder,
                "--daemonize", "no"]

    def is_ready(self):
        return ask(self.port, b"PING\r\nQUIT\r\n").startswith(b"+PONG")

    def prepare(self):
        self.url = "redis://" + self.at

    def info(self, name):
        return told(lambda: ask(self.port, b"INFO\r\nQUIT\r\n").decode(),
                    r"^%s:(\S+)" % name)

    def version(self):
        return self.info("redis_version")

    def requests(self):
        """Reads from sockets; a batch is one."""
        return int(self.info("total_reads_processed"))


class Redlock:
    """Five that know nothing of each other."""

    name, label = "redlock", "Redlock, on five Redis servers"
    durability = "keep nothing"

    def __init__(self, folder):
        self.all, self.asked = [], 0
        try:
            for number in range(5):
                home = os.path.join(folder, str(number))
                os.mkdir(home)
                self.all.append(Redis(home))
        except NoServer:
            self.stop()
            raise
        self.at = ",".join(one.at for one in self.all)
        self.url = "redlock://" + self.at

    def pids(self):
        return [pid for one in self.all for pid in one.pids()]

    def version(self):
        return self.all[0].version()

    def requests(self):
        """A question is one to each, and counted as one."""
        self.asked += 1
        return (sum(one.requests() for one in self.all)
                - (len(self.all) - 1) * self.asked)

    def stop(self):
        for one in self.all:
            one.stop()


class ZooKeeper(Server):
    name, label = "zookeeper", "ZooKeeper"
    durability = "flushes every write"

    def words(self):
        return [os.path.join(HARNESS, "zookeeper-server"), self.folder,
                self.port, "forceSync=yes", "tickTime=2000",
                "preAllocSize=65536", "minSessionTimeout=4000",
                "maxSessionTimeout=40000"]

    def is_ready(self):
        return b"\nMode: " in ask(self.port, b"srvr")

    def prepare(self):
        self.url = "zookeeper://" + self.at

    def told(self, pattern):
        return told(lambda: ask(self.port, b"srvr").decode(), pattern)

    def version(self):
        return self.told(r"version: ([\d.]+)")

    def requests(self):
        return int(self.told(r"Received: (\d+)"))


class Etcd(Server):
    name, label = "etcd", "etcd"
    durability = "flushes every write"

    def words(self):
        return [os.path.join(HARNESS, "etcd-server"), self.folder, self.port,
                self.ask_port, free_port(), "--unsafe-no-fsync=false"]

    def get(self, path):
        return ask(self.ask_port, b"GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n"
                   % path).decode()

    def is_ready(self):
        return '"true"' in self.get(b"/health")

    def prepare(self):
        self.url = "etcd://" + self.at

    def version(self):
        return re.search(r"etcd Version: (\S+)",
                         output("etcd", "--version")).group(1)

    def requests(self):
        return sum(int(float(n)) for n in re.findall(
            r"^grpc_server_msg_received_total\{.*\} (\S+)",
            self.get(b"/metrics"), re.M))


class Postgres(Server):
    name, label = "postgres", "PostgreSQL"
    durability = "flushes every commit"

    def words(self):
        return [os.path.join(HARNESS, "sql-server"), "postgres", self.folder,
                self.port, "-c", "fsync=on", "-c", "full_page_writes=on",
                "-c", "max_connections=500",
                "-c", "shared_preload_libraries=pg_stat_statements"]

    def is_ready(self):
        return self.logged(b"ready to accept connections")

    def say(self, text, database="holdfast"):
        return output("psql", "-X", "-q", "-A", "-t", "-h", "127.0.0.1", "-p",
                      str(self.port), "-U", "postgres", "-d", database, "-c",
                      text)

    def prepare(self):
        self.url = "postgres://postgres@%s/holdfast" % self.at
        os.environ["HOLDFAST_TEST_POSTGRES"] = self.url
        self.say("CREATE EXTENSION pg_stat_statements")

    def version(self):
        return self.say("SHOW server_version").split()[0]

    def requests(self):
        return int(self.say("SELECT sum(calls) FROM pg_stat_statements"))


class MariaDb(Server):
    name, label = "mariadb", "MariaDB"
    durability = "flushes every commit"

    def words(self):
        return [os.path.join(HARNESS, "sql-server"), "mariadb", self.folder,
                self.port, "--innodb-flush-method=fsync",
                "--innodb-flush-log-at-trx-commit=1",
                "--max-connections=700"]

    def is_ready(self):
        return self.logged(b"ready for connections")

    def say(self, text):
        return output("mariadb", "--no-defaults", "-h", "127.0.0.1", "-P",
                      str(self.port), "-u", "root", "-N", "-B", "holdfast",
                      "-e", text)

    def prepare(self):
        self.url = "mysql://root@%s/holdfast" % self.at
        os.environ["HOLDFAST_TEST_MYSQL"] = self.url

    def version(self):
        return self.say("SELECT VERSION()").split("-")[0]

    def requests(self):
        return int(self.say("SHOW GLOBAL STATUS LIKE 'Questions'").split()[1])


SERVERS = {one.name: one for one in (Redis, Redlock, ZooKeeper, Etcd,
                                     Postgres, MariaDb)}

if __name__ == "__main__":
    sys.exit("servers.py is a part of ./bench --peers")
