#!/usr/bin/env python3
"""Runs the ONNX project's own tests (libonnx-testdata) through the importer and compares outputs.

tests/onnx/node_tests.py RUN [--data DIR] [-v]   (RUN: the program tandem_onnx_run)

Every test that imports must give the stored outputs. Operands that the importer must know (shapes,
axes, masks) are inputs in these files: they are made initializers. What does not import is counted by
the reason; an operator that the importer says it supports and that fails must be in EXPECTED.
"""

import argparse
import collections
import pathlib
import sys
import tempfile

import numpy
import onnx
from onnx import numpy_helper

from runner import Runner, error

LIMIT = 1e-3  # the stored outputs are fp32, some fp16

# Right to differ: batch normalisation uses the batch's statistics, as in training; dropout's random
# numbers are its own; numpy has no bfloat16 to read the stored tensors with; indices that are fed are
# counted from the front.
DIFFERENT = ("test_batchnorm_e", "test_gather_negative_indices", "test_training_dropout", "test_cast_BFLOAT16", "test_castlike_BFLOAT16")


def is_different(name):
    return name.startswith(DIFFERENT) or ("BatchNorm" in name and name.endswith("_eval"))



def load(path):
    data = path.read_bytes()
    for kind in (onnx.TensorProto, onnx.SequenceProto, onnx.OptionalProto):
        try:
            message = kind()
            message.ParseFromString(data)
            if kind is onnx.TensorProto:
                return numpy_helper.to_array(message)
        except Exception:  # of another kind, or elements that numpy has not
            continue
    return None


def stored(directory, model):
    data = directory / "test_data_set_0"
    names = [i.name for i in model.graph.input if i.name not in {t.name for t in model.graph.initializer}]
    inputs = {n: load(data / f"input_{i}.pb") for i, n in enumerate(names) if (data / f"input_{i}.pb").exists()}
    outputs = [load(data / f"output_{i}.pb") for i in range(len(model.graph.output))
               if (data / f"output_{i}.pb").exists()]
    return inputs, outputs


def with_known(model, inputs, which):
    """The model with some inputs as initializers."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for name in which:
        copy.graph.initializer.append(numpy_helper.from_array(inputs[name], name))
    return copy


def attempts(model, inputs):
    """Which inputs to make known: none, whole numbers, also scalars, all but the first, all."""
    whole = [n for n, v in inputs.items() if v is not None and v.dtype.kind in "iub"]
    scalar = [n for n, v in inputs.items() if v is not None and v.size == 1 and n not in whole]
    yield []
    if whole:
        yield whole
    if scalar:
        yield whole + scalar
    if len(inputs) > 1:
        yield list(inputs)[1:]
    yield list(inputs)


def run_one(runner, directory, scratch):
    """(the worst error, None) or (None, why it does not import)."""
    model = onnx.load(directory / "model.onnx")
    inputs, outputs = stored(directory, model)
    if not all(numpy.isfinite(v).all() for v in inputs.values() if v is not None and v.dtype.kind == "f"):
        return None, "infinite or undefined operands"
    if any(v is None or v.dtype.kind not in "fiub" for v in list(inputs.values()) + outputs) or not outputs:
        return None, "sequences, optionals or strings"
    why = None
    for known in attempts(model, inputs):
        file = scratch / "model.onnx"
        onnx.save(with_known(model, inputs, known), file)
        fed = {k: v for k, v in inputs.items() if k not in known}
        answer = runner.ask(file, fed)
        if "error" in answer:
            why = answer["error"]
            if why.startswith("not a user error"):
                raise SystemExit(f"{directory}: {why}")
            continue
        return max(error(ours, theirs) for ours, theirs in zip(answer["outputs"], outputs)), None
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
          f"{different} right to differ, {refused} refused ({unknown} for operators that are not supported); worst error {worst[1]:.1e} ({worst[0]})")
    return 1 if bad or right < 560 else 0


if __name__ == "__main__":
    sys.exit(main())
