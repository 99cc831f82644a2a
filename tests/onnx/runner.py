"""The program that imports and runs ONNX files, for the tests in this directory."""

import json
import subprocess

import numpy


class Runner:
    """A process of tandem_onnx_run (run.cc), which answers requests."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, file, inputs=None, **more):
        """Imports the file, runs it with `inputs` if given, and returns the answer."""
        request = {"file": str(file), **more}
        if inputs is not None:
            request["inputs"] = {k: numpy.asarray(v).astype(float).flatten().tolist() for k, v in inputs.items()}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{file}: the program ended with {self.process.wait()}")
        return json.loads(line)


def compute_error(ours, theirs):
    """Returns the largest |ours - theirs| / max(1, |theirs|), or infinity if the shapes differ."""
    theirs = numpy.asarray(theirs, dtype=float)
    if list(theirs.shape) != ours["shape"]:
        return float("inf")
    values = numpy.array([float("nan") if v is None else v for v in ours["values"]], dtype=float)
    values = values.reshape(theirs.shape)
    both = numpy.isfinite(theirs) & numpy.isfinite(values)
    if (numpy.isfinite(theirs) != numpy.isfinite(values)).any():
        return float("inf")
    return float((numpy.abs(values - theirs)[both] / numpy.maximum(1, numpy.abs(theirs[both]))).max(initial=0))
