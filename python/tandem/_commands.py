"""The commands of `tandem`, run inside Python."""

from __future__ import annotations

import json
from typing import Any, Callable, Mapping, Sequence, Union

from . import _core
from ._errors import DoesNotFit

Flag = Union[None, bool, int, float, str, Sequence[Union[str, int, float]]]
Progress = Callable[[str], object]


def words_of(flags: Mapping[str, Flag]) -> list[str]:
    """The words of a command line: no_pipeline=True, dims=["data", "model"] are
    `--no-pipeline --dims=data,model`. None and False leave a flag out."""
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
    """Run a command and return what it prints with `--json`: ``command("explain", "plan.json")``.

    All commands of `tandem --help` can be run. Keywords are flags: ``batch=8`` is ``--batch=8``.
    `progress` is called now and then with a line that says how far the command is.

    Raises `Error` where the input is wrong, `DoesNotFit` where no plan fits.
    """
    code, text = _core.run([*words, *words_of(flags), "--json"], progress)
    document = json.loads(text) if text else None
    if code != 0 and isinstance(document, dict) and document.get("feasible") is False:
        told = ("limit", "over_by_bytes", "smallest_change", "stop_reason")
        raise DoesNotFit(*(document[key] for key in told))
    return document
