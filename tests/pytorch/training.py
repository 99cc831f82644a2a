#!/usr/bin/env python3
"""Compares losses of `tandem train` with PyTorch's, on the same weights and data.

tests/pytorch/training.py TANDEM [--steps N]   (TANDEM: the program, with tandem_worker beside it)

A perceptron, 50 steps of plain gradient descent and of Adam. In float64 with autograd: within 1e-9. In bf16
with master weights in fp32: PyTorch keeps weights and activations in bf16, too, and computes with them as it
does on a CPU; the master copy is updated and rounded. Both sides round what they store to 8 binary digits,
at different places (an operator of ours rounds once): each is off by 2^-9 at the most, a mean of squares by
twice that, and as much again is left for what the steps add up. So losses are compared within 2^-7 of the first.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch

BATCH, INPUTS, HIDDEN, OUTPUTS = 16, 48, 64, 32
MODEL = f"mlp:layers=2,hidden={HIDDEN},inputs={INPUTS},outputs={OUTPUTS}"
RATES = {"sgd": 0.05, "adam": 0.002}
LIMITS = {("fp64", "sgd"): 1e-9, ("fp64", "adam"): 1e-9, ("bf16", "sgd"): 2**-7, ("bf16", "adam"): 2**-7}
ELEMENTS = {"fp64": numpy.float64, "fp32": numpy.float32}


def train(tandem, folder, dtype, optimizer, devices, steps, rate, more=()):
    """What `tandem train --json` says. One batch is all of the data, in an order of its own each time."""
    command = [tandem, "train", MODEL, "--batch", BATCH, "--dtype", dtype, "--optimizer", optimizer, "--lr", rate,
               "--devices", devices, "--steps", steps, "--data", folder, "--json", "--quiet", *more]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def first_weights(tandem, folder, dtype, optimizer):
    """Of a checkpoint after a step that changes nothing: in fp64 the weights, in bf16 their masters."""
    kept = folder / f"kept-{dtype}-{optimizer}"
    train(tandem, folder, dtype, optimizer, 1, 1, 0, ["--checkpoint", kept])
    manifest = json.loads((kept / "step-1" / "manifest").read_text().split("\n", 1)[1])
    types = {t["name"]: t["dtype"] for t in manifest["tensors"]}
    state = {"sgd": 0, "adam": 2}[optimizer]
    out = []
    for name in ("w1", "w2"):
        wanted = name if dtype == "fp64" else f"{name} state {state}"
        piece = next(p for p in manifest["pieces"] if p["tensor"] == wanted)
        whole = (kept / "step-1" / f"rank-{piece['file']}").read_bytes()
        elements = numpy.frombuffer(whole[piece["at"]:piece["at"] + piece["bytes"]], ELEMENTS[types[wanted]])
        out.append(torch.tensor(elements.copy()).reshape(piece["shape"]))
    return out


def torch_losses(weights, x, target, half, optimizer, steps, rate):
    stored = torch.bfloat16 if half else torch.float64
    x, target = x.to(stored), target.to(stored)
    masters = [w.clone() for w in weights]
    make = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimizer]
    update = make(masters, lr=rate)
    out = []
    for _ in range(steps):
        w1, w2 = (m.detach().to(stored).requires_grad_() for m in masters)
        y = torch.relu(x @ w1.t()) @ w2.t()
        exact = y.float() if half else y
        loss = ((exact - target.to(exact.dtype)) ** 2).mean()
        loss.backward()
        for master, w in zip(masters, (w1, w2)):
            master.grad = w.grad.to(master.dtype)
        update.step()
        out.append(float(loss))
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tandem")
    parser.add_argument("--steps", type=int, default=50)
    arguments = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    x = torch.randn(BATCH, INPUTS, dtype=torch.float64)
    target = torch.randn(BATCH, OUTPUTS, dtype=torch.float64)
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        numpy.save(folder / "x.npy", x.numpy())
        numpy.save(folder / "target.npy", target.numpy())
        for (dtype, optimizer), limit in LIMITS.items():
            rate = RATES[optimizer]
            weights = first_weights(arguments.tandem, folder, dtype, optimizer)
            theirs = torch_losses(weights, x, target, dtype == "bf16", optimizer, arguments.steps, rate)
            for devices in (1, 2):
                ours = train(arguments.tandem, folder, dtype, optimizer, devices, arguments.steps, rate)["loss"]
                worst = max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) / theirs[0]
                wrong = not worst <= limit or theirs[-1] > 0.9 * theirs[0]
                failed = failed or wrong
                print(f"{dtype} {optimizer:5} {devices} devices  worst {worst:.1e} of the first loss, "
                      f"{theirs[0]:.4f} to {theirs[-1]:.4f}{'  WRONG' if wrong else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
