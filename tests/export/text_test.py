#!/usr/bin/env python3
"""Tests what `tandem export` writes, without PyTorch: modules are valid Python, and their tables are consistent.

tests/export/text_test.py build/tandem
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

TANDEM = str(pathlib.Path(sys.argv.pop(1)).resolve())
LLAMA = "llama3_8b:layers=2,hidden=64,heads=8,kv_heads=4,ffn=128,vocab=128,seq=16"
PROCESSES = 4


def export(model, strategy, target, *more, machine=f"local:{PROCESSES}", batch="8"):
    done = subprocess.run([TANDEM, "export", model, "--machine", machine, "--batch", batch, "--strategy", strategy,
                           "--to", target, "--json", *more], capture_output=True, text=True)
    return json.loads(done.stdout)


def export_flags(*arguments, **named):
    """Returns {flag: value} of the exported command line."""
    return dict((flag.split(" ", 1) + [""])[:2] for flag in export(*arguments, **named)["flags"])


class Stub(types.ModuleType):
    """A replacement for PyTorch's modules: any name is a class, and placements store their kind and dimension."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda self, *args: setattr(self, "dim", args[0] if args else None),
                               "kind": name})


def load(text):
    """Returns the exported module, run with stubs of PyTorch."""
    for name in ("torch", "torch.nn", "torch.nn.utils", "torch.distributed", "torch.distributed.device_mesh",
                 "torch.distributed.fsdp", "torch.distributed.tensor"):
        sys.modules[name] = Stub(name)
    sys.modules["torch"].nn = sys.modules["torch.nn"]
    module = types.ModuleType("plan")
    exec(compile(text, "plan.py", "exec"), module.__dict__)
    return module


