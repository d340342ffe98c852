"""The list of planted bugs: read, matched with the sources, planted.

    mutant NAME
    wrong what is wrong, in words
    judge test NAME [CASE...]
    judge campaign STORE FAULTS MINUTES SEED
    expect I1 I2
    within SECONDS
    smoke
    in FILE
     a line that stays
    -a line that goes
    +a line that comes
    in FILE
    ...

A judge is a test as ./check knows it, perhaps only some of its cases, or a
campaign; then `expect` says which invariants may convict it.  Of several judges
the first that convicts is enough.  `smoke`: ./check tries it, too, so its first
judge is a test of a second or two (smoke.py).  The lines behind `in` are a hunk: those that
stay and those that go must stand in the file exactly once, or the entry is out
of date, and that is an error.  A line that begins with `#` between entries is a
remark.
"""

import glob
import os

HERE = os.path.dirname(os.path.abspath(__file__))


class Stale(Exception):
    pass


class Hunk:
    def __init__(self, path):
        self.path, self.old, self.new = path, [], []

    def add(self, line):
        if line[0] in " -":
            self.old.append(line[1:])
        if line[0] in " +":
            self.new.append(line[1:])

    def planted(self, text):
        old, new = "\n".join(self.old) + "\n", "\n".join(self.new)
        count = ("\n" + text).count("\n" + old)
        if count != 1:
            raise Stale("its text stands %d times in %s:\n%s"
                        % (count, self.path, old))
        at = ("\n" + text).index("\n" + old)
        return text[:at] + (new + "\n" if new else "") + text[at + len(old):]


class Mutant:
    def __init__(self, name, store):
        self.name, self.store = name, store
        self.wrong, self.judges, self.expect = "", [], []
        self.within, self.hunks, self.smoke = 0, [], False

    def text(self):
        """All that a verdict depends on."""
        return repr((self.judges, self.expect, self.within,
                     [(h.path, h.old, h.new) for h in self.hunks]))

    def planted(self, root):
        """{path: text} of the files that it changes."""
        texts = {}
        for hunk in self.hunks:
            if hunk.path not in texts:
                try:
                    with open(os.path.join(root, hunk.path),
                              encoding="utf-8") as f:
                        texts[hunk.path] = f.read()
                except OSError as problem:
                    raise Stale("%s: %s" % (hunk.path, problem.strerror))
            texts[hunk.path] = hunk.planted(texts[hunk.path])
        return texts


def read_line(mutant, line, where):
    word, _, rest = line.partition(" ")
    if line[0] in " -+" and mutant.hunks:
        mutant.hunks[-1].add(line)
    elif word == "wrong":
        mutant.wrong = rest
    elif word == "judge":
        mutant.judges.append(tuple(rest.split()))
    elif word == "expect":
        mutant.expect = rest.split()
    elif word == "within":
        mutant.within = int(rest)
    elif line == "smoke":
        mutant.smoke = True
    elif word == "in":
        mutant.hunks.append(Hunk(rest))
    else:
        raise SystemExit("%s: '%s' is no line of a mutant" % (where, line))


def read_file(path):
    store = os.path.splitext(os.path.basename(path))[0]
    mutants = []
    with open(path, encoding="utf-8") as f:
        for n, line in enumerate(f.read().splitlines(), 1):
            if line.startswith("mutant "):
                mutants.append(Mutant(line.split()[1], store))
            elif line and not line.startswith("#"):
                read_line(mutants[-1], line, "%s:%d" % (path, n))
    return mutants


def read_all():
    mutants = []
    for path in sorted(glob.glob(os.path.join(HERE, "*.list"))):
        mutants += read_file(path)
    names = [m.name for m in mutants]
    for m in mutants:
        if names.count(m.name) > 1:
            raise SystemExit("two mutants are called '%s'" % m.name)
        if not (m.wrong and m.judges and m.within and m.hunks):
            raise SystemExit("mutant '%s' lacks something" % m.name)
    return mutants
