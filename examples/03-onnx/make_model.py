#!/usr/bin/python3
"""Writes classifier.onnx: three layers, with weights that have shapes but no numbers.

Any exporter's file does as well; this one is written by hand so that it stays small.
"""

import onnx
from onnx import TensorProto, helper

SIZES = [784, 2048, 2048, 10]


def main():
    nodes, initializers, last = [], [], "image"
    for i, (inputs, outputs) in enumerate(zip(SIZES, SIZES[1:])):
        initializers.append(helper.make_tensor(f"shape{i}", TensorProto.INT64, [2], [outputs, inputs]))
        nodes.append(helper.make_node("ConstantOfShape", [f"shape{i}"], [f"w{i}"]))
        name = f"layer{i}"
        nodes.append(helper.make_node("Gemm", [last, f"w{i}"], [name], transB=1))
        last = name
        if i + 2 < len(SIZES):
            last = f"relu{i}"
            nodes.append(helper.make_node("Relu", [name], [last]))
    graph = helper.make_graph(
        nodes, "classifier", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", SIZES[0]])],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, ["batch", SIZES[-1]])], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    onnx.checker.check_model(model)
    onnx.save(model, "classifier.onnx")


if __name__ == "__main__":
    main()
