#!/usr/bin/env python3
"""Checks that plans with more resources are never slower: more nodes, memory, bandwidth or time to search.

    tests/search/metamorphic.py --binary build/tandem [--sample N] [--seed S] [--only SUBSTRING] [--threads N]

Networks, batches and machines are random. Each case is planned twice, once as it is and once with more of one resource.
It fails if the second plan takes more than 1.002 times as long, or if it does not fit although the first does. A
failing case is shrunk as long as it fails (fewer nodes, a smaller batch, fewer layers), and reported with its two
commands.
"""

import dataclasses
import math
import pathlib
import random
import re
import sys

from support import (HERE, TOLERANCE, Answer, Case, Machine, Model, Program, Size, build_machines, format_command,
                     format_seconds, make_parser, run_all, write)

CASES = 200
KINDS = ("nodes", "memory", "bandwidth", "budget")
# Limit of pairs of plans to shrink a failing case.
SHRINKING_PAIRS = 16
# (network with settings, dtype, {setting: values to draw from})
NETWORKS = [
    ("llama3_8b", "bf16", {"layers": [2, 4, 6, 8, 12, 16, 24, 32], "seq": [2048, 8192]}),
    ("llama3_8b:hidden=2048,heads=16,kv_heads=4,ffn=8192", "bf16", {"layers": [4, 8, 15, 16, 24], "seq": [2048, 4096]}),
    ("gpt2:hidden=5120,heads=40,ffn=20480", "bf16", {"layers": [4, 10, 20, 40], "seq": [1024, 2048]}),
    ("gpt2", "bf16", {"layers": [2, 6, 12], "seq": [512, 1024]}),
    ("mixtral_8x7b", "bf16", {"layers": [2, 4, 8, 16], "experts": [4, 8], "seq": [2048]}),
    ("bert_large", "bf16", {"layers": [2, 6, 12, 24]}),
    ("dlrm", "fp32", {"tables": [4, 8, 13, 26, 40], "dim": [32, 64, 128]}),
    ("mlp", "fp32", {"layers": [2, 4, 8, 16], "hidden": [1024, 4096, 8192]}),
    ("resnet50", "fp32", {"width": [32, 64]}),
]
SMALLEST = {"layers": 1, "tables": 2}


