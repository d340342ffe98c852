"""Some planted bugs within ./check: built on the objects that it has.

Nothing is configured and little is compiled: of the build that runs us we take
the commands.  What includes a changed file is compiled from a copy of its
folder, and the judge's program is linked anew from these objects and the old
ones, and so is the module of the folder that was changed; if neither has any of
them, then the modules that have.  So a bug costs a second or two.  Only entries
that say `smoke` are tried, with their first judge, which must be a test.

An object that was compiled anew stands before the archive that has the old one,
and the linker takes whom it meets first.
"""

import os
import re
import shutil
import subprocess
import tempfile
import time

import judges

COMPILE = re.compile(r" -MD -MT \S+ -MF \S+ -o (\S+) -c (\S+)")
ARCHIVE = re.compile(r"\bar qc (\S+) +(.*?) && ")
LINK = re.compile(r" -o (\S+) ")
PATIENCE_S = 60


class Broken(Exception):
    pass


class Smoke(judges.Build):
    """Of the build in `folder`, with a bug in `shadow`."""

    def __init__(self, root, folder, shadow):
        super().__init__(shadow)
        self.root, self.source, self.folder = root, root, folder
        self.shadow, self.program = shadow, None
        self.depends = self.read_depends()

    @property
    def drivers(self):
        return os.path.join(self.shadow, "drivers-lib")

    def ask_ninja(self, *words):
        return subprocess.run(["ninja", "-C", self.folder, "-t", *words],
                              stdin=subprocess.DEVNULL, text=True, check=True,
                              capture_output=True).stdout

    def read_depends(self):
        """{object: the files of ours that went into it}"""
        depends, name = {}, None
        for line in self.ask_ninja("deps").splitlines():
            if line.startswith("    " + self.root + os.sep):
                depends[name].add(os.path.relpath(line.strip(), self.root))
            elif line and line[0] != " ":
                name = line.split(":")[0]
                depends[name] = set()
        return depends

    def command(self, name):
        words = super().command(name)
        return [self.program if self.program and w == self.original else w
                for w in words]

    # ---- A bug -------------------------------------------------------------

    def begin(self, texts):
        """The folders of what is changed, and the modules as they are."""
        shutil.rmtree(self.shadow, ignore_errors=True)
        os.makedirs(self.drivers)
        os.symlink(os.path.join(self.folder, "src"),
                   os.path.join(self.shadow, "src"))  # where modules look
        for name in self.modules():
            os.symlink(os.path.join(self.folder, name),
                       os.path.join(self.shadow, name))
        for folder in {os.path.dirname(path) for path in texts}:
            self.copy_folder(folder)
        for path, text in texts.items():
            with open(os.path.join(self.shadow, "source", path), "w",
                      encoding="utf-8") as f:
                f.write(text)

    def copy_folder(self, folder):
        shutil.copytree(os.path.join(self.root, folder),
                        os.path.join(self.shadow, "source", folder))

    def modules(self):
        folder = os.path.join(self.folder, "drivers-lib")
        return ["drivers-lib/" + n for n in sorted(os.listdir(folder))
                if n.endswith(".so")]

    def shell(self, command):
        done = subprocess.run(command, shell=True, cwd=self.folder, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        if done.returncode:
            raise Broken(done.stdout.strip()[-400:])

    def compile(self, line):
        found = COMPILE.search(line)
        name, source = found.groups()
        source = os.path.relpath(source, self.root)
        there = os.path.join(self.shadow, "source", source)
        if not os.path.exists(there):
            self.copy_folder(os.path.dirname(source))
        made = os.path.join(self.shadow, name.replace("/", "_"))
        self.shell(line.replace(found.group(0), " -w -o %s -c %s"
                                % (made, there)))
        return made

    def link(self, name, there, texts):
        """What has an object of these, again; False: it has none."""
        made, archives, last = {}, {}, ""
        for line in self.ask_ninja("commands", name).splitlines():
            found = COMPILE.search(line)
            if found and self.depends.get(found.group(1), set()) & set(texts):
                made[found.group(1)] = line
            found = ARCHIVE.search(line)
            if found:
                archives[found.group(1)] = found.group(2).split()
            found = LINK.search(line)
            if found and found.group(1) == name:
                last = line
        inside = [o for a, members in archives.items() if " %s " % a in last
                  for o in members if o in made]
        beside = [o for o in made if " %s " % o in last]
        if not inside and not beside:
            return False
        made = {o: self.compile(made[o]) for o in inside + beside}
        last = LINK.sub(" -o %s %s " % (there, " ".join(
            made[o] for o in inside)), last, 1)
        for name in beside:
            last = last.replace(" %s " % name, " %s " % made[name])
        self.shell(last)
        return True

    def plant(self, m):
        texts, self.program = m.planted(self.root), None
        words = self.command(m.judges[0][1])
        self.begin(texts)
        self.original = next(w for w in words
                             if w.startswith(self.folder + os.sep))
        there = os.path.join(self.shadow, os.path.basename(self.original))
        if self.link(os.path.relpath(self.original, self.folder), there,
                     texts):
            self.program = there
        own = {"holdfast-%s.so" % os.path.basename(os.path.dirname(path))
               for path in texts}
        for name in self.modules():
            if os.path.basename(name) in own or not self.program:
                self.link_module(name, texts)
        if not self.program:
            raise Broken("neither its judge nor a module has an object of it")

    def link_module(self, name, texts):
        there = os.path.join(self.shadow, name)
        os.unlink(there)
        if not self.link(name, there, texts):
            os.symlink(os.path.join(self.folder, name), there)
        elif not self.program:
            self.program = self.original


def run(root, folder, chosen):
    """Each of them; (convicted, failed, skipped)."""
    counts = [0, 0, 0]
    # Below the build: a program may find its library by where it is.
    with tempfile.TemporaryDirectory(prefix="smoke-", dir=folder) as shadow:
        build = Smoke(root, folder, os.path.join(shadow, "one"))
        build.log = os.path.join(shadow, "log")
        for m in chosen:
            kind, words, begin = 1, "", time.monotonic()
            try:
                build.plant(m)
                verdict = judges.judge(build, m.judges[0], [],
                                       min(m.within, PATIENCE_S))
                kind, words = 0 if verdict.convicted else 1, verdict.words
            except LookupError as missing:
                kind, words = 2, "needs what its judge is made of: %s" % missing
            except (Broken, OSError, subprocess.CalledProcessError) as problem:
                words = "it could not be planted: %s" % problem
            counts[kind] += 1
            print("%s %s: %s, %.1f s" % (
                ("ok", "FAIL", "skip")[kind], m.name, words,
                time.monotonic() - begin), flush=True)
    return counts