class Module(unittest.TestCase):
    def check(self, model, strategy):
        """Checks that the tables of the exported module are consistent, and returns the module."""
        plan = load(export(model, strategy, "torch")["text"])
        sizes = dict(plan.MESH)
        self.assertEqual(math.prod(plan.DIGITS), PROCESSES)
        self.assertEqual(math.prod(sizes.values()), PROCESSES)
        self.assertEqual(sorted(plan.ORDER), list(range(len(plan.DIGITS))))
        self.assertEqual(set(plan.DATA) | set(plan.PLANNED), set(sizes))
        weights = {name: shape for name, shape in plan._weights_and_shapes()}
        for weight in plan.WEIGHTS:
            for placements in (weight.stored, weight.used):
                self.assertEqual(len(placements), len(plan.PLANNED))
                parts = dict.fromkeys(range(len(weight.shape)), 1)
                for placement, dim in zip(placements, plan.PLANNED):
                    self.assertNotEqual(placement.kind, "Partial", weight.name)
                    if placement.kind == "Shard":
                        parts[placement.dim] *= sizes[dim]
                for d, n in parts.items():
                    self.assertEqual(weight.shape[d] % n, 0, weight.name)
        for layer in plan.LAYERS:
            self.assertEqual((len(layer.reads), len(layer.gives)), (len(plan.PLANNED),) * 2)
            for i in layer.rounds or (None,):
                self.assertTrue(not layer.weight or plan._fill(layer.weight, i) in weights, layer)
        return plan

    def test_data_parallelism_is_fsdp(self):
        plan = self.check(LLAMA, "dp")
        self.assertEqual(plan.MESH, (("replicate", 4), ("shard", 1)))
        plan = self.check(LLAMA, "fsdp")
        self.assertEqual(plan.MESH, (("replicate", 1), ("shard", 4)))
        self.assertEqual((plan.PLANNED, plan.LAYERS, plan.REGATHER), ((), [], True))

    def test_megatron_is_column_parallel_then_row_parallel(self):
        plan = self.check(LLAMA, "megatron:tp=2")
        self.assertEqual(plan.MESH, (("replicate", 2), ("shard", 1), ("tensor", 2)))
        stored = {w.name: (w.stored[0].kind, w.stored[0].dim) for w in plan.WEIGHTS}
        self.assertEqual(stored["l{i}.w_q"], ("Shard", 0))
        self.assertEqual(stored["l{i}.w_o"], ("Shard", 1))
        self.assertEqual(stored["l{i}.ffn_norm_scale"], ("Replicate", None))
        layers = {layer.name: layer for layer in plan.LAYERS}
        self.assertEqual(layers["l{i}.attention_out"].reads[0].dim, -1)
        self.assertEqual(list(layers["l{i}.attention_out"].rounds), [0, 1])
        # Heads and their features share one dimension.
        self.assertEqual({w.name: w.shape for w in plan.WEIGHTS}["l{i}.w_k"], (32, 64))

    def test_other_strategies_have_consistent_tables(self):
        for strategy in ("megatron:tp=4,sp", "megatron:tp=2,cp=2", "megatron:tp=2,zero=3", "expert", "madmax"):
            with self.subTest(strategy):
                self.check(LLAMA, strategy)
        self.check("bert_large:layers=2,hidden=64,heads=4,ffn=128,vocab=128,seq=16", "megatron:tp=2")
        self.check("resnet50:image=32,width=8,bn_group=2", "fsdp")

    def test_names_map_to_parameters(self):
        plan = self.check(LLAMA, "megatron:tp=2")
        names = {"l{i}.w_q": "layers.{i}.q.weight", "w_tokens": "tokens.weight"}
        self.assertEqual(plan._translate("l1.w_q", names), "layers.1.q.weight")
        self.assertEqual(plan._translate("w_tokens", names), "tokens.weight")
        self.assertEqual(plan._translate("w_logits", names), "w_logits")
        self.assertEqual(plan._translate("w_logits", str.upper), "W_LOGITS")

    def test_output_is_written_to_a_file(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "plan.py"
            answer = export(LLAMA, "fsdp", "torch", "-o", str(path))
            self.assertEqual(answer["output"], str(path))
            self.assertNotIn("text", answer)
            self.assertEqual(load(path.read_text()).STRATEGY, "fsdp")


class Flags(unittest.TestCase):
    GPT3 = {"machine": "dgx_a100:128", "batch": "2048"}

    def test_megatron_gets_its_flags(self):
        got = export_flags("gpt3_175b", "megatron:tp=8,pp=16,dp=8", "megatron", **self.GPT3)
        self.assertEqual(got["--tensor-model-parallel-size"], "8")
        self.assertEqual(got["--pipeline-model-parallel-size"], "16")
        # 128 micro-batches of 2 on each of 8 groups.
        self.assertEqual((got["--micro-batch-size"], got["--global-batch-size"]), ("2", "2048"))
        self.assertNotIn("--sequence-parallel", got)
        got = export_flags("gpt3_175b", "megatron:tp=8,pp=16,dp=8,sp,interleave=3,zero=1,recompute=full", "megatron",
                    "--dtype", "bf16", **self.GPT3)
        for flag, value in {"--sequence-parallel": "", "--use-distributed-optimizer": "", "--bf16": "",
                            "--num-virtual-stages-per-pipeline-rank": "3", "--recompute-granularity": "full"}.items():
            self.assertEqual(got[flag], value)

    def test_stages_may_have_unequal_length(self):
        # The LM head of a large vocabulary takes as long as all layers.
        network = LLAMA.replace("layers=2", "layers=3").replace("vocab=128", "vocab=8192")
        got = export_flags(network, "megatron:tp=2,pp=2", "megatron")
        self.assertEqual(got["--pipeline-model-parallel-layout"], '"Et*3|L"')
        self.assertIn("no layer", self.export_error(network, "megatron:tp=1,pp=4", "megatron")["message"])
        error = self.export_error("gpt3_175b:layers=18", "megatron:tp=8,pp=16,dp=8", "megatron", **self.GPT3)
        self.assertIn("inside a layer", error["message"])

    def test_torchtitan_gets_its_flags(self):
        got = export_flags(LLAMA, "fsdp", "torchtitan")
        self.assertEqual(got["--parallelism.data_parallel_shard_degree"], "4")
        self.assertEqual(got["--parallelism.data_parallel_replicate_degree"], "1")
        self.assertEqual(got["--parallelism.fsdp_reshard_after_forward"], "always")
        got = export_flags(LLAMA, "megatron:tp=2,sp,zero=2", "torchtitan")
        self.assertEqual(got["--parallelism.tensor_parallel_degree"], "2")
        self.assertEqual(got["--parallelism.fsdp_reshard_after_forward"], "never")

    def test_deepspeed_gets_its_configuration(self):
        for zero in (0, 1, 2, 3):
            config = export(LLAMA, f"deepspeed:zero={zero},micro=2", "deepspeed", "--dtype", "bf16")["config"]
            self.assertEqual(config["zero_optimization"]["stage"], zero)
            self.assertEqual(config["gradient_accumulation_steps"], 2)
            self.assertEqual(config["train_micro_batch_size_per_gpu"] * 2 * PROCESSES, config["train_batch_size"])
            self.assertTrue(config["bf16"]["enabled"])

    def test_equivalent_strategies_are_found(self):
        self.assertEqual(export(LLAMA, "madmax", "deepspeed")["config"]["zero_optimization"]["stage"], 3)

    def export_error(self, model, strategy, target, *more, **named):
        return export(model, strategy, target, *more, **named)["error"]

    def test_errors_give_the_reason(self):
        for strategy, target, words in (
                ("megatron:tp=2", "torchtitan", "only in pure data parallelism"),
                ("megatron:tp=2,zero=3", "torchtitan", "requires sequence parallelism"),
                ("megatron:tp=2", "deepspeed", "tensor parallelism"),
                ("megatron:tp=2,pp=2", "torch", "2 pipeline stages"),
                ("megatron:tp=1,pp=4,schedule=gpipe", "megatron", "GPipe"),
                ("deepspeed:zero=1,micro=2", "torchtitan", "once per step"),
                ("madmax:transformer=tp/tp", "megatron", "the nearest degrees of parallelism")):
            with self.subTest(f"{strategy} {target}"):
                self.assertIn(words, self.export_error(LLAMA, strategy, target)["message"])
        error = self.export_error("dlrm:tables=4,rows=1000", "dlrm_hybrid", "torch")
        self.assertEqual((error["kind"], error["where"]), ("torch", "%bag0"))
        self.assertIn("transformers", self.export_error("mlp:layers=2,hidden=64", "dp", "megatron")["message"])


if __name__ == "__main__":
    unittest.main()
