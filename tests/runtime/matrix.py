#!/usr/bin/env python3
"""Trains every network under every kind of plan from the command line: losses are those of one process.

tests/runtime/matrix.py TANDEM [--networks mlp,...] [--plans REGEX] [--quick] [--table]

Each network under each strategy there is, and under each plan that `tandem plan` finds where it may cut one
dimension only, trained from its file; in float64 with plain gradient descent within 1e-9 over 50 steps. Momentum,
Adam, fp32 and bf16 with masters go round: each plan has some of them, each of them meets every kind of plan
(--quick: plain gradient descent alone). A strategy that a network has no use for must say so and exit with 1; every
strategy must suit some network.
"""

import argparse
import pathlib
import re
import sys
import tempfile

from support import ENVIRONMENT, NETWORKS, tandem, worst_difference, verdict

BATCH = 8
# Strategy, processes.
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
# What `tandem plan` may cut, processes; the last ones are its other searches.
DIMENSIONS = ["data", "model", "spatial", "reduction", "head", "expert", "sequence", "pipeline"]
SEARCHES = ["joint", "sequential", "layouts", "mcmc", "unity"]
# How near losses must be; of fp32 within ten times what one process has that sums up in another order, too: by kernels
# for older processors. (Small networks that normalise over few samples double it many times in a step.) bf16 keeps 8
# binary digits.
OTHER_SUMS = {"ATEN_CPU_CAPABILITY": "default", "DNNL_MAX_CPU_ISA": "SSE41", "OPENBLAS_CORETYPE": "Nehalem"}
LIMITS = {"fp64": 1e-9, "fp32": 2e-4, "bf16": 2**-5}
TRAININGS = [("sgd", "fp64"), ("momentum", "fp64"), ("adam", "fp64"), ("sgd", "fp32"), ("adam", "fp32"), ("adam", "bf16"),
             ("momentum", "fp32"), ("sgd", "bf16"), ("momentum", "bf16")]
RATES = {"sgd": 0.05, "momentum": 0.02, "adam": 0.002}


