#!/usr/bin/env python3
"""Compares plans with an enumeration of plain strategies that uses only `tandem simulate`.

    tests/search/enumerate.py --binary build/tandem [--sample N] [--seed S] [--only SUBSTRING] [--threads N]

For every case (a network, a batch, a machine) the oracle looks for the fastest plain strategy that fits. It simulates
a few settings of many shapes, that is, of ways to divide the devices, and of fewer devices, too. Then it changes the
best ones one setting at a time, and some pairs of settings that depend on each other, until nothing is faster. The
plan's strategy is one more initial candidate. A plan fails if it takes more than 1.002 times as long as the oracle's
best, or if only the oracle finds a strategy that fits. Cases are independent: none uses results of
another one or of an earlier run.

Example of a row: `plan` takes 1.07 times what a plain strategy takes.

    llama3_8b five:3 batch 120        plan 21.4  plain 20.0  1.070  megatron:tp=1,...  search 1.3 s  FAILS
"""

import dataclasses
import math
import pathlib
import random
import sys

from support import (DATA_FAMILIES, MODELS, RECOMPUTE, TOLERANCE, Answer, Case, Plain, Program, build_machines,
                     format_command, format_seconds, list_divisors, list_pipeline_sizes, list_sample_sizes,
                     list_tensor_sizes, make_case, make_parser, run_all)

NODES = range(1, 33)
# The fraction of the oracle's calls for shapes; the rest is for changes of the best shapes.
SHAPES_PART = 0.45
# The number of best shapes that the oracle improves one setting at a time.
STARTS = 4
PLAN_SLOW_S = 5
# The daily cases: (network, machine, nodes). They have node counts that divide no batch, fewer GPUs per node, pipelines
# of image networks, cases where only pipelines fit, and cases where layouts per operator are faster than any plain
# strategy.
DAILY = [
    ("bert_large", "dgx_a100_40gb", 17), ("gpt3_175b", "five", 31), ("gpt_13b", "five", 9), ("llama3_70b", "five", 19),
    ("llama3_8b", "dgx_a100_40gb", 5), ("llama3_8b", "five", 25), ("llama3_8b", "mixed", 17), ("mixtral_8x7b", "five", 26),
    ("resnet50", "five", 31), ("resnet50", "mixed", 11), ("resnet50", "mixed", 18), ("dlrm", "five", 18),
]


class OutOfCalls(Exception):
    pass


