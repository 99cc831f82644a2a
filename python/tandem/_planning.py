"""Planning, simulation, exploration of strategies, and checks of plans."""

from __future__ import annotations

import os
import pathlib
from typing import Iterable, Mapping, Sequence, Union

from . import _files
from ._commands import Flag, Progress, command, format_flags
from ._errors import Error
from ._machines import AnyMachine, Machine, format_machine
from ._models import AnyModel, format_model
from ._results import Check, Exploration, Plan, PlanFile, Prediction

Size = Union[int, str]  # 16000000000 or "16GB"


def plan(
    model: AnyModel,
    machine: AnyMachine,
    *,
    batch: int | None = None,
    optimizer: str | None = None,
    dtype: str | None = None,
    memory: Size | None = None,
    margin: float | None = None,
    tolerance: float | None = None,
    dims: Sequence[str] | str | None = None,
    pipeline: bool = True,
    search: str | None = None,
    without: Sequence[str] | str | None = None,
    alpha: float | None = None,
    max_rewrites: int | None = None,
    budget: float | None = None,
    max_candidates: int | None = None,
    threads: int | None = None,
    seed: int | None = None,
    master: str | None = None,
    grad_dtype: str | None = None,
    stale_weights: bool = False,
    progress: Progress | None = None,
) -> Plan:
    """Finds the simplest of the fastest plans for training a model on a machine. Raises `DoesNotFit` if none fits.

    - `batch`: the global batch; the default is the published one.
    - `optimizer`: "sgd", "momentum" or "adam"; the default is the published one.
    - `dtype`: "fp64", "fp32" (the default), "bf16" or "fp16". `master` is the dtype of the master weights of bf16
      and fp16, "fp32" or "none". `grad_dtype` is the dtype in which gradients are accumulated.
    - `memory`: the memory of a device, 16000000000 or "16GB"; the default is the machine's, minus its reserve.
    - `margin`: the fraction of that memory to leave free; the default is 0.05, or 0 if `memory` is given.
    - `tolerance`: the fraction by which the plan may be slower than the fastest one, if it is simpler; the default is
      0.01. `Plan.alternatives` has the faster ones.
    - `dims`: the dimensions to partition, some of data, model, spatial, reduction, head, expert, sequence,
      pipeline; the default is all. `pipeline=False` excludes pipelines.
    - `search`: "joint" (the default), "sequential", "layouts" or "mcmc", which uses the RNG seed `seed`.
      `without`: some of cache, split, dp. `alpha` and `max_rewrites` bound the rewrites.
    - `budget`: the seconds after which the search ends with the best plan so far. `max_candidates` is a limit on the
      number of evaluated candidates.
    - `threads`: the default is one for each core. The plan does not depend on it.
    - `stale_weights`: allow pipelines with delayed updates, which are one step late.
    - `progress`: a function that gets a line about the progress of the search from time to time.
    """
    path = _files.make_path("plan.json")
    try:
        data = command(
            "plan",
            format_model(model),
            progress=progress,
            machine=format_machine(machine),
            output=path,
            batch=batch,
            optimizer=optimizer,
            dtype=dtype,
            memory=memory,
            margin=margin,
            tolerance=tolerance,
            dims=dims,
            no_pipeline=not pipeline,
            search=search,
            without=without,
            alpha=alpha,
            max_rewrites=max_rewrites,
            budget=budget,
            max_candidates=max_candidates,
            threads=threads,
            seed=seed,
            master=master,
            grad_dtype=grad_dtype,
            stale_weights=stale_weights,
        )
        return Plan(data, pathlib.Path(path).read_text(encoding="utf-8"))
    finally:
        _files.remove(path)


