"""The four questions: which plan, how fast is this one, which are there, is it right."""

from __future__ import annotations

import os
import pathlib
from typing import Iterable, Mapping, Sequence, Union

from . import _files
from ._commands import Flag, Progress, command, words_of
from ._errors import Error
from ._machines import AnyMachine, Machine, text_of as machine_text
from ._models import AnyModel, text_of as model_text
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
    """Find the simplest of the fastest plans for training a model on a machine. Raises `DoesNotFit` where none fits.

    - `batch`: of all devices; by default the published one.
    - `optimizer`: "sgd", "momentum" or "adam"; by default the published one.
    - `dtype`: "fp64", "fp32" (the default), "bf16" or "fp16"; of 16-bit weights `master` is their copy,
      "fp32" or "none", and `grad_dtype` what gradients are added up in.
    - `memory`: of a device, 16000000000 or "16GB"; by default what the machine has, less its reserve.
    - `margin`: the fraction of that memory left free; by default 0.05, and none of a `memory` that is given.
    - `tolerance`: the plan is the simplest of all that are slower than the fastest by no more than this fraction,
      by default 0.01; the faster ones are among `Plan.alternatives`.
    - `dims`: what may be partitioned, some of data, model, spatial, reduction, head, expert, sequence,
      pipeline; by default all. `pipeline=False` leaves pipelines out.
    - `search`: "joint" (the default), "sequential", "layouts" or "mcmc", of which `seed` is the seed;
      `without`: some of cache, split, dp; `alpha` and `max_rewrites` bound the rewrites.
    - `budget`: seconds after which the search ends with the best there is by then; `max_candidates`: the same by
      number.
    - `threads`: by default one for each core. The plan does not depend on it.
    - `stale_weights`: pipelines whose updates are a step late.
    - `progress`: called now and then with a line that says how far the search is.
    """
    path = _files.new_path("plan.json")
    try:
        data = command(
            "plan",
            model_text(model),
            progress=progress,
            machine=machine_text(machine),
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
        _files.forget(path)


def load_plan(path: str | os.PathLike[str]) -> Plan:
    """Read a plan from a file, and predict it anew."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Error("file", os.fspath(path), "cannot be read") from error
    return Plan(command("simulate", _as_plan_file(path)), text)


def _as_plan_file(path: str | os.PathLike[str]) -> str:
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
    """Predict time and memory of a step: of a model with a strategy, or of a plan, which needs no machine.

    - `strategy`: "dp" (the default), "fsdp", "megatron:tp=8,pp=2", ... (docs/reference/strategies.md)
    - `task`: "pretrain" (the default), "finetune" with the layers of `freeze`, or "inference".
    - `recompute`: "none", "selective", "save_matmuls" or "full"; `schedule` of a pipeline: "gpipe", "1f1b", "interleaved".
    - `exact`: every task of a large network, too, which is estimated otherwise.
    - `trace`: a file for the timeline, for ui.perfetto.dev.

    Others are as in `plan`. What does not fit is no error: its `feasible` is false.
    """
    flags: dict[str, Flag] = {
        "machine": None if machine is None else machine_text(machine),
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
            return Prediction(command("simulate", path, *words_of(flags)))
    return Prediction(command("simulate", model_text(model), *words_of(flags)))


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
    """Compare every strategy of a model, on one machine or several, in time and memory.

    - `strategies`: "all" (the default), "baselines", "memory_saving", "pipelines", "madmax_grid", or
      single ones.
    - `scale`: rates of the machine multiplied, like "compute=10,inter=10", or "none"; several are compared.
    - `vary`: values of the batch, of hyperparameters, of settings of strategies, or of fields of the machine file:
      ``{"batch": [64, 128], "level.node.latency": ["1 us", "5 us"]}``. All combinations are compared;
      those that are impossible are skipped.
    - `fits`: only strategies that fit.

    Others are as in `plan` and `simulate`. docs/guides/explore.md says more.
    """
    machines = [machine] if isinstance(machine, (str, os.PathLike, Machine)) else list(machine)
    words = [f"--machine={machine_text(each)}" for each in machines]
    words += [f"--strategy={text}" for text in _several(strategies)]
    words += [f"--scale={text}" for text in _several(scale)]
    # Values may have commas themselves.
    words += [f"--vary={key}={';'.join(map(str, values))};" for key, values in (vary or {}).items()]
    data = command(
        "explore",
        model_text(model),
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
    """Check that a plan computes what its model computes. Its rewrites are replayed and proved, its layouts run
    in small and compared with one device. `allow_unproved` accepts rules without a proof."""
    with PlanFile(plan) as path:
        return Check(command("check", path, progress=progress, allow_unproved=allow_unproved))


def _several(texts: Sequence[str] | str | None) -> list[str]:
    if texts is None:
        return []
    return [texts] if isinstance(texts, str) else list(texts)
