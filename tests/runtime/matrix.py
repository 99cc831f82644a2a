#!/usr/bin/env python3
"""Trains every network under every kind of plan from the command line, and compares losses with one process.

tests/runtime/matrix.py TANDEM [--networks mlp,...] [--plans REGEX] [--quick] [--table]

Each network trains under each strategy, and under plan files of `tandem plan` that may partition one dimension only.
In fp64 with SGD the losses agree within 1e-9 over 50 steps. Each plan also trains with one other combination of
optimizer and dtype, in rotation (--quick: SGD in fp64 only). So every combination meets every kind of plan.
A strategy that does not apply to a network must end with an error and exit with 1. Every strategy must apply to some
network.
"""

import argparse
import pathlib
import re
import sys
import tempfile

from support import ENVIRONMENT, NETWORKS, find_worst_difference, print_verdict, run_tandem

BATCH = 8
# (strategy, processes)
STRATEGIES = [
    ("dp", 2), ("dp", 4), ("dp:bucket=500B", 2), ("dp:micro=4,recompute=full", 2), ("dp:micro=2,recompute=selective", 2),
    ("dp:micro=2,recompute=save_matmuls", 4), ("fsdp", 2), ("fsdp", 4), ("fsdp:micro=2,recompute=full", 2),
    ("deepspeed:zero=1", 2), ("deepspeed:zero=1,micro=2", 4), ("deepspeed:zero=2,micro=2", 2),
    ("deepspeed:zero=3", 2), ("deepspeed:zero=3,micro=2,recompute=selective", 4),
    ("megatron:tp=2", 2), ("megatron:tp=4", 4), ("megatron:tp=2,sp", 2), ("megatron:tp=2,dp=2,zero=1", 4),
    ("megatron:tp=2,dp=2,sp,recompute=selective", 4),
    ("megatron:tp=1,pp=2,micro=4", 2), ("megatron:tp=1,pp=2,micro=4,schedule=gpipe", 2),
    ("megatron:tp=1,pp=2,micro=4,recompute=full", 2), ("megatron:tp=1,pp=2,micro=4,interleave=2", 2),
    ("megatron:tp=2,pp=2,micro=2", 4), ("megatron:tp=1,pp=2,micro=2,dp=2", 4), ("megatron:tp=1,pp=4,micro=4", 4),
    ("megatron:tp=1,cp=2", 2), ("megatron:tp=1,cp=2,ring", 2),
    ("expert", 2), ("expert", 4), ("dlrm_hybrid", 2), ("dlrm_hybrid", 4), ("ep:ep=2", 2), ("ep:ep=2", 4),
    ("madmax:dense=tp,embedding=tp", 2), ("madmax:dense=fsdp,transformer=tp", 2), ("taso+flexflow", 2),
]
# Dimensions that `tandem plan` may partition, and its searches.
DIMENSIONS = ["data", "model", "spatial", "reduction", "head", "expert", "sequence", "pipeline"]
SEARCHES = ["joint", "sequential", "layouts", "mcmc", "unity"]
# Limits of the relative differences of losses. In fp32 the limit is at least ten times the difference between two runs
# of one process that sum in different orders, with kernels for older processors. (Small networks that normalize over
# few samples double it many times in a step.) bf16 has 8 binary digits.
OLDER_KERNELS = {"ATEN_CPU_CAPABILITY": "default", "DNNL_MAX_CPU_ISA": "SSE41", "OPENBLAS_CORETYPE": "Nehalem"}
LIMITS = {"fp64": 1e-9, "fp32": 2e-4, "bf16": 2**-5}
TRAININGS = [("sgd", "fp64"), ("momentum", "fp64"), ("adam", "fp64"), ("sgd", "fp32"), ("adam", "fp32"), ("adam", "bf16"),
             ("momentum", "fp32"), ("sgd", "bf16"), ("momentum", "bf16")]
RATES = {"sgd": 0.05, "momentum": 0.02, "adam": 0.002}