def load_plan(path: str | os.PathLike[str]) -> Plan:
    """Reads a plan from a file and predicts its step with this version."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Error("file", os.fspath(path), "cannot be read") from error
    return Plan(command("simulate", _require_plan_path(path)), text)


def _require_plan_path(path: str | os.PathLike[str]) -> str:
    """Returns `path`, or raises `Error` if it does not end in .json."""
    if not os.fspath(path).endswith(".json"):
        raise Error("plan", os.fspath(path), "is no plan", "files of plans end in .json")
    return os.fspath(path)


def simulate(
    model: AnyModel | Plan,
    machine: AnyMachine | None = None,
    *,
    strategy: str | None = None,
    batch: int | None = None,
    optimizer: str | None = None,
    dtype: str | None = None,
    master: str | None = None,
    grad_dtype: str | None = None,
    stale_weights: bool = False,
    task: str | None = None,
    freeze: Sequence[str] | str | None = None,
    memory: Size | None = None,
    margin: float | None = None,
    recompute: str | None = None,
    schedule: str | None = None,
    exact: bool = False,
    trace: str | os.PathLike[str] | None = None,
) -> Prediction:
    """Predicts time and memory of a step of a model with a strategy, or of a plan, which needs no machine.

    - `strategy`: "dp" (the default), "fsdp", "megatron:tp=8,pp=2", ... (docs/reference/strategies.md)
    - `task`: "pretrain" (the default), "finetune" with the layers of `freeze`, or "inference".
    - `recompute`: "none", "selective", "save_matmuls" or "full".
    - `schedule`: the schedule of a pipeline: "gpipe", "1f1b" or "interleaved".
    - `exact`: simulate every task of a large network instead of estimating the step.
    - `trace`: a file for the timeline, for ui.perfetto.dev.

    The other parameters are as in `plan`. A strategy that does not fit raises no error; its `feasible` is false.
    """
    flags: dict[str, Flag] = {
        "machine": None if machine is None else format_machine(machine),
        "strategy": strategy,
        "batch": batch,
        "optimizer": optimizer,
        "dtype": dtype,
        "master": master,
        "grad_dtype": grad_dtype,
        "stale_weights": stale_weights,
        "task": task,
        "freeze": freeze,
        "memory": memory,
        "margin": margin,
        "recompute": recompute,
        "schedule": schedule,
        "exact": exact,
        "trace": None if trace is None else os.fspath(trace),
    }
    if isinstance(model, Plan):
        with PlanFile(model) as path:
            return Prediction(command("simulate", path, *format_flags(flags)))
    return Prediction(command("simulate", format_model(model), *format_flags(flags)))


def explore(
    model: AnyModel,
    machine: AnyMachine | Iterable[AnyMachine],
    *,
    strategies: Sequence[str] | str | None = None,
    scale: Sequence[str] | str | None = None,
    vary: Mapping[str, Sequence[int | float | str]] | None = None,
    fits: bool = False,
    batch: int | None = None,
    optimizer: str | None = None,
    dtype: str | None = None,
    master: str | None = None,
    grad_dtype: str | None = None,
    memory: Size | None = None,
    margin: float | None = None,
    task: str | None = None,
    freeze: Sequence[str] | str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Exploration:
    """Compares time and memory of every strategy of a model, on one machine or several.

    - `strategies`: "all" (the default), "baselines", "memory_saving", "pipelines", "madmax_grid", or
      single ones.
    - `scale`: factors on rates of the machine, like "compute=10,inter=10", or "none"; a list compares several.
    - `vary`: values of the batch, of hyperparameters, of settings of strategies, or of fields of the machine file:
      ``{"batch": [64, 128], "level.node.latency": ["1 us", "5 us"]}``. All combinations are compared;
      impossible ones are skipped.
    - `fits`: only strategies that fit.

    The other parameters are as in `plan` and `simulate`. docs/guides/explore.md has more examples.
    """
    machines = [machine] if isinstance(machine, (str, os.PathLike, Machine)) else list(machine)
    words = [f"--machine={format_machine(each)}" for each in machines]
    words += [f"--strategy={text}" for text in _as_list(strategies)]
    words += [f"--scale={text}" for text in _as_list(scale)]
    # Values may contain commas.
    words += [f"--vary={key}={';'.join(map(str, values))};" for key, values in (vary or {}).items()]
    data = command(
        "explore",
        format_model(model),
        *words,
        progress=progress,
        fits=fits,
        batch=batch,
        optimizer=optimizer,
        dtype=dtype,
        master=master,
        grad_dtype=grad_dtype,
        memory=memory,
        margin=margin,
        task=task,
        freeze=freeze,
        threads=threads,
    )
    return Exploration(data)


def check(
    plan: Plan | str | os.PathLike[str], *, allow_unproved: bool = False, progress: Progress | None = None
) -> Check:
    """Checks that a plan computes what its model computes. It replays and proves the rewrites, and compares a
    run of the layouts at small sizes with one device. `allow_unproved` accepts rules without a proof."""
    with PlanFile(plan) as path:
        return Check(command("check", path, progress=progress, allow_unproved=allow_unproved))


def _as_list(texts: Sequence[str] | str | None) -> list[str]:
    if texts is None:
        return []
    return [texts] if isinstance(texts, str) else list(texts)
