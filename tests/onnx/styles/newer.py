"""Networks as PyTorch's dynamo exporter, onnxscript and optimizers write them."""

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
from styles.pytorch_parts import unsqueeze
from styles.transformers import attend, make_causal_mask, norm
from styles.writing import Case, EPS, Writer, double, images, rows


def make_node(kind, inputs, outputs, domain="", **attributes):
    return helper.make_node(kind, inputs, outputs, domain=domain, **attributes)


def add_reference(node, name, to, type):
    """Adds an attribute whose value is the attribute `to` of the call of the function."""
    a = node.attribute.add()
    a.name, a.ref_attr_name, a.type = name, to, type
    return node


def write_dynamo(external):
    """Returns a case with functions, nested calls, attributes by reference, and all kinds of constants."""
    lib = "pkg.onnxscript.torch_lib"
    f = Writer(18)
    f.imports = {lib: 1, "pkg.net": 1}
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(lib, 1)]
    rank = helper.make_function("pkg.onnxscript.torch_lib.common", "Rank", ["input"], ["return_val"],
                                [make_node("Shape", ["input"], ["tmp"]), make_node("Size", ["tmp"], ["return_val"])],
                                opsets)
    linear = helper.make_function(
        lib, "linear", ["x", "w", "b"], ["y"],
        [make_node("Transpose", ["w"], ["tmp"], perm=[1, 0]), make_node("MatMul", ["x", "tmp"], ["tmp_0"]),
         make_node("Add", ["tmp_0", "b"], ["y"])], opsets)
    act = helper.make_function(
        lib, "leaky", ["x"], ["y"],
        [add_reference(make_node("LeakyRelu", ["x"], ["tmp"]), "alpha", "slope", onnx.AttributeProto.FLOAT),
         make_node("Constant", [], ["one"], value_float=1.0), make_node("CastLike", ["one", "tmp"], ["tmp_0"]),
         make_node("Mul", ["tmp", "tmp_0"], ["y"])], opsets, ["slope"])
    result = helper.make_tensor_value_info("r", T.FLOAT, None)
    then = helper.make_graph([make_node("Identity", ["tmp"], ["r"])], "then", [], [result])
    other = helper.make_graph([make_node("Unsqueeze", ["tmp", "axes"], ["r"])], "else", [], [result])
    block = helper.make_function(
        "pkg.net", "block", ["x", "w1", "b1", "g", "bn"], ["out", "rest"],
        [make_node("linear", ["x", "w1", "b1"], ["tmp_0"], lib),
         make_node("leaky", ["tmp_0"], ["tmp"], lib, slope=0.25),
         make_node("Rank", ["tmp"], ["rank"], "pkg.onnxscript.torch_lib.common"),
         make_node("Constant", [], ["two"], value_int=2), make_node("Constant", [], ["axes"], value_ints=[0]),
         make_node("Equal", ["rank", "two"], ["is"]),
         make_node("If", ["is"], ["tmp_1"], then_branch=then, else_branch=other),
         make_node("LayerNormalization", ["tmp_1", "g", "bn"], ["tmp_2"], axis=-1, epsilon=EPS),
         make_node("Split", ["tmp_2"], ["out", "rest"], axis=1, num_outputs=2)],
        opsets + [helper.make_opsetid("pkg.onnxscript.torch_lib.common", 1)])
    f.functions = [rank, linear, act, block]
    f.imports["pkg.onnxscript.torch_lib.common"] = 1
    f.input("l_x_", ["s0", 4]), f.input("never", [3])
    x = f.op("Identity", f.op("Identity", "l_x_"))
    for i in range(2):
        n = [f.weight(f"{i}.w", 8, 4), f.weight(f"{i}.b", 8), f.weight(f"{i}.g", 8, offset=1), f.weight(f"{i}.bn", 8)]
        f.nodes.append(make_node("block", [x] + n, [f"out_{i}", f"tmp_{i}"], "pkg.net", name=f"block_{i}"))
        x = f.op("Add", f"out_{i}", f"tmp_{i}")
    # Two branches that both have a tensor called "inner".
    yes = f.constant(numpy.array(True))
    for i in range(2):
        nodes = [make_node("Tanh", [x], ["inner"]), make_node("Neg", ["inner"], ["result"])]
        inner = helper.make_graph(nodes, f"g{i}", [],
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


def write_external_mask(s=6, width=8):
    """Returns a case whose causal mask of bools is in an external data file."""
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
    y = (q @ k.transpose(1, 2) * 0.25 + make_causal_mask(s)).softmax(-1) @ v
    return Case("external_mask", f.model("y"), {"x": data}, [y], f.parameters, {}, True)


def write_newest():
    """Returns a case with operators of opsets 20 to 24."""
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
    return Case("newest", f.model("y"), {"x": data}, [attend(y, y, y, 2, make_causal_mask(8))], f.parameters)


def write_microsoft():
    """Returns a case with fused operators of ONNX Runtime."""
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


def write_swin(width=8, heads=2, side=4, window=2):
    """Returns a case with shifted windows, masked from each other by -100, and a table of relative positions."""
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
    weights = f.op("Softmax", f.op("Reshape", scores, f.ints(-1, heads, n, n)), axis=-1)
    y = f.op("Reshape", f.op("Transpose", f.op("MatMul", weights, v), perm=[0, 2, 1, 3]), f.ints(-1, n, width))
    f.op("ReduceMean", y, out="y", axes=[1], keepdims=0)
    data, w = images(2, side, side, width), f.w
    t = double(data).roll((-1, -1), (1, 2)).view(2, side // window, window, side // window, window, width)
    t = t.permute(0, 1, 3, 2, 4, 5).reshape(-1, n, width)
    hide = rows(w["table"], index).permute(2, 0, 1)[None] + double(mask)[:, None].repeat(2, 1, 1, 1)
    t = attend(t @ w["q"] * math.sqrt(width // heads), t @ w["k"], t @ w["v"], heads, hide)
    return Case("swin", f.model("y"), {"x": data}, [t.mean(1)], f.parameters)


def convert_to_fp16(case):
    """Returns the case in fp16, with casts of its inputs."""
    halve = lambda t: numpy_helper.from_array(
        numpy_helper.to_array(t).clip(-65504, 65504).astype(numpy.float16), t.name)
    graph = case.model.graph
    for t in graph.initializer:
        if t.data_type == T.FLOAT:
            t.CopyFrom(halve(t))
    for node in graph.node:
        for a in node.attribute:
            if node.op_type == "Constant" and a.t.data_type == T.FLOAT:
                a.t.CopyFrom(halve(a.t))
            if node.op_type == "Cast" and a.i == T.FLOAT:
                a.i = T.FLOAT16
        for n, name in enumerate(node.input):
            if any(i.name == name and i.type.tensor_type.elem_type == T.FLOAT for i in graph.input):
                node.input[n] = name + "_half"
    for i in graph.input:
        if i.type.tensor_type.elem_type == T.FLOAT:
            graph.node.insert(0, helper.make_node("Cast", [i.name], [i.name + "_half"], to=T.FLOAT16))
    return dataclasses.replace(case, name=case.name + "_half", limit=1e-2)


def write_folded():
    """Returns PyTorch's export for inference, where batch normalizations are folded into convolutions."""
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
