"""The commands of `tandem`, run inside Python."""

from __future__ import annotations

import json
from typing import Any, Callable, Mapping, Sequence, Union

from . import _core
from ._errors import DoesNotFit

Flag = Union[None, bool, int, float, str, Sequence[Union[str, int, float]]]
Progress = Callable[[str], object]


def format_flags(flags: Mapping[str, Flag]) -> list[str]:
    """Returns the words of a command line: no_pipeline=True, dims=["data", "model"] become
    `--no-pipeline --dims=data,model`. Flags that are None or False are omitted."""
    words = []
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif isinstance(value, (list, tuple)):
            words.append(f"{flag}={','.join(map(str, value))}")
        else:
            words.append(f"{flag}={value}")
    return words


def command(*words: str, progress: Progress | None = None, **flags: Flag) -> Any:
    """Runs a command and returns the document that it prints with `--json`: ``command("explain", "plan.json")``.

    It runs every command of `tandem --help`. Keywords are flags: ``batch=8`` is ``--batch=8``.
    From time to time it calls `progress` with a line that describes the progress.

    Raises `Error` if the input is wrong, and `DoesNotFit` if no plan fits.
    """
    code, text = _core.run([*words, *format_flags(flags), "--json"], progress)
    document = json.loads(text) if text else None
    if code != 0 and isinstance(document, dict) and document.get("feasible") is False:
        keys = ("limit", "over_by_bytes", "smallest_change", "stop_reason")
        raise DoesNotFit(*(document[key] for key in keys))
    return document
