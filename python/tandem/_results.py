"""Results of calls: the JSON document of a command, with its most used keys as attributes."""

from __future__ import annotations

import os
import pathlib
from typing import TYPE_CHECKING, Any, NamedTuple, Sequence

import numpy as np

from . import _core, _files
from ._commands import command

if TYPE_CHECKING:
    import numpy.typing as npt


class Result:
    """The document of a command. ``result["mfu"]`` is one of its values."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    def to_dict(self) -> dict[str, Any]:
        """Returns the document that the command prints with `--json`."""
        return dict(self._data)

    def __getitem__(self, key: str) -> Any:
        return self._data[key]

    def __contains__(self, key: str) -> bool:
        return key in self._data


class Prediction(Result):
    """The prediction of a step of training or inference."""

    @property
    def strategy(self) -> str:
        return str(self["strategy"])

    @property
    def batch(self) -> int:
        """The global batch."""
        return int(self["batch"])

    @property
    def time(self) -> float:
        """The time of a step."""
        return float(self["iteration_s"])

    @property
    def throughput(self) -> float:
        """The samples per second."""
        return float(self["throughput"])

    @property
    def memory(self) -> int:
        """The peak memory of the fullest device."""
        return int(self["memory_bytes"])

    @property
    def mfu(self) -> float:
        """The model FLOPs utilization: the part of the devices' peak rate that the network's own operations reach."""
        return float(self["mfu"])

    @property
    def parallelism(self) -> dict[str, Any]:
        """The values of "dp", "tp", "pp", "cp", "ep", "vpp", "zero", "micro_batch_size", "micro_batches",
        "recompute" and "recompute_layers". A value is None if operators differ in it."""
        return dict(self["parallelism"])

    @property
    def compute(self) -> float:
        """The time of computation. `time` is the sum of `compute`, `exposed_communication` and `idle`."""
        return float(self["compute_s"])

    @property
    def exposed_communication(self) -> float:
        """The time of communication that does not overlap with computation."""
        return float(self["exposed_comm_s"])

    @property
    def idle(self) -> float:
        """The time in which the critical device is idle: bubbles and stalls."""
        return float(self["bubble_s"])

    @property
    def serialized(self) -> dict[str, float]:
        """The time of compute and of each kind of communication, as if nothing overlapped."""
        return dict(self["serialized_s"])

    @property
    def feasible(self) -> bool:
        """Whether the step fits the memory of the devices."""
        return bool(self._data.get("feasible", True))

    @property
    def fitting(self) -> dict[str, Any] | None:
        """A strategy with some settings changed so that it fits: `strategy`, `iteration_s` and `memory_bytes`.
        None if this strategy fits, or if no such change is known."""
        return self._data.get("fitting")

    @property
    def advice(self) -> list[dict[str, Any]]:
        """The single changes of a known strategy's settings that fit and make its step fastest, each with
        `change`, `strategy`, `iteration_s` and `memory_bytes`."""
        return list(self._data.get("advice", []))

    def __repr__(self) -> str:
        fits = "" if self.feasible else ", does not fit"
        return (
            f"<{type(self).__name__} {self.strategy}: {_core.seconds_text(self.time)}, "
            f"{_core.si_text(self.throughput)} samples/s, {_core.bytes_text(self.memory)}{fits}>"
        )


class Baseline(NamedTuple):
    """A known strategy at its best settings that fit. `time` and `memory` are None if none fits, or if the
    strategy does not apply to this network, batch or machine."""

    name: str
    strategy: str
    feasible: bool
    time: float | None
    memory: int | None


class Plan(Prediction):
    """A plan: the layouts and operators of every device, and the prediction of a step."""

    def __init__(self, data: dict[str, Any], text: str) -> None:
        super().__init__(data)
        self._text = text

    @property
    def model(self) -> str:
        return str(self["model"])

    @property
    def machine(self) -> str:
        return str(self["machine"])

    @property
    def devices(self) -> int:
        return int(self["devices"])

    @property
    def baselines(self) -> list[Baseline]:
        """The known strategies that the search compared with the plan. Empty for a loaded plan."""
        rows = self._data.get("baselines", [])
        return [
            Baseline(b["name"], b["strategy"], b["feasible"], b["iteration_s"], b["memory_bytes"]) for b in rows
        ]

    @property
    def speedup(self) -> float | None:
        """The speedup over the best baseline. None if no baseline fits."""
        value = self._data.get("speedup_over_best_baseline")
        return None if value is None else float(value)

    @property
    def alternatives(self) -> list[dict[str, Any]]:
        """The alternatives to the plan, the fastest first: faster and more complicated plans, and each known strategy
        at its best settings that fit. Each has `name`, `strategy`, `iteration_s`, `memory_bytes` and `ratio`, its time
        divided by the plan's. Empty for a loaded plan."""
        return list(self._data.get("alternatives", []))

    @property
    def lower_bound(self) -> float | None:
        """A lower bound on the step time of everything in `bound_scope`. None for a loaded plan."""
        value = self._data.get("lower_bound_s")
        return None if value is None else float(value)

    @property
    def bound_scope(self) -> str | None:
        """The strategies that `lower_bound` covers: "strategies of the grid that fit"."""
        return self._data.get("bound_scope")

    @property
    def stop_reason(self) -> str:
        """The reason why the search ended: "done", "budget", "candidates", "beam". Empty for a loaded plan."""
        return str(self._data.get("stop_reason", ""))

    @property
    def text(self) -> str:
        """The text of the plan file (docs/reference/plan-format.md)."""
        return self._text

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan file, which every command of `tandem` accepts."""
        pathlib.Path(path).write_text(self._text, encoding="utf-8")

    def explain(self, node: str | None = None) -> dict[str, Any]:
        """Explains the plan, or one node of it (docs/guides/read-a-plan.md)."""
        with PlanFile(self) as path:
            result: dict[str, Any] = command("explain", path, *([node] if node else []))
        return result

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes an HTML page about the plan (docs/guides/report-page.md)."""
        with PlanFile(self) as plan:
            command("report", plan, output=os.fspath(path))


