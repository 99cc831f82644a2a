#!/usr/bin/env python3
"""Compares losses of `tandem train` with PyTorch's, on the same weights and data.

tests/pytorch/training.py TANDEM [--steps N] [--networks perceptron,...]
(TANDEM: the program, with tandem_worker in the same directory)

Runs 50 steps of SGD and of Adam. In fp64, losses of the networks in networks.py agree within 1e-9.

An MLP (`perceptron`) also trains in bf16 with fp32 master weights. PyTorch stores weights and activations in bf16 and
updates the master weights, which are then rounded. Both sides round to 8 binary digits, at different places (our
operators round once). A rounded value is off by at most 2^-9, a mean of squares by twice that; the steps may double it
again. The limit of the difference is therefore 2^-7 of the first loss.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch

from networks import BATCH, MLP, NETWORKS

LIMITS = {"fp64": 1e-9, "bf16": 2**-7}
ELEMENTS = {"fp64": numpy.float64, "fp32": numpy.float32}


class Case:
    """A network with its data in a directory, a dtype and an optimizer."""

    def __init__(self, tandem, directory, name, network, dtype, optimizer):
        self.tandem, self.directory, self.network, self.dtype, self.optimizer = tandem, directory, network, dtype, optimizer
        self.name = f"{name} {dtype} {optimizer}"
        self.rate = network.rates[optimizer]
        self.data = directory / "data"
        self.data.mkdir()
        self.inputs = network.draw_inputs()
        for key, tensor in self.inputs.items():
            numpy.save(self.data / f"{key}.npy", tensor.numpy())
        self.model = [network.model, "--batch", BATCH]
        if network.is_text:
            (directory / "graph").write_text(network.model)
            self.model = [directory / "graph"]
        self.model += ["--dtype", dtype]

    def train(self, devices, steps, rate, more=()):
        """Returns the answer of `tandem train --json`. One batch is all of the data, in random order each time."""
        command = [self.tandem, "train", *self.model, "--optimizer", self.optimizer, "--lr", rate, "--devices",
                   devices, "--steps", steps, "--data", self.data, "--json", "--quiet", *more]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def read_initial_weights(self):
        """Returns the weights (fp64) or master weights (bf16) from a checkpoint after a step with learning rate 0."""
        checkpoint = self.directory / "checkpoint"
        self.train(1, 1, 0, ["--checkpoint", checkpoint])
        manifest = json.loads((checkpoint / "step-1" / "manifest").read_text().split("\n", 1)[1])
        types = {t["name"]: t["dtype"] for t in manifest["tensors"]}
        master = {"sgd": 0, "adam": 2}[self.optimizer]
        out = {}
        for name in types:
            if " state " in name:
                continue
            tensor = name if self.dtype == "fp64" else f"{name} state {master}"
            piece = next(p for p in manifest["pieces"] if p["tensor"] == tensor)
            data = (checkpoint / "step-1" / f"rank-{piece['file']}").read_bytes()
            elements = numpy.frombuffer(data[piece["at"]:piece["at"] + piece["bytes"]], ELEMENTS[types[tensor]])
            out[name] = torch.tensor(elements.copy()).reshape(piece["shape"])
        return out

    def train_torch(self, masters, steps):
        """Trains with PyTorch from the weights `masters` and returns the losses."""
        stored = {"fp64": torch.float64, "bf16": torch.bfloat16}[self.dtype]
        inputs = {name: x.to(stored) if x.is_floating_point() else x for name, x in self.inputs.items()}
        optimizer_type = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[self.optimizer]
        optimizer = optimizer_type(masters.values(), lr=self.rate)
        out = []
        for _ in range(steps):
            weights = {name: m.detach().to(stored).requires_grad_() for name, m in masters.items()}
            loss = self.network.compute_loss(weights, inputs)
            loss.backward()
            for name, master in masters.items():
                master.grad = weights[name].grad.to(master.dtype)
            optimizer.step()
            out.append(float(loss))
        return out

    def compare(self, steps):
        """Returns whether all losses agree with PyTorch's, and prints the worst difference."""
        theirs = self.train_torch(self.read_initial_weights(), steps)
        right = True
        for devices in (1, 2):
            ours = self.train(devices, steps, self.rate)["loss"]
            worst = max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) / theirs[0]
            good = worst <= LIMITS[self.dtype] and theirs[-1] < 0.98 * theirs[0]
            right = right and good
            print(f"{self.name:21} {devices} devices  worst {worst:.1e} of the first loss, "
                  f"{theirs[0]:.4f} to {theirs[-1]:.4f}{'' if good else '  WRONG'}")
        return right


def main():
    networks = {"perceptron": MLP, **NETWORKS}
    parser = argparse.ArgumentParser()
    parser.add_argument("tandem")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--networks", type=lambda text: text.split(","), default=list(networks))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    right = True
    for name in arguments.networks:
        for dtype in ("fp64", "bf16") if name == "perceptron" else ("fp64",):
            for optimizer in ("sgd", "adam"):
                torch.manual_seed(1)
                with tempfile.TemporaryDirectory() as directory:
                    case = Case(arguments.tandem, pathlib.Path(directory), name, networks[name], dtype, optimizer)
                    right = case.compare(arguments.steps) and right
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
