"""Decoders with rotary embeddings and grouped-query attention, as PyTorch's exporter writes them."""

import numpy
import torch
import torch.nn.functional as F
from onnx import TensorProto as T
from onnx import helper

from styles.pytorch_parts import get_size, make_shape, split_heads, unsqueeze
from styles.transformers import attend, make_causal_mask
from styles.writing import Case, EPS, Writer, double, rows, tokens


def rotate(x, angle):
    """Applies rotary embeddings to halves, as Hugging Face pairs them."""
    half = x.shape[-1] // 2
    rotated = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * angle.cos() + rotated * angle.sin()


def write_llama(opset, has_positions, rms="pow", vocab=20, width=16, heads=4, kv_heads=2, inner=24, layers=2, b=2, s=6):
    """Returns the case of a Llama.

    `has_positions`: positions are an input, otherwise a Range. `rms` is the form of RMSNorm: pow, div or operator."""
    f = Writer(opset)
    size = width // heads
    f.input("input_ids", ["batch_size", "sequence_length"], T.INT64)
    f.input("attention_mask", ["batch_size", "sequence_length"], T.INT64)
    fed = {"input_ids": tokens(b, s), "attention_mask": tokens(b, s, below=2, seed=1)}
    fed["attention_mask"][:, 0] = 1
    f.weight("embed", vocab, width), f.weight("head", width, vocab), f.weight("nf", width, offset=1)
    for i in range(layers):
        for n, a, o in (("q", width, width), ("k", width, kv_heads * size), ("v", width, kv_heads * size), ("o", width, width),
                        ("gate", width, inner), ("up", width, inner), ("down", inner, width)):
            f.weight(f"{i}.{n}", a, o)
        f.weight(f"{i}.n1", width, offset=1), f.weight(f"{i}.n2", width, offset=1)
    frequency = (10000.0 ** (-numpy.arange(0, size, 2) / size)).astype(numpy.float32)
    f.store(frequency, "inv_freq")
    if has_positions:
        f.input("position_ids", ["batch_size", "sequence_length"], T.INT64)
        fed["position_ids"] = numpy.tile(numpy.arange(s), (b, 1)) + 3
        places = "position_ids"
    else:
        places = f.op("Range", f.constant(numpy.int64(0)), get_size(f, "input_ids", 1), f.constant(numpy.int64(1)))
        places = unsqueeze(f, places, 0)
    shape = make_shape(f, get_size(f, places, 0), size // 2, 1) if has_positions else f.ints(1, size // 2, 1)
    wide = f.op("Expand", unsqueeze(f, "inv_freq", 0, 2), shape)
    angle = f.op("MatMul", f.op("Cast", wide, to=T.FLOAT), f.op("Cast", unsqueeze(f, places, 1), to=T.FLOAT))
    angle = f.op("Transpose", angle, perm=[0, 2, 1])
    angle = f.op("Concat", angle, angle, axis=-1)
    cos, sin = (unsqueeze(f, f.op("Mul", f.op(n, angle), f.constant(numpy.float32(1))), 1) for n in ("Cos", "Sin"))

    def write_rms_norm(x, g):
        if rms == "operator":
            return f.op("SimplifiedLayerNormalization", x, g, axis=-1, epsilon=EPS, stash_type=1)
        square = f.op("Pow", x, f.constant(numpy.float32(2)))
        mean = f.op("ReduceMean", square, axes=[-1]) if opset < 18 else f.op("ReduceMean", square, f.ints(-1))
        root = f.op("Sqrt", f.op("Add", mean, f.constant(numpy.float32(EPS))))
        x = f.op("Mul", x, f.op("Reciprocal", root)) if rms == "pow" else f.op("Mul", x, f.op("Div", f.constant(numpy.float32(1)), root))
        return f.op("Mul", g, x)

    def write_rotation(x):
        def part(from_, to):
            return f.op("Slice", x, f.ints(from_), f.ints(to), f.ints(3), f.ints(1))

        rotated = f.op("Concat", f.op("Neg", part(size // 2, 2 ** 63 - 1)), part(0, size // 2), axis=-1)
        return f.op("Add", f.op("Mul", x, cos), f.op("Mul", rotated, sin))

    def repeat_heads(x):
        batch, length = get_size(f, x, 0), get_size(f, x, 2)
        five = make_shape(f, batch, kv_heads, heads // kv_heads, length, size)
        ones = f.op("ConstantOfShape", f.op("Shape", five), value=helper.make_tensor("v", T.INT64, [1], [1]))
        minus = f.op("Mul", ones, f.constant(numpy.int64(-1)))
        five = f.op("Where", f.op("Equal", five, minus), ones, five)
        wide = f.op("Expand", unsqueeze(f, x, 2), five)
        return f.op("Reshape", wide, make_shape(f, batch, heads, length, size))

    # The conjunction of the causal mask and attention_mask.
    length = get_size(f, "input_ids", 1)
    least = f.constant(numpy.float32(-3.4028234663852886e38))
    square = make_shape(f, length, length)
    if has_positions:
        full = f.op("Expand", least, square)
    else:
        full = f.op("ConstantOfShape", square, value=helper.make_tensor("v", T.FLOAT, [1], [-3.4028234663852886e38]))
    upper = f.op("Trilu", full, f.constant(numpy.int64(1)), upper=1)
    steps = f.op("Range", f.constant(numpy.int64(0)), length, f.constant(numpy.int64(1)))
    later = f.op("Greater", steps, f.op("Reshape", steps, f.ints(-1, 1)))
    upper = f.op("Mul", upper, f.op("Cast", later, to=T.FLOAT))
    shape = f.op("Concat", unsqueeze(f, get_size(f, "input_ids", 0), 0), f.ints(1, 1, 1), axis=0)
    upper = f.op("Expand", unsqueeze(f, upper, 0, 1), shape)
    row = f.op("Cast", unsqueeze(f, "attention_mask", 1, 2), to=T.FLOAT)
    padding = f.op("Equal", f.op("Add", upper, row), f.constant(numpy.float32(0)), out="padding")
    hide = f.op("Where", padding, least, upper)

    x = f.op("Gather", "embed", "input_ids")
    for i in range(layers):
        p = f"{i}."
        h = write_rms_norm(x, p + "n1")
        q = write_rotation(split_heads(f, f.op("MatMul", h, p + "q"), heads, size))
        k = repeat_heads(write_rotation(split_heads(f, f.op("MatMul", h, p + "k"), kv_heads, size)))
        v = repeat_heads(split_heads(f, f.op("MatMul", h, p + "v"), kv_heads, size))
        root = f.op("Sqrt", f.op("Cast", get_size(f, q, 3), to=T.FLOAT))
        factor = f.op("Sqrt", f.op("Div", f.constant(numpy.float32(1)), root))
        scores = f.op("MatMul", f.op("Mul", q, factor), f.op("Mul", f.op("Transpose", k, perm=[0, 1, 3, 2]), factor))
        weights = f.op("Softmax", f.op("Add", scores, hide), axis=-1)
        weights = f.op("Where", f.op("IsNaN", weights), f.constant(numpy.float32(0)), weights)
        a = f.op("Transpose", f.op("MatMul", weights, v), perm=[0, 2, 1, 3])
        a = f.op("Reshape", a, make_shape(f, get_size(f, a, 0), get_size(f, a, 1), width))
        x = f.op("Add", x, f.op("MatMul", a, p + "o"))
        h = write_rms_norm(x, p + "n2")
        gate = f.op("MatMul", h, p + "gate")
        h = f.op("Mul", f.op("Mul", gate, f.op("Sigmoid", gate)), f.op("MatMul", h, p + "up"))
        x = f.op("Add", x, f.op("MatMul", h, p + "down"))
    f.op("MatMul", write_rms_norm(x, "nf"), "head", out="logits")

    later = numpy.triu(numpy.ones((s, s)), 1)[None, None]
    fed["padding"] = (later + fed["attention_mask"][:, None, None, :]) == 0
    w = f.w
    place = double(fed["position_ids"] if has_positions else numpy.arange(s)[None])
    angle = (place[:, :, None] * double(frequency)).repeat(1, 1, 2)[:, None]
    rms_norm = lambda t, g: t / torch.sqrt((t * t).mean(-1, keepdim=True) + EPS) * g
    split = lambda t: t.view(b, s, -1, size).transpose(1, 2)
    merge = lambda t: t.transpose(1, 2).reshape(b, s, -1)
    mask = make_causal_mask(s) + (1 - double(fed["attention_mask"]))[:, None, None] * -1e30
    y = rows(w["embed"], fed["input_ids"])
    for i in range(layers):
        p = f"{i}."
        h = rms_norm(y, w[p + "n1"])
        q, k = (merge(rotate(split(h @ w[p + n]), angle)) for n in "qk")
        y = y + attend(q, k, h @ w[p + "v"], heads, mask, kv_heads) @ w[p + "o"]
        h = rms_norm(y, w[p + "n2"])
        y = y + (F.silu(h @ w[p + "gate"]) * (h @ w[p + "up"])) @ w[p + "down"]
    y = rms_norm(y, w["nf"]) @ w["head"]
    return Case(f"llama_{opset}_{'fed' if has_positions else 'range'}_{rms}", f.model("logits"), fed, [y], f.parameters,
                {"sequence_length": s})
