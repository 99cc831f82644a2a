#!/usr/bin/env python3
"""Exports networks with PyTorch and tests how the importer reads them.

tests/onnx/networks_test.py RUN     (RUN: the program tandem_onnx_run)

At published widths it compares the number of parameters with the module's and the published one. At small widths,
in fp64, it compares the outputs, which the sequential interpreter computes with the file's weights.
"""

import pathlib
import sys
import tempfile
import warnings

import torch

import networks as nets
from runner import Runner, compute_error

LIMIT = 1e-9
warnings.filterwarnings("ignore")
torch.set_num_threads(1)


def draw_image(*size):
    return torch.rand(*size, dtype=torch.float64) * 2 - 1


def draw_tokens(*size, below=50):
    return torch.randint(0, below, size)


def list_published():
    """Yields (name, module, inputs, published number of parameters or None)."""
    make_images = lambda size: (torch.zeros(2, 3, size, size),)
    tokens = (torch.zeros(1, 16, dtype=torch.int64),)
    yield "resnet50", nets.resnet50(), make_images(64), 25557032
    yield "alexnet", nets.alexnet(), make_images(224), 61100840
    yield "vgg19", nets.vgg(nets.VGG19), make_images(224), 143667240
    yield "squeezenet", nets.squeezenet(), make_images(64), 1235496
    yield "densenet121", nets.densenet(), make_images(64), 7978856
    yield "shufflenet_v2", nets.shufflenet(), make_images(64), 2278604
    yield "inception_v1", nets.inception_v1(), make_images(64), None
    yield "inception_v3", nets.inception_v3(), make_images(80), 23834568
    yield "bert_base", nets.Bert(), tokens * 2, 109482240
    yield "gpt2", nets.Gpt2(), tokens, 124439808
    yield "vit_b_16", nets.Vit(), make_images(224), 86567656


def list_small():
    """Yields (name, module, inputs)."""
    yield "resnet", nets.resnet50(4, (1, 1, 1, 1), 7), (draw_image(2, 3, 32, 32),)
    yield "alexnet", nets.alexnet(4, 8, 5), (draw_image(2, 3, 63, 63),)
    yield "zfnet", nets.alexnet(4, 8, 5, lrn=True), (draw_image(2, 3, 63, 63),)
    yield "vgg", nets.vgg((1, 0, 2, 2, 0), 3, 8, 5, 4), (draw_image(2, 3, 16, 16),)
    yield "squeezenet", nets.squeezenet(2, 5), (draw_image(2, 3, 40, 40),)
    yield "densenet", nets.densenet(2, (2, 2), 5), (draw_image(2, 3, 32, 32),)
    yield "shufflenet", nets.shufflenet((4, 8, 12, 16), (2, 2), 5), (draw_image(2, 3, 32, 32),)
    yield "inception_v1", nets.inception_v1(16, 5), (draw_image(2, 3, 48, 48),)
    yield "inception_v3", nets.inception_v3(16, 5), (draw_image(2, 3, 80, 80),)
    yield "bert", nets.Bert(50, 16, 8, 2, 2), (draw_tokens(2, 6), draw_tokens(2, 6, below=2))
    yield "gpt2", nets.Gpt2(50, 16, 8, 2, 2), (draw_tokens(2, 6),)
    yield "vit", nets.Vit(16, 4, 8, 2, 2, 5), (draw_image(2, 3, 16, 16),)
    yield "encoder", nets.Encoder(50), (draw_tokens(2, 6),)
    yield "encoder_open", nets.Encoder(50, causal=False), (draw_tokens(2, 6),)
    yield "recommender", nets.Recommender(50), (draw_image(4, 4), draw_tokens(4, 3))
    yield "zoo", nets.Zoo(), (draw_image(2, 4, 4, 4),)


def export(module, inputs, file, opset=13, **more):
    training = torch.onnx.TrainingMode.TRAINING
    torch.onnx.export(module, inputs, str(file), opset_version=opset, training=training,
                      input_names=[f"in{i}" for i in range(len(inputs))], **more)


def count_parameters(module):
    return sum(p.numel() for p in module.parameters())


def check_published(runner, directory):
    """Checks the number of parameters of each published network; returns the number of wrong ones."""
    bad = 0
    for name, module, inputs, count in list_published():
        file = directory / "published.onnx"
        if count_parameters(module) != (count or count_parameters(module)):
            raise SystemExit(f"{name}: the test's own network has {count_parameters(module)} parameters")
        # Without values the weights are inputs of the graph, so that files of large networks are small.
        large = count_parameters(module) > 30e6 and name in ("alexnet", "vgg19")
        export(module, inputs, file, export_params=not large, do_constant_folding=name != "gpt2")
        answer = runner.ask(file)
        found = answer.get("parameters", answer.get("error"))
        print(f"{name:<14} {found} parameters, {answer.get('nodes')} nodes")
        if found != count_parameters(module):
            bad += 1
            print(f"{name}: {count_parameters(module)} expected; {answer.get('where')}: {answer.get('error')}")
    return bad


def check_values(runner, directory):
    """Checks the outputs of each small network; returns the number of wrong exports."""
    bad, worst, count = 0, 0.0, 0
    for name, module, inputs in list_small():
        module = module.double().train()
        for part in module.modules():
            if hasattr(part, "eps"):
                part.eps = 2.0 ** -16  # exact in fp32, the type of the file's attribute
        expected = module(*inputs)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for opset in (9, 11, 12, 13, 14, 16):
            file = directory / "small.onnx"
            try:
                names = [f"in{i}" for i in range(len(inputs))]
                open_batch = {"dynamic_axes": {n: {0: "batch"} for n in names}} if opset in (12, 14) else {}
                # Folding would store a shared weight a second time, transposed.
                export(module, inputs, file, opset, do_constant_folding=name != "gpt2", **open_batch)
            except Exception as e:
                print(f"{name}, opset {opset}: PyTorch cannot export it: {str(e)[:80]}")
                continue
            values = {f"in{i}": x.numpy() for i, x in enumerate(inputs)}
            answer = runner.ask(file, values, batch=len(inputs[0]) if open_batch else 0)
            count += 1
            if "error" in answer:
                bad += 1
                print(f"{name}, opset {opset}: {answer['where']}: {answer['error']} ({answer['hint'][:99]})")
                continue
            e = max(compute_error(o, t.detach().numpy()) for o, t in zip(answer["outputs"], expected))
            worst = max(worst, e)
            right = answer["parameters"] == count_parameters(module) and e <= LIMIT
            bad += not right
            if opset == 13 or not right:
                print(f"{name:<14} opset {opset}: error {e:.1e}, {answer['nodes']} nodes, "
                      f"{answer['parameters']} of {count_parameters(module)} parameters")
    print(f"{count} exports of {len(list(list_small()))} networks: worst error {worst:.1e}")
    return bad


def main():
    torch.manual_seed(0)
    runner = Runner(sys.argv[1])
    with tempfile.TemporaryDirectory() as scratch:
        directory = pathlib.Path(scratch)
        bad = check_values(runner, directory) + check_published(runner, directory)
    print("ok" if bad == 0 else f"{bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
