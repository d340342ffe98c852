"""Brings the other libraries into build/peers, pinned, once.

Nothing of this is part of the core build.  Each tool asks the registry that it
is set up for; what it fetches and what is compiled with it stays in the build
folder, so that a second run needs no network.  A machine without the tool, or
without a way to the registry, makes the tests skip: `needs ...`.  All else is a
failure: a registry that does not know what is pinned, a wrong checksum, a full
disk, and what nobody has thought of.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FOLDER = os.environ.get("HF_PEERS_DIR") or os.path.join(ROOT, "build", "peers")
PATIENCE = 300  # seconds for all that one tool fetches
COMPILING = 900  # seconds for all that one tool makes of it
FORGET = 900  # seconds for which a registry that was silent is not asked again

SQL = ["com.zaxxer:HikariCP:4.0.3", "org.postgresql:postgresql:42.7.4",
       "org.mariadb.jdbc:mariadb-java-client:3.4.1"]
SPRING = "org.springframework.integration:spring-integration-"
SHEDLOCK = "net.javacrumbs.shedlock:shedlock-provider-"
# Libraries that one JVM has on its class path, and the peers made of them.
JAVA = {
    "spring5": (
        [SPRING + "redis:5.5.20", SPRING + "jdbc:5.5.20",
         "io.lettuce:lettuce-core:6.1.10.RELEASE",
         "org.slf4j:slf4j-nop:1.7.36"] + SQL,
        ["SpringRedis", "SpringJdbc"]),
    "spring6": (
        [SPRING + "redis:6.5.5", SPRING + "jdbc:6.5.5",
         SPRING + "zookeeper:6.5.5", "io.lettuce:lettuce-core:6.6.0.RELEASE",
         SHEDLOCK + "jdbc-template:6.10.0", SHEDLOCK + "redis-spring:6.10.0",
         "org.apache.curator:curator-recipes:5.9.0",
         "org.slf4j:slf4j-nop:2.0.16"] + SQL,
        ["SpringRedis", "SpringJdbc", "CuratorPeer", "SpringZookeeper",
         "ShedLockPeer", "RawJdbc", "RawZooKeeper"]),
    "spring7": (
        [SPRING + "redis:7.0.5", SPRING + "jdbc:7.0.5",
         "io.lettuce:lettuce-core:6.8.1.RELEASE",
         SHEDLOCK + "jdbc-template:7.10.1", SHEDLOCK + "redis-spring:7.10.1",
         "org.slf4j:slf4j-nop:2.0.16"] + SQL,
        ["SpringRedis", "SpringJdbc", "ShedLockPeer"]),
    "redisson3": (["org.redisson:redisson:3.52.0",
                   "org.slf4j:slf4j-nop:2.0.16"], ["RedissonPeer"]),
    "redisson4": (["org.redisson:redisson:4.7.0",
                   "org.slf4j:slf4j-nop:2.0.16"], ["RedissonPeer"]),
}
# What Debian has of Curator, for where no registry can be reached.
DEBIAN = ["zookeeper", "zookeeper-jute", "zookeeper-recipes-lock",
          "curator-client", "curator-framework", "curator-recipes", "guava",
          "slf4j-api", "slf4j-nop", "metrics-core",
          "netty-buffer", "netty-codec", "netty-common", "netty-handler",
          "netty-resolver", "netty-transport", "netty-transport-native-epoll",
          "netty-transport-native-unix-common"]
DEBIAN_PYTHON = "/usr/bin/python3"  # for which its packages are
# Spring before 6.0 writes the JVM's local time: one that nobody has by chance.
ZONES = {"spring5": "GMT+05:30"}
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:"\
    "copy-dependencies"
GO = {"github.com/bsm/redislock": "v0.9.4",
      "github.com/go-redsync/redsync/v4": "v4.13.0",
      "github.com/go-zookeeper/zk": "v1.0.4",
      "github.com/redis/go-redis/v9": "v9.7.0"}
# etcd's client as old servers were shipped with, and today's; the Go for each.
ETCD = {"go": ("v3.5.17", 22), "go-etcd37": ("v3.7.3", 26)}
PYTHON = {"python": {"redis": "5.2.1", "kazoo": "2.10.0"},
          # Its code is generated for a protobuf of that time.
          "python-etcd3": {"etcd3": "0.12.0", "protobuf": "3.20.3",
                           "grpcio": "1.62.3", "tenacity": "8.2.1",
                           "six": "1.16.0"}}
NODE = {"redlock": "5.0.0-beta.2", "@sesamecare-oss/redlock": "1.4.0",
        "ioredis": "5.11.1"}


class Skip(Exception):
    pass


class Failed(Exception):
    pass


def digest(words):
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


@contextlib.contextmanager
def claim(name, words):
    """One process at a time makes build/peers/NAME; yields its folder and
    whether there is anything left to do."""
    folder = os.path.join(FOLDER, name)
    os.makedirs(folder, exist_ok=True)
    mark, wanted = os.path.join(folder, "made"), digest(words)
    with open(folder + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            with open(mark) as f:
                made = f.read() == wanted
        except FileNotFoundError:
            made = False
        yield folder, not made  # what is raised there leaves no mark
        if not made:
            with open(mark, "w") as f:
                f.write(wanted)


def run_tool(argv, seconds, cwd, env=None):
    """Its status, None if it took too long, and what it said.  Then all that it
    started is gone, too."""
    with subprocess.Popen(argv, cwd=cwd, env=dict(os.environ, **(env or {})),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True,
                          preexec_fn=os.setpgrp) as child:
        try:
            said, _ = child.communicate(timeout=seconds)
            return child.returncode, said
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            return None, child.communicate()[0]


# No way to the registry, in the words of the four tools and what they use.
UNREACHABLE = re.compile(
    r"Connection refused|ECONNREFUSED|Connection reset|ECONNRESET|timed out|"
    r"ETIMEDOUT|ERR_SOCKET_TIMEOUT|i/o timeout|handshake timeout|"
    r"network timeout|No route to host|EHOSTUNREACH|"
    r"Network is unreachable|ENETUNREACH|no such host|Unknown host|ENOTFOUND|"
    r"EAI_AGAIN|name resolution|Name or service not known|"
    r"Failed to establish a new connection|Cannot connect to proxy|"
    r"(code E|status code: )50[234]|50[234] (Bad Gateway|Service Unavail|"
    r"Gateway Time)|in offline mode|GOPROXY=off", re.I)
# An answer that says no, or what no network mends, whatever else was said.
REFUSED = re.compile(
    r"Could not find artifact|Checksum validation failed|code E404|ETARGET|"
    r"EINTEGRITY|unknown revision|invalid version|checksum mismatch|"
    r"\(from versions: \d|DO NOT MATCH THE HASHES|No space left|ENOSPC",
    re.I)


def is_unreachable(said):
    """Is it the way to the registry that failed, and nothing else?  Only that
    is a reason to skip."""
    return bool(UNREACHABLE.search(said)) and not REFUSED.search(said)


def fetch(tool, argv, registry, cwd, env=None):
    """Run what may go to a registry."""
    silent = os.path.join(FOLDER, tool + ".silent")
    if not shutil.which(argv[0]):
        raise Skip("needs " + argv[0])
    if (os.path.exists(silent)
            and time.time() - os.path.getmtime(silent) < FORGET):
        raise Skip("needs " + registry)
    status, said = run_tool(argv, PATIENCE, cwd, env)
    if status == 0:
        return
    if not is_unreachable(said):
        raise Failed("%s: %s%s" % (tool, said.strip()[-2000:],
                                   "" if status is not None else
                                   " (took longer than %d s)" % PATIENCE))
    with open(silent, "w") as f:
        f.write(said)
    raise Skip("needs " + registry)


def compile_with(argv, cwd, env=None):
    """What was fetched is there: now a failure is one."""
    status, said = run_tool(argv, COMPILING, cwd, env)
    if status != 0:
        raise Failed("%s: %s" % (argv[0], said.strip()[-2000:] if status
                                 else "took longer than %d s" % COMPILING))


def tell(text):
    print("  " + text, file=sys.stderr, flush=True)


# ---- Java -------------------------------------------------------------------

def pom(name, body):
    return ("<project><modelVersion>4.0.0</modelVersion><groupId>peers"
            "</groupId><artifactId>%s</artifactId><version>1</version>"
            "<packaging>pom</packaging>%s</project>\n" % (name, body))


def write_poms(folder):
    with open(os.path.join(folder, "pom.xml"), "w") as f:
        f.write(pom("all", "<modules>%s</modules>" % "".join(
            "<module>%s</module>" % name for name in JAVA)))
    for name, (wanted, _) in JAVA.items():
        there = os.path.join(folder, name)
        shutil.rmtree(there, ignore_errors=True)
        os.makedirs(there)
        with open(os.path.join(there, "pom.xml"), "w") as f:
            f.write(pom(name, "<dependencies>%s</dependencies>" % "".join(
                "<dependency><groupId>%s</groupId><artifactId>%s</artifactId>"
                "<version>%s</version></dependency>" % tuple(one.split(":"))
                for one in wanted)))


def jars(name):
    words = [COPY] + [one for there in JAVA.values() for one in there[0]]
    with claim("java", words) as (folder, needed):
        if needed:
            tell("fetching Java libraries")
            write_poms(folder)
            fetch("mvn", ["mvn", "-B", "-q", "-T", "4",
                          "-Dmaven.repo.local=" + os.path.join(FOLDER, "m2"),
                          "-Dmaven.wagon.http.retryHandler.count=1", COPY],
                  "a Maven registry", folder)
    return os.path.join(folder, name, "target", "dependency", "*")


# What spares a machine on which many of them start; not for one that measures.
SPARING = ["-Xmx160m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]


def java(name, measured=False):
    """The command of a JVM with these libraries."""
    if name == "debian-java":
        path = ":".join("/usr/share/java/%s.jar" % one for one in DEBIAN)
        classes = ["CuratorPeer", "RecipePeer"]
    else:
        path, classes = jars(name), ["Reflect"] + JAVA[name][1]
    files = [os.path.join(HERE, "java", one + ".java")
             for one in ["Peer", "Bench"] + classes]
    words = [path]
    for one in files:
        with open(one) as f:
            words.append(f.read())
    with claim("classes-" + name, words) as (folder, needed):
        if needed:
            tell("compiling the peers of %s" % name)
            if not shutil.which("javac"):
                raise Skip("needs javac")
            compile_with(
                ["javac", "-nowarn", "-J-XX:TieredStopAtLevel=1", "-proc:none",
                 "-cp", path, "-d", folder] + files, folder)
    return ["java"] + ([] if measured else SPARING) + [
            "-XX:-UsePerfData", "-Xshare:auto",
            "-Duser.timezone=" + ZONES.get(name, "UTC"), "-cp",
            folder + ":" + path, "Peer"]


# ---- Go, Python, Node -------------------------------------------------------

def go(name):
    etcd, least = ETCD[name]
    said = shutil.which("go") and subprocess.run(
        ["go", "env", "GOVERSION"], capture_output=True, text=True).stdout
    version = re.match(r"go1\.(\d+)", said or "")
    if not version or int(version.group(1)) < least:
        raise Skip("needs Go 1.%d or newer" % least)
    sources = {}
    for file in ("peer.go", "bench.go"):
        with open(os.path.join(HERE, "go", file)) as f:
            sources[file] = f.read()
    pins = ["%s %s" % item for item in sorted(
        dict(GO, **{"go.etcd.io/etcd/client/v3": etcd}).items())]
    with claim(name, pins + list(sources.values())) as (folder, needed):
        if needed:
            tell("fetching and compiling Go libraries")
            with open(os.path.join(folder, "go.mod"), "w") as f:
                f.write("module peer\n\ngo 1.%d\n\nrequire (\n\t%s\n)\n"
                        % (least, "\n\t".join(pins)))
            for file, source in sources.items():
                with open(os.path.join(folder, file), "w") as f:
                    f.write(source)
            env = {"GOFLAGS": "-mod=mod -modcacherw -buildvcs=false",
                   "GOTOOLCHAIN": "local",
                   "GOMODCACHE": os.path.join(FOLDER, "go-modules"),
                   "GOCACHE": os.path.join(FOLDER, "go-cache")}
            fetch("go", ["go", "list", "-deps", "-f", "{{.Name}}", "."],
                  "a Go module proxy", folder, env)
            compile_with(["go", "build", "-p", "2", "-o", "peer", "."], folder,
                         dict(env, GOPROXY="off"))
    return [os.path.join(folder, "peer")]


def python(name):
    pins = ["%s==%s" % item for item in sorted(PYTHON[name].items())]
    with claim(name, pins) as (folder, needed):
        if needed:
            tell("fetching Python libraries")
            if subprocess.run([sys.executable, "-m", "pip", "--version"],
                              capture_output=True).returncode != 0:
                raise Skip("needs pip")
            fetch("pip", [sys.executable, "-m", "pip", "install", "-q",
                          "--no-compile", "--upgrade", "--target", folder,
                          "--retries", "1", "--timeout", "20"] + pins,
                  "a Python package index", folder)
    return ["env", "PYTHONPATH=" + folder, sys.executable,
            os.path.join(HERE, "peer.py")]


def node():
    pins = sorted("%s@%s" % item for item in NODE.items())
    with claim("node", pins) as (folder, needed):
        if needed:
            tell("fetching Node libraries")
            with open(os.path.join(folder, "package.json"), "w") as f:
                f.write('{"private": true}\n')
            fetch("npm", ["npm", "install", "--prefix", folder, "--no-audit",
                          "--no-fund", "--ignore-scripts", "--prefer-offline",
                          "--fetch-retries=0", "--fetch-timeout=15000",
                          "--cache", os.path.join(FOLDER, "npm")] + pins,
                  "an npm registry", folder)
    if not shutil.which("node"):
        raise Skip("needs node")
    return ["node", os.path.join(HERE, "peer.mjs"), folder]


def command(program, measured=False):
    if program in JAVA or program == "debian-java":
        return java(program, measured)
    if program in PYTHON:
        return python(program)
    if program == "debian-python":
        return [DEBIAN_PYTHON, os.path.join(HERE, "peer.py")]
    return go(program) if program in ETCD else node()
