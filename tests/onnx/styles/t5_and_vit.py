"""Relative positions and patches, as PyTorch's exporter writes them."""

import math

import numpy
import torch
import torch.nn.functional as F
from onnx import TensorProto as T

from styles.hugging_face import write_encoder_layer
from styles.pytorch_parts import get_size, make_shape, pt_norm, split_heads, unsqueeze
from styles.transformers import add_layer_weights, attend, gelu_erf, norm, run_encoder_layer
from styles.writing import Case, EPS, Writer, double, images, rows, tokens


def write_t5(opset=12, vocab=20, width=8, heads=2, buckets=8, b=2, s=9):
    """Returns the case of an encoder layer with relative positions, which index a table and come from Range."""
    f = Writer(opset)
    size = width // heads
    f.input("input_ids", ["batch", "sequence"], T.INT64)
    f.weight("embed", vocab, width), f.weight("relative", buckets, heads), f.weight("n", width, offset=1)
    for n in "qkvo":
        f.weight(n, width, width)
    steps = f.op("Range", f.constant(numpy.int64(0)), get_size(f, "input_ids", 1), f.constant(numpy.int64(1)))
    apart = f.op("Sub", unsqueeze(f, steps, 0), unsqueeze(f, steps, 1))
    half = f.op("Mul", f.op("Cast", f.op("Greater", apart, f.constant(numpy.int64(0))), to=T.INT64), f.constant(numpy.int64(buckets // 2)))
    far = f.op("Min", f.op("Abs", apart), f.op("Expand", f.constant(numpy.int64(buckets // 2 - 1)), f.op("Shape", apart)))
    near = f.op("Less", f.op("Abs", apart), f.constant(numpy.int64(2)))
    bucket = f.op("Add", half, f.op("Where", near, f.op("Abs", apart), far))
    bias = unsqueeze(f, f.op("Transpose", f.op("Gather", "relative", bucket), perm=[2, 0, 1]), 0)
    x = f.op("Gather", "embed", "input_ids")
    h = f.op("Div", x, f.op("Sqrt", f.op("Add", f.op("ReduceMean", f.op("Pow", x, f.constant(numpy.float32(2))), axes=[-1]), f.constant(numpy.float32(EPS)))))
    h = f.op("Mul", "n", h)
    q, k, v = (split_heads(f, f.op("MatMul", h, n), heads, size) for n in "qkv")
    scores = f.op("Add", f.op("MatMul", q, f.op("Transpose", k, perm=[0, 1, 3, 2])), bias)
    a = f.op("Transpose", f.op("MatMul", f.op("Softmax", scores, axis=3), v), perm=[0, 2, 1, 3])
    a = f.op("Reshape", a, make_shape(f, get_size(f, a, 0), -1, width))
    f.op("Add", x, f.op("MatMul", a, "o"), out="y")
    tok, w = tokens(b, s), f.w
    d = numpy.arange(s)[None] - numpy.arange(s)[:, None]
    bucket = numpy.where(abs(d) < 2, abs(d), numpy.minimum(abs(d), buckets // 2 - 1)) + (d > 0) * (buckets // 2)
    y = rows(w["embed"], tok)
    h = y / torch.sqrt((y * y).mean(-1, keepdim=True) + EPS) * w["n"]
    bias = rows(w["relative"], bucket).permute(2, 0, 1) * 1.0
    y = y + attend(h @ w["q"] * math.sqrt(size), h @ w["k"], h @ w["v"], heads, bias) @ w["o"]
    return Case("t5", f.model("y"), {"input_ids": tok}, [y], f.parameters, {"sequence": s})


def write_vit(opset, width=8, heads=2, patch=4, image=16, classes=5, b=2):
    """Returns the case of a vision transformer of one layer."""
    f = Writer(opset)
    n = (image // patch) ** 2
    f.input("pixel_values", ["batch_size", 3, image, image])
    f.weight("patch.w", width, 3, patch, patch), f.weight("patch.b", width)
    f.weight("cls", 1, 1, width), f.weight("place", 1, n + 1, width)
    add_layer_weights(f, "0.", width, 16)
    f.weight("head.w", classes, width), f.weight("head.b", classes), f.weight("n.g", width, offset=1), f.weight("n.b", width)
    x = f.op("Conv", "pixel_values", "patch.w", "patch.b", kernel_shape=[patch] * 2, strides=[patch] * 2, pads=[0] * 4, dilations=[1, 1], group=1)
    x = f.op("Reshape", x, f.op("Concat", f.op("Slice", f.op("Shape", x), f.ints(0), f.ints(2), f.ints(0)), f.ints(-1), axis=0))
    x = f.op("Transpose", x, perm=[0, 2, 1])
    is_open = f.op("Equal", make_shape(f, get_size(f, x, 0), -1, -1), f.ints(-1, -1, -1))
    cls = f.op("Expand", "cls", f.op("Where", is_open, f.ints(1, 1, 1), make_shape(f, get_size(f, x, 0), -1, -1)))
    x = f.op("Add", f.op("Concat", cls, x, axis=1), "place")
    x = write_encoder_layer(f, x, "0.", heads, width // heads, None)
    x = f.op("Gather", pt_norm(f, x, "n.g", "n.b"), f.constant(numpy.int64(0)), axis=1)
    f.op("Gemm", x, "head.w", "head.b", alpha=1.0, beta=1.0, transB=1, out="logits")
    pixels, w = images(b, 3, image, image), f.w
    y = F.conv2d(double(pixels), w["patch.w"], w["patch.b"], patch).flatten(2).transpose(1, 2)
    y = torch.cat([w["cls"].expand(b, -1, -1), y], 1) + w["place"]
    y = run_encoder_layer(y, w, "0.", heads, None, gelu_erf)
    y = F.linear(norm(y, w["n.g"], w["n.b"])[:, 0], w["head.w"], w["head.b"])
    return Case(f"hf_vit_{opset}", f.model("logits"), {"pixel_values": pixels}, [y], f.parameters)
