"""Decoders with rotary places and shared heads, as PyTorch's exporter writes them."""

import numpy
import torch
import torch.nn.functional as F
from onnx import TensorProto as T
from onnx import helper

from styles.pytorch_parts import hf_heads, shape_of, size_of, unsqueeze
from styles.transformers import attend, causal
from styles.writing import Case, EPS, Writer, double, rows, tokens


def rotate(x, angle):
    """Rotary places: halves, as Hugging Face pairs them."""
    half = x.shape[-1] // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * angle.cos() + turned * angle.sin()


def llama(opset, fed_places, rms="pow", vocab=20, width=16, heads=4, kv_heads=2, inner=24, layers=2, b=2, s=6):
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
    if fed_places:
        f.input("position_ids", ["batch_size", "sequence_length"], T.INT64)
        fed["position_ids"] = numpy.tile(numpy.arange(s), (b, 1)) + 3
        places = "position_ids"
    else:
        places = unsqueeze(f, f.op("Range", f.constant(numpy.int64(0)), size_of(f, "input_ids", 1), f.constant(numpy.int64(1))), 0)
    wide = f.op("Expand", unsqueeze(f, "inv_freq", 0, 2), shape_of(f, size_of(f, places, 0), size // 2, 1) if fed_places else f.ints(1, size // 2, 1))
    angle = f.op("MatMul", f.op("Cast", wide, to=T.FLOAT), f.op("Cast", unsqueeze(f, places, 1), to=T.FLOAT))
    angle = f.op("Transpose", angle, perm=[0, 2, 1])
    angle = f.op("Concat", angle, angle, axis=-1)
    cos, sin = (unsqueeze(f, f.op("Mul", f.op(n, angle), f.constant(numpy.float32(1))), 1) for n in ("Cos", "Sin"))

    def rms_norm(x, g):
        if rms == "operator":
            return f.op("SimplifiedLayerNormalization", x, g, axis=-1, epsilon=EPS, stash_type=1)
        square = f.op("Pow", x, f.constant(numpy.float32(2)))
        mean = f.op("ReduceMean", square, axes=[-1]) if opset < 18 else f.op("ReduceMean", square, f.ints(-1))
        root = f.op("Sqrt", f.op("Add", mean, f.constant(numpy.float32(EPS))))
        x = f.op("Mul", x, f.op("Reciprocal", root)) if rms == "pow" else f.op("Mul", x, f.op("Div", f.constant(numpy.float32(1)), root))
        return f.op("Mul", g, x)

    def turn(x):
        def part(from_, to):
            return f.op("Slice", x, f.ints(from_), f.ints(to), f.ints(3), f.ints(1))

        turned = f.op("Concat", f.op("Neg", part(size // 2, 2 ** 63 - 1)), part(0, size // 2), axis=-1)
        return f.op("Add", f.op("Mul", x, cos), f.op("Mul", turned, sin))

    def again(x):
        batch, length = size_of(f, x, 0), size_of(f, x, 2)
        five = shape_of(f, batch, kv_heads, heads // kv_heads, length, size)
        ones = f.op("ConstantOfShape", f.op("Shape", five), value=helper.make_tensor("v", T.INT64, [1], [1]))
        minus = f.op("Mul", ones, f.constant(numpy.int64(-1)))
        five = f.op("Where", f.op("Equal", five, minus), ones, five)
        wide = f.op("Expand", unsqueeze(f, x, 2), five)
        return f.op("Reshape", wide, shape_of(f, batch, heads, length, size))

    # The mask: causal and attention_mask, as bools.
    length = size_of(f, "input_ids", 1)
    least = f.constant(numpy.float32(-3.4028234663852886e38))
    square = shape_of(f, length, length)
    full = f.op("Expand", least, square) if fed_places else f.op("ConstantOfShape", square, value=helper.make_tensor("v", T.FLOAT, [1], [-3.4028234663852886e38]))
    upper = f.op("Trilu", full, f.constant(numpy.int64(1)), upper=1)
    steps = f.op("Range", f.constant(numpy.int64(0)), length, f.constant(numpy.int64(1)))
    later = f.op("Greater", steps, f.op("Reshape", steps, f.ints(-1, 1)))
    upper = f.op("Mul", upper, f.op("Cast", later, to=T.FLOAT))
    upper = f.op("Expand", unsqueeze(f, upper, 0, 1), f.op("Concat", unsqueeze(f, size_of(f, "input_ids", 0), 0), f.ints(1, 1, 1), axis=0))
    row = f.op("Cast", unsqueeze(f, "attention_mask", 1, 2), to=T.FLOAT)
    padding = f.op("Equal", f.op("Add", upper, row), f.constant(numpy.float32(0)), out="padding")
    hide = f.op("Where", padding, least, upper)

    x = f.op("Gather", "embed", "input_ids")
    for i in range(layers):
        p = f"{i}."
        h = rms_norm(x, p + "n1")
        q = turn(hf_heads(f, f.op("MatMul", h, p + "q"), heads, size))
        k = again(turn(hf_heads(f, f.op("MatMul", h, p + "k"), kv_heads, size)))
        v = again(hf_heads(f, f.op("MatMul", h, p + "v"), kv_heads, size))
        factor = f.op("Sqrt", f.op("Div", f.constant(numpy.float32(1)), f.op("Sqrt", f.op("Cast", size_of(f, q, 3), to=T.FLOAT))))
        scores = f.op("MatMul", f.op("Mul", q, factor), f.op("Mul", f.op("Transpose", k, perm=[0, 1, 3, 2]), factor))
        shown = f.op("Softmax", f.op("Add", scores, hide), axis=-1)
        shown = f.op("Where", f.op("IsNaN", shown), f.constant(numpy.float32(0)), shown)
        a = f.op("Transpose", f.op("MatMul", shown, v), perm=[0, 2, 1, 3])
        a = f.op("Reshape", a, shape_of(f, size_of(f, a, 0), size_of(f, a, 1), width))
        x = f.op("Add", x, f.op("MatMul", a, p + "o"))
        h = rms_norm(x, p + "n2")
        gate = f.op("MatMul", h, p + "gate")
        h = f.op("Mul", f.op("Mul", gate, f.op("Sigmoid", gate)), f.op("MatMul", h, p + "up"))
        x = f.op("Add", x, f.op("MatMul", h, p + "down"))
    f.op("MatMul", rms_norm(x, "nf"), "head", out="logits")

    later = numpy.triu(numpy.ones((s, s)), 1)[None, None]
    fed["padding"] = (later + fed["attention_mask"][:, None, None, :]) == 0
    w = f.w
    place = double(fed["position_ids"] if fed_places else numpy.arange(s)[None])
    angle = (place[:, :, None] * double(frequency)).repeat(1, 1, 2)[:, None]
    rms_of = lambda t, g: t / torch.sqrt((t * t).mean(-1, keepdim=True) + EPS) * g
    split = lambda t: t.view(b, s, -1, size).transpose(1, 2)
    merge = lambda t: t.transpose(1, 2).reshape(b, s, -1)
    mask = causal(s) + (1 - double(fed["attention_mask"]))[:, None, None] * -1e30
    y = rows(w["embed"], fed["input_ids"])
    for i in range(layers):
        p = f"{i}."
        h = rms_of(y, w[p + "n1"])
        q, k = (merge(rotate(split(h @ w[p + n]), angle)) for n in "qk")
        y = y + attend(q, k, h @ w[p + "v"], heads, mask, kv_heads) @ w[p + "o"]
        h = rms_of(y, w[p + "n2"])
        y = y + (F.silu(h @ w[p + "gate"]) * (h @ w[p + "up"])) @ w[p + "down"]
    y = rms_of(y, w["nf"]) @ w["head"]
    return Case(f"llama_{opset}_{'fed' if fed_places else 'range'}_{rms}", f.model("logits"), fed, [y], f.parameters,
                {"sequence_length": s})
