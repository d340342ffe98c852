#!/usr/bin/env python3
"""Rules of the house that a compiler does not know.

One test per rule over all files: sizes, function length, banned calls, who may
include whom, opening essays, marks of unfinished work, paths of somebody's
machine.  A rule that fails lists each place as FILE:LINE.

The C is read with its comments and strings blanked, so that a word in a
sentence is not taken for a call.
"""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

ROOF = 500
CEILINGS = {"include/holdfast/holdfast.h": 450, "include/holdfast/driver.h": 280}
FUNCTION_ROOF = 60
COLUMNS = 80

C_FILES = (".c", ".h", ".cc")
CODE_FILES = C_FILES + (".py", ".sh", ".cmake", ".spec")
SKIPPED = (".git/", "build/", "build-")

# Everywhere: calls that overflow, or that run a shell.
BANNED_ALL = ["strcpy", "strcat", "sprintf", "vsprintf", "gets", "strtok",
              "system", "popen", "tmpnam", "mktemp", "alloca"]
# In the library and its drivers: what the program decides (printing, ending),
# and what must go through src/base so that a test can replace it.
BANNED_LIBRARY = {
    "prints or ends the program": [
        "printf", "fprintf", "vprintf", "vfprintf", "puts", "putchar", "fputs",
        "perror", "exit", "_exit", "_Exit", "quick_exit"],
    "memory comes from src/base/alloc.c": [
        "malloc", "calloc", "realloc", "free", "strdup", "strndup", "asprintf",
        "vasprintf", "aligned_alloc", "posix_memalign"],
    "cannot tell a wrong number": ["atoi", "atol", "atoll"],
    "time comes from src/base/clock.c": [
        "clock_gettime", "gettimeofday", "time", "usleep", "sleep",
        "nanosleep", "clock_nanosleep"],
    "chance comes from src/base/clock.c": [
        "rand", "srand", "random", "srandom", "getrandom", "drand48"],
}
EXEMPT = {"memory": "src/base/alloc.c", "time": "src/base/clock.c",
          "chance": "src/base/clock.c"}
BANNED_WORDS = {"CLOCK_MONOTONIC": "stands still over a suspend",
                "CLOCK_REALTIME": "is set by people"}
SLEEPING = re.compile(r"\b(pthread_condattr_setclock|pthread_cond_clockwait|"
                      r"FUTEX_WAIT_BITSET)\b")

# Folder: beginnings of what may stand in #include "..." or in <...> where it
# is ours or a store's.  The longest matching folder counts; a file may always
# include its own folder.
PUBLIC = ["holdfast/holdfast.h", "holdfast/driver.h"]
MAY_USE = {
    "include/holdfast": ["holdfast/holdfast.h"],
    "src/base": ["base/"] + PUBLIC,
    "src/net": ["net/", "openssl/"] + PUBLIC,
    "src/core": ["base/", "core/"] + PUBLIC,
    "src/prim": ["base/", "prim/", "core/internal.h"] + PUBLIC,
    "drivers": PUBLIC,
    "drivers/sqlite": ["sqlite3.h"] + PUBLIC,
    "drivers/redis": ["net/", "lua_texts.h"] + PUBLIC,  # the latter is made
    "drivers/redlock": ["net/", "../redis/"] + PUBLIC,
    "drivers/zookeeper": ["net/"] + PUBLIC,
    "drivers/etcd": ["net/", "nghttp2/"] + PUBLIC,
    "drivers/fault": ["../trace/shim.h"] + PUBLIC,
    "drivers/postgres": ["../sql/", "sql/", "libpq-fe.h"] + PUBLIC,
    "drivers/mysql": ["../sql/", "sql/", "mysql.h", "mysql/", "errmsg.h",
                      "mysqld_error.h"] + PUBLIC,
    "drivers/odbc": ["../sql/", "sql/", "sql.h", "sqlext.h"] + PUBLIC,
    "cli": ["holdfast/holdfast.h"],
    "guards": ["holdfast/holdfast.h", "sqlite3.h"],
    "examples": ["holdfast/holdfast.h", "sqlite3.h", "libpq-fe.h"],
    "benchmarks": ["holdfast/holdfast.h", "sqlite3.h", "hiredis/",
                   "libpq-fe.h", "mysql.h", "sql.h", "sqlext.h",
                   "nghttp2/"],
    "tests": ["harness/", "sqlite3.h"] + PUBLIC,
    "tests/faults": ["harness/", "../behaviour/support.h"] + PUBLIC,
    "tests/stress": ["harness/", "../behaviour/support.h"] + PUBLIC,
    # These test what lies behind the public headers.
    "tests/conformance": ["harness/", "core/registry.h", "base/url.h",
                          "conformance/"] + PUBLIC,
    "tests/sim": ["harness/", "base/", "core/", "sim/", "drivers/mem/",
                  "../../drivers/mem/", "mem/"] + PUBLIC,
    "tests/fuzz": ["fuzz/", "base/", "core/", "../../drivers/redis/",
                   "../../drivers/sql/", "../../drivers/zookeeper/",
                   "../../drivers/etcd/", "../../drivers/redlock/",
                   "../../cli/", "../campaign/"] + PUBLIC,
}
# Headers that are somebody's: the rest of <...> is the system's.
OWNED = re.compile(r"^(holdfast|base|core|prim|net|openssl|harness|drivers|sim|"
                   r"conformance|fuzz|mem)/|^(sqlite3|libpq-fe|mysql|"
                   r"errmsg|sql|hiredis|nghttp2)")

UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
MACHINE = re.compile(r"(?<![\w.$}])/(wor" r"k|roo" r"t|hom" r"e/\w+|far" r"m)/"
                     r"|/tmp/hf[-]")


def list_files():
    """What git knows or would add; without git, what is there."""
    try:
        out = subprocess.run(
            ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others",
             "--exclude-standard"], check=True, capture_output=True).stdout
        names = [n for n in out.decode().split("\0") if n]
    except (OSError, subprocess.CalledProcessError):
        names = []
        for folder, _, files in os.walk(ROOT):
            names += [os.path.relpath(os.path.join(folder, f), ROOT)
                      for f in files]
    return sorted(n for n in set(names) if not n.startswith(SKIPPED)
                  and os.path.isfile(os.path.join(ROOT, n)))


NOT_CODE = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)


def blank(text):
    """The C with comments, strings and characters blanked, lines kept."""
    return NOT_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


class Source:
    def __init__(self, name):
        self.name = name
        with open(os.path.join(ROOT, name), "rb") as f:
            raw = f.read()
        self.binary = b"\0" in raw
        self.text = raw.decode("utf-8", "replace")
        self.lines = self.text.split("\n")
        if self.lines and self.lines[-1] == "":
            self.lines.pop()
        self.is_c = name.endswith(C_FILES)
        self.code = blank(self.text).split("\n") if self.is_c else []

    def under(self, *folders):
        return any(self.name.startswith(f + "/") for f in folders)

    def is_library(self):
        return self.under("src", "drivers") and not self.name.endswith(
            ("_test.c", "_test.h", "_target.c"))


def rule_sizes(source):
    if source.name.endswith(CODE_FILES):
        roof = CEILINGS.get(source.name, ROOF)
        if len(source.lines) > roof:
            yield 1, "%d lines, the roof is %d" % (len(source.lines), roof)


def rule_functions(source):
    """A body is what stands between braces in the first column."""
    begin = None
    for number, line in enumerate(source.code, 1):
        if line.startswith("{"):
            begin = number
        elif line.startswith("}") and begin is not None:
            if number - begin - 1 > FUNCTION_ROOF:
                yield begin, "a function of %d lines, the roof is %d" % (
                    number - begin - 1, FUNCTION_ROOF)
            begin = None


def calls(line, names):
    for match in re.finditer(r"(?<![\w.>])([A-Za-z_]\w*)\s*\(", line):
        if match.group(1) in names:
            yield match.group(1)


def waits_by_itself(source):
    """A condition variable, or a futex, counts on CLOCK_MONOTONIC and not on
    CLOCK_BOOTTIME; that is sleeping, not measuring.  Delays are fault's trade.
    """
    return source.under("drivers/fault") or any(
        SLEEPING.search(line) for line in source.code)


