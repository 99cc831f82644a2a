"""Convolutional networks as Caffe2, MXNet, CNTK and Core ML write them."""

import numpy
import torch
import torch.nn.functional as F

from styles.writing import Case, EPS, Writer, double, images


def batch_norm(x, g, b, eps=EPS):
    """Normalizes with the batch's statistics, as in training."""
    return F.batch_norm(x, None, None, g, b, True, 0, eps)


def write_batch_norm(f, x, p, channels):
    """Writes a BatchNormalization with the attributes of old opsets."""
    f.weight(p + ".g", channels, offset=1), f.weight(p + ".b", channels)
    mean, var = f.store(numpy.zeros(channels), p + ".mean"), f.store(numpy.ones(channels), p + ".var")
    old = {"consumed_inputs": [0, 0, 0, 1, 1], "is_test": 1, "spatial": 1} if f.opset < 6 else {"spatial": 1, "is_test": 1} if f.opset < 7 else {"spatial": 1} if f.opset < 9 else {}
    return f.op("BatchNormalization", x, p + ".g", p + ".b", mean, var, epsilon=EPS, momentum=0.9, **old)


def write_caffe2(opset):
    """Returns a case whose initializers are inputs, with LRN, Dropout with a mask, Sum and Softmax of a matrix."""
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
    right = write_batch_norm(f, f.op("Conv", x, "c3.w", kernel_shape=[1, 1]), "bn", 8)
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


def write_mxnet():
    """Returns a case with scalars as Constants of one element, PRelu with [c, 1, 1], and normalization of a vector."""
    f = Writer(8, listed=True)
    f.input("data", [2, 3, 8, 8])
    f.weight("c.w", 4, 3, 3, 3), f.weight("slope", 4, 1, 1), f.weight("fc.w", 6, 64), f.weight("fc.b", 6)
    x = f.op("Mul", f.op("Sub", "data", f.constant(numpy.float32([0.5]))), f.constant(numpy.float32([2])))
    x = f.op("Conv", x, "c.w", dilations=[1, 1], group=1, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    x = write_batch_norm(f, x, "bn", 4)
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


def write_cntk():
    """Returns a case with auto_pad, biases as Add with [c, 1, 1], and a reshaped weight matrix."""
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


def write_coreml():
    """Returns a case with ImageScaler, Upsample with attributes, LeakyRelu and ConstantFill."""
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


def write_old_arithmetic():
    """Returns a case with arithmetic before opset 7, where attributes control broadcasting."""
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
