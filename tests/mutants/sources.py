"""What a verdict rests on: the entry, the files it changes, the judge's own.

A row of the page stands for as long as none of these has changed.  A judge that
is a campaign rests on all of tests/campaign; one that is a test on the files
that have its cases, and on what these include from their own folder and from
tests.  What every test shares is left out, or a word there would undo all rows.
"""

import hashlib
import os
import re

from check_source import list_files

CASE = re.compile(r"\bTEST(?:_LIMIT)?\(\s*(\w+)")
SHARED = {"tests/harness/expect.h", "tests/harness/runner.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


class Sources:
    def __init__(self, root, names=None):
        self.root, self.names = root, set(names or list_files())
        self.texts, self.with_case = {}, {}
        for name in sorted(self.names):
            if name.endswith(".c") and name.startswith(
                    ("src/", "tests/", "drivers/")):
                for case in CASE.findall(self.text(name)):
                    self.with_case.setdefault(case, set()).add(name)

    def text(self, name):
        if name not in self.texts:
            with open(os.path.join(self.root, name), encoding="utf-8",
                      errors="replace") as f:
                self.texts[name] = f.read()
        return self.texts[name]

    def with_headers(self, names):
        """And what they include from their own folders and from tests."""
        found, new = set(), set(names)
        while new:
            name = new.pop()
            found.add(name)
            for header in INCLUDE.findall(self.text(name)):
                for folder in (os.path.dirname(name), "tests"):
                    new |= {os.path.normpath(os.path.join(folder, header))} \
                        & (self.names - SHARED - found)
        return found

    def of_test(self, name, cases):
        """The files with these cases; without any: the program's own."""
        stem = name.split("-")[0]
        folder = stem.split("_")[0]
        if cases:
            own = set().union(*(self.with_case.get(c, set()) for c in cases))
            close = {n for n in own if folder in n}
            own = close or own
        else:
            own = {n for n in self.names if n.endswith(".c") and (
                os.path.basename(n)[:-2] == stem
                or os.path.dirname(n).endswith("/" + folder)
                and n.startswith("tests/"))}
        return self.with_headers(n for n in own if n.endswith(".c"))

    def of_judge(self, words):
        kind, name, *rest = words
        if kind == "test":
            return self.of_test(name, rest)
        return {n for n in self.names if n.startswith("tests/campaign/")
                and n.endswith((".c", ".h", ".py"))}

    def mark(self, m):
        """Changes when an old verdict says nothing any more."""
        files = {h.path for h in m.hunks}
        for words in m.judges:
            files |= self.of_judge(words)
        what = hashlib.sha256(m.text().encode())
        for name in sorted(files & self.names):
            what.update(("\0%s\0%s" % (name, self.text(name))).encode())
        return what.hexdigest()[:10]