class PlanFile:
    """A context manager that holds a plan in a file during a command."""

    def __init__(self, plan: Plan | str | os.PathLike[str]) -> None:
        self._plan = plan

    def __enter__(self) -> str:
        if not isinstance(self._plan, Plan):
            return os.fspath(self._plan)
        self._path = _files.write("plan.json", self._plan.text)
        return self._path

    def __exit__(self, *_: object) -> None:
        if isinstance(self._plan, Plan):
            _files.remove(self._path)


class Check(Result):
    """The answer whether a plan computes what its network computes. Its value as a boolean is ``ok``."""

    @property
    def ok(self) -> bool:
        return bool(self["ok"])

    @property
    def message(self) -> str:
        """The difference that the check found, with its place. Empty if the plan is right."""
        return "" if self.ok else f"{self['where']}: {self['message']}"

    @property
    def unproved_rules(self) -> list[str]:
        return list(self["unproved_rules"])

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        return f"<Check {'ok' if self.ok else self.message}>"


class Point(Prediction):
    """A strategy of an exploration."""

    @property
    def case(self) -> int:
        """The index of its case in the exploration's `cases`."""
        return int(self["case"])


class Exploration(Result):
    """Time and memory of every strategy of a network on machines. A sequence of `Point`."""

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__(data)
        self._points = [Point(point) for point in data["points"]]

    @property
    def points(self) -> list[Point]:
        return list(self._points)

    @property
    def pareto(self) -> list[Point]:
        """The Pareto front: points that fit and that no other beats in both throughput and memory."""
        return [self._points[index] for index in self["pareto"]]

    @property
    def ranking(self) -> list[Point]:
        """All points, the highest throughput first."""
        return [self._points[index] for index in self["ranking"]]

    @property
    def cases(self) -> list[dict[str, Any]]:
        """The compared machines, scales and values, each with its own front and fastest point."""
        return list(self["cases"])

    @property
    def refused(self) -> list[dict[str, Any]]:
        """The strategies that do not apply, each with "strategy", "case" and "why"."""
        return list(self["refused"])

    def column(self, key: str, points: Sequence[Point] | None = None) -> npt.NDArray[Any]:
        """Returns a value of every point as an array: ``column("iteration_s")``, "throughput", "memory_bytes",
        "mfu", "feasible", "strategy", ..."""
        return np.array([point[key] for point in (self._points if points is None else points)])

    def __len__(self) -> int:
        return len(self._points)

    def __repr__(self) -> str:
        return f"<Exploration of {self['model']} on {self['machine']}: {len(self)} points, {len(self['pareto'])} best>"
