"""ONNX files as other exporters write them: tf2onnx, Hugging Face, Caffe2, MXNet, CNTK, Keras and
PyTorch's dynamo. Each has small random weights, and what it must give is computed with PyTorch.

A style is a function that yields `Case`s. Networks are small: what differs is how they are written.
"""

import dataclasses
import io
import math

import numpy
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import networks

EPS = 2.0 ** -16  # a number that fp32 holds


@dataclasses.dataclass
class Case:
    name: str
    model: object  # ModelProto
    inputs: dict
    outputs: list
    parameters: int
    dims: dict = dataclasses.field(default_factory=dict)
    external: bool = False  # weights in another file
    limit: float = 1e-9


class Writer:
    """A graph that is written node by node."""

    def __init__(self, opset, listed=False, seed=0):
        self.opset, self.listed = opset, listed  # listed: initializers are inputs, too
        self.random = numpy.random.RandomState(seed)
        self.nodes, self.inputs, self.initializers, self.outputs = [], [], [], []
        self.functions, self.imports, self.w, self.count = [], {}, {}, 0

    def name(self, stem):
        self.count += 1
        return f"{stem}_{self.count}"

    def input(self, name, shape, type=T.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, type, shape))
        return name

    def store(self, value, name=None):
        """An initializer."""
        name = name or self.name("const")
        value = numpy.asarray(value)
        value = value.astype(numpy.float32) if value.dtype == numpy.float64 else value
        self.initializers.append(numpy_helper.from_array(value, name))
        return name

    def constant(self, value, name=None):
        """A node Constant."""
        name = name or self.name("Constant")
        value = numpy.asarray(value)
        value = value.astype(numpy.float32) if value.dtype == numpy.float64 else value
        self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(value, name)))
        return name

    def weight(self, name, *shape, scale=0.5, offset=0.0):
        value = numpy.round((self.random.uniform(-scale, scale, shape) + offset) * 512) / 512  # fp16 holds these
        value = value.astype(numpy.float32)
        self.w[name] = torch.tensor(value, dtype=torch.float64)
        return self.store(value, name)

    def ints(self, *values):
        return self.store(numpy.array(values, numpy.int64))

    def scalar(self, value):
        return self.store(numpy.float32(value))

    def op(self, kind, *inputs, n=1, out=None, label=None, **attributes):
        outputs = [out] if isinstance(out, str) else out or [self.name(kind) for _ in range(n)]
        node = helper.make_node(kind, list(inputs), outputs, name=label or self.name("node"), **attributes)
        self.nodes.append(node)
        return outputs[0] if len(outputs) == 1 else outputs

    def output(self, name, type=T.FLOAT):
        self.outputs.append(helper.make_tensor_value_info(name, type, None))

    @property
    def parameters(self):
        return sum(w.numel() for w in self.w.values())

    def model(self, *outputs):
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


def rows(table, which):
    return table[torch.tensor(which)]


# --- What transformers compute, in PyTorch ----------------------------------------------------------


