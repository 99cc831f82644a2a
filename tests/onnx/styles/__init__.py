"""ONNX files as other exporters write them: tf2onnx, Hugging Face, Caffe2, MXNet, CNTK, Keras and
PyTorch's dynamo. Each has small random weights, and what it must give is computed with PyTorch.

A style is a function that yields `Case`s. Networks are small: what differs is how they are written.
"""

from styles.hugging_face import gpt2, hf_bert
from styles.keras import keras
from styles.llama import llama
from styles.newer import dynamo, external_mask, folded, halved, microsoft, newest, swin
from styles.older import caffe2, cntk, coreml, mxnet, powers
from styles.t5_and_vit import t5, vit
from styles.tf2onnx import tf_bert


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