@dataclasses.dataclass(frozen=True)
class Draw:
    """A case of this test; `change` names the resource and its amounts, as in ("memory", (8, 10))."""

    network: str
    settings: tuple  # ((name, value), ...)
    dtype: str
    machine: Machine
    size: Size
    batch: int
    change: tuple
    directory: pathlib.Path

    @property
    def name(self):
        return (f"{self.model_text} {self.machine.name}:{self.size.nodes} batch {self.batch}, "
                f"more {' '.join(str(part) for part in self.change)}")

    @property
    def model_text(self):
        settings = ",".join(f"{key}={value}" for key, value in self.settings)
        return self.network + (":" if ":" not in self.network else ",") + settings

    def make_case(self, size=None, more=(), machine=None):
        model = Model(self.network, self.model_text, 1, self.batch, "", self.dtype)
        return Case(model, machine or self.machine, size or self.size, self.batch, self.dtype, tuple(more))

    def make_pair(self):
        """Returns the case as it is and the one with more."""
        what, amount = self.change[0], self.change[-1]
        if what == "nodes":
            return self.make_case(), self.make_case(enlarge(self.machine, self.size, amount))
        if what == "memory":
            less, more = (f"{gigabytes:g}GB" for gigabytes in amount)
            return self.make_case(more=("--memory", less)), self.make_case(more=("--memory", more))
        if what == "budget":
            flag, less, more = self.change[1:]
            return self.make_case(more=(flag, str(less))), self.make_case(more=(flag, str(more)) if more else ())
        return self.make_case(), self.make_case(machine=Faster(self.machine, self.change[1], amount, self.directory))

    def list_smaller(self):
        """Yields cases that are smaller than this one in one respect."""
        for nodes in (self.size.nodes // 2, self.size.nodes - 1):
            least = 2 if self.machine.name == "mixed" else 1
            if least <= nodes < self.size.nodes:
                yield dataclasses.replace(self, size=self.machine.make_size(nodes))
        if self.batch % 2 == 0:
            yield dataclasses.replace(self, batch=self.batch // 2)
        for at, (key, value) in enumerate(self.settings):
            for less in (value // 2, value - 1) if key in SMALLEST else ():
                if less >= SMALLEST[key]:
                    settings = (*self.settings[:at], (key, less), *self.settings[at + 1:])
                    yield dataclasses.replace(self, settings=settings)


class Faster(Machine):
    """A machine whose level or device memory (`where`) has `factor` times the bandwidth."""

    def __init__(self, machine, where, factor, directory):
        super().__init__(machine.name, machine.gpus, directory)
        self.machine, self.where, self.factor = machine, where, factor

    def format_argument(self, size):
        argument = self.machine.format_argument(size)
        path, _, count = argument.partition(":")
        source = pathlib.Path(path)
        if not source.exists():  # built in
            source = HERE.parent.parent / "machines" / f"{path}.machine"
        section, out = "", []
        for line in source.read_text().splitlines():
            words = line.split()
            if words[:1] in (["device"], ["level"], ["software"]):
                section = " ".join(words[:2]) if words[0] == "level" else words[0]
            if section == self.where and words[:1] == ["bandwidth"]:
                line = re.sub(r"(bandwidth +)([\d.]+)", lambda m: f"{m[1]}{float(m[2]) * self.factor:g}", line)
            out.append(line)
        name = f"{source.stem}_{self.where.replace(' ', '_')}_x{self.factor:g}.machine"
        return f"{write(self.directory / name, chr(10).join(out) + chr(10))}{':' + count if count else ''}"


def enlarge(machine, size, how):
    """Returns `size` with one node more, or with twice the nodes."""
    if how == "one":
        return dataclasses.replace(size, nodes=size.nodes + 1)
    return dataclasses.replace(size, nodes=2 * size.nodes, slow=2 * size.slow)


def draw_case(rng, machines, directory):
    """Returns a random case."""
    network, dtype, choices = rng.choice(NETWORKS)
    settings = tuple((key, rng.choice(values)) for key, values in choices.items())
    machine = rng.choice(list(machines.values()))
    nodes = rng.choice([1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 16])
    if machine.name == "mixed":
        nodes = max(2, nodes)
        dtype = "fp16" if dtype == "bf16" else dtype
    size = machine.make_size(nodes)
    batch = rng.choice([16, 32, 64, 128, 192, 256, 8 * size.devices])
    if network.startswith(("dlrm", "mlp", "resnet")):
        batch *= 32
    kind = rng.choice(KINDS)
    if kind == "nodes":
        change = (kind, rng.choice(["one", "twice"]))
    elif kind == "memory":
        least = rng.choice([8, 12, 16, 24])
        change = (kind, (least, least * rng.choice([1.1, 1.25, 1.5])))
    elif kind == "bandwidth":
        change = (kind, rng.choice(["level node", "level gpu", "device"]), rng.choice([1.25, 2, 4]))
    else:
        change = (kind, *rng.choice([("--budget", 1, 4), ("--budget", 2, None), ("--max-candidates", 50, 200),
                                     ("--max-candidates", 200, None)]))
    return Draw(network, settings, dtype, machine, size, batch, change, directory)


@dataclasses.dataclass
class Result:
    draw: Draw
    less: Answer
    more: Answer

    @property
    def ratio(self):
        """The time with more divided by the time with less; 1 if the first plan does not fit."""
        return 1.0 if math.isinf(self.less.time) else self.more.time / self.less.time

    @property
    def crashed(self):
        return [answer for answer in (self.less, self.more)
                if answer.crashed or (answer.code != 0 and "feasible" not in answer.json and "error" not in answer.json)]

    @property
    def fails(self):
        return self.ratio > TOLERANCE or bool(self.crashed)

    def format_row(self):
        strategy = self.more.json.get("strategy", "-")
        return (f"{self.draw.name}  plan {format_seconds(self.less.time)}  with more {format_seconds(self.more.time)}  "
                f"{self.ratio:.4f}  {strategy}  search {self.less.seconds:.1f} s, {self.more.seconds:.1f} s"
                f"{'  FAILS' if self.fails else ''}")

    def format_report(self):
        """Returns the failure with the two commands to reproduce it and their times."""
        lines = [f"{self.draw.name}: " + ("a command ends without an answer" if self.crashed
                 else "nothing fits with more" if math.isinf(self.ratio)
                 else f"{100 * (self.ratio - 1):.2f} % slower with more")]
        for case, answer in zip(self.draw.make_pair(), (self.less, self.more)):
            what = answer.json.get("strategy") or answer.error or "nothing fits"
            lines += [f"  {format_command(case.build_command('plan'))}", f"    {format_seconds(answer.time)} s: {what}"]
        return "\n".join(lines)


def judge(program, draw):
    """Plans both cases of a pair and returns the result."""
    return Result(draw, *(program.plan(case) for case in draw.make_pair()))


def shrink(program, result):
    """Returns a smaller result that fails, found by changes in one respect, or `result` itself."""
    pairs = SHRINKING_PAIRS
    found = True
    while found:
        found = False
        for smaller in result.draw.list_smaller():
            if pairs == 0:
                return result
            pairs -= 1
            one = judge(program, smaller)
            if one.fails:
                result, found = one, True
                break
    return result


def main():
    args = make_parser(__doc__, None).parse_args()
    directory = pathlib.Path(args.directory)
    rng = random.Random(args.seed)
    machines = build_machines(directory)
    cases = [draw_case(rng, machines, directory) for _ in range(args.sample or CASES)]
    cases = [case for case in cases if args.only in case.name]
    print(f"{len(cases)} cases, seed {args.seed}", flush=True)
    program = Program(args.binary)
    results = run_all(cases, lambda case: judge(program, case), args.threads)
    failures = sorted((one for one in results if one.fails), key=lambda one: -one.ratio)
    for one in failures:
        small = shrink(program, one)
        print(f"\n{small.format_report()}", flush=True)
        if small is not one:
            less, more = format_seconds(one.less.time), format_seconds(one.more.time)
            print(f"  first failed as {one.draw.name}: {less} s, {more} s")
    print(f"\n{len(results)} cases, {len(failures)} fail; seed {args.seed}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