def attend(q, k, v, heads, mask=None, kv_heads=None):
    """Over [b, s, width], with what `mask` adds to the scores."""
    b, s, w = q.shape
    size = w // heads
    q, k, v = (t.view(b, -1, t.shape[-1] // size, size).transpose(1, 2) for t in (q, k, v))
    if kv_heads:
        k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
    scores = q @ k.transpose(-2, -1) / math.sqrt(size)
    scores = scores if mask is None else scores + mask
    return (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, w)


def hidden(mask):
    """What hides the words that a mask of 0 and 1 leaves out."""
    return (1 - double(mask))[:, None, None, :] * -10000.0


def causal(s):
    return torch.full((s, s), -1e30, dtype=torch.float64).triu(1)


def norm(x, scale, bias):
    return F.layer_norm(x, x.shape[-1:], scale, bias, EPS)


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(float(numpy.float32(math.sqrt(2 / math.pi))) * (x + float(numpy.float32(0.044715)) * x ** 3)))


def gelu_erf(x):
    return x * 0.5 * (1 + torch.erf(x / float(numpy.float32(math.sqrt(2)))))


def encoder_layer(x, w, p, heads, mask, act):
    """BERT's: norms after the sums. Weights are [in, out]."""
    lin = lambda t, n: t @ w[p + n + ".w"] + w[p + n + ".b"]
    a = attend(lin(x, "q"), lin(x, "k"), lin(x, "v"), heads, mask)
    x = norm(x + lin(a, "o"), w[p + "n1.g"], w[p + "n1.b"])
    return norm(x + lin(act(lin(x, "up")), "down"), w[p + "n2.g"], w[p + "n2.b"])


def layer_weights(f, p, width, inner):
    for n, i, o in (("q", width, width), ("k", width, width), ("v", width, width), ("o", width, width),
                    ("up", width, inner), ("down", inner, width)):
        f.weight(p + n + ".w", i, o)
        f.weight(p + n + ".b", o)
    for n in ("n1", "n2"):
        f.weight(p + n + ".g", width, offset=1)
        f.weight(p + n + ".b", width)


# --- tf2onnx: BERT ----------------------------------------------------------------------------------


def tf_norm(f, x, g, b):
    """tf.nn.batch_normalization: x * (g / sqrt(v + e)) + (b - mean * that)."""
    mean = f.op("ReduceMean", x, axes=[-1], keepdims=1)
    square = f.op("Mul", f.op("Sub", x, mean), f.op("Sub", x, mean))
    variance = f.op("ReduceMean", square, axes=[-1], keepdims=1)
    r = f.op("Reciprocal", f.op("Sqrt", f.op("Add", variance, f.scalar(EPS))))
    factor = f.op("Mul", r, g)
    return f.op("Add", f.op("Mul", x, factor), f.op("Sub", b, f.op("Mul", mean, factor)))


def tf_sizes(f, x, *which):
    """Sizes of x as TensorFlow asks for them: one by one, as int32."""
    out = []
    shape = f.op("Cast", f.op("Shape", x), to=T.INT32)
    for d in which:
        if f.opset < 10:
            part = f.op("Slice", shape, starts=[d], ends=[d + 1], axes=[0])
        else:
            part = f.op("Slice", shape, f.ints(d), f.ints(d + 1), f.ints(0))
        out.append(f.op("Squeeze", part, axes=[0]))
    return out


def tf_shape(f, *sizes):
    parts = [f.op("Unsqueeze", s, axes=[0]) for s in sizes]
    return f.op("Cast", f.op("Concat", *parts, axis=0), to=T.INT64)


def tf_bert(opset, vocab=20, width=8, heads=2, inner=16, layers=2, context=12, b=2, s=6):
    f = Writer(opset)
    f.input("unique_ids_raw_output___9:0", ["unk__492"], T.INT64)
    ids, mask, kinds = (f.input(n + ":0", [f"unk__{i}", s], T.INT64)
                        for i, n in enumerate(("input_ids", "input_mask", "segment_ids")))
    for n, size in (("word", vocab), ("kind", 2), ("place", context)):
        f.weight(n, size, width)
    f.weight("n0.g", width, offset=1), f.weight("n0.b", width)
    size = width // heads
    for i in range(layers):
        layer_weights(f, f"{i}.", width, inner)
    f.weight("squad.w", 2, width), f.weight("squad.b", 2)

    i32 = lambda v: f.store(numpy.int32(v))
    batch, length = tf_sizes(f, ids, 0, 1)
    flat = f.op("Reshape", f.op("Unsqueeze", ids, axes=[2]), f.ints(-1))
    words = f.op("Reshape", f.op("Gather", "word", flat), tf_shape(f, batch, length, i32(width)))
    hot = f.op("OneHot", f.op("Reshape", kinds, f.ints(-1)), f.ints(2), f.store(numpy.array([0, 1], numpy.float32)), axis=-1)
    kind = f.op("Reshape", f.op("MatMul", hot, "kind"), tf_shape(f, batch, length, i32(width)))
    if opset < 10:
        place = f.op("Slice", "place", starts=[0, 0], ends=[s, 2 ** 31 - 1], axes=[0, 1])
    else:
        place = f.op("Slice", "place", f.ints(0, 0), f.ints(s, 2 ** 63 - 1), f.ints(0, 1))
    place = f.op("Reshape", place, f.ints(1, s, width))
    x = tf_norm(f, f.op("Add", f.op("Add", words, kind), place), "n0.g", "n0.b")

    ones = f.op("ConstantOfShape", tf_shape(f, batch, length, i32(1)),
                value=helper.make_tensor("v", T.FLOAT, [1], [1.0]))
    row = f.op("Cast", f.op("Reshape", mask, tf_shape(f, batch, i32(1), length)), to=T.FLOAT)
    adder = f.op("Mul", f.op("Sub", f.scalar(1), f.op("Unsqueeze", f.op("Mul", ones, row), axes=[1])), f.scalar(-10000))
    x = f.op("Reshape", x, f.ints(-1, width))

    def dense(t, n):
        return f.op("Add", f.op("MatMul", t, n + ".w"), n + ".b")

    for i in range(layers):
        p = f"{i}."
        q, k, v = (f.op("Transpose", f.op("Reshape", dense(x, p + n), tf_shape(f, batch, length, i32(heads), i32(size))),
                        perm=[0, 2, 1, 3]) for n in "qkv")
        scores = f.op("Mul", f.op("MatMul", q, f.op("Transpose", k, perm=[0, 1, 3, 2])), f.scalar(size ** -0.5))
        a = f.op("MatMul", f.op("Softmax", f.op("Add", scores, adder), axis=3), v)
        a = f.op("Reshape", f.op("Transpose", a, perm=[0, 2, 1, 3]), tf_shape(f, f.op("Mul", batch, length), i32(width)))
        x = tf_norm(f, f.op("Add", dense(a, p + "o"), x), p + "n1.g", p + "n1.b")
        up = dense(x, p + "up")
        cube = f.op("Mul", f.op("Pow", up, f.scalar(3)), f.scalar(0.044715))
        tanh = f.op("Tanh", f.op("Mul", f.op("Add", up, cube), f.scalar(math.sqrt(2 / math.pi))))
        gelu = f.op("Mul", up, f.op("Mul", f.op("Add", tanh, f.scalar(1)), f.scalar(0.5)))
        x = tf_norm(f, f.op("Add", dense(gelu, p + "down"), x), p + "n2.g", p + "n2.b")
    logits = f.op("Add", f.op("MatMul", x, f.op("Transpose", "squad.w", perm=[1, 0])), "squad.b")
    logits = f.op("Transpose", f.op("Reshape", logits, tf_shape(f, batch, length, i32(2))), perm=[2, 0, 1])
    start, end = f.op("Split", logits, n=2, axis=0, split=[1, 1])
    f.op("Squeeze", start, axes=[0], out="unstack:0")
    f.op("Squeeze", end, axes=[0], out="unstack:1")
    f.op("Identity", "unique_ids_raw_output___9:0", out="unique_ids:0")

    w = f.w
    tok, shown, kin = tokens(b, s), tokens(b, s, below=2, seed=1), tokens(b, s, below=2, seed=2)
    shown[:, 0] = 1
    y = norm(rows(w["word"], tok) + rows(w["kind"], kin) + w["place"][:s], w["n0.g"], w["n0.b"])
    for i in range(layers):
        y = encoder_layer(y, w, f"{i}.", heads, hidden(shown), gelu_tanh)
    y = y @ w["squad.w"].T + w["squad.b"]
    return Case(f"tf2onnx_bert_{opset}", f.model("unstack:0", "unstack:1", "unique_ids:0"),
                {"input_ids:0": tok, "input_mask:0": shown, "segment_ids:0": kin}, [y[..., 0], y[..., 1]], f.parameters)


# --- Hugging Face -----------------------------------------------------------------------------------


def pt_norm(f, x, g, b):
    """LayerNorm as PyTorch exports it up to opset 16, or as the operator."""
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


def size_of(f, x, d):
    return f.op("Gather", f.op("Shape", x), f.constant(numpy.int64(d)), axis=0)


def shape_of(f, *sizes):
    parts = [unsqueeze(f, f.constant(numpy.int64(s)) if isinstance(s, int) else s, 0) for s in sizes]
    return f.op("Concat", *parts, axis=0)


def hf_heads(f, x, heads, size):
    shape = shape_of(f, size_of(f, x, 0), size_of(f, x, 1), heads, size)
    return f.op("Transpose", f.op("Reshape", x, shape), perm=[0, 2, 1, 3])


def hf_mask(f, mask, how):
    """What is added to the scores, from attention_mask."""
    m = unsqueeze(f, unsqueeze(f, mask, 1), 2)
    if how == "bool":  # masked_fill(inverted.to(bool), min) over an expanded mask
        m = f.op("Expand", m, shape_of(f, size_of(f, mask, 0), 1, size_of(f, mask, 1), size_of(f, mask, 1)))
        inverted = f.op("Sub", f.constant(numpy.float32(1)), f.op("Cast", m, to=T.FLOAT))
        return f.op("Where", f.op("Cast", inverted, to=T.BOOL, out="inverted"), f.constant(numpy.float32(-10000)), inverted)
    inverted = f.op("Sub", f.constant(numpy.float32(1)), f.op("Cast", m, to=T.FLOAT))
    return f.op("Mul", inverted, f.constant(numpy.float32(-10000)))


def hf_encoder_layer(f, x, p, heads, size, mask, fill=False):
    def dense(t, n):
        return f.op("Add", p + n + ".b", f.op("MatMul", t, p + n + ".w"))

    q, k, v = (hf_heads(f, dense(x, n), heads, size) for n in "qkv")
    if fill:  # DistilBERT: scores hidden where the mask is 0
        q = f.op("Div", q, f.constant(numpy.float32(math.sqrt(size))))
        scores = f.op("MatMul", q, f.op("Transpose", k, perm=[0, 1, 3, 2]))
        absent = f.op("Equal", mask, f.constant(numpy.int64(0)), out=p + "absent")
        row = f.op("Reshape", absent, shape_of(f, size_of(f, mask, 0), 1, 1, size_of(f, mask, 1)))
        row = f.op("Expand", row, f.op("Shape", scores))
        scores = f.op("Where", f.op("Cast", row, to=T.BOOL), f.constant(numpy.float32(-10000)), scores)
    else:
        scores = f.op("MatMul", q, f.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = f.op("Div", scores, f.constant(numpy.float32(math.sqrt(size))))
        scores = f.op("Add", scores, mask) if mask else scores
    a = f.op("Transpose", f.op("MatMul", f.op("Softmax", scores, axis=-1 if f.opset >= 13 else 3), v), perm=[0, 2, 1, 3])
    a = f.op("Reshape", a, shape_of(f, size_of(f, a, 0), size_of(f, a, 1), heads * size))
    x = pt_norm(f, f.op("Add", dense(a, "o"), x), p + "n1.g", p + "n1.b")
    return pt_norm(f, f.op("Add", dense(pt_gelu(f, dense(x, "up")), "down"), x), p + "n2.g", p + "n2.b")


def hf_bert(kind, opset, vocab=20, width=8, heads=2, inner=16, layers=2, context=16, b=2, s=6):
    """bert, roberta or distilbert."""
    f = Writer(opset)
    f.input("input_ids", ["batch", "sequence"], T.INT64)
    f.input("attention_mask", ["batch", "sequence"], T.INT64)
    f.weight("word", vocab, width), f.weight("place", context, width)
    f.weight("n0.g", width, offset=1), f.weight("n0.b", width)
    for i in range(layers):
        layer_weights(f, f"{i}.", width, inner)
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
        places = f.op("Slice", places, f.ints(0), unsqueeze(f, size_of(f, "input_ids", 1), 0), f.ints(1))
        y = rows(w["word"], tok) + rows(w["kind"], fed["token_type_ids"]) + w["place"][:s]
    elif kind == "distilbert":
        places = f.op("Range", f.constant(numpy.int64(0)), size_of(f, "input_ids", 1), f.constant(numpy.int64(1)))
        places = f.op("Expand", unsqueeze(f, places, 0), f.op("Shape", "input_ids"))
        y = rows(w["word"], tok) + w["place"][:s]
        fed["0.absent"] = fed["attention_mask"] == 0  # of all layers
    else:  # positions are counted from the padding on
        pad = f.constant(numpy.int64(1))
        real = f.op("Cast", f.op("Cast", f.op("Not", f.op("Equal", "input_ids", pad)), to=T.INT32), to=T.INT64)
        run = f.op("CumSum", real, f.constant(numpy.int64(1)))
        run = f.op("Mul", f.op("Cast", f.op("Add", f.op("Cast", run, to=T.INT32), f.constant(numpy.int32(0))), to=T.INT32), f.op("Cast", real, to=T.INT32))
        places = f.op("Add", f.op("Cast", run, to=T.INT64), pad, out="positions")
        kept = (tok != 1).astype(int)
        fed["positions"] = numpy.cumsum(kept, 1) * kept + 1
        fed["inverted"] = numpy.tile(1 - fed["attention_mask"][:, None, None, :], (1, 1, s, 1))
        y = rows(w["word"], tok) + rows(w["place"], fed["positions"])
    x = pt_norm(f, f.op("Add", x, f.op("Gather", "place", places)), "n0.g", "n0.b")
    mask = "attention_mask" if kind == "distilbert" else hf_mask(f, "attention_mask", "bool" if kind == "roberta" else "mul")
    for i in range(layers):
        x = hf_encoder_layer(f, x, f"{i}.", heads, width // heads, mask, fill=kind == "distilbert")
    y = norm(y, w["n0.g"], w["n0.b"])
    for i in range(layers):
        y = encoder_layer(y, w, f"{i}.", heads, hidden(fed["attention_mask"]), gelu_erf)
    if kind == "bert":
        f.weight("pool.w", width, width), f.weight("pool.b", width)
        first = f.op("Gather", x, f.constant(numpy.int64(0)), axis=1)
        f.op("Tanh", f.op("Gemm", first, "pool.w", "pool.b", transB=1), out="pooled")
        outputs, expected = ["last", "pooled"], [y, torch.tanh(F.linear(y[:, 0], w["pool.w"], w["pool.b"]))]
    else:
        outputs, expected = ["last"], [y]
    f.op("Identity", x, out="last")
    return Case(f"hf_{kind}_{opset}", f.model(*outputs), fed, expected, f.parameters, {"sequence": s})


def gpt2(how, opset, past, vocab=20, width=8, heads=2, layers=2, context=16, b=2, s=6):
    """how: 'where' (bias is bool or uint8), 'product' (w * b - 1e4 * (1 - b) of a float bias)."""
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
    ids = f.op("Reshape", "input_ids", shape_of(f, -1, size_of(f, "input_ids", 1)))
    begin = size_of(f, "past.0.key", 2) if past is not None else f.constant(numpy.int64(0))
    end = f.op("Add", begin, size_of(f, "input_ids", 1))
    if opset < 11:  # before there was Range: the places of ones
        ones = f.op("ConstantOfShape", shape_of(f, f.op("Sub", end, begin)), value=helper.make_tensor("v", T.INT64, [1], [1]))
        places = f.op("Squeeze", f.op("Transpose", f.op("NonZero", ones), perm=[1, 0]), axes=[1])
        places = f.op("Add", f.op("Mul", places, f.constant(numpy.int64(1))), begin)
        places = unsqueeze(f, f.op("Cast", places, to=T.INT64), 0)
    else:
        places = unsqueeze(f, f.op("Range", begin, end, f.constant(numpy.int64(1))), 0)
    places = f.op("Reshape", places, shape_of(f, -1, size_of(f, "input_ids", 1)))
    x = f.op("Add", f.op("Gather", "wte", ids), f.op("Gather", "wpe", places))
    mask = hf_mask(f, "attention_mask", "mul") if past is not None else None

    def conv1d(t, n):
        out = f.op("Gemm", f.op("Reshape", t, shape_of(f, -1, size_of(f, t, 2))), n + ".w", n + ".b")
        return f.op("Reshape", out, shape_of(f, size_of(f, t, 0), size_of(f, t, 1), int(f.w[n + ".b"].numel())))

    n0 = past or 0
    y = rows(w["wte"], fed["input_ids"]) + w["wpe"][n0:n0 + s]
    tril = numpy.tril(numpy.ones((context, context)))[None, None]
    for i in range(layers):
        p = f"{i}."
        parts = dict(axis=2, n=3) | ({"split": [width] * 3} if opset < 13 else {})
        more = () if opset < 13 else (f.ints(*[width] * 3),)
        q, k, v = (hf_heads(f, t, heads, size) for t in f.op("Split", conv1d(pt_norm(f, x, p + "n1.g", p + "n1.b"), p + "qkv"), *more, **parts))
        if past is not None:
            k = f.op("Concat", f"past.{i}.key", k, axis=-2, out=f"present.{i}.key")
            v = f.op("Concat", f"past.{i}.value", v, axis=-2, out=f"present.{i}.value")
            present += [k, v]
        scores = f.op("MatMul", q, f.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = f.op("Div", scores, f.constant(numpy.float32(math.sqrt(size))))
        total = size_of(f, scores, 3)
        first = f.op("Sub", total, size_of(f, scores, 2))
        bias = f.store(tril.astype({"bool": bool, "uint8": numpy.uint8}.get(how, numpy.float32)), f"{i}.attn.bias")
        bias = f.op("Slice", bias, unsqueeze(f, first, 0), unsqueeze(f, total, 0), f.ints(2), f.ints(1))
        bias = f.op("Slice", bias, f.ints(0), unsqueeze(f, total, 0), f.ints(3), f.ints(1))
        if how == "product":
            off = f.op("Mul", f.op("Sub", f.constant(numpy.float32(1)), bias), f.constant(numpy.float32(1e4)))
            scores = f.op("Sub", f.op("Mul", scores, bias), off)
        else:
            bias = f.op("Cast", bias, to=T.BOOL)
            scores = f.op("Where", bias, scores, f.constant(numpy.float32(-3.4028234663852886e38)))
        if mask:
            scores = f.op("Add", scores, mask)
        a = f.op("MatMul", f.op("Softmax", scores, axis=-1 if opset >= 13 else 3), v)
        a = f.op("Transpose", a, perm=[0, 2, 1, 3])
        a = f.op("Reshape", a, shape_of(f, size_of(f, a, 0), size_of(f, a, 1), width))
        x = f.op("Add", x, conv1d(a, p + "o"))
        up = conv1d(pt_norm(f, x, p + "n2.g", p + "n2.b"), p + "up")
        inner = f.op("Add", up, f.op("Mul", f.op("Pow", up, f.constant(numpy.float32(3))), f.constant(numpy.float32(0.044715))))
        tanh = f.op("Tanh", f.op("Mul", inner, f.constant(numpy.float32(math.sqrt(2 / math.pi)))))
        up = f.op("Mul", f.op("Mul", up, f.constant(numpy.float32(0.5))), f.op("Add", tanh, f.constant(numpy.float32(1))))
        x = f.op("Add", x, conv1d(up, p + "down"))

        q, k, v = (norm(y, w[p + "n1.g"], w[p + "n1.b"]) @ w[p + "qkv.w"] + w[p + "qkv.b"]).split(width, 2)
        if past is not None:
            joined = []
            for n, t in (("key", k), ("value", v)):
                t = t.view(b, s, heads, size).transpose(1, 2)
                t = torch.cat([double(fed[f"past.{i}.{n}"]), t], 2) if past else t
                expected.append(t)
                joined.append(t.transpose(1, 2).reshape(b, n0 + s, width))
            k, v = joined
        hide = torch.full((s, n0 + s), -1e30, dtype=torch.float64).triu(1 + n0)
        hide = hide + hidden(fed["attention_mask"]) if past is not None else hide
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


def t5(opset=12, vocab=20, width=8, heads=2, buckets=8, b=2, s=9):
    """An encoder layer with relative places: a table, whose rows the file computes from Range."""
    f = Writer(opset)
    size = width // heads
    f.input("input_ids", ["batch", "sequence"], T.INT64)
    f.weight("embed", vocab, width), f.weight("relative", buckets, heads), f.weight("n", width, offset=1)
    for n in "qkvo":
        f.weight(n, width, width)
    steps = f.op("Range", f.constant(numpy.int64(0)), size_of(f, "input_ids", 1), f.constant(numpy.int64(1)))
    apart = f.op("Sub", unsqueeze(f, steps, 0), unsqueeze(f, steps, 1))
    half = f.op("Mul", f.op("Cast", f.op("Greater", apart, f.constant(numpy.int64(0))), to=T.INT64), f.constant(numpy.int64(buckets // 2)))
    far = f.op("Min", f.op("Abs", apart), f.op("Expand", f.constant(numpy.int64(buckets // 2 - 1)), f.op("Shape", apart)))
    near = f.op("Less", f.op("Abs", apart), f.constant(numpy.int64(2)))
    bucket = f.op("Add", half, f.op("Where", near, f.op("Abs", apart), far))
    bias = unsqueeze(f, f.op("Transpose", f.op("Gather", "relative", bucket), perm=[2, 0, 1]), 0)
    x = f.op("Gather", "embed", "input_ids")
    h = f.op("Div", x, f.op("Sqrt", f.op("Add", f.op("ReduceMean", f.op("Pow", x, f.constant(numpy.float32(2))), axes=[-1]), f.constant(numpy.float32(EPS)))))
    h = f.op("Mul", "n", h)
    q, k, v = (hf_heads(f, f.op("MatMul", h, n), heads, size) for n in "qkv")
    scores = f.op("Add", f.op("MatMul", q, f.op("Transpose", k, perm=[0, 1, 3, 2])), bias)
    a = f.op("Transpose", f.op("MatMul", f.op("Softmax", scores, axis=3), v), perm=[0, 2, 1, 3])
    a = f.op("Reshape", a, shape_of(f, size_of(f, a, 0), -1, width))
    f.op("Add", x, f.op("MatMul", a, "o"), out="y")
    tok, w = tokens(b, s), f.w
    d = numpy.arange(s)[None] - numpy.arange(s)[:, None]
    bucket = numpy.where(abs(d) < 2, abs(d), numpy.minimum(abs(d), buckets // 2 - 1)) + (d > 0) * (buckets // 2)
    y = rows(w["embed"], tok)
    h = y / torch.sqrt((y * y).mean(-1, keepdim=True) + EPS) * w["n"]
    bias = rows(w["relative"], bucket).permute(2, 0, 1) * 1.0
    y = y + attend(h @ w["q"] * math.sqrt(size), h @ w["k"], h @ w["v"], heads, bias) @ w["o"]
    return Case("t5", f.model("y"), {"input_ids": tok}, [y], f.parameters, {"sequence": s})


def vit(opset, width=8, heads=2, patch=4, image=16, classes=5, b=2):
    f = Writer(opset)
    n = (image // patch) ** 2
    f.input("pixel_values", ["batch_size", 3, image, image])
    f.weight("patch.w", width, 3, patch, patch), f.weight("patch.b", width)
    f.weight("cls", 1, 1, width), f.weight("place", 1, n + 1, width)
    layer_weights(f, "0.", width, 16)
    f.weight("head.w", classes, width), f.weight("head.b", classes), f.weight("n.g", width, offset=1), f.weight("n.b", width)
    x = f.op("Conv", "pixel_values", "patch.w", "patch.b", kernel_shape=[patch] * 2, strides=[patch] * 2, pads=[0] * 4, dilations=[1, 1], group=1)
    x = f.op("Reshape", x, f.op("Concat", f.op("Slice", f.op("Shape", x), f.ints(0), f.ints(2), f.ints(0)), f.ints(-1), axis=0))
    x = f.op("Transpose", x, perm=[0, 2, 1])
    cls = f.op("Expand", "cls", f.op("Where", f.op("Equal", shape_of(f, size_of(f, x, 0), -1, -1), f.ints(-1, -1, -1)), f.ints(1, 1, 1), shape_of(f, size_of(f, x, 0), -1, -1)))
    x = f.op("Add", f.op("Concat", cls, x, axis=1), "place")
    x = hf_encoder_layer(f, x, "0.", heads, width // heads, None)
    x = f.op("Gather", pt_norm(f, x, "n.g", "n.b"), f.constant(numpy.int64(0)), axis=1)
    f.op("Gemm", x, "head.w", "head.b", alpha=1.0, beta=1.0, transB=1, out="logits")
    pixels, w = images(b, 3, image, image), f.w
    y = F.conv2d(double(pixels), w["patch.w"], w["patch.b"], patch).flatten(2).transpose(1, 2)
    y = torch.cat([w["cls"].expand(b, -1, -1), y], 1) + w["place"]
    y = encoder_layer(y, w, "0.", heads, None, gelu_erf)
    y = F.linear(norm(y, w["n.g"], w["n.b"])[:, 0], w["head.w"], w["head.b"])
    return Case(f"hf_vit_{opset}", f.model("logits"), {"pixel_values": pixels}, [y], f.parameters)


# --- Caffe2, MXNet, CNTK ----------------------------------------------------------------------------


def batch_norm(x, g, b, eps=EPS):
    """With the batch's statistics, as in training."""
    return F.batch_norm(x, None, None, g, b, True, 0, eps)


def old_norm(f, x, p, channels):
    f.weight(p + ".g", channels, offset=1), f.weight(p + ".b", channels)
    mean, var = f.store(numpy.zeros(channels), p + ".mean"), f.store(numpy.ones(channels), p + ".var")
    old = {"consumed_inputs": [0, 0, 0, 1, 1], "is_test": 1, "spatial": 1} if f.opset < 6 else {"spatial": 1, "is_test": 1} if f.opset < 7 else {"spatial": 1} if f.opset < 9 else {}
    return f.op("BatchNormalization", x, p + ".g", p + ".b", mean, var, epsilon=EPS, momentum=0.9, **old)


def caffe2(opset):
    """Initializers are inputs; LRN, Dropout with a mask, Reshape or Flatten, Sum, Softmax of a matrix."""
    f = Writer(opset, listed=True)
    f.input("data_0", [2, 3, 17, 17])
    f.weight("c1.w", 8, 3, 3, 3), f.weight("c1.b", 8), f.weight("c2.w", 8, 4, 3, 3), f.weight("c2.b", 8)
    f.weight("c3.w", 8, 8, 1, 1), f.weight("fc.w", 5, 32), f.weight("fc.b", 5), f.weight("shift", 8)
    x = f.op("Conv", "data_0", "c1.w", "c1.b", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    old = {"consumed_inputs": [0, 0]} if opset < 6 else {}
    x = f.op("Relu", x, **({"consumed_inputs": [0]} if opset < 6 else {}))
    x = f.op("LRN", x, alpha=0.5, beta=0.75, bias=1.0, size=5)
    x = f.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 0, 0])
    left = f.op("Relu", f.op("Conv", x, "c2.w", "c2.b", kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=2))
    right = old_norm(f, f.op("Conv", x, "c3.w", kernel_shape=[1, 1]), "bn", 8)
    shift = "shift"
    if opset < 7:
        right = f.op("Add", right, shift, axis=1, broadcast=1, **old)
    else:
        right = f.op("Add", right, f.op("Unsqueeze", shift, axes=[1, 2]))
    x = f.op("Sum", left, right, x, **({"consumed_inputs": [0, 0, 0]} if opset < 6 else {}))
    x = f.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2], pads=[1, 1, 0, 0])
    x, _ = f.op("Dropout", x, n=2, ratio=0.5, **({"is_test": 1} if opset < 7 else {}))
    if opset < 5:
        x = f.op("Reshape", x, shape=[-1, 32], **({"consumed_inputs": [0]} if opset < 5 else {}))
    else:
        x = f.op("Reshape", x, f.ints(0, -1), out="pool5_reshape")
    x = f.op("Gemm", x, "fc.w", "fc.b", transB=1, **({"broadcast": 1} if opset < 7 else {}))
    f.op("Softmax", x, out="prob_1")
    data, w = images(2, 3, 17, 17), f.w
    y = F.relu(F.conv2d(double(data), w["c1.w"], w["c1.b"], 2, 1))
    y = F.local_response_norm(y, 5, 0.5, 0.75, 1.0)
    y = F.max_pool2d(y, 3, 2)
    left = F.relu(F.conv2d(y, w["c2.w"], w["c2.b"], 1, 1, groups=2))
    right = batch_norm(F.conv2d(y, w["c3.w"]), w["bn.g"], w["bn.b"]) + w["shift"][:, None, None]
    y = left + right + y
    wide = F.pad(y, (1, 0, 1, 0))
    count = F.avg_pool2d(F.pad(torch.ones_like(y), (1, 0, 1, 0)), 2, 2)
    y = (F.avg_pool2d(wide, 2, 2) / count).flatten(1)
    return Case(f"caffe2_{opset}", f.model("prob_1"), {"data_0": data}, [F.linear(y, w["fc.w"], w["fc.b"]).softmax(1)], f.parameters)


def mxnet():
    """Scalars as Constant nodes of one element, PRelu with [c, 1, 1], normalisation of a vector."""
    f = Writer(8, listed=True)
    f.input("data", [2, 3, 8, 8])
    f.weight("c.w", 4, 3, 3, 3), f.weight("slope", 4, 1, 1), f.weight("fc.w", 6, 64), f.weight("fc.b", 6)
    x = f.op("Mul", f.op("Sub", "data", f.constant(numpy.float32([0.5]))), f.constant(numpy.float32([2])))
    x = old_norm(f, f.op("Conv", x, "c.w", dilations=[1, 1], group=1, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]), "bn", 4)
    x = f.op("PRelu", x, "slope")
    x = f.op("Dropout", f.op("Identity", x), ratio=0.4)
    x = f.op("Gemm", f.op("Flatten", x), "fc.w", "fc.b", alpha=1.0, beta=1.0, transA=0, transB=1)
    f.weight("bn2.g", 6, offset=1), f.weight("bn2.b", 6)
    mean, var = f.store(numpy.zeros(6), "bn2.mean"), f.store(numpy.ones(6), "bn2.var")
    f.op("BatchNormalization", x, "bn2.g", "bn2.b", mean, var, epsilon=EPS, momentum=0.9, spatial=0, out="fc1")
    data, w = images(2, 3, 8, 8), f.w
    y = batch_norm(F.conv2d((double(data) - 0.5) * 2, w["c.w"], None, 2, 1), w["bn.g"], w["bn.b"])
    y = F.prelu(y, w["slope"].flatten()).flatten(1)
    y = batch_norm(F.linear(y, w["fc.w"], w["fc.b"]), w["bn2.g"], w["bn2.b"])
    return Case("mxnet", f.model("fc1"), {"data": data}, [y], f.parameters)


def cntk():
    """auto_pad, biases as Add with [c, 1, 1], a matrix reshaped before it is used."""
    f = Writer(7)
    f.input("Input3", [1, 1, 12, 12])
    f.weight("p5", 8, 1, 5, 5), f.weight("p6", 8, 1, 1), f.weight("p193", 16, 4, 4, 10), f.weight("p194", 1, 10)
    f.weight("p87", 16, 8, 5, 5), f.weight("p88", 16, 1, 1)
    x = f.op("Div", "Input3", f.constant(numpy.float32([4])))
    x = f.op("Conv", x, "p5", kernel_shape=[5, 5], auto_pad="SAME_UPPER", strides=[1, 1], dilations=[1, 1], group=1)
    x = f.op("MaxPool", f.op("Relu", f.op("Add", x, "p6")), kernel_shape=[2, 2], strides=[2, 2], auto_pad="NOTSET", pads=[0] * 4)
    x = f.op("Conv", x, "p87", kernel_shape=[5, 5], auto_pad="SAME_UPPER", strides=[1, 1], dilations=[1, 1], group=1)
    x = f.op("MaxPool", f.op("Relu", f.op("Add", x, "p88")), kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_LOWER")
    x = f.op("AveragePool", x, kernel_shape=[2, 2], strides=[1, 1], auto_pad="SAME_UPPER", count_include_pad=0)
    x = f.op("Pad", x, mode="constant", value=0.0, pads=[0, 0, 0, 0, 0, 0, 1, 1])
    x = f.op("Reshape", x, f.ints(1, 256))
    f.op("Add", f.op("MatMul", x, f.op("Reshape", "p193", f.ints(256, 10))), "p194", out="Plus214")
    data, w = images(1, 1, 12, 12), f.w
    y = F.max_pool2d(F.relu(F.conv2d(double(data) / 4, w["p5"], None, 1, 2) + w["p6"]), 2)
    y = F.max_pool2d(F.relu(F.conv2d(y, w["p87"], None, 1, 2) + w["p88"]), 2)
    y = F.avg_pool2d(F.pad(y, (0, 1, 0, 1)), 2, 1) / F.avg_pool2d(F.pad(torch.ones_like(y), (0, 1, 0, 1)), 2, 1)
    y = F.pad(y, (0, 1, 0, 1)).reshape(1, 256)
    return Case("cntk", f.model("Plus214"), {"Input3": data}, [y @ w["p193"].reshape(256, 10) + w["p194"]], f.parameters)


def coreml():
    """ImageScaler, Upsample with attributes, LeakyRelu, ceil_mode, ConstantFill, Crop of old files."""
    f = Writer(7)
    f.input("image", ["None", 3, 9, 9])
    f.weight("c.w", 4, 3, 3, 3), f.weight("c.b", 4)
    x = f.op("ImageScaler", "image", scale=0.5, bias=[0.25, -0.5, 1.0])
    x = f.op("LeakyRelu", f.op("Conv", x, "c.w", "c.b", auto_pad="VALID", kernel_shape=[3, 3]), alpha=0.125)
    x = f.op("Upsample", x, scales=[1.0, 1.0, 2.0, 2.0], mode="nearest")
    x = f.op("MaxPool", x, kernel_shape=[3, 3], strides=[3, 3])
    x = f.op("Concat", x, f.op("ConstantFill", f.store(numpy.array([2, 1, 4, 4])), input_as_shape=1, value=0.5), axis=1)
    x = f.op("GlobalAveragePool", f.op("Softmax", x, axis=1))
    f.op("Flatten", x, axis=1, out="y")
    data, w = images(2, 3, 9, 9), f.w
    y = double(data) * 0.5 + double([0.25, -0.5, 1.0])[:, None, None]
    y = F.leaky_relu(F.conv2d(y, w["c.w"], w["c.b"]), 0.125).repeat_interleave(2, 2).repeat_interleave(2, 3)
    y = torch.cat([F.max_pool2d(y, 3), torch.full((2, 1, 4, 4), 0.5, dtype=torch.float64)], 1)
    y = y.flatten(1).softmax(1).view(y.shape).mean((2, 3))
    return Case("coreml", f.model("y"), {"image": data}, [y], f.parameters + 32)


def powers():
    """Arithmetic before opset 7: sizes are matched by attributes."""
    f = Writer(6)
    f.input("x", [2, 3, 4])
    f.weight("row", 4, offset=2), f.weight("column", 3), f.weight("m", 3, 4)
    x = f.op("Add", "x", "column", broadcast=1, axis=1)
    x = f.op("Mul", x, "m", broadcast=1)
    x = f.op("Div", f.op("Sub", x, "row", broadcast=1, axis=2), f.constant(numpy.float32([4])), broadcast=1)
    x = f.op("Pow", x, f.constant(numpy.float32([2])), broadcast=1)
    f.op("Max", x, f.op("Neg", x), out="y")
    data, w = images(2, 3, 4), f.w
    y = (((double(data) + w["column"][:, None]) * w["m"] - w["row"]) / 4) ** 2
    return Case("arithmetic_6", f.model("y"), {"x": data}, [y], f.parameters)


# --- Keras ------------------------------------------------------------------------------------------


def keras(opset):
    """MobileNetV3 and EfficientNet of tf2onnx: NHWC outside, SAME padding, squeeze and excite."""
    f = Writer(opset)
    f.input("input_1:0", ["unk__618", 17, 17, 3])
    f.weight("stem", 8, 3, 3, 3), f.weight("depth", 8, 1, 5, 5), f.weight("project", 4, 8, 1, 1)
    f.weight("se1.w", 4, 8, 1, 1), f.weight("se1.b", 4), f.weight("se2.w", 8, 4, 1, 1), f.weight("se2.b", 8)
    f.weight("add", 1, 4, 1, 1), f.weight("fc.w", 4, 5), f.weight("fc.b", 5)
    conv = dict(dilations=[1, 1], auto_pad="SAME_UPPER")
    x = f.op("Transpose", "input_1:0", perm=[0, 3, 1, 2])
    pads = [0, 0, 0, 0, 0, 0, 1, 1]
    x = f.op("Pad", x, pads=pads) if opset < 11 else f.op("Pad", x, f.ints(*pads), f.scalar(0))
    x = old_norm(f, f.op("Conv", x, "stem", dilations=[1, 1], strides=[2, 2], auto_pad="VALID", kernel_shape=[3, 3]), "bn1", 8)

    def relu6(t, n=1.0):
        if opset < 11:
            return f.op("Clip", t, min=0.0, max=6.0)
        return f.op("Clip", t, f.scalar(0), f.store(numpy.float32([6])) if opset > 12 else f.scalar(6))

    three = f.store(numpy.float32(3))
    x = f.op("Mul", x, f.op("Mul", relu6(f.op("Add", x, three)), f.scalar(1 / 6)))  # hard swish
    x = f.op("Conv", x, "depth", group=8, strides=[2, 2], kernel_shape=[5, 5], **conv)
    x = relu6(old_norm(f, x, "bn2", 8))
    axes = {"axes": [2, 3]} if opset < 18 else {}
    more = () if opset < 18 else (f.ints(2, 3),)
    pool = f.op("ReduceMean", x, *more, keepdims=0, **axes)
    pool = f.op("Reshape", pool, f.ints(-1, 8, 1, 1))
    pool = f.op("Relu", f.op("Conv", pool, "se1.w", "se1.b", strides=[1, 1], kernel_shape=[1, 1], **conv))
    gate = f.op("Conv", pool, "se2.w", "se2.b", strides=[1, 1], kernel_shape=[1, 1], **conv)
    gate = f.op("HardSigmoid", gate, alpha=0.25, beta=0.5) if opset > 9 else f.op("Sigmoid", gate)
    x = f.op("Conv", f.op("Mul", x, gate), "project", strides=[1, 1], kernel_shape=[1, 1], **conv)
    x = f.op("Add", x, "add")
    back = f.op("Transpose", x, perm=[0, 2, 3, 1])
    more = () if opset < 18 else (f.ints(1, 2),)
    x = f.op("ReduceMean", back, *more, keepdims=0, **({"axes": [1, 2]} if opset < 18 else {}))
    x = f.op("Add", f.op("MatMul", x, "fc.w"), "fc.b")
    f.op("Softmax", x, axis=1, out="predictions")
    f.op("ArgMax", "predictions", axis=1, keepdims=0, out="ArgMax:0")

    data, w = images(2, 17, 17, 3), f.w
    y = F.pad(double(data).permute(0, 3, 1, 2), (0, 1, 0, 1))
    y = batch_norm(F.conv2d(y, w["stem"], None, 2), w["bn1.g"], w["bn1.b"])
    y = y * (F.relu6(y + 3) * float(numpy.float32(1 / 6)))
    y = F.conv2d(F.pad(y, (1, 2, 1, 2)), w["depth"], None, 2, groups=8)
    y = F.relu6(batch_norm(y, w["bn2.g"], w["bn2.b"]))
    gate = F.conv2d(F.relu(F.conv2d(y.mean((2, 3), keepdim=True), w["se1.w"], w["se1.b"])), w["se2.w"], w["se2.b"])
    y = y * (torch.clamp(gate / 4 + 0.5, 0, 1) if opset > 9 else gate.sigmoid())
    y = (F.conv2d(y, w["project"]) + w["add"]).mean((2, 3)) @ w["fc.w"] + w["fc.b"]
    return Case(f"keras_{opset}", f.model("predictions", "ArgMax:0"), {"input_1:0": data}, [y.softmax(1)], f.parameters)


# --- PyTorch's dynamo -------------------------------------------------------------------------------


def in_node(kind, inputs, outputs, domain="", **attributes):
    return helper.make_node(kind, inputs, outputs, domain=domain, **attributes)


def refer(node, name, to, type):
    """An attribute that takes its value from the call of the function."""
    a = node.attribute.add()
    a.name, a.ref_attr_name, a.type = name, to, type
    return node


def dynamo(external):
    """Functions of the model, calls in calls, attributes by reference, constants in every way."""
    lib = "pkg.onnxscript.torch_lib"
    f = Writer(18)
    f.imports = {lib: 1, "pkg.net": 1}
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(lib, 1)]
    rank = helper.make_function("pkg.onnxscript.torch_lib.common", "Rank", ["input"], ["return_val"],
                                [in_node("Shape", ["input"], ["tmp"]), in_node("Size", ["tmp"], ["return_val"])], opsets)
    linear = helper.make_function(
        lib, "linear", ["x", "w", "b"], ["y"],
        [in_node("Transpose", ["w"], ["tmp"], perm=[1, 0]), in_node("MatMul", ["x", "tmp"], ["tmp_0"]),
         in_node("Add", ["tmp_0", "b"], ["y"])], opsets)
    act = helper.make_function(
        lib, "leaky", ["x"], ["y"],
        [refer(in_node("LeakyRelu", ["x"], ["tmp"]), "alpha", "slope", onnx.AttributeProto.FLOAT),
         in_node("Constant", [], ["one"], value_float=1.0), in_node("CastLike", ["one", "tmp"], ["tmp_0"]),
         in_node("Mul", ["tmp", "tmp_0"], ["y"])], opsets, ["slope"])
    then = helper.make_graph([in_node("Identity", ["tmp"], ["r"])], "then", [], [helper.make_tensor_value_info("r", T.FLOAT, None)])
    other = helper.make_graph([in_node("Unsqueeze", ["tmp", "axes"], ["r"])], "else", [], [helper.make_tensor_value_info("r", T.FLOAT, None)])
    block = helper.make_function(
        "pkg.net", "block", ["x", "w1", "b1", "g", "bn"], ["out", "rest"],
        [in_node("linear", ["x", "w1", "b1"], ["tmp_0"], lib), in_node("leaky", ["tmp_0"], ["tmp"], lib, slope=0.25),
         in_node("Rank", ["tmp"], ["rank"], "pkg.onnxscript.torch_lib.common"),
         in_node("Constant", [], ["two"], value_int=2), in_node("Constant", [], ["axes"], value_ints=[0]),
         in_node("Equal", ["rank", "two"], ["is"]), in_node("If", ["is"], ["tmp_1"], then_branch=then, else_branch=other),
         in_node("LayerNormalization", ["tmp_1", "g", "bn"], ["tmp_2"], axis=-1, epsilon=EPS),
         in_node("Split", ["tmp_2"], ["out", "rest"], axis=1, num_outputs=2)],
        opsets + [helper.make_opsetid("pkg.onnxscript.torch_lib.common", 1)])
    f.functions = [rank, linear, act, block]
    f.imports["pkg.onnxscript.torch_lib.common"] = 1
    f.input("l_x_", ["s0", 4]), f.input("never", [3])
    x = f.op("Identity", f.op("Identity", "l_x_"))
    for i in range(2):
        n = [f.weight(f"{i}.w", 8, 4), f.weight(f"{i}.b", 8), f.weight(f"{i}.g", 8, offset=1), f.weight(f"{i}.bn", 8)]
        f.nodes.append(in_node("block", [x] + n, [f"out_{i}", f"tmp_{i}"], "pkg.net", name=f"block_{i}"))
        x = f.op("Add", f"out_{i}", f"tmp_{i}")
    # Two branches, of which both have a tensor "inner" of their own.
    yes = f.constant(numpy.array(True))
    for i in range(2):
        inner = helper.make_graph([in_node("Tanh", [x], ["inner"]), in_node("Neg", ["inner"], ["result"])], f"g{i}", [],
                                  [helper.make_tensor_value_info("result", T.FLOAT, None)])
        x = f.op("If", yes, then_branch=inner, else_branch=inner)
    floor = f.constant(numpy.float32(-10))
    x = f.op("Clip", x, floor, "")
    f.op("ReduceMean", x, f.ints(1), keepdims=0, out="y")
    data, w = images(3, 4), f.w
    y = double(data)
    for i in range(2):
        y = norm(F.leaky_relu(F.linear(y, w[f"{i}.w"], w[f"{i}.b"]), 0.25), w[f"{i}.g"], w[f"{i}.bn"])
        y = y[:, :4] + y[:, 4:]
    for _ in range(2):
        y = -torch.tanh(y)
    return Case("dynamo_external" if external else "dynamo", f.model("y", "l_x_"), {"l_x_": data},
                [y.clamp(-10).mean(1), double(data)], f.parameters, {}, external)


def external_mask(s=6, width=8):
    """A causal mask of bools that is in another file, as all tensors of such a file may be."""
    f = Writer(17)
    f.input("x", ["batch", s, width])
    for n in "qkv":
        f.weight(n, width, width)
    q, k, v = (f.op("MatMul", "x", n) for n in "qkv")
    scores = f.op("Mul", f.op("MatMul", q, f.op("Transpose", k, perm=[0, 2, 1])), f.scalar(0.25))
    mask = f.store(numpy.tril(numpy.ones((64, 64), bool)), "mask")
    mask = f.op("Slice", mask, f.ints(0, 0), f.ints(s, s), f.ints(0, 1))
    f.op("MatMul", f.op("Softmax", f.op("Where", mask, scores, f.scalar(-numpy.inf)), axis=-1), v, out="y")
    data, w = images(2, s, width), f.w
    q, k, v = (double(data) @ w[n] for n in "qkv")
    y = (q @ k.transpose(1, 2) * 0.25 + causal(s)).softmax(-1) @ v
    return Case("external_mask", f.model("y"), {"x": data}, [y], f.parameters, {}, True)


def newest():
    """Operators of opsets 20 to 24."""
    f = Writer(23)
    f.input("x", [2, 8, 4, 4])
    f.weight("gn.g", 8, offset=1), f.weight("gn.b", 8), f.weight("rms", 16, offset=1)
    x = f.op("GroupNormalization", "x", "gn.g", "gn.b", num_groups=2, epsilon=EPS)
    x = f.op("Gelu", x, approximate="none")
    x = f.op("Reshape", x, f.ints(0, 0, -1))
    x = f.op("RMSNormalization", x, "rms", axis=-1, epsilon=EPS)
    f.op("Attention", x, x, x, q_num_heads=2, kv_num_heads=2, is_causal=1, out="y")
    data, w = images(2, 8, 4, 4), f.w
    y = F.gelu(F.group_norm(double(data), 2, w["gn.g"], w["gn.b"], EPS)).flatten(2)
    y = y / torch.sqrt((y * y).mean(-1, keepdim=True) + EPS) * w["rms"]
    return Case("newest", f.model("y"), {"x": data}, [attend(y, y, y, 2, causal(8))], f.parameters)


def microsoft():
    """What ONNX Runtime joins."""
    f = Writer(17)
    f.imports = {"com.microsoft": 1}
    f.input("x", ["batch", 4, 8]), f.input("r", ["batch", 4, 8])
    for n in ("g1", "g2", "g3"):
        f.weight(n, 8, offset=1)
    for n in ("b1", "bias", "bg"):
        f.weight(n, 8)
    h, _, _, s = f.op("SkipLayerNormalization", "x", "r", "g1", "b1", "bias", n=4, domain="com.microsoft", epsilon=EPS)
    h = f.op("BiasGelu", h, "bg", domain="com.microsoft")
    h, _, _, s = f.op("SkipSimplifiedLayerNormalization", h, s, "g2", n=4, domain="com.microsoft", epsilon=EPS)
    f.op("Add", f.op("SimplifiedLayerNormalization", s, "g3", axis=-1, epsilon=EPS), h, out="y")
    x, r, w = images(2, 4, 8), images(2, 4, 8, seed=1), f.w
    rms = lambda t, g: t / torch.sqrt((t * t).mean(-1, keepdim=True) + EPS) * g
    s = double(x) + double(r) + w["bias"]
    h = F.gelu(norm(s, w["g1"], w["b1"]) + w["bg"])
    s = h + s
    return Case("microsoft", f.model("y"), {"x": x, "r": r}, [rms(s, w["g3"]) + rms(s, w["g2"])], f.parameters)


def swin(width=8, heads=2, side=4, window=2):
    """Windows that are rolled, hidden from each other by -100, with a table of relative places."""
    f = Writer(13)
    n, count = window * window, (side // window) ** 2
    f.input("x", ["batch", side, side, width])
    f.weight("table", (2 * window - 1) ** 2, heads)
    for p in "qkv":
        f.weight(p, width, width)
    x = "x"
    for axis in (1, 2):
        x = f.op("Concat", f.op("Slice", x, f.ints(1), f.ints(2 ** 63 - 1), f.ints(axis)),
                 f.op("Slice", x, f.ints(0), f.ints(1), f.ints(axis)), axis=axis)
    x = f.op("Reshape", x, f.ints(-1, side // window, window, side // window, window, width))
    x = f.op("Reshape", f.op("Transpose", x, perm=[0, 1, 3, 2, 4, 5]), f.ints(-1, n, width))
    q, k, v = (f.op("Transpose", f.op("Reshape", f.op("MatMul", x, p), f.ints(-1, n, heads, width // heads)),
                    perm=[0, 2, 1, 3]) for p in "qkv")
    at = numpy.stack(numpy.meshgrid(range(window), range(window), indexing="ij")).reshape(2, -1)
    apart = at[:, :, None] - at[:, None, :] + window - 1
    index = apart[0] * (2 * window - 1) + apart[1]
    bias = f.op("Reshape", f.op("Gather", "table", f.ints(*index.flatten())), f.ints(n, n, heads))
    bias = unsqueeze(f, f.op("Transpose", bias, perm=[2, 0, 1]), 0)
    scores = f.op("Add", f.op("MatMul", q, f.op("Transpose", k, perm=[0, 1, 3, 2])), bias)
    area = numpy.zeros((side, side))
    area[-1, :] += 1
    area[:, -1] += 2
    area = area.reshape(side // window, window, side // window, window).transpose(0, 2, 1, 3).reshape(count, n)
    mask = numpy.where(area[:, :, None] != area[:, None, :], -100.0, 0.0)
    scores = f.op("Add", f.op("Reshape", scores, f.ints(-1, count, heads, n, n)), f.store(mask[None, :, None]))
    shown = f.op("Softmax", f.op("Reshape", scores, f.ints(-1, heads, n, n)), axis=-1)
    y = f.op("Reshape", f.op("Transpose", f.op("MatMul", shown, v), perm=[0, 2, 1, 3]), f.ints(-1, n, width))
    f.op("ReduceMean", y, out="y", axes=[1], keepdims=0)
    data, w = images(2, side, side, width), f.w
    t = double(data).roll((-1, -1), (1, 2)).view(2, side // window, window, side // window, window, width)
    t = t.permute(0, 1, 3, 2, 4, 5).reshape(-1, n, width)
    hide = rows(w["table"], index).permute(2, 0, 1)[None] + double(mask)[:, None].repeat(2, 1, 1, 1)
    t = attend(t @ w["q"] * math.sqrt(width // heads), t @ w["k"], t @ w["v"], heads, hide)
    return Case("swin", f.model("y"), {"x": data}, [t.mean(1)], f.parameters)


def halved(case):
    """In fp16, with casts at the border."""
    half = lambda t: numpy_helper.from_array(numpy_helper.to_array(t).clip(-65504, 65504).astype(numpy.float16), t.name)
    graph = case.model.graph
    for t in graph.initializer:
        if t.data_type == T.FLOAT:
            t.CopyFrom(half(t))
    for node in graph.node:
        for a in node.attribute:
            if node.op_type == "Constant" and a.t.data_type == T.FLOAT:
                a.t.CopyFrom(half(a.t))
            if node.op_type == "Cast" and a.i == T.FLOAT:
                a.i = T.FLOAT16
        for n, name in enumerate(node.input):
            if any(i.name == name and i.type.tensor_type.elem_type == T.FLOAT for i in graph.input):
                node.input[n] = name + "_half"
    for i in graph.input:
        if i.type.tensor_type.elem_type == T.FLOAT:
            graph.node.insert(0, helper.make_node("Cast", [i.name], [i.name + "_half"], to=T.FLOAT16))
    return dataclasses.replace(case, name=case.name + "_half", limit=1e-2)


def folded():
    """PyTorch's export for inference: normalisations are inside the convolutions."""
    torch.manual_seed(0)
    module = networks.resnet50(4, (1, 1, 1, 1), 7).double()
    data = torch.rand(2, 3, 32, 32, dtype=torch.float64)
    module(data)
    module.eval()
    file = io.BytesIO()
    torch.onnx.export(module, (data,), file, opset_version=13, input_names=["x"])
    model = onnx.load_from_string(file.getvalue())
    parameters = sum(numpy_helper.to_array(t).size for t in model.graph.initializer)
    return Case("folded", model, {"x": data.numpy()}, [module(data).detach()], parameters)


def cases():
    for opset in (8, 10, 11):
        yield lambda o=opset: tf_bert(o)
    for opset in (11, 13, 17):
        for kind in ("bert", "roberta", "distilbert"):
            yield lambda k=kind, o=opset: hf_bert(k, o)
        yield lambda o=opset: vit(o)
    for how, opset, past in (("bool", 13, None), ("uint8", 11, 3), ("product", 10, None), ("product", 10, 2), ("bool", 14, 0), ("bool", 17, 3)):
        yield lambda h=how, o=opset, p=past: gpt2(h, o, p)
    for opset, fed, rms in ((14, False, "pow"), (17, True, "div"), (18, True, "pow"), (17, False, "operator")):
        yield lambda o=opset, p=fed, r=rms: llama(o, p, r)
    yield t5
    for opset in (3, 5, 6, 7, 8, 9):
        yield lambda o=opset: caffe2(o)
    yield from (mxnet, cntk, coreml, powers)
    for opset in (8, 9, 11, 13, 18):
        yield lambda o=opset: keras(o)
    yield lambda: dynamo(False)
    yield lambda: dynamo(True)
    yield from (external_mask, newest, microsoft, swin, folded)
    yield lambda: halved(vit(13))
    yield lambda: halved(hf_bert("bert", 17))
    yield lambda: halved(gpt2("bool", 14, None))
