"""Files for what exists in memory only: commands read files. They go when Python ends."""

from __future__ import annotations

import itertools
import pathlib
import tempfile

_folder: tempfile.TemporaryDirectory[str] | None = None
_numbers = itertools.count(1)


def new_path(name: str) -> str:
    """A path for a file of this name, in a folder of its own."""
    global _folder
    if _folder is None:
        _folder = tempfile.TemporaryDirectory(prefix="tandem-")
    folder = pathlib.Path(_folder.name, str(next(_numbers)))
    folder.mkdir()
    return str(folder / name)


def keep(name: str, text: str) -> str:
    """The path of a new file with this text."""
    path = new_path(name)
    pathlib.Path(path).write_text(text, encoding="utf-8")
    return path


def forget(path: str) -> None:
    """Removes a file of `new_path` before Python ends."""
    pathlib.Path(path).unlink(missing_ok=True)
    pathlib.Path(path).parent.rmdir()