class Walk:
    """The runs, with their results."""

    def __init__(self, args, directory):
        self.args, self.directory = args, directory
        self.one_process, self.limits = {}, {}
        self.rows, self.wrong, self.refused, self.applicable = [], [], [], set()
        self.next_training = 0

    def make_training(self, network, optimizer, dtype):
        """Returns (model, steps, optimizer, dtype) of a network."""
        model, steps = NETWORKS[network]
        if steps < 50 and optimizer == "adam":  # divides gradients that are rounding errors
            optimizer = "momentum"
        return model, steps, optimizer, dtype

    def train(self, model, steps, optimizer, dtype, processes, *more, environment=None):
        """Returns the answer of `tandem train` with a model, or with a plan if `model` is a file."""
        words = ["train", model, "--devices", processes, "--steps", steps, "--lr", RATES[optimizer], "--seed", 3]
        if not str(model).endswith(".json"):
            words += ["--batch", BATCH, "--optimizer", optimizer, "--dtype", dtype]
        return run_tandem(self.args.tandem, *words, *more, "--json", "--quiet", environment=environment)

    def compute_reference(self, model, steps, optimizer, dtype):
        """Returns the losses of one process, or None if it fails."""
        key = (model, optimizer, dtype)
        if key not in self.one_process:
            answer = self.train(model, steps, optimizer, dtype, 1, "--strategy", "dp")
            self.one_process[key] = answer.json["loss"] if answer.code == 0 else None
            if answer.code != 0:
                self.wrong.append(str(answer))
        return self.one_process[key]

    def compute_limit(self, model, steps, optimizer, dtype):
        """Returns the limit of the difference to one process's losses."""
        key = (model, optimizer, dtype)
        if key not in self.limits:
            self.limits[key] = LIMITS[dtype]
            if dtype == "fp32":
                answer = self.train(model, steps, optimizer, dtype, 1, "--strategy", "dp",
                                    environment={**ENVIRONMENT, **OLDER_KERNELS})
                reference = self.compute_reference(model, steps, optimizer, dtype)
                difference = find_worst_difference(answer.json["loss"], reference)
                self.limits[key] = max(self.limits[key], 10 * difference)
        return self.limits[key]

    def judge(self, network, plan, training, answer):
        """Compares a run with one process; returns whether the plan applies to the network."""
        model, steps, optimizer, dtype = training
        name = f"{network:13} {plan:48} {optimizer:8} {dtype}"
        if answer.code != 0:
            error = answer.error
            # An error about the strategy, plan or flag is a refusal; any other error is a failure.
            if answer.code == 1 and error and error["kind"] in ("strategy", "plan", "flag"):
                self.refused.append(f"{name}: {error['where']}: {error['message']}")
                return False
            self.wrong.append(f"{name}\n{answer}")
            return False
        reference = self.compute_reference(model, steps, optimizer, dtype)
        if reference is None:
            return False
        off = find_worst_difference(answer.json["loss"], reference)
        self.rows.append(f"{name}  {off:.1e}")
        if self.args.table:
            print(self.rows[-1], flush=True)
        if not off <= self.compute_limit(*training):
            self.wrong.append(f"{name}: losses differ by {off:.1e}\n{answer.out[-300:]}")
        return True

    def choose_trainings(self):
        """Returns SGD in fp64, and the next one of the other trainings."""
        out = [TRAININGS[0]]
        if not self.args.quick:
            out.append(TRAININGS[1 + self.next_training % (len(TRAININGS) - 1)])
            self.next_training += 1
        return out

    def test_strategy(self, network, strategy, processes):
        name = f"{strategy} x{processes}"
        for training in (self.make_training(network, *t) for t in self.choose_trainings()):
            model, steps, optimizer, dtype = training
            answer = self.train(model, steps, optimizer, dtype, processes, "--strategy", strategy)
            if not self.judge(network, name, training, answer):
                return
            self.applicable.add(name)

    def test_plan(self, network, processes, *flags):
        """Trains the plan that `tandem plan` finds with `flags`."""
        name = f"plan {' '.join(flags)} x{processes}"
        for training in (self.make_training(network, *t) for t in self.choose_trainings()):
            model, steps, optimizer, dtype = training
            path = self.directory / "plan.json"
            path.unlink(missing_ok=True)
            answer = run_tandem(self.args.tandem, "plan", model, "--machine", f"local:{processes}", "--batch", BATCH,
                                "--optimizer", optimizer, "--dtype", dtype, *flags, "-o", path, "--json", "--quiet")
            if answer.code == 0:
                answer = self.train(path, steps, optimizer, dtype, processes)
            if not self.judge(network, name, training, answer):
                return
            self.applicable.add(name)

    def test_network(self, network):
        for strategy, processes in STRATEGIES:
            if re.search(self.args.plans, f"{strategy} x{processes}"):
                self.test_strategy(network, strategy, processes)
        for processes in (2, 4):
            for flags in [["--dims", d] for d in DIMENSIONS] + [["--search", s] for s in SEARCHES]:
                if re.search(self.args.plans, f"plan {' '.join(flags)} x{processes}"):
                    self.test_plan(network, processes, *flags)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem", type=pathlib.Path)
    parser.add_argument("--networks", type=lambda text: text.split(","), default=list(NETWORKS))
    parser.add_argument("--plans", default="", help="a regular expression for 'STRATEGY xN' and 'plan FLAGS xN'")
    parser.add_argument("--quick", action="store_true", help="SGD in fp64 only")
    parser.add_argument("--table", action="store_true", help="print every run as it ends")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        walk = Walk(args, pathlib.Path(directory))
        for network in args.networks:
            before = len(walk.rows)
            walk.test_network(network)
            print(f"{network}: {len(walk.rows) - before} runs", flush=True)
    if set(args.networks) == set(NETWORKS):
        for strategy, processes in STRATEGIES:
            name = f"{strategy} x{processes}"
            if re.search(args.plans, name) and name not in walk.applicable:
                walk.wrong.append(f"{name}: applies to no network")
    for line in walk.refused if args.table else []:
        print(f"refused: {line}")
    summary = f"{len(walk.rows)} runs with the losses of one process, {len(walk.refused)} refused"
    return print_verdict(walk.wrong, summary)


if __name__ == "__main__":
    sys.exit(main())
