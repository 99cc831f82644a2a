"""What a run that ended left on this computer: processes, shared memory, temporary files."""

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
PATIENCE = 15  # seconds until what is ending has ended


class Traces:
    """Of runs that are given its environment."""

    def __init__(self):
        self.mark = f"TANDEM_WALK={os.getpid()}.{next(NUMBERS)}"
        key, _, value = self.mark.partition("=")
        self.environment = dict(ENVIRONMENT, **{key: value})
        self.before = self.files()

    def processes(self):
        out = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if self.mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    # A worker starts itself again, and is called by another name then.
                    command = (entry / "cmdline").read_bytes().split(b"\0")[0].decode()
                    out[int(entry.name)] = pathlib.Path(command).name
            except OSError:  # it has ended meanwhile, or is another's
                continue
        return out

    def named(self, name):
        """Process ids, in the order in which they were started."""
        return sorted(pid for pid, command in self.processes().items() if command == name)

    @staticmethod
    def files():
        """Segments, directories of runs and of mpirun's by process id."""
        out = set(SHARED.iterdir()) | set(TEMPORARY.glob("tandem-*"))
        return out | set(TEMPORARY.glob("ompi.*/pid.*"))

    @staticmethod
    def is_used(path):
        """By a process that runs: others on this computer may train, too."""
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

    def left(self):
        """Nothing, where all is as it was; waits for what is about to end."""
        until = time.monotonic() + PATIENCE
        while True:
            files = [str(p) for p in self.files() - self.before if p.exists() and not self.is_used(p)]
            out = [f"{pid} {name}" for pid, name in self.processes().items()] + files
            if not out or time.monotonic() > until:
                return out
            time.sleep(0.3)
