"""What every store of a campaign is: servers, links, promises, and what its
operators may do to it.

A store names its servers, the URL of its clients (through the relay) and of
whoever looks afterwards (past it), what it promises, the faults that make no
sense for it and why, those under which its page allows two holders, and what
may be left in it at the end.
"""

import os
import resource
import shutil

import diary
from disks import Disk
from servers import NoServer, Relay

ALONE = "it has no members"
NO_SERVER = "it has no server"
NO_NETWORK = "there is no network between"
UNKNOWN = "nobody can say what"


class Store:
    name = "?"
    lease_ms = 2000
    promises = diary.FIFO | diary.TOKENS | diary.PUSH
    why_not = {}  # fault: why it makes no sense here
    excuses = ()  # faults that may make two holders, by the page
    worst = (20,)  # of these: those that make two holders for sure
    needs = ()  # programs
    shimmed = True  # the wall clock of its servers can be set

    def __init__(self, sitting):
        self.folder, self.build = sitting.folder, sitting.build
        self.shim = sitting.shim
        # Servers that hold data, and others; the links of the former are the
        # relay's first.
        self.servers, self.helpers = [], []
        self.relay, self.env = None, {}
        self.disks = {}  # of servers by their name
        self.when = {}  # fault: when it struck last

    def start(self):
        for program in self.needs:
            if not shutil.which(program):
                raise NoServer("%s is not installed; run "
                               "scripts/install-deps.sh check" % program)
        self.make()
        if not all(disk.mounted for disk in self.disks.values()):
            self.why_not = {**self.why_not, 21: "needs root"}
        if self.shim and self.shimmed:
            for server in self.servers:
                server.shim_clock(self.shim)
        elif self.shimmed and self.servers:
            self.why_not = {**self.why_not, 20: "no shim in this build"}
        for server in self.everybody():
            server.start()
        for server in self.everybody():
            server.wait_ready()

    def make(self):
        pass

    def give_disk(self, name, megabytes):
        """A disk of its own for this server, before anything is on it; its
        folder."""
        folder = os.path.join(self.folder, name)
        self.disks[name] = Disk(folder, megabytes)
        return folder

    def everybody(self):
        return self.servers + self.helpers

    def link(self, ports, mark=None):
        self.relay = Relay(os.path.join(self.build, "tests", "campaign",
                                        "campaign_relay"), ports, mark)
        return self.relay.ports

    def stop(self):
        for server in self.everybody():
            if server.process:
                server.kill()
        if self.relay:
            self.relay.stop()
        for disk in self.disks.values():
            disk.unmount()

    def leader(self):
        return None

    def stands(self):
        """Is it all that it is when nothing is wrong?"""
        return True

    def victims(self, rng):
        """Servers that may be struck at once: all, unless it has several."""
        return self.servers

    def forgetful(self, rng):
        """Servers that may lose their memory, or the time, at once."""
        return self.victims(rng)

    def serves(self, server):
        """Asked of one that was not started just now."""
        return server.ready(server)

    def fills_up(self, server):
        """Its disk is full: what makes it notice."""

    def swaps_with(self, link, rng):
        """At whose server the connections of this link may find themselves:
        at its own, which has not heard of them."""
        return link

    def limit(self, servers, on):
        """No new connections, or as many as before (F22): a server that has
        no setting for it has no descriptors left."""
        for server in servers:
            if server.runs():
                pid = server.process.pid
                _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
                used = len(os.listdir("/proc/%d/fd" % pid))
                resource.prlimit(pid, resource.RLIMIT_NOFILE,
                                 (used if on else most, most))

    def residue(self):
        """What is in the store that should not be; "" is nothing, and UNKNOWN
        that it does not say."""
        raise NotImplementedError

    # ---- What only some can; the others name a reason in why_not ----

    def starve(self, on):
        """No memory for more, or as much as before (F22d)."""
        raise NotImplementedError

    def revoke(self, on):
        """The clients' account is closed, and opened again (F23)."""
        raise NotImplementedError

    def wipe(self, server):
        """A server that is down will have forgotten everything (F9)."""
        raise NotImplementedError

    def tidy(self):
        """What an operator does to it now and then (F27); False: it did not
        work out."""
        raise NotImplementedError
