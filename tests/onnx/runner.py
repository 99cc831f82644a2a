"""What the tests in this directory share: the program that imports and runs ONNX files."""

import json
import subprocess

import numpy


class Runner:
    """Asks the program of run.cc."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, file, inputs=None, **more):
        request = {"file": str(file), **more}
        if inputs is not None:
            request["inputs"] = {k: numpy.asarray(v).astype(float).flatten().tolist() for k, v in inputs.items()}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{file}: the program ended with {self.process.wait()}")
        return json.loads(line)


def error(ours, theirs):
    """The largest |ours - theirs| / max(1, |theirs|); infinite where the shapes differ."""
    theirs = numpy.asarray(theirs, dtype=float)
    if list(theirs.shape) != ours["shape"]:
        return float("inf")
    values = numpy.array([float("nan") if v is None else v for v in ours["values"]], dtype=float)
    values = values.reshape(theirs.shape)
    both = numpy.isfinite(theirs) & numpy.isfinite(values)
    if (numpy.isfinite(theirs) != numpy.isfinite(values)).any():
        return float("inf")
    return float((numpy.abs(values - theirs)[both] / numpy.maximum(1, numpy.abs(theirs[both]))).max(initial=0))
