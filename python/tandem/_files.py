"""Files for what exists in memory only: commands read files. They go when Python ends."""

from __future__ import annotations

import itertools
import pathlib
import tempfile

_directory: tempfile.TemporaryDirectory[str] | None = None
_numbers = itertools.count(1)


def new_path(name: str) -> str:
    """A path for a file of this name, in a directory of its own."""
    global _directory
    if _directory is None:
        _directory = tempfile.TemporaryDirectory(prefix="tandem-")
    directory = pathlib.Path(_directory.name, str(next(_numbers)))
    directory.mkdir()
    return str(directory / name)


def keep(name: str, text: str) -> str:
    """The path of a new file with this text."""
    path = new_path(name)
    pathlib.Path(path).write_text(text, encoding="utf-8")
    return path


def forget(path: str) -> None:
    """Removes a file of `new_path` before Python ends."""
    pathlib.Path(path).unlink(missing_ok=True)
    pathlib.Path(path).parent.rmdir()