def rule_calls(source):
    tables = [("is banned everywhere", set(BANNED_ALL))]
    if source.is_library():
        for why, names in BANNED_LIBRARY.items():
            if EXEMPT.get(why.split()[0]) == source.name:
                continue
            if why.startswith("time") and waits_by_itself(source):
                continue
            tables.append((why, set(names)))
    for number, line in enumerate(source.code, 1):
        if line.lstrip().startswith("#"):
            continue
        for why, names in tables:
            for name in calls(line, names):
                yield number, "%s(): %s" % (name, why)


def rule_clocks(source):
    if not source.is_library() or source.name == EXEMPT["time"]:
        return
    for number, line in enumerate(source.code, 1):
        for word, why in BANNED_WORDS.items():
            if not re.search(r"\b%s\b" % word, line):
                continue
            if word != "CLOCK_MONOTONIC" or not waits_by_itself(source):
                yield number, "%s %s: ask src/base/clock.c" % (word, why)


def allowed(source, header):
    folder = os.path.dirname(source.name)
    near = os.path.normpath(os.path.join(folder, header))
    if os.path.dirname(near) == folder and os.path.exists(
            os.path.join(ROOT, near)):
        return True
    while folder and folder not in MAY_USE:
        folder = os.path.dirname(folder)
    return any(header.startswith(b) for b in MAY_USE.get(folder, []))


def rule_includes(source):
    if not source.is_c or source.under("tests/abi", "examples/installed"):
        return
    # A module's own test may look inside it and uses the harness.
    own_test = source.name.endswith(("_test.c", "_test.h"))
    for number, line in enumerate(source.lines, 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if not match:
            continue
        ours = match.group(1) == '"' or OWNED.match(match.group(2))
        if ours and not own_test and not allowed(source, match.group(2)):
            yield number, "may not include %s (see the may-use table)" % (
                match.group(2))


def rule_essay(source):
    if not source.is_c:
        return
    base = os.path.basename(source.name)
    head = "/* %s - " % base
    if not source.text.startswith(head):
        yield 1, "begins without its essay '%s...'" % head
    elif source.is_library() and source.name.endswith(".c"):
        essay = source.text[:source.text.find("*/")].count("\n") + 1
        if essay < 3:
            yield 1, "its essay has %d lines, at least 3 are wanted" % essay


def rule_layout(source):
    if not source.name.endswith(CODE_FILES):
        return
    for number, line in enumerate(source.lines, 1):
        if line != line.rstrip():
            yield number, "blanks at the end of the line"
        if source.is_c and "\t" in line:
            yield number, "a tab"
        if source.is_c and len(line) > COLUMNS:
            yield number, "%d columns, the roof is %d" % (len(line), COLUMNS)
    for match in NOT_CODE.finditer(source.text if source.is_c else ""):
        if match.group(0).startswith("//"):
            yield (source.text.count("\n", 0, match.start()) + 1,
                   "comments are /* */")
    if source.text and not source.text.endswith("\n"):
        yield len(source.lines), "no newline at the end"


def rule_finished(source):
    for number, line in enumerate(source.lines, 1):
        match = UNFINISHED.search(line)
        if match and not source.binary:
            yield number, "'%s' marks unfinished work" % match.group(1)


def rule_machine(source):
    if source.binary:
        return
    for number, line in enumerate(source.lines, 1):
        match = MACHINE.search(line)
        if match:
            yield number, "'%s' is a path of one machine" % match.group(0)


RULES = [
    ("sizes", rule_sizes), ("functions", rule_functions),
    ("calls", rule_calls), ("clocks", rule_clocks),
    ("includes", rule_includes), ("essays", rule_essay),
    ("layout", rule_layout), ("finished", rule_finished),
    ("machine_paths", rule_machine),
]


def main():
    sources = [Source(name) for name in list_files()]
    failed = 0
    for name, rule in RULES:
        places = ["%s:%d: %s" % (source.name, number, what)
                  for source in sources for number, what in rule(source)]
        for place in places:
            print(place)
        if places:
            failed += 1
            print("FAIL %s: %d places" % (name, len(places)))
        else:
            print("ok %s" % name)
    print("%d passed, %d failed, 0 skipped" % (len(RULES) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
