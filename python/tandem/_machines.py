"""Machines: what networks are trained on."""

from __future__ import annotations

import os
from typing import Any, Union

from . import _files
from ._commands import command


class Machine:
    """A machine: its devices, and the levels that connect them, outermost first.

    `text` is what the command line calls it: "summit:8" or "my.machine:4".
    """

    def __init__(self, text: str, data: dict[str, Any]) -> None:
        self.text = text
        self._data = data

    @staticmethod
    def parse(text: str, size: int | None = None, name: str = "machine") -> Machine:
        """A machine of the text of a machine file (docs/reference/machine-format.md). `size` is the count that it leaves
        open, if any."""
        path = _files.keep(f"{name}.machine", text)
        return machine(path if size is None else f"{path}:{size}")

    @property
    def name(self) -> str:
        return str(self._data["name"])

    @property
    def devices(self) -> int:
        """How many there are."""
        return int(self._data["devices"])

    @property
    def memory(self) -> int:
        """Of a device, in bytes, less what is kept back."""
        device = self._data["device"]
        return int(device["memory_bytes"] - device["reserve_bytes"])

    @property
    def levels(self) -> list[dict[str, Any]]:
        """"name", "count", "bandwidth", "latency_s", ... of each."""
        return list(self._data["levels"])

    def to_dict(self) -> dict[str, Any]:
        """What `tandem machines NAME --json` prints."""
        return dict(self._data)

    def __repr__(self) -> str:
        levels = " x ".join(f"{level['name']} {level['count']}" for level in self.levels)
        return f"<Machine {self.text}: {self.devices} devices, {levels}>"


AnyMachine = Union[str, "os.PathLike[str]", Machine]


def machines() -> list[dict[str, Any]]:
    """List the built-in machines: "name", "usage", "devices_per_size", "doc", "source"."""
    result: list[dict[str, Any]] = command("machines")
    return result


def machine(name: str | os.PathLike[str], *, software: str | None = None) -> Machine:
    """Return a built-in machine with its size, ``machine("summit:8")``, or the machine of a file.
    `software` names a section of it."""
    text = os.fspath(name) + (f",software={software}" if software else "")
    return Machine(text, command("machines", text)[0])


def text_of(machine: AnyMachine) -> str:
    """What the command line calls it."""
    return machine.text if isinstance(machine, Machine) else os.fspath(machine)