class Oracle:
    """A search for the fastest plain strategy of a case that fits, within a number of calls of `simulate`."""

    def __init__(self, program, case, calls, seed):
        self.program, self.case, self.calls = program, case, calls
        self.rng = random.Random(f"{seed} {case.name}")
        self.known = {}  # {(size, text): rank}
        self.best, self.best_rank = None, (3,)
        self.crashes = []
        self.sizes = [case.size, *case.machine.list_smaller(case.size)]

    def rank(self, plain):
        """Returns the rank of a strategy: (0, time) if it fits, (1, memory) if not, (2,) if it is illegal."""
        if not plain.is_valid(self.case):
            return (2,)
        key = (plain.size, plain.format(self.case.batch))
        if key not in self.known:
            if len(self.known) >= self.calls:
                raise OutOfCalls
            answer = self.program.simulate(self.case, *key)
            if answer.crashed:
                self.crashes.append((key, answer))
            if answer.fits:
                self.known[key] = (0, answer.time)
            else:
                memory = answer.json.get("memory_bytes")
                self.known[key] = (1, memory) if memory else (2,)
        if self.known[key] < self.best_rank:
            self.best, self.best_rank = plain, self.known[key]
        return self.known[key]

    def run(self, plan_text=""):
        """Searches, also from the strategy `plan_text` of the plan, and returns itself."""
        try:
            ranked = self.rank_shapes()
            plan = parse_strategy(plan_text, self.case)
            starts = ([plan] if plan else []) + [plain for _, plain in ranked[:STARTS]]
            for start in starts:
                self.descend(start)
            for _, start in self.rng.sample(ranked[STARTS:], min(STARTS, len(ranked[STARTS:]))):
                self.descend(start)
        except OutOfCalls:
            pass
        return self

    # --- the coarse pass ---

    def rank_shapes(self):
        """Ranks a few settings of each shape, first on the full machine. Returns [(rank, strategy)], best first."""
        groups = [self.list_shapes(self.case.size, 1)]
        smaller = [shape for size in self.sizes[1:] for shape in self.list_shapes(size, 1)]
        groups.append(smaller + self.list_shapes(self.case.size, 2))
        out, limit = [], SHAPES_PART * self.calls
        for group in groups:
            self.rng.shuffle(group)
            for shape in group:
                if len(self.known) >= limit:
                    break
                out.append(self.find_fitting(shape))
        out.sort(key=lambda pair: pair[0])
        return out

    def list_shapes(self, size, cp):
        """Returns strategies that differ in how they divide the devices."""
        case = self.case
        out = []
        if cp == 1:
            out += [Plain(size, "megatron", 1, zero=zero) for zero in range(len(DATA_FAMILIES))]
            if case.model.kind == "experts":
                out += [Plain(size, "ep", 1, ep=ep) for ep in (2, 4, 8) if size.devices % ep == 0]
                out.append(Plain(size, "expert", 1))
            if case.model.kind == "tables":
                out += [Plain(size, "dlrm_hybrid", 1), Plain(size, "expert", 1)]
        elif not case.model.sequence:
            return out
        for tp in list_tensor_sizes(case, size):
            for pp in list_pipeline_sizes(case, size):
                if tp * pp * cp > 1 and size.devices % (tp * pp * cp) == 0:
                    sp = tp > 1 and case.model.sequence
                    out.append(Plain(size, "megatron", 1, tp=tp, pp=pp, cp=cp, zero=1, sp=sp))
        return [one for one in out if list_sample_sizes(case, one.dp)]

    def find_fitting(self, shape):
        """Simulates a few settings of a shape until one fits, and returns the best (rank, strategy)."""
        samples = list_sample_sizes(self.case, shape.dp)
        part = self.case.batch // shape.dp
        most = 4 if self.case.model.kind in ("language", "experts") else part
        middle = max((s for s in samples if s <= min(most, max(1, part // (4 * shape.pp)))), default=1)
        best = ((3,), shape)
        for one, recompute in [(middle, "none"), (samples[0], "none"), (middle, "full"), (samples[0], "full")]:
            plain = dataclasses.replace(shape, samples=one, recompute=recompute)
            best = min(best, (self.rank(plain), plain), key=lambda pair: pair[0])
            if best[0][0] == 0:
                break
        return best

    # --- changes of one setting ---

    def descend(self, plain):
        """Takes the best change of one kind at a time until none of any kind is better."""
        rank = self.rank(plain)
        improved = True
        while improved:
            improved = False
            kinds = {}
            for changed, kind in self.list_changes(plain):
                kinds.setdefault(kind, []).append(changed)
            order = list(kinds)
            self.rng.shuffle(order)
            for kind in order:
                ranked = [(self.rank(changed), changed) for changed in kinds[kind]]
                found = min(ranked, key=lambda pair: pair[0])
                if found[0] < rank:
                    rank, plain, improved = *found, True
                    break
        return plain

    def list_changes(self, plain):
        """Yields (strategy, kind of change) for strategies that differ from `plain` in one setting or two."""
        change = lambda **fields: dataclasses.replace(plain, **fields)
        samples = list_sample_sizes(self.case, plain.dp)
        near = [s for s in samples if s in (plain.samples // 2, plain.samples * 2, samples[-1], plain.samples // 4,
                                            plain.samples * 4)]
        for recompute in RECOMPUTE:
            if recompute != plain.recompute:
                yield change(recompute=recompute), "recompute"
                for s in near:
                    yield change(recompute=recompute, samples=s), "recompute and samples"
        for s in near:
            yield change(samples=s), "samples"
        for size in self.sizes:
            if size != plain.size:
                yield from ((one, "size") for one in self.fit_samples(change(size=size)))
        if plain.family != "megatron":
            for ep in list_divisors(plain.size.devices):
                if plain.family == "ep" and ep in (plain.ep // 2, plain.ep * 2):
                    yield change(ep=ep), "ep"
            return
        for zero in range(4):
            if zero != plain.zero:
                yield change(zero=zero), "zero"
                for recompute in RECOMPUTE:
                    if recompute != plain.recompute:
                        yield change(zero=zero, recompute=recompute), "zero and recompute"
        if plain.tp > 1:
            yield change(sp=not plain.sp), "sp"
        if plain.pp > 1:
            for interleave in (1, 2, 4):
                if interleave != plain.interleave:
                    yield change(interleave=interleave), "interleave"
                    for s in near:
                        yield change(interleave=interleave, samples=s), "interleave and samples"
        yield from self.list_divisions(plain)

    def list_divisions(self, plain):
        """Yields (strategy, kind of change) for strategies that divide the same devices in another way."""
        tensor, pipeline = list_tensor_sizes(self.case, plain.size), list_pipeline_sizes(self.case, plain.size)
        contexts = (1, 2) if self.case.model.sequence else (1,)
        for tp in tensor:
            for pp in pipeline:
                for cp in contexts:
                    changed = [tp != plain.tp, pp != plain.pp, cp != plain.cp]
                    if sum(changed) == 0 or plain.size.devices % (tp * pp * cp):
                        continue
                    # Two sizes change together only if their product stays the same.
                    if sum(changed) > 1 and tp * pp * cp != plain.tp * plain.pp * plain.cp:
                        continue
                    if sum(changed) == 1 and not are_near((tp, pp, cp), (plain.tp, plain.pp, plain.cp)):
                        continue
                    sp = (plain.sp or plain.tp == 1) and tp > 1 and self.case.model.sequence
                    one = dataclasses.replace(plain, tp=tp, pp=pp, cp=cp, sp=sp,
                                              interleave=plain.interleave if pp > 1 else 1)
                    yield from ((changed, "division") for changed in self.fit_samples(one))

    def fit_samples(self, plain):
        """Returns [`plain` with a micro-batch size that divides its part of the batch], or [] if there is none."""
        if plain.size.devices % (plain.tp * plain.pp * plain.cp):
            return []
        samples = list_sample_sizes(self.case, plain.dp)
        if not samples:
            return []
        return [dataclasses.replace(plain, samples=max((s for s in samples if s <= plain.samples), default=samples[0]))]


def are_near(some, others):
    """Returns whether two divisions differ by a factor of at most 5."""
    return all(max(a, b) <= 5 * min(a, b) for a, b in zip(some, others))


def parse_strategy(text, case):
    """Returns the plain strategy `text` on all devices, or None if it is not plain, as most results of a search."""
    family, _, rest = text.removeprefix("search:").partition(":")
    settings = dict((part.split("=", 1) + ["yes"])[:2] for part in rest.split(",") if part)
    if " " in rest:  # such as "by rank": settings differ between ranks
        return None
    families = {"dp": 0, "deepspeed": 1, "fsdp": 3, "megatron": 0}
    known = {"tp", "dp", "pp", "cp", "interleave", "zero", "sp", "micro", "recompute"}
    if family not in families or not set(settings) <= known or "/" in settings.get("tp", ""):
        return None
    number = lambda key, default=1: int(settings.get(key, default))
    recompute = settings.get("recompute", "none").replace("products", "save_matmuls")
    out = Plain(case.size, "megatron", 1, tp=number("tp"), pp=number("pp"), cp=number("cp"),
                interleave=number("interleave"), zero=number("zero", families[family]), sp="sp" in settings,
                recompute=recompute)
    if case.size.devices % (out.tp * out.pp * out.cp) or case.batch % (out.dp * number("micro")):
        return None
    return dataclasses.replace(out, samples=case.batch // (out.dp * number("micro")))


# --- One case ------------------------------------------------------------------------------------


@dataclasses.dataclass
class Result:
    case: Case
    plan: Answer
    oracle: Oracle

    @property
    def plain_time(self):
        return self.oracle.best_rank[1] if self.oracle.best_rank[0] == 0 else math.inf

    @property
    def ratio(self):
        """The plan's time divided by the plain strategy's: infinite if no plan fits, 1 if no plain strategy fits."""
        if math.isinf(self.plain_time):
            return 1.0
        return self.plan.time / self.plain_time

    @property
    def fails(self):
        return self.ratio > TOLERANCE or self.plan.crashed or self.has_no_answer or bool(self.oracle.crashes)

    @property
    def has_no_answer(self):
        """Whether `plan` ended without a plan and without the answer that nothing fits."""
        return self.plan.json.get("feasible") is None and not self.plan.fits

    @property
    def plan_strategy(self):
        return self.plan.json.get("strategy") or ("nothing fits" if not self.has_no_answer else self.plan.error)

    def format_best(self):
        """Returns the oracle's best strategy."""
        if math.isinf(self.plain_time):
            return "-"
        best = self.oracle.best
        smaller = "" if best.size == self.case.size else f" on {best.size.nodes}x{best.size.gpus}"
        return best.format(self.case.batch) + smaller

    def format_row(self):
        ratio = "-" if math.isinf(self.plain_time) else f"{self.ratio:.4f}"
        plan, plain = format_seconds(self.plan.time), format_seconds(self.plain_time)
        return (f"{self.case.name:42} plan {plan:>9}  plain {plain:>9}  "
                f"{ratio:>7}  {self.format_best()}  search {self.plan.seconds:.1f} s"
                f"{'  SLOW' if self.plan.seconds > PLAN_SLOW_S else ''}{'  FAILS' if self.fails else ''}")

    def format_report(self):
        """Returns the failure with the two commands to reproduce it and their times."""
        lines = [f"{self.case.name}: {self.describe_failure()}",
                 f"  {format_command([*self.case.build_command('plan'), '--tolerance', '0'])}",
                 f"    {format_seconds(self.plan.time)} s: {self.plan_strategy}"]
        if not math.isinf(self.plain_time):
            best = self.oracle.best
            words = [*self.case.build_command("simulate", best.size), "--strategy", best.format(self.case.batch)]
            lines += [f"  {format_command(words)}", f"    {format_seconds(self.plain_time)} s"]
        for (size, text), answer in self.oracle.crashes[:3]:
            words = [*self.case.build_command("simulate", size), "--strategy", text]
            lines += [f"  {format_command(words)}", f"    ends with {answer.code}: {answer.error}"]
        return "\n".join(lines)

    def describe_failure(self):
        if self.plan.crashed or self.has_no_answer:
            return f"plan ends with {self.plan.code}: {self.plan.error}"
        if math.isinf(self.ratio):
            return "nothing fits for plan, but a plain strategy does"
        if self.ratio > TOLERANCE:
            return f"the plan takes {100 * (self.ratio - 1):.2f} % longer than a plain strategy"
        return "a simulation ends without an answer"


def judge(program, case, calls, seed):
    """Plans a case, runs the oracle, and returns the result."""
    plan = program.plan(case)
    oracle = Oracle(program, case, calls, seed)
    return Result(case, plan, oracle.run(plan.json.get("strategy", "") if plan.fits else ""))


def list_cases(directory):
    """Returns every case, ordered by the number of nodes, so that any prefix has models and machines of all kinds."""
    machines = build_machines(directory)
    return [make_case(model, machine, nodes) for nodes in NODES for model in MODELS.values()
            for machine in machines.values() if machine.name != "mixed" or nodes > 1]


def choose(cases, sample, seed):
    """Returns `sample` random cases that use all models, machines and node counts about equally often."""
    if sample is None or sample >= len(cases):
        return cases
    rng = random.Random(seed)
    order = list(cases)
    rng.shuffle(order)
    out, uses = [], {}
    while len(out) < sample:
        # The case whose model, machine and nodes are the least used so far.
        best = min(order, key=lambda c: (uses.get(c.model.name, 0) + uses.get(c.machine.name, 0),
                                         uses.get(c.size.nodes, 0)))
        order.remove(best)
        out.append(best)
        for key in (best.model.name, best.machine.name, best.size.nodes):
            uses[key] = uses.get(key, 0) + 1
    return out


def main():
    parser = make_parser(__doc__, 400)
    parser.add_argument("--daily", action="store_true", help="a fixed choice of cases instead of all")
    args = parser.parse_args()
    cases = [case for case in list_cases(pathlib.Path(args.directory)) if args.only in case.name]
    if args.daily:
        cases = [case for case in cases if (case.model.name, case.machine.name, case.size.nodes) in DAILY]
    cases = choose(cases, args.sample, args.seed)
    print(f"{len(cases)} cases, seed {args.seed}, {args.calls} calls each", flush=True)
    program = Program(args.binary)
    results = run_all(cases, lambda case: judge(program, case, args.calls, args.seed), args.threads)
    failures = sorted((one for one in results if one.fails), key=lambda one: -one.ratio)
    for one in failures:
        print(f"\n{one.format_report()}")
    slow = [one for one in results if one.plan.seconds > PLAN_SLOW_S]
    print(f"\n{len(results)} cases, {len(failures)} fail, {len(slow)} plans took over {PLAN_SLOW_S} s; "
          f"{sum(len(one.oracle.known) for one in results)} strategies simulated; seed {args.seed}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
