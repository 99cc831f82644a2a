"""The parts that all styles share: a writer of ONNX files, and cases with expected outputs."""

import dataclasses

import numpy
import torch
from onnx import TensorProto as T
from onnx import helper, numpy_helper

EPS = 2.0 ** -16  # exact in fp32


@dataclasses.dataclass
class Case:
    """An ONNX model with inputs and the outputs that PyTorch computes."""

    name: str
    model: object  # ModelProto
    inputs: dict
    outputs: list
    parameters: int
    dims: dict = dataclasses.field(default_factory=dict)
    external: bool = False  # weights in another file
    limit: float = 1e-9


class Writer:
    """A builder of an ONNX graph, node by node."""

    def __init__(self, opset, listed=False, seed=0):
        self.opset, self.listed = opset, listed  # listed: are initializers inputs, too?
        self.random = numpy.random.RandomState(seed)
        self.nodes, self.inputs, self.initializers, self.outputs = [], [], [], []
        self.functions, self.imports, self.w, self.count = [], {}, {}, 0

    def make_name(self, stem):
        self.count += 1
        return f"{stem}_{self.count}"

    def input(self, name, shape, type=T.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, type, shape))
        return name

    def store(self, value, name=None):
        """Adds an initializer and returns its name."""
        name = name or self.make_name("const")
        value = numpy.asarray(value)
        value = value.astype(numpy.float32) if value.dtype == numpy.float64 else value
        self.initializers.append(numpy_helper.from_array(value, name))
        return name

    def constant(self, value, name=None):
        """Adds a Constant node and returns its name."""
        name = name or self.make_name("Constant")
        value = numpy.asarray(value)
        value = value.astype(numpy.float32) if value.dtype == numpy.float64 else value
        self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value, name)))
        return name

    def weight(self, name, *shape, scale=0.5, offset=0.0):
        value = numpy.round((self.random.uniform(-scale, scale, shape) + offset) * 512) / 512  # exact in fp16
        value = value.astype(numpy.float32)
        self.w[name] = torch.tensor(value, dtype=torch.float64)
        return self.store(value, name)

    def ints(self, *values):
        return self.store(numpy.array(values, numpy.int64))

    def scalar(self, value):
        return self.store(numpy.float32(value))

    def op(self, kind, *inputs, n=1, out=None, label=None, **attributes):
        """Adds a node and returns the name of its output, or the names of its `n` outputs."""
        outputs = [out] if isinstance(out, str) else out or [self.make_name(kind) for _ in range(n)]
        node = helper.make_node(kind, list(inputs), outputs, name=label or self.make_name("node"), **attributes)
        self.nodes.append(node)
        return outputs[0] if len(outputs) == 1 else outputs

    def output(self, name, type=T.FLOAT):
        self.outputs.append(helper.make_tensor_value_info(name, type, None))

    @property
    def parameters(self):
        return sum(w.numel() for w in self.w.values())

    def model(self, *outputs):
        """Returns the model with these outputs."""
        for o in outputs:
            self.output(o)
        inputs = list(self.inputs)
        if self.listed:
            inputs += [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in self.initializers]
        graph = helper.make_graph(self.nodes, "graph", inputs, self.outputs, self.initializers)
        imports = [helper.make_opsetid("", self.opset)] + [helper.make_opsetid(*i) for i in self.imports.items()]
        model = helper.make_model(graph, opset_imports=imports, functions=self.functions)
        model.ir_version = 3 if self.listed else 8
        return model


def tokens(*size, below=20, seed=0):
    return numpy.random.RandomState(seed).randint(0, below, size)


def images(*size, seed=0):
    return numpy.random.RandomState(seed).uniform(-1, 1, size).astype(numpy.float32)


def double(x):
    return torch.tensor(x, dtype=torch.float64)


def rows(table, indices):
    return table[torch.tensor(indices)]
