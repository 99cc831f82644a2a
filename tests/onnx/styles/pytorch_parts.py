"""Parts of networks as PyTorch's TorchScript exporter writes them."""

import math

import numpy
from onnx import TensorProto as T

from styles.writing import EPS


def pt_norm(f, x, g, b):
    """Writes LayerNorm as an operator, or as primitives up to opset 16."""
    if f.opset >= 17:
        return f.op("LayerNormalization", x, g, b, axis=-1, epsilon=EPS)
    d = f.op("Sub", x, f.op("ReduceMean", x, axes=[-1]))
    v = f.op("ReduceMean", f.op("Pow", d, f.constant(numpy.float32(2))), axes=[-1])
    d = f.op("Div", d, f.op("Sqrt", f.op("Add", v, f.constant(numpy.float32(EPS)))))
    return f.op("Add", f.op("Mul", d, g), b)


def pt_gelu(f, x):
    erf = f.op("Erf", f.op("Div", x, f.constant(numpy.float32(math.sqrt(2)))))
    return f.op("Mul", f.op("Mul", x, f.op("Add", erf, f.constant(numpy.float32(1)))), f.constant(numpy.float32(0.5)))


def unsqueeze(f, x, *axes):
    return f.op("Unsqueeze", x, axes=list(axes)) if f.opset < 13 else f.op("Unsqueeze", x, f.ints(*axes))


def get_size(f, x, d):
    """Writes nodes that read dimension `d` of `x`."""
    return f.op("Gather", f.op("Shape", x), f.constant(numpy.int64(d)), axis=0)


def make_shape(f, *sizes):
    """Writes nodes that concatenate sizes, which are integers or tensors."""
    parts = [unsqueeze(f, f.constant(numpy.int64(s)) if isinstance(s, int) else s, 0) for s in sizes]
    return f.op("Concat", *parts, axis=0)


def split_heads(f, x, heads, size):
    """Writes nodes that split a projection into [batch, head, sequence, size]."""
    shape = make_shape(f, get_size(f, x, 0), get_size(f, x, 1), heads, size)
    return f.op("Transpose", f.op("Reshape", x, shape), perm=[0, 2, 1, 3])


def write_mask(f, mask, how):
    """Writes what is added to the scores for an attention_mask; `how` is "bool" or "mul"."""
    m = unsqueeze(f, unsqueeze(f, mask, 1), 2)
    if how == "bool":  # masked_fill(inverted.to(bool), min) over an expanded mask
        m = f.op("Expand", m, make_shape(f, get_size(f, mask, 0), 1, get_size(f, mask, 1), get_size(f, mask, 1)))
        inverted = f.op("Sub", f.constant(numpy.float32(1)), f.op("Cast", m, to=T.FLOAT))
        return f.op("Where", f.op("Cast", inverted, to=T.BOOL, out="inverted"), f.constant(numpy.float32(-10000)), inverted)
    inverted = f.op("Sub", f.constant(numpy.float32(1)), f.op("Cast", m, to=T.FLOAT))
    return f.op("Mul", inverted, f.constant(numpy.float32(-10000)))
