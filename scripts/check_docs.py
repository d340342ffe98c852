#!/usr/bin/env python3
"""Do the pages say what the headers say?

One test per question: every public function has a man page, every page is of
something that exists, every error code is explained, every code and promise
(G1...) that is cited exists, every link leads somewhere, driver pages have the
headings that readers look for, and the version is the same everywhere.
"""

import glob
import os
import re
import sys

from check_source import ROOT, list_files

HEADINGS = ["URL", "Needs", "How it works", "Promises", "When it fails",
            "Options", "What is stored"]
# Shims keep nothing and promise nothing of their own.
SHIMS = {"fault", "trace"}
SHIM_HEADINGS = ["URL", "How it works", "Options"]
# What several drivers share is explained in theirs.
SHARED = {"sql"}


def read(name):
    try:
        with open(os.path.join(ROOT, name), encoding="utf-8",
                  errors="replace") as f:
            return f.read()
    except OSError:
        return ""


HEADER = read("include/holdfast/holdfast.h")
FILES = list_files()
PAGES = [n for n in FILES if n.endswith(".md")]


def public_symbols():
    bare = re.sub(r"/\*.*?\*/", " ", HEADER, flags=re.S)
    found = re.findall(r"HF_API[^;]*?\b(hf_\w+)\s*\(", bare)
    return sorted(set(found) | {"hf_with_lock"})


def error_codes():
    return ["HF_" + n for n in re.findall(r"X\((E\w+), -\d+", HEADER)]


def known_constants():
    """Every HF_... name that a header or the build knows."""
    text = HEADER + read("include/holdfast/driver.h") + read("CMakeLists.txt")
    for name in FILES:
        if name.endswith((".cmake", ".py", ".sh")) or "/" not in name:
            text += read(name)
    names = set(re.findall(r"\bHF_\w+", text))
    return names | set(error_codes())


def head_of(page):
    """What a man page is about: the part before its description."""
    return re.split(r"(?im)^#+\s*description", read(page))[0]


def check_symbols():
    pages = glob.glob(os.path.join(ROOT, "docs/man/*.3.md"))
    heads = "\n".join(head_of(os.path.relpath(p, ROOT)) for p in pages)
    listed = set(re.findall(r"\bhf_\w+", heads))
    for symbol in public_symbols():
        if symbol not in listed:
            yield "%s has no page: write docs/man/%s.3.md or list it in one" % (
                symbol, symbol)


def check_strays():
    types = set(re.findall(r"\bhfd?_\w+", HEADER
                           + read("include/holdfast/driver.h")))
    for page in PAGES:
        base = os.path.basename(page)
        if re.match(r"hf_\w+\.3\.md$", base) and base[:-5] not in types:
            yield "%s: the header knows no %s" % (page, base[:-5])


def check_errors():
    text = "\n".join(read(p) for p in PAGES if p.startswith("docs/"))
    for code in error_codes():
        if not re.search(r"\b%s\b" % code, text):
            yield "%s is explained nowhere in docs/" % code


def check_constants():
    known = known_constants()
    for page in PAGES:
        for number, line in enumerate(read(page).split("\n"), 1):
            for name in re.findall(r"\bHF_[A-Z]\w*", line):
                if name not in known and not name.endswith("_"):
                    yield "%s:%d: there is no %s" % (page, number, name)


def check_promises():
    text = read("docs/guarantees.md")
    known = set(re.findall(r"(?m)^[#|*\-\s]*\**(G\d+)\b", text))
    if not known:
        yield "docs/guarantees.md: no numbered promise (G1...) found"
        return
    for name in FILES:
        if not name.endswith((".c", ".h", ".md", ".sh", ".py")):
            continue
        for number, line in enumerate(read(name).split("\n"), 1):
            for cited in re.findall(r"(?<![\w.%-])G\d+\b", line):
                if cited not in known:
                    yield "%s:%d: there is no promise %s" % (
                        name, number, cited)


def anchors(page):
    """The names that a heading can be linked by."""
    found = set()
    for title in re.findall(r"(?m)^#+\s+(.*?)\s*#*$", read(page)):
        plain = re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", title).lower()
        found.add(re.sub(r"\s", "-", re.sub(r"[^\w\- ]", "", plain)))
    return found


def check_links():
    for page in PAGES:
        text = re.sub(r"(?ms)^ *```.*?^ *```", "", read(page))
        for target in re.findall(r"\[[^]]*\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            there = page if not path else os.path.normpath(
                os.path.join(os.path.dirname(page), path))
            if not os.path.exists(os.path.join(ROOT, there)):
                yield "%s: the link %s leads nowhere" % (page, target)
            elif anchor and anchor not in anchors(there):
                yield "%s: %s has no heading #%s" % (page, there, anchor)


def check_drivers():
    drivers = {n.split("/")[1] for n in FILES
               if re.match(r"drivers/\w+/CMakeLists\.txt$", n)} - SHARED
    for name in sorted(drivers):
        page = "drivers/%s/%s.md" % (name, name)
        titles = re.findall(r"(?m)^#+\s+(.*?)\s*$", read(page))
        if not titles:
            yield "%s is missing" % page
            continue
        for heading in SHIM_HEADINGS if name in SHIMS else HEADINGS:
            if heading not in titles:
                yield "%s has no heading '%s'" % (page, heading)


def check_version():
    version = re.search(r'HF_VERSION_TEXT "([^"]+)"', HEADER).group(1)
    parts = [re.search(r"HF_VERSION_%s (\d+)" % p, HEADER).group(1)
             for p in ("MAJOR", "MINOR", "PATCH")]
    if ".".join(parts) != version:
        yield "holdfast.h: HF_VERSION_TEXT and the numbers differ"
    project = re.search(r"project\(holdfast VERSION ([\d.]+)",
                        read("CMakeLists.txt"))
    if not project or project.group(1) != version:
        yield "CMakeLists.txt: the project's version is not %s" % version
    if version not in read("CHANGELOG.md"):
        yield "CHANGELOG.md does not mention %s" % version


def check_front_door():
    for page in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md",
                 "CHANGELOG.md", "SECURITY.md", "LICENSE",
                 "docs/guarantees.md", "docs/writing-a-driver.md"):
        if not read(page).strip():
            yield "%s is missing" % page


CHECKS = [
    ("man_pages", check_symbols), ("stray_pages", check_strays),
    ("error_codes", check_errors), ("constants", check_constants),
    ("promises", check_promises), ("links", check_links),
    ("driver_pages", check_drivers), ("version", check_version),
    ("front_door", check_front_door),
]


def main():
    failed = 0
    for name, check in CHECKS:
        findings = list(check())
        for finding in findings:
            print(finding)
        failed += bool(findings)
        print("FAIL %s: %d findings" % (name, len(findings)) if findings
              else "ok %s" % name)
    print("%d passed, %d failed, 0 skipped" % (len(CHECKS) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
