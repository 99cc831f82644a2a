"""Hugging Face's encoders and decoders, as PyTorch's exporter writes them."""

import math

import numpy
import torch
import torch.nn.functional as F
from onnx import TensorProto as T
from onnx import helper

from styles.pytorch_parts import get_size, make_shape, pt_gelu, pt_norm, split_heads, unsqueeze, write_mask
from styles.transformers import add_layer_weights, attend, gelu_erf, gelu_tanh, make_mask, norm, run_encoder_layer
from styles.writing import Case, Writer, double, images, rows, tokens


def write_encoder_layer(f, x, p, heads, size, mask, fill=False):
    """Writes an encoder layer with weights `p`...; `fill` masks scores with Where, as DistilBERT does."""
    def dense(t, n):
        return f.op("Add", p + n + ".b", f.op("MatMul", t, p + n + ".w"))

    q, k, v = (split_heads(f, dense(x, n), heads, size) for n in "qkv")
    if fill:  # DistilBERT masks scores where the mask is 0
        q = f.op("Div", q, f.constant(numpy.float32(math.sqrt(size))))
        scores = f.op("MatMul", q, f.op("Transpose", k, perm=[0, 1, 3, 2]))
        absent = f.op("Equal", mask, f.constant(numpy.int64(0)), out=p + "absent")
        row = f.op("Reshape", absent, make_shape(f, get_size(f, mask, 0), 1, 1, get_size(f, mask, 1)))
        row = f.op("Expand", row, f.op("Shape", scores))
        scores = f.op("Where", f.op("Cast", row, to=T.BOOL), f.constant(numpy.float32(-10000)), scores)
    else:
        scores = f.op("MatMul", q, f.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = f.op("Div", scores, f.constant(numpy.float32(math.sqrt(size))))
        scores = f.op("Add", scores, mask) if mask else scores
    a = f.op("Transpose", f.op("MatMul", f.op("Softmax", scores, axis=-1 if f.opset >= 13 else 3), v), perm=[0, 2, 1, 3])
    a = f.op("Reshape", a, make_shape(f, get_size(f, a, 0), get_size(f, a, 1), heads * size))
    x = pt_norm(f, f.op("Add", dense(a, "o"), x), p + "n1.g", p + "n1.b")
    return pt_norm(f, f.op("Add", dense(pt_gelu(f, dense(x, "up")), "down"), x), p + "n2.g", p + "n2.b")


def write_hf_bert(kind, opset, vocab=20, width=8, heads=2, inner=16, layers=2, context=16, b=2, s=6):
    """Returns the case of an encoder; `kind` is bert, roberta or distilbert."""
    f = Writer(opset)
    f.input("input_ids", ["batch", "sequence"], T.INT64)
    f.input("attention_mask", ["batch", "sequence"], T.INT64)
    f.weight("word", vocab, width), f.weight("place", context, width)
    f.weight("n0.g", width, offset=1), f.weight("n0.b", width)
    for i in range(layers):
        add_layer_weights(f, f"{i}.", width, inner)
    x = f.op("Gather", "word", "input_ids")
    fed = {"input_ids": tokens(b, s), "attention_mask": tokens(b, s, below=2, seed=1)}
    fed["attention_mask"][:, 0] = 1
    w, tok = f.w, fed["input_ids"]
    if kind == "bert":
        f.input("token_type_ids", ["batch", "sequence"], T.INT64)
        f.weight("kind", 2, width)
        fed["token_type_ids"] = tokens(b, s, below=2, seed=2)
        x = f.op("Add", x, f.op("Gather", "kind", "token_type_ids"))
        places = f.store(numpy.arange(context)[None], "embeddings.position_ids")
        places = f.op("Slice", places, f.ints(0), unsqueeze(f, get_size(f, "input_ids", 1), 0), f.ints(1))
        y = rows(w["word"], tok) + rows(w["kind"], fed["token_type_ids"]) + w["place"][:s]
    elif kind == "distilbert":
        places = f.op("Range", f.constant(numpy.int64(0)), get_size(f, "input_ids", 1), f.constant(numpy.int64(1)))
        places = f.op("Expand", unsqueeze(f, places, 0), f.op("Shape", "input_ids"))
        y = rows(w["word"], tok) + w["place"][:s]
        fed["0.absent"] = fed["attention_mask"] == 0  # all layers share it
    else:  # positions start after the padding
        pad = f.constant(numpy.int64(1))
        real = f.op("Cast", f.op("Cast", f.op("Not", f.op("Equal", "input_ids", pad)), to=T.INT32), to=T.INT64)
        run = f.op("CumSum", real, f.constant(numpy.int64(1)))
        run = f.op("Mul", f.op("Cast", f.op("Add", f.op("Cast", run, to=T.INT32), f.constant(numpy.int32(0))), to=T.INT32), f.op("Cast", real, to=T.INT32))
        places = f.op("Add", f.op("Cast", run, to=T.INT64), pad, out="positions")
        is_real = (tok != 1).astype(int)
        fed["positions"] = numpy.cumsum(is_real, 1) * is_real + 1
        fed["inverted"] = numpy.tile(1 - fed["attention_mask"][:, None, None, :], (1, 1, s, 1))
        y = rows(w["word"], tok) + rows(w["place"], fed["positions"])
    x = pt_norm(f, f.op("Add", x, f.op("Gather", "place", places)), "n0.g", "n0.b")
    how = "bool" if kind == "roberta" else "mul"
    mask = "attention_mask" if kind == "distilbert" else write_mask(f, "attention_mask", how)
    for i in range(layers):
        x = write_encoder_layer(f, x, f"{i}.", heads, width // heads, mask, fill=kind == "distilbert")
    y = norm(y, w["n0.g"], w["n0.b"])
    for i in range(layers):
        y = run_encoder_layer(y, w, f"{i}.", heads, make_mask(fed["attention_mask"]), gelu_erf)
    if kind == "bert":
        f.weight("pool.w", width, width), f.weight("pool.b", width)
        first = f.op("Gather", x, f.constant(numpy.int64(0)), axis=1)
        f.op("Tanh", f.op("Gemm", first, "pool.w", "pool.b", transB=1), out="pooled")
        outputs, expected = ["last", "pooled"], [y, torch.tanh(F.linear(y[:, 0], w["pool.w"], w["pool.b"]))]
    else:
        outputs, expected = ["last"], [y]
    f.op("Identity", x, out="last")
    return Case(f"hf_{kind}_{opset}", f.model(*outputs), fed, expected, f.parameters, {"sequence": s})


def write_gpt2(how, opset, past, vocab=20, width=8, heads=2, layers=2, context=16, b=2, s=6):
    """Returns the case of a GPT-2. `how` is the type of the causal bias: 'bool' and 'uint8' mask scores with Where,
    'mul' computes scores * bias - 1e4 * (1 - bias) with a float bias. `past` is the length of the cache, or None."""
    f = Writer(opset)
    size = width // heads
    f.input("input_ids", ["batch", "sequence"], T.INT64)
    f.weight("wte", vocab, width), f.weight("wpe", context, width)
    expected, fed, w = [], {"input_ids": tokens(b, s)}, f.w
    present = []
    if past is not None:
        f.input("attention_mask", ["batch", "past_sequence + sequence"], T.INT64)
        fed["attention_mask"] = tokens(b, past + s, below=2, seed=1)
        fed["attention_mask"][:, 0] = 1
    for i in range(layers):
        p = f"{i}."
        for n, o in (("n1", None), ("n2", None)):
            f.weight(p + n + ".g", width, offset=1), f.weight(p + n + ".b", width)
        for n, a, o in (("qkv", width, 3 * width), ("o", width, width), ("up", width, 4 * width), ("down", 4 * width, width)):
            f.weight(p + n + ".w", a, o), f.weight(p + n + ".b", o)
        if past is not None:
            for n in ("key", "value"):
                f.input(f"past.{i}.{n}", ["batch", heads, "past_sequence", size])
                if past:
                    fed[f"past.{i}.{n}"] = images(b, heads, past, size, seed=i + len(n))
    f.weight("nf.g", width, offset=1), f.weight("nf.b", width)
    ids = f.op("Reshape", "input_ids", make_shape(f, -1, get_size(f, "input_ids", 1)))
    begin = get_size(f, "past.0.key", 2) if past is not None else f.constant(numpy.int64(0))
    end = f.op("Add", begin, get_size(f, "input_ids", 1))
    if opset < 11:  # without Range: the indices of ones
        ones = f.op("ConstantOfShape", make_shape(f, f.op("Sub", end, begin)),
                    value=helper.make_tensor("v", T.INT64, [1], [1]))
        places = f.op("Squeeze", f.op("Transpose", f.op("NonZero", ones), perm=[1, 0]), axes=[1])
        places = f.op("Add", f.op("Mul", places, f.constant(numpy.int64(1))), begin)
        places = unsqueeze(f, f.op("Cast", places, to=T.INT64), 0)
    else:
        places = unsqueeze(f, f.op("Range", begin, end, f.constant(numpy.int64(1))), 0)
    places = f.op("Reshape", places, make_shape(f, -1, get_size(f, "input_ids", 1)))
    x = f.op("Add", f.op("Gather", "wte", ids), f.op("Gather", "wpe", places))
    mask = write_mask(f, "attention_mask", "mul") if past is not None else None

    def conv1d(t, n):
        out = f.op("Gemm", f.op("Reshape", t, make_shape(f, -1, get_size(f, t, 2))), n + ".w", n + ".b")
        return f.op("Reshape", out, make_shape(f, get_size(f, t, 0), get_size(f, t, 1), int(f.w[n + ".b"].numel())))

    n0 = past or 0
    y = rows(w["wte"], fed["input_ids"]) + w["wpe"][n0:n0 + s]
    tril = numpy.tril(numpy.ones((context, context)))[None, None]
    for i in range(layers):
        p = f"{i}."
        parts = dict(axis=2, n=3) | ({"split": [width] * 3} if opset < 13 else {})
        more = () if opset < 13 else (f.ints(*[width] * 3),)
        qkv = conv1d(pt_norm(f, x, p + "n1.g", p + "n1.b"), p + "qkv")
        q, k, v = (split_heads(f, t, heads, size) for t in f.op("Split", qkv, *more, **parts))
        if past is not None:
            k = f.op("Concat", f"past.{i}.key", k, axis=-2, out=f"present.{i}.key")
            v = f.op("Concat", f"past.{i}.value", v, axis=-2, out=f"present.{i}.value")
            present += [k, v]
        scores = f.op("MatMul", q, f.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = f.op("Div", scores, f.constant(numpy.float32(math.sqrt(size))))
        total = get_size(f, scores, 3)
        first = f.op("Sub", total, get_size(f, scores, 2))
        bias = f.store(tril.astype({"bool": bool, "uint8": numpy.uint8}.get(how, numpy.float32)), f"{i}.attn.bias")
        bias = f.op("Slice", bias, unsqueeze(f, first, 0), unsqueeze(f, total, 0), f.ints(2), f.ints(1))
        bias = f.op("Slice", bias, f.ints(0), unsqueeze(f, total, 0), f.ints(3), f.ints(1))
        if how == "mul":
            off = f.op("Mul", f.op("Sub", f.constant(numpy.float32(1)), bias), f.constant(numpy.float32(1e4)))
            scores = f.op("Sub", f.op("Mul", scores, bias), off)
        else:
            bias = f.op("Cast", bias, to=T.BOOL)
            scores = f.op("Where", bias, scores, f.constant(numpy.float32(-3.4028234663852886e38)))
        if mask:
            scores = f.op("Add", scores, mask)
        a = f.op("MatMul", f.op("Softmax", scores, axis=-1 if opset >= 13 else 3), v)
        a = f.op("Transpose", a, perm=[0, 2, 1, 3])
        a = f.op("Reshape", a, make_shape(f, get_size(f, a, 0), get_size(f, a, 1), width))
        x = f.op("Add", x, conv1d(a, p + "o"))
        up = conv1d(pt_norm(f, x, p + "n2.g", p + "n2.b"), p + "up")
        inner = f.op("Add", up, f.op("Mul", f.op("Pow", up, f.constant(numpy.float32(3))), f.constant(numpy.float32(0.044715))))
        tanh = f.op("Tanh", f.op("Mul", inner, f.constant(numpy.float32(math.sqrt(2 / math.pi)))))
        up = f.op("Mul", f.op("Mul", up, f.constant(numpy.float32(0.5))), f.op("Add", tanh, f.constant(numpy.float32(1))))
        x = f.op("Add", x, conv1d(up, p + "down"))

        q, k, v = (norm(y, w[p + "n1.g"], w[p + "n1.b"]) @ w[p + "qkv.w"] + w[p + "qkv.b"]).split(width, 2)
        if past is not None:
            extended = []
            for n, t in (("key", k), ("value", v)):
                t = t.view(b, s, heads, size).transpose(1, 2)
                t = torch.cat([double(fed[f"past.{i}.{n}"]), t], 2) if past else t
                expected.append(t)
                extended.append(t.transpose(1, 2).reshape(b, n0 + s, width))
            k, v = extended
        hide = torch.full((s, n0 + s), -1e30, dtype=torch.float64).triu(1 + n0)
        hide = hide + make_mask(fed["attention_mask"]) if past is not None else hide
        y = y + attend(q, k, v, heads, hide) @ w[p + "o.w"] + w[p + "o.b"]
        h = norm(y, w[p + "n2.g"], w[p + "n2.b"])
        y = y + gelu_tanh(h @ w[p + "up.w"] + w[p + "up.b"]) @ w[p + "down.w"] + w[p + "down.b"]
    x = pt_norm(f, x, "nf.g", "nf.b")
    f.op("MatMul", x, f.op("Transpose", "wte", perm=[1, 0]), out="logits")
    y = norm(y, w["nf.g"], w["nf.b"]) @ w["wte"].T
    if past == 0:
        fed = {k: v for k, v in fed.items() if not k.startswith("past")}
    name = f"gpt2_{how}_{opset}" + ("" if past is None else f"_past{past}")
    return Case(name, f.model("logits", *present), fed, [y] + expected, f.parameters,
                {"sequence": s} | ({} if past is None else {"past_sequence": past}))
