"""A BERT as tf2onnx writes it."""

import math

import numpy
from onnx import TensorProto as T
from onnx import helper

from styles.transformers import add_layer_weights, gelu_tanh, make_mask, norm, run_encoder_layer
from styles.writing import Case, EPS, Writer, rows, tokens


def write_norm(f, x, g, b):
    """Writes tf.nn.batch_normalization: x * f + (b - mean * f), where f = g / sqrt(v + e)."""
    mean = f.op("ReduceMean", x, axes=[-1], keepdims=1)
    square = f.op("Mul", f.op("Sub", x, mean), f.op("Sub", x, mean))
    variance = f.op("ReduceMean", square, axes=[-1], keepdims=1)
    r = f.op("Reciprocal", f.op("Sqrt", f.op("Add", variance, f.scalar(EPS))))
    factor = f.op("Mul", r, g)
    return f.op("Add", f.op("Mul", x, factor), f.op("Sub", b, f.op("Mul", mean, factor)))


def get_sizes(f, x, *dims):
    """Writes nodes that read dimensions of `x` one by one as int32, as TensorFlow does."""
    out = []
    shape = f.op("Cast", f.op("Shape", x), to=T.INT32)
    for d in dims:
        if f.opset < 10:
            part = f.op("Slice", shape, starts=[d], ends=[d + 1], axes=[0])
        else:
            part = f.op("Slice", shape, f.ints(d), f.ints(d + 1), f.ints(0))
        out.append(f.op("Squeeze", part, axes=[0]))
    return out


def make_shape(f, *sizes):
    """Writes nodes that concatenate sizes."""
    parts = [f.op("Unsqueeze", s, axes=[0]) for s in sizes]
    return f.op("Cast", f.op("Concat", *parts, axis=0), to=T.INT64)


def write_tf_bert(opset, vocab=20, width=8, heads=2, inner=16, layers=2, context=12, b=2, s=6):
    f = Writer(opset)
    f.input("unique_ids_raw_output___9:0", ["unk__492"], T.INT64)
    ids, mask, kinds = (f.input(n + ":0", [f"unk__{i}", s], T.INT64)
                        for i, n in enumerate(("input_ids", "input_mask", "segment_ids")))
    for n, size in (("word", vocab), ("kind", 2), ("place", context)):
        f.weight(n, size, width)
    f.weight("n0.g", width, offset=1), f.weight("n0.b", width)
    size = width // heads
    for i in range(layers):
        add_layer_weights(f, f"{i}.", width, inner)
    f.weight("squad.w", 2, width), f.weight("squad.b", 2)

    i32 = lambda v: f.store(numpy.int32(v))
    batch, length = get_sizes(f, ids, 0, 1)
    flat = f.op("Reshape", f.op("Unsqueeze", ids, axes=[2]), f.ints(-1))
    words = f.op("Reshape", f.op("Gather", "word", flat), make_shape(f, batch, length, i32(width)))
    hot = f.op("OneHot", f.op("Reshape", kinds, f.ints(-1)), f.ints(2), f.store(numpy.array([0, 1], numpy.float32)), axis=-1)
    kind = f.op("Reshape", f.op("MatMul", hot, "kind"), make_shape(f, batch, length, i32(width)))
    if opset < 10:
        place = f.op("Slice", "place", starts=[0, 0], ends=[s, 2 ** 31 - 1], axes=[0, 1])
    else:
        place = f.op("Slice", "place", f.ints(0, 0), f.ints(s, 2 ** 63 - 1), f.ints(0, 1))
    place = f.op("Reshape", place, f.ints(1, s, width))
    x = write_norm(f, f.op("Add", f.op("Add", words, kind), place), "n0.g", "n0.b")

    ones = f.op("ConstantOfShape", make_shape(f, batch, length, i32(1)),
                value=helper.make_tensor("v", T.FLOAT, [1], [1.0]))
    row = f.op("Cast", f.op("Reshape", mask, make_shape(f, batch, i32(1), length)), to=T.FLOAT)
    adder = f.op("Mul", f.op("Sub", f.scalar(1), f.op("Unsqueeze", f.op("Mul", ones, row), axes=[1])), f.scalar(-10000))
    x = f.op("Reshape", x, f.ints(-1, width))

    def dense(t, n):
        return f.op("Add", f.op("MatMul", t, n + ".w"), n + ".b")

    for i in range(layers):
        p = f"{i}."
        q, k, v = (f.op("Transpose",
                        f.op("Reshape", dense(x, p + n), make_shape(f, batch, length, i32(heads), i32(size))),
                        perm=[0, 2, 1, 3]) for n in "qkv")
        scores = f.op("Mul", f.op("MatMul", q, f.op("Transpose", k, perm=[0, 1, 3, 2])), f.scalar(size ** -0.5))
        a = f.op("MatMul", f.op("Softmax", f.op("Add", scores, adder), axis=3), v)
        a = f.op("Transpose", a, perm=[0, 2, 1, 3])
        a = f.op("Reshape", a, make_shape(f, f.op("Mul", batch, length), i32(width)))
        x = write_norm(f, f.op("Add", dense(a, p + "o"), x), p + "n1.g", p + "n1.b")
        up = dense(x, p + "up")
        cube = f.op("Mul", f.op("Pow", up, f.scalar(3)), f.scalar(0.044715))
        tanh = f.op("Tanh", f.op("Mul", f.op("Add", up, cube), f.scalar(math.sqrt(2 / math.pi))))
        gelu = f.op("Mul", up, f.op("Mul", f.op("Add", tanh, f.scalar(1)), f.scalar(0.5)))
        x = write_norm(f, f.op("Add", dense(gelu, p + "down"), x), p + "n2.g", p + "n2.b")
    logits = f.op("Add", f.op("MatMul", x, f.op("Transpose", "squad.w", perm=[1, 0])), "squad.b")
    logits = f.op("Transpose", f.op("Reshape", logits, make_shape(f, batch, length, i32(2))), perm=[2, 0, 1])
    start, end = f.op("Split", logits, n=2, axis=0, split=[1, 1])
    f.op("Squeeze", start, axes=[0], out="unstack:0")
    f.op("Squeeze", end, axes=[0], out="unstack:1")
    f.op("Identity", "unique_ids_raw_output___9:0", out="unique_ids:0")

    w = f.w
    tok, visible, types = tokens(b, s), tokens(b, s, below=2, seed=1), tokens(b, s, below=2, seed=2)
    visible[:, 0] = 1
    y = norm(rows(w["word"], tok) + rows(w["kind"], types) + w["place"][:s], w["n0.g"], w["n0.b"])
    for i in range(layers):
        y = run_encoder_layer(y, w, f"{i}.", heads, make_mask(visible), gelu_tanh)
    y = y @ w["squad.w"].T + w["squad.b"]
    return Case(f"tf2onnx_bert_{opset}", f.model("unstack:0", "unstack:1", "unique_ids:0"),
                {"input_ids:0": tok, "input_mask:0": visible, "segment_ids:0": types}, [y[..., 0], y[..., 1]],
                f.parameters)
