#!/usr/bin/env python3
"""check_tidy.py [--deep] BUILD [FILE...] - clang-tidy, a file per core.

Takes the files of the product (src, drivers, cli, examples) from
BUILD/compile_commands.json, so that each is read with the flags it is built
with.  A file that was clean is not looked at again until it, a header or the
list of checks changes: its fingerprint is kept in BUILD/tidy.

Nearly all of the time goes into the analyzer, which walks the paths through
each function until it has made so many nodes.  NODES is a sixth of what it
does by itself and takes a fifth of the time.  Tests are not analyzed: each of
their paths that matters is run, and under the sanitizers.  --deep analyzes
everything to the analyzer's own bound.
"""

import concurrent.futures
import glob
import hashlib
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TIDY = "clang-tidy-14"
FOLDERS = tuple(os.path.join(ROOT, f, "")
                for f in ("src", "drivers", "cli", "examples"))
# What clang does not know but gcc was told, and what is not about our code.
EXTRA = ["--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-error"]
NODES = 40000
TESTS = ("_test.c", "_target.c")


def contents(name):
    with open(name, "rb") as f:
        return f.read()


def common_fingerprint():
    """Of everything that concerns every file."""
    digest = hashlib.sha256(contents(os.path.join(ROOT, ".clang-tidy")))
    digest.update(contents(os.path.abspath(__file__)))
    for folder in ("include", "src", "drivers", "cli", "tests/harness"):
        for name in sorted(glob.glob(os.path.join(ROOT, folder, "**/*.h"),
                                     recursive=True)):
            digest.update(contents(name))
    return digest.digest()


def fingerprint(common, entry):
    digest = hashlib.sha256(common + contents(entry["file"]))
    digest.update(entry["command"].encode())
    return digest.hexdigest()


def depth(name, deep):
    """The options that say how far the analyzer goes."""
    if deep:
        return []
    if name.endswith(TESTS):
        return ["--checks=-clang-analyzer-*"]
    return ["--extra-arg=-Xclang", "--extra-arg=-analyzer-config",
            "--extra-arg=-Xclang", "--extra-arg=max-nodes=%d" % NODES]


def tidy(build, entry, common, deep):
    """(file, output, clean)"""
    mark = os.path.join(build, "tidy", fingerprint(common, entry)
                        + ("-deep" if deep else ""))
    name = os.path.relpath(entry["file"], ROOT)
    if os.path.exists(mark):
        return name, "", True
    done = subprocess.run(
        [TIDY, "--quiet", "-p", build] + EXTRA
        + depth(entry["file"], deep) + [entry["file"]],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, check=False)
    clean = done.returncode == 0
    if clean:
        with open(mark, "w"):
            pass
    errors = "" if clean else done.stderr
    return name, done.stdout + errors, clean


def main():
    words = sys.argv[1:]
    deep = words[:1] == ["--deep"]
    words = words[deep:]
    if not words:
        print("check_tidy.py: say which build folder")
        return 2
    build = os.path.abspath(words[0])
    wanted = {os.path.abspath(n) for n in words[1:]}
    with open(os.path.join(build, "compile_commands.json")) as f:
        entries = {e["file"]: e for e in json.load(f)
                   if (e["file"] in wanted if wanted
                       else e["file"].startswith(FOLDERS))}
    os.makedirs(os.path.join(build, "tidy"), exist_ok=True)
    common = common_fingerprint()
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, output, clean in pool.map(
                lambda e: tidy(build, e, common, deep), entries.values()):
            if clean:
                passed += 1
                continue
            failed += 1
            print(output.rstrip())
            print("FAIL %s: see above" % name)
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
