#!/usr/bin/env python3
"""Compares every operator's values and gradients with PyTorch's, in float64.

tests/pytorch/compare.py EVALUATE [--cases N] [--seed S]   (EVALUATE: the program tandem_evaluate)

The cases are those of cases.py. An operator without a case is an error, so that nobody forgets a new
operator. Prints the worst error of each operator, |ours - torch| / max(1, |torch|), over values and all
gradients.
"""

import argparse
import json
import subprocess
import sys

import torch

from cases import CASES, NOT_COMPARED, Draw

LIMIT = 1e-12


def format_attribute(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def compute_error(ours, theirs):
    """Returns the largest |ours - theirs| / max(1, |theirs|)."""
    if theirs.numel() == 0:
        return 0.0
    ours = torch.tensor(ours).reshape(theirs.shape)
    return float(((ours - theirs).abs() / theirs.abs().clamp(min=1)).max())


def ask(evaluate, request):
    """Returns the answer of the process `evaluate` to a request."""
    evaluate.stdin.write(json.dumps(request) + "\n")
    evaluate.stdin.flush()
    return json.loads(evaluate.stdout.readline())


def compare(evaluate, name, seed):
    """Returns the worst error of one random case."""
    draw = Draw(seed)
    attributes, operands, function = CASES[name](draw, name)
    operands = [x.clone().requires_grad_(x.is_floating_point()) for x in operands]
    expected = function(*operands)
    gradient = draw.real(*expected.shape)
    expected.backward(gradient)
    answer = ask(evaluate, {
        "op": name,
        "attributes": [[k, format_attribute(v)] for k, v in attributes.items()],
        "shapes": [list(x.shape) for x in operands],
        "values": [x.detach().flatten().tolist() for x in operands],
        "gradient": gradient.flatten().tolist(),
    })
    where = f"{name} {attributes} of {[list(x.shape) for x in operands]}, seed {seed}"
    if "error" in answer:
        raise SystemExit(f"{where}: {answer['error']}")
    if answer["shape"] != list(expected.shape):
        raise SystemExit(f"{where}: shape {answer['shape']}, PyTorch has {list(expected.shape)}")
    worst = compute_error(answer["value"], expected.detach())
    for x, g in zip(operands, answer["gradients"]):
        if x.requires_grad:
            worst = max(worst, compute_error(g, x.grad if x.grad is not None else torch.zeros_like(x)))
    if not worst <= LIMIT:
        print(f"{where}: error {worst:.1e}", file=sys.stderr)
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("evaluate", help="the program tandem_evaluate")
    parser.add_argument("--cases", type=int, default=40, help="random cases of each operator")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    evaluate = subprocess.Popen([options.evaluate], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    operators = ask(evaluate, {"list": True})
    missing = [name for name in operators if name not in CASES and name not in NOT_COMPARED]
    if missing:
        raise SystemExit(f"no comparison for {', '.join(missing)}: add a case to cases.py")
    worst = {name: max(compare(evaluate, name, options.seed + n) for n in range(options.cases))
             for name in operators if name in CASES}
    for name, e in worst.items():
        print(f"{name:<18} {e:.1e}")
    name = max(worst, key=worst.get)
    print(f"{len(worst)} operators, {options.cases} cases each: worst error {worst[name]:.1e} ({name})")
    return 0 if worst[name] <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
