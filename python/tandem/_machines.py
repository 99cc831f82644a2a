"""Machines: devices and the networks between them."""

from __future__ import annotations

import os
from typing import Any, Union

from . import _files
from ._commands import command


class Machine:
    """A machine: its devices, and the levels that connect them, outermost first.

    `text` is its name on the command line: "summit:8" or "my.machine:4".
    """

    def __init__(self, text: str, data: dict[str, Any]) -> None:
        self.text = text
        self._data = data

    @staticmethod
    def parse(text: str, size: int | None = None, name: str = "machine") -> Machine:
        """Parses the text of a machine file (docs/reference/machine-format.md). `size` is the count that the file
        leaves open, if any."""
        path = _files.write(f"{name}.machine", text)
        return machine(path if size is None else f"{path}:{size}")

    @property
    def name(self) -> str:
        return str(self._data["name"])

    @property
    def devices(self) -> int:
        """The number of devices."""
        return int(self._data["devices"])

    @property
    def memory(self) -> int:
        """The memory of a device in bytes, minus the reserve."""
        device = self._data["device"]
        return int(device["memory_bytes"] - device["reserve_bytes"])

    @property
    def levels(self) -> list[dict[str, Any]]:
        """The levels, each with "name", "count", "bandwidth", "latency_s", ..."""
        return list(self._data["levels"])

    def to_dict(self) -> dict[str, Any]:
        """Returns the document of `tandem machines NAME --json`."""
        return dict(self._data)

    def __repr__(self) -> str:
        levels = " x ".join(f"{level['name']} {level['count']}" for level in self.levels)
        return f"<Machine {self.text}: {self.devices} devices, {levels}>"


AnyMachine = Union[str, "os.PathLike[str]", Machine]


def machines() -> list[dict[str, Any]]:
    """Lists the built-in machines: "name", "usage", "devices_per_size", "doc", "source"."""
    result: list[dict[str, Any]] = command("machines")
    return result


def machine(name: str | os.PathLike[str], *, software: str | None = None) -> Machine:
    """Returns a built-in machine with its size, ``machine("summit:8")``, or the machine of a file.
    `software` names a software profile of the machine."""
    text = os.fspath(name) + (f",software={software}" if software else "")
    return Machine(text, command("machines", text)[0])


def format_machine(machine: AnyMachine) -> str:
    """Returns the name of `machine` on the command line."""
    return machine.text if isinstance(machine, Machine) else os.fspath(machine)
