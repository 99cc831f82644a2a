#!/usr/bin/env python3
"""Compares `tandem simulate --madmax-...` with formulas.py on random models, systems and tasks.

    tests/madmax/compare.py build/tandem [--cases N] [--seed S] [--recorded FILE]

--recorded: records {model_cfg, system_cfg, task_cfg, out} that formulas.py must reproduce, too.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import formulas

TYPES = ("DLRM", "DLRM_MoE", "DLRM_Transformer", "LLM", "LLM_MoE", "ViT")
TOLERANCE = 1e-3


def draw_number(rng, low, high):
    """Returns a log-uniform number between `low` and `high`, rounded down to an integer half of the time."""
    value = low * (high / low) ** rng.random()
    return int(value) if rng.random() < 0.5 and value >= 1 else value


def draw_model(rng):
    """Returns a random model configuration."""
    kind = rng.choice(TYPES)
    out = {"name": "drawn", "type": kind, "bytes_per_nonemb_param": rng.choice([1, 2, 4, 8]),
           "bytes_per_emb_param": rng.choice([1, 2, 4, 0.5])}
    if kind.startswith("DLRM"):
        out.update(num_bot_mlp_layers=rng.randint(1, 23), num_top_mlp_layers=rng.randint(1, 23),
                   mlp_dim=draw_number(rng, 16, 9000), num_tables=draw_number(rng, 1, 5000),
                   entries_per_table=draw_number(rng, 100, 1e9), emb_dim=draw_number(rng, 4, 300),
                   pooling_size=draw_number(rng, 1, 100))
    if kind not in ("DLRM", "DLRM_MoE"):
        heads = rng.randint(1, 96)
        out.update(num_transformer_layers=rng.randint(1, 130), num_transformer_heads=heads,
                   attention_dim=64 * heads, transformer_fc_dim=draw_number(rng, 64, 60000))
        if kind == "ViT":
            patch = rng.choice([7, 14, 16, 32])
            out.update(patch_dim=patch, image_size=patch * rng.randint(1, 40))
        else:
            out.update(transformer_seq_len=draw_number(rng, 1, 40000))
            if kind.startswith("LLM"):
                out.update(entries_per_table=draw_number(rng, 1000, 300000))
    if kind.endswith("MoE"):
        experts = rng.randint(1, 64)
        out.update(num_experts=experts, num_active_experts=rng.randint(1, experts))
    return out


def draw_system(rng):
    """Returns a random system configuration."""
    nodes = rng.choice([1, 1, 2, 16, 64, 256, 3])
    per_node = rng.choice([1, 2, 4, 8, 8, 8, 5])
    peak = draw_number(rng, 1e13, 1e15)
    return {"name": "drawn", "type": "GPU", "num_devices": nodes * per_node, "num_nodes": nodes,
            "f64_flops": peak / 30, "f32_flops": peak / 2, "f16_flops": peak, "i8_ops": 2 * peak,
            "flops_util": rng.uniform(0.05, 1), "mem_cap": draw_number(rng, 1e10, 2e11),
            "mem_bw": draw_number(rng, 1e11, 1e13), "mem_bw_util": rng.uniform(0.05, 1),
            "num_nvlinks": rng.randint(1, 18), "bw_per_nvlink": draw_number(rng, 1e9, 1e11),
            "nvlink_util": rng.uniform(0.05, 1), "num_ibroce_ports": rng.randint(1, 8),
            "ibroce_bw": draw_number(rng, 1e9, 1e11), "ibroce_util": rng.uniform(0.05, 1),
            "ar_perc_intra": 1 if nodes == 1 else rng.choice([0, 1, rng.random(), rng.random()])}


def draw_strategy(rng, system):
    """Returns random methods of parallelism and their degrees."""
    devices = system["num_devices"]
    per_node = devices // system["num_nodes"]
    pairs = [("tp", "ddp"), ("ddp", "tp"), ("fsdp", "tp"), ("fsdp", "ddp")]
    if rng.random() < 0.5:
        return [rng.choice(["tp", "ddp", "fsdp"])], [devices]
    return list(rng.choice(pairs)), [per_node, devices // per_node]


def draw_task(rng, model, system):
    """Returns a random task configuration for a model and a system."""
    kind = rng.choice(["pretrain", "finetune", "inference"])
    devices, recommends = system["num_devices"], model["type"].startswith("DLRM")
    out = {"name": "drawn", "type": kind, "local_emb_bs": draw_number(rng, 1, 3e5),
           "emb_parallel": ["mp"] if recommends else rng.choice([["mp"], ["ddp"]]),
           "emb_parallel_degree": [devices]}
    parts = ["mlp"] if recommends else []
    if model["type"] not in ("DLRM", "DLRM_MoE"):
        parts.append("transformer")
    for part in parts:
        methods, degrees = draw_strategy(rng, system)
        out[part + "_parallel"], out[part + "_parallel_degree"] = methods, degrees
        out[f"local_{part}_bs"] = draw_number(rng, 0.5, 1e5)
    if kind == "finetune":
        for key in ("freeze_top_mlp", "freeze_bot_mlp", "freeze_emb", "freeze_transformer"):
            if rng.random() < 0.7:
                out[key] = rng.random() < 0.5
        if "num_transformer_layers" in model and not recommends and rng.random() < 0.8:
            out["min_frozen_layer"] = rng.randint(0, model["num_transformer_layers"])
    return out


def find_differences(ours, theirs, keys):
    """Returns the keys whose values differ by more than TOLERANCE and the rounding error of large sums."""
    out = []
    kinds = ("all2all_ms", "allreduce_ms", "allgather_ms", "reducescatter_ms")
    moved = sum(theirs[kind] for kind in kinds)
    rounding = 1e-10 * theirs["serialized_ms"]
    for key in keys:
        noise = rounding if key.endswith("_ms") else 0
        if key == "exposed_pct" and moved > 0:
            noise = 100 * rounding / moved
        if abs(ours[key] - theirs[key]) > TOLERANCE * abs(theirs[key]) + noise:
            out.append(f"{key}: {ours[key]!r}, not {theirs[key]!r}")
    return out


def simulate(tandem, directory, inputs):
    """Returns (answer, None), or (None, message) if the command fails."""
    command = [tandem, "simulate", "--json"]
    for name, value in inputs.items():
        path = directory / f"{name}.json"
        path.write_text(json.dumps(value))
        command += [f"--madmax-{name}", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None, done.stderr.strip()
    return json.loads(done.stdout), None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tandem")
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--recorded")
    flags = parser.parse_args()
    failed = 0
    if flags.recorded:
        records = json.loads(pathlib.Path(flags.recorded).read_text())
        for i, record in enumerate(records):
            theirs = record["out"]
            ours = formulas.evaluate(record["model_cfg"], record["system_cfg"], record["task_cfg"])
            wrong = find_differences(ours, theirs, ours.keys())
            failed += bool(wrong)
            if wrong:
                print(f"record {i}:", *wrong, sep="\n  ")
        print(f"{len(records)} records, {failed} differ from the formulas")
    with tempfile.TemporaryDirectory() as name:
        for case in range(flags.cases):
            rng = random.Random(flags.seed * 1_000_003 + case)
            model, system = draw_model(rng), draw_system(rng)
            inputs = {"model": model, "system": system, "task": draw_task(rng, model, system)}
            ours, error = simulate(flags.tandem, pathlib.Path(name), inputs)
            theirs = formulas.evaluate(*inputs.values())
            wrong = [error] if error else find_differences(ours, theirs, theirs.keys())
            failed += bool(wrong)
            if wrong:
                print(f"seed {flags.seed}, case {case}:", *wrong, sep="\n  ")
                print("  " + json.dumps(inputs))
    print(f"{flags.cases} cases, {failed} differ")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
