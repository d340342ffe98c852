"""Small disks of a campaign, so that they can be full (F21).

Each is a file system in memory of its own, for what one server, or the store
without a server, keeps.  Only root may have one.  They are in a namespace of
the conductor, which all of its children share, and go with it whatever happens.
"""

import ctypes
import os
import subprocess

NEW_NAMESPACE = 0x20000
apart = None  # not tried yet


def step_apart():
    """Once: what is mounted from now on is seen by nobody else."""
    global apart
    if apart is None:
        apart = (ctypes.CDLL(None).unshare(NEW_NAMESPACE) == 0
                 and mounts("mount", "--make-rprivate", "/"))
    return apart


def mounts(*words):
    return subprocess.run(words, capture_output=True).returncode == 0


class Disk:
    def __init__(self, folder, megabytes):
        os.makedirs(folder, exist_ok=True)
        self.folder = folder
        self.filler = os.path.join(folder, "filler")
        self.mounted = step_apart() and mounts(
            "mount", "-t", "tmpfs", "-o", "size=%dm" % megabytes, "tmpfs",
            folder)

    def fill(self):
        """To the last byte: in large pieces, then in small ones."""
        with open(self.filler, "wb", buffering=0) as f:
            for size in (1 << 20, 1 << 12):
                try:
                    while True:
                        f.write(bytes(size))
                except OSError:
                    pass

    def free(self):
        if os.path.exists(self.filler):
            os.unlink(self.filler)

    def unmount(self):
        if self.mounted:
            mounts("umount", "-l", self.folder)
