"""A convolutional network as keras2onnx writes it."""

import numpy
import torch
import torch.nn.functional as F

from styles.older import batch_norm, write_batch_norm
from styles.writing import Case, Writer, double, images


def write_keras(opset):
    """Returns a case like MobileNetV3 and EfficientNet of tf2onnx: NHWC inputs, SAME padding, squeeze and excite."""
    f = Writer(opset)
    f.input("input_1:0", ["unk__618", 17, 17, 3])
    f.weight("stem", 8, 3, 3, 3), f.weight("depth", 8, 1, 5, 5), f.weight("project", 4, 8, 1, 1)
    f.weight("se1.w", 4, 8, 1, 1), f.weight("se1.b", 4), f.weight("se2.w", 8, 4, 1, 1), f.weight("se2.b", 8)
    f.weight("add", 1, 4, 1, 1), f.weight("fc.w", 4, 5), f.weight("fc.b", 5)
    conv = dict(dilations=[1, 1], auto_pad="SAME_UPPER")
    x = f.op("Transpose", "input_1:0", perm=[0, 3, 1, 2])
    pads = [0, 0, 0, 0, 0, 0, 1, 1]
    x = f.op("Pad", x, pads=pads) if opset < 11 else f.op("Pad", x, f.ints(*pads), f.scalar(0))
    x = f.op("Conv", x, "stem", dilations=[1, 1], strides=[2, 2], auto_pad="VALID", kernel_shape=[3, 3])
    x = write_batch_norm(f, x, "bn1", 8)

    def write_relu6(t):
        if opset < 11:
            return f.op("Clip", t, min=0.0, max=6.0)
        return f.op("Clip", t, f.scalar(0), f.store(numpy.float32([6])) if opset > 12 else f.scalar(6))

    three = f.store(numpy.float32(3))
    x = f.op("Mul", x, f.op("Mul", write_relu6(f.op("Add", x, three)), f.scalar(1 / 6)))  # hard swish
    x = f.op("Conv", x, "depth", group=8, strides=[2, 2], kernel_shape=[5, 5], **conv)
    x = write_relu6(write_batch_norm(f, x, "bn2", 8))
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
