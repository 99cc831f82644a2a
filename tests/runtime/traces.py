"""Leftovers of runs on this computer: processes, shared memory and temporary files."""

import itertools
import os
import pathlib
import re
import tempfile
import time

from support import ENVIRONMENT

NUMBERS = itertools.count()
SHARED = pathlib.Path("/dev/shm")
TEMPORARY = pathlib.Path(tempfile.gettempdir())
PATIENCE = 15  # seconds to wait for processes that are ending


class Traces:
    """The processes and files of runs that have its environment."""

    def __init__(self):
        self.mark = f"TANDEM_WALK={os.getpid()}.{next(NUMBERS)}"
        key, _, value = self.mark.partition("=")
        self.environment = dict(ENVIRONMENT, **{key: value})
        self.before = self.list_files()

    def list_processes(self):
        """Returns {process id: name} of the running processes."""
        out = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if self.mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    # A worker restarts itself under another name.
                    command = (entry / "cmdline").read_bytes().split(b"\0")[0].decode()
                    out[int(entry.name)] = pathlib.Path(command).name
            except OSError:  # the process has ended, or belongs to another user
                continue
        return out

    def find_processes(self, name):
        """Returns the ids of processes called `name`, in the order in which they started."""
        return sorted(pid for pid, command in self.list_processes().items() if command == name)

    @staticmethod
    def list_files():
        """Returns segments of shared memory, and directories of runs and of mpirun."""
        out = set(SHARED.iterdir()) | set(TEMPORARY.glob("tandem-*"))
        return out | set(TEMPORARY.glob("ompi.*/pid.*"))

    @staticmethod
    def is_used(path):
        """Returns whether a running process uses the file. Other users of this computer may train, too."""
        numbers = re.findall(r"^(?:pid\.|tandem-run-)(\d+)", path.name)
        if numbers:
            return pathlib.Path(f"/proc/{numbers[0]}").exists()
        for entry in pathlib.Path("/proc").glob("[0-9]*/maps"):
            try:
                if str(path) in entry.read_text():
                    return True
            except OSError:
                continue
        return False

    def find_leftovers(self):
        """Returns processes and files that remain after waiting for processes that are ending."""
        until = time.monotonic() + PATIENCE
        while True:
            files = [str(p) for p in self.list_files() - self.before if p.exists() and not self.is_used(p)]
            out = [f"{pid} {name}" for pid, name in self.list_processes().items()] + files
            if not out or time.monotonic() > until:
                return out
            time.sleep(0.3)
