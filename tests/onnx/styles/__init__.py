"""ONNX files as other exporters write them: tf2onnx, Hugging Face, Caffe2, MXNet, CNTK, Keras and
PyTorch's dynamo. Each has small random weights, and PyTorch computes its expected outputs.

A style is a function that returns a `Case`. The networks are small; the styles differ in how they write them.
"""

from styles.hugging_face import write_gpt2, write_hf_bert
from styles.keras import write_keras
from styles.llama import write_llama
from styles.newer import (convert_to_fp16, write_dynamo, write_external_mask, write_folded, write_microsoft,
                          write_newest, write_swin)
from styles.older import write_caffe2, write_cntk, write_coreml, write_mxnet, write_old_arithmetic
from styles.t5_and_vit import write_t5, write_vit
from styles.tf2onnx import write_tf_bert


def list_cases():
    """Yields functions that each return a case."""
    for opset in (8, 10, 11):
        yield lambda o=opset: write_tf_bert(o)
    for opset in (11, 13, 17):
        for kind in ("bert", "roberta", "distilbert"):
            yield lambda k=kind, o=opset: write_hf_bert(k, o)
        yield lambda o=opset: write_vit(o)
    for how, opset, past in (("bool", 13, None), ("uint8", 11, 3), ("mul", 10, None), ("mul", 10, 2), ("bool", 14, 0),
                             ("bool", 17, 3)):
        yield lambda h=how, o=opset, p=past: write_gpt2(h, o, p)
    for opset, fed, rms in ((14, False, "pow"), (17, True, "div"), (18, True, "pow"), (17, False, "operator")):
        yield lambda o=opset, p=fed, r=rms: write_llama(o, p, r)
    yield write_t5
    for opset in (3, 5, 6, 7, 8, 9):
        yield lambda o=opset: write_caffe2(o)
    yield from (write_mxnet, write_cntk, write_coreml, write_old_arithmetic)
    for opset in (8, 9, 11, 13, 18):
        yield lambda o=opset: write_keras(o)
    yield lambda: write_dynamo(False)
    yield lambda: write_dynamo(True)
    yield from (write_external_mask, write_newest, write_microsoft, write_swin, write_folded)
    yield lambda: convert_to_fp16(write_vit(13))
    yield lambda: convert_to_fp16(write_hf_bert("bert", 17))
    yield lambda: convert_to_fp16(write_gpt2("bool", 14, None))
