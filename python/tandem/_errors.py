"""Exceptions that calls raise."""

from __future__ import annotations


class Error(Exception):
    """An error in the input.

    `kind` names the kind of input ("graph", "machine", "model", "plan", "flag", ...) and `where` its place
    ("linear %5", "my.machine:12", "--batch"). `message` says what is wrong, and `hint` what would be right.
    The hint may be empty.
    """

    def __init__(self, kind: str, where: str, message: str, hint: str = "") -> None:
        super().__init__(kind, where, message, hint)
        self.kind = kind
        self.where = where
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}{self.message}{hint}"


class DoesNotFit(Error):
    """The error that no plan fits the memory of the devices.

    `limit` names the tightest limit, `over` the bytes by which the smallest plan exceeds it, and
    `smallest_change` the smallest change that would help. `stop_reason` says why the search ended, as in a
    plan: `"done"`, or the limit that ended it.
    """

    def __init__(self, limit: str, over: int, smallest_change: str, stop_reason: str = "done") -> None:
        message = f"the plan with the least memory needs {over} bytes more than there are"
        super().__init__("plan", limit, message, smallest_change)
        self.args = (limit, over, smallest_change, stop_reason)
        self.limit = limit
        self.over = over
        self.smallest_change = smallest_change
        self.stop_reason = stop_reason
