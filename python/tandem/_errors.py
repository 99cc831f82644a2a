"""What calls raise."""

from __future__ import annotations


class Error(Exception):
    """Something that was given is wrong: where, what, and what to try.

    `kind` says what it is ("graph", "machine", "model", "plan", "flag", ...), `where` its place
    ("linear %5", "my.machine:12", "--batch"), `message` what is wrong, and `hint` what would be right; it
    may be empty.
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
    """No plan fits the memory of the devices.

    `limit` says which limit is the tightest, `over` by how many bytes the smallest plan exceeds it,
    `smallest_change` the smallest change that would help, and `stop_reason` whether the search was over by then (`"done"`) or
    what ended it, as in a plan.
    """

    def __init__(self, limit: str, over: int, smallest_change: str, stop_reason: str = "done") -> None:
        message = f"the plan with the least memory needs {over} bytes more than there are"
        super().__init__("plan", limit, message, smallest_change)
        self.args = (limit, over, smallest_change, stop_reason)
        self.limit = limit
        self.over = over
        self.smallest_change = smallest_change
        self.stop_reason = stop_reason