class Walk:
    def __init__(self, args, directory):
        self.args, self.directory = args, directory
        self.one_process, self.limits = {}, {}
        self.rows, self.wrong, self.refused, self.suited = [], [], [], {}
        self.turn = 0

    def training(self, network, optimizer, dtype):
        model, steps = NETWORKS[network]
        if steps < 50 and optimizer == "adam":  # divides gradients that are only rounding
            optimizer = "momentum"
        return model, steps, optimizer, dtype

    def run(self, model, steps, optimizer, dtype, processes, *more, environment=None):
        """Of a strategy, or of the plan in the file `model`."""
        words = ["train", model, "--devices", processes, "--steps", steps, "--lr", RATES[optimizer], "--seed", 3]
        if not str(model).endswith(".json"):
            words += ["--batch", BATCH, "--optimizer", optimizer, "--dtype", dtype]
        return tandem(self.args.tandem, *words, *more, "--json", "--quiet", environment=environment)

    def reference(self, model, steps, optimizer, dtype):
        key = (model, optimizer, dtype)
        if key not in self.one_process:
            answer = self.run(model, steps, optimizer, dtype, 1, "--strategy", "dp")
            self.one_process[key] = answer.json["loss"] if answer.code == 0 else None
            if answer.code != 0:
                self.wrong.append(str(answer))
        return self.one_process[key]

    def limit(self, model, steps, optimizer, dtype):
        """Of losses that are not one process's."""
        key = (model, optimizer, dtype)
        if key not in self.limits:
            self.limits[key] = LIMITS[dtype]
            if dtype == "fp32":
                answer = self.run(model, steps, optimizer, dtype, 1, "--strategy", "dp",
                                  environment={**ENVIRONMENT, **OTHER_SUMS})
                spread = worst_difference(answer.json["loss"], self.reference(model, steps, optimizer, dtype))
                self.limits[key] = max(self.limits[key], 10 * spread)
        return self.limits[key]

    def judge(self, network, plan, training, answer):
        model, steps, optimizer, dtype = training
        name = f"{network:13} {plan:48} {optimizer:8} {dtype}"
        if answer.code != 0:
            error = answer.error
            # A clear refusal names what is wrong; all else is a failure.
            if answer.code == 1 and error and error["kind"] in ("strategy", "plan", "flag"):
                self.refused.append(f"{name}: {error['where']}: {error['message']}")
                return False
            self.wrong.append(f"{name}\n{answer}")
            return False
        reference = self.reference(model, steps, optimizer, dtype)
        if reference is None:
            return False
        off = worst_difference(answer.json["loss"], reference)
        self.rows.append(f"{name}  {off:.1e}")
        if self.args.table:
            print(self.rows[-1], flush=True)
        if not off <= self.limit(*training):
            self.wrong.append(f"{name}: losses differ by {off:.1e}\n{answer.out[-300:]}")
        return True

    def trainings(self):
        """Plain gradient descent in float64, and one of the others."""
        out = [TRAININGS[0]]
        if not self.args.quick:
            out.append(TRAININGS[1 + self.turn % (len(TRAININGS) - 1)])
            self.turn += 1
        return out

    def strategy(self, network, strategy, processes):
        name = f"{strategy} x{processes}"
        for training in (self.training(network, *t) for t in self.trainings()):
            model, steps, optimizer, dtype = training
            answer = self.run(model, steps, optimizer, dtype, processes, "--strategy", strategy)
            if not self.judge(network, name, training, answer):
                return
            self.suited[name] = True

    def found(self, network, processes, *flags):
        name = f"plan {' '.join(flags)} x{processes}"
        for training in (self.training(network, *t) for t in self.trainings()):
            model, steps, optimizer, dtype = training
            path = self.directory / "plan.json"
            path.unlink(missing_ok=True)
            answer = tandem(self.args.tandem, "plan", model, "--machine", f"local:{processes}", "--batch", BATCH,
                            "--optimizer", optimizer, "--dtype", dtype, *flags, "-o", path, "--json", "--quiet")
            if answer.code == 0:
                answer = self.run(path, steps, optimizer, dtype, processes)
            if not self.judge(network, name, training, answer):
                return
            self.suited[name] = True

    def walk(self, network):
        for strategy, processes in STRATEGIES:
            if re.search(self.args.plans, f"{strategy} x{processes}"):
                self.strategy(network, strategy, processes)
        for processes in (2, 4):
            for flags in [["--dims", d] for d in DIMENSIONS] + [["--search", s] for s in SEARCHES]:
                if re.search(self.args.plans, f"plan {' '.join(flags)} x{processes}"):
                    self.found(network, processes, *flags)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem", type=pathlib.Path)
    parser.add_argument("--networks", type=lambda text: text.split(","), default=list(NETWORKS))
    parser.add_argument("--plans", default="", help="a regular expression, of 'STRATEGY xPROCESSES' and 'plan FLAGS xN'")
    parser.add_argument("--quick", action="store_true", help="plain gradient descent in float64 alone")
    parser.add_argument("--table", action="store_true", help="print every run as it ends")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        walk = Walk(args, pathlib.Path(directory))
        for network in args.networks:
            before = len(walk.rows)
            walk.walk(network)
            print(f"{network}: {len(walk.rows) - before} runs", flush=True)
    if set(args.networks) == set(NETWORKS):
        for strategy, processes in STRATEGIES:
            name = f"{strategy} x{processes}"
            if re.search(args.plans, name) and name not in walk.suited:
                walk.wrong.append(f"{name}: suits no network")
    for line in walk.refused if args.table else []:
        print(f"refused: {line}")
    return verdict(walk.wrong, f"{len(walk.rows)} runs trained like one process, {len(walk.refused)} refused")


if __name__ == "__main__":
    sys.exit(main())
