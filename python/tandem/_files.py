"""Temporary files for objects in memory, since commands read files. Python deletes them when it ends."""

from __future__ import annotations

import itertools
import pathlib
import tempfile

_directory: tempfile.TemporaryDirectory[str] | None = None
_numbers = itertools.count(1)


def make_path(name: str) -> str:
    """Returns a path for a file called `name`, in a new directory of its own."""
    global _directory
    if _directory is None:
        _directory = tempfile.TemporaryDirectory(prefix="tandem-")
    directory = pathlib.Path(_directory.name, str(next(_numbers)))
    directory.mkdir()
    return str(directory / name)


def write(name: str, text: str) -> str:
    """Writes `text` to a new file called `name` and returns its path."""
    path = make_path(name)
    pathlib.Path(path).write_text(text, encoding="utf-8")
    return path


def remove(path: str) -> None:
    """Removes a file of `make_path` before Python ends."""
    pathlib.Path(path).unlink(missing_ok=True)
    pathlib.Path(path).parent.rmdir()
