#!/usr/bin/env python3
"""Runs the ONNX project's own tests (libonnx-testdata) through the importer and compares outputs.

tests/onnx/node_tests.py RUN [--data DIR] [-v]   (RUN: the program tandem_onnx_run)

Every test that imports must compute the stored outputs. Operands that the importer must know (shapes,
axes, masks) are inputs in these files; they become initializers. Tests that do not import are counted by
the reason.
"""

import argparse
import collections
import pathlib
import sys
import tempfile

import numpy
import onnx
from onnx import numpy_helper

from runner import Runner, compute_error

LIMIT = 1e-3  # the stored outputs are fp32, some fp16

# Prefixes of tests whose outputs differ by intention. Batch normalization uses the batch's statistics, as in training.
# Dropout draws other random numbers. numpy has no bfloat16 for the stored tensors. Indices that are inputs count from
# the front.
DIFFERENT = ("test_batchnorm_e", "test_gather_negative_indices", "test_training_dropout", "test_cast_BFLOAT16", "test_castlike_BFLOAT16")


def is_different(name):
    return name.startswith(DIFFERENT) or ("BatchNorm" in name and name.endswith("_eval"))


def load(path):
    """Returns the array in a file, or None if it holds another kind of value."""
    data = path.read_bytes()
    for kind in (onnx.TensorProto, onnx.SequenceProto, onnx.OptionalProto):
        try:
            message = kind()
            message.ParseFromString(data)
            if kind is onnx.TensorProto:
                return numpy_helper.to_array(message)
        except Exception:  # another kind, or an element type that numpy lacks
            continue
    return None


def load_data(directory, model):
    """Returns the stored inputs by name and the stored outputs of a test."""
    data = directory / "test_data_set_0"
    names = [i.name for i in model.graph.input if i.name not in {t.name for t in model.graph.initializer}]
    inputs = {n: load(data / f"input_{i}.pb") for i, n in enumerate(names) if (data / f"input_{i}.pb").exists()}
    outputs = [load(data / f"output_{i}.pb") for i in range(len(model.graph.output))
               if (data / f"output_{i}.pb").exists()]
    return inputs, outputs


def add_initializers(model, inputs, names):
    """Returns a copy of the model with the inputs `names` as initializers."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for name in names:
        copy.graph.initializer.append(numpy_helper.from_array(inputs[name], name))
    return copy


def list_attempts(inputs):
    """Yields names of inputs to make initializers: none, integers, also scalars, all but the first, all."""
    integers = [n for n, v in inputs.items() if v is not None and v.dtype.kind in "iub"]
    scalars = [n for n, v in inputs.items() if v is not None and v.size == 1 and n not in integers]
    yield []
    if integers:
        yield integers
    if scalars:
        yield integers + scalars
    if len(inputs) > 1:
        yield list(inputs)[1:]
    yield list(inputs)


def run_one(runner, directory, scratch):
    """Runs one test. Returns (the worst error, None), or (None, why it does not import)."""
    model = onnx.load(directory / "model.onnx")
    inputs, outputs = load_data(directory, model)
    if not all(numpy.isfinite(v).all() for v in inputs.values() if v is not None and v.dtype.kind == "f"):
        return None, "infinite or undefined operands"
    if any(v is None or v.dtype.kind not in "fiub" for v in list(inputs.values()) + outputs) or not outputs:
        return None, "sequences, optionals or strings"
    why = None
    for known in list_attempts(inputs):
        file = scratch / "model.onnx"
        onnx.save(add_initializers(model, inputs, known), file)
        values = {k: v for k, v in inputs.items() if k not in known}
        answer = runner.ask(file, values)
        if "error" in answer:
            why = answer["error"]
            if why.startswith("not a user error"):
                raise SystemExit(f"{directory}: {why}")
            continue
        return max(compute_error(ours, theirs) for ours, theirs in zip(answer["outputs"], outputs)), None
    return None, why


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--data", default="/usr/share/libonnx-testdata/data", type=pathlib.Path)
    parser.add_argument("-v", action="store_true", help="name every test that does not import")
    options = parser.parse_args()
    runner = Runner(options.program)
    worst, bad, reasons, tests, different = ("", 0.0), [], collections.defaultdict(list), 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        for model in sorted(options.data.glob("*/*/model.onnx")):
            tests += 1
            name = model.parent.name
            e, why = run_one(runner, model.parent, pathlib.Path(scratch))
            if is_different(name):
                different += 1
            elif why is not None:
                reasons[why].append(name)
            elif e > LIMIT:
                bad.append((name, e))
            elif e > worst[1]:
                worst = (name, e)
    refused = sum(len(names) for names in reasons.values())
    right = tests - refused - different - len(bad)
    unknown = sum(len(n) for why, n in reasons.items() if "is not supported" in why and why.startswith("the operator"))
    if options.v:
        for why, names in sorted(reasons.items(), key=lambda r: -len(r[1])):
            print(f"{len(names):4} {why[:120]}: {' '.join(names[:6])}")
    for name, e in bad:
        print(f"{name}: error {e:.1e}")
    print(f"{tests} tests of the ONNX project: {right} right, {len(bad)} wrong, "
          f"{different} expected to differ, {refused} not imported ({unknown} for unsupported operators); "
          f"worst error {worst[1]:.1e} ({worst[0]})")
    return 1 if bad or right < 560 else 0


if __name__ == "__main__":
    sys.exit(main())
