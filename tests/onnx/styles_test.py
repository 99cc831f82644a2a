#!/usr/bin/env python3
"""Writes files as other exporters do (styles/) and tests how the importer reads them.

tests/onnx/styles_test.py RUN     (RUN: the program tandem_onnx_run)

Compares the number of parameters and the outputs, which the sequential interpreter computes in fp64 with the
file's weights.
"""

import pathlib
import sys
import tempfile

import onnx
import torch

import styles
from runner import Runner, compute_error

torch.set_num_threads(1)


def check(runner, case, directory):
    """Returns what is wrong with the imported case, or None."""
    file = directory / "style.onnx"
    if case.external:
        onnx.save_model(case.model, str(file), save_as_external_data=True, location="style.bin", size_threshold=0)
    else:
        onnx.save_model(case.model, str(file))
    answer = runner.ask(file, case.inputs, dims=case.dims, batch=len(next(iter(case.inputs.values()))))
    if "error" in answer:
        return f"{answer['where']}: {answer['error']} ({answer['hint'][:99]})"
    if len(answer["outputs"]) != len(case.outputs):
        return f"{len(answer['outputs'])} outputs, {len(case.outputs)} expected"
    e = max(compute_error(o, y.numpy()) for o, y in zip(answer["outputs"], case.outputs))
    print(f"{case.name:<22} error {e:.1e}, {answer['nodes']} nodes, {answer['parameters']} parameters")
    if e > case.limit:
        return f"error {e:.1e}"
    if answer["parameters"] != case.parameters:
        return f"{answer['parameters']} parameters, {case.parameters} expected"
    return None


def main():
    runner, bad, count = Runner(sys.argv[1]), 0, 0
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    with tempfile.TemporaryDirectory() as scratch:
        for make in styles.list_cases():
            case = make()
            if only not in case.name:
                continue
            wrong = check(runner, case, pathlib.Path(scratch))
            count += 1
            if wrong is not None:
                bad += 1
                print(f"{case.name}: {wrong}")
    print(f"{count} files, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
