#!/usr/bin/env python3
"""Trains modules that `tandem export --to torch` parallelizes, and compares them with the same modules on one process.

tests/export/torch_test.py build/tandem [REGEX]   (REGEX selects cases, "Llama megatron:tp=2")

Runs four processes over gloo. The loss of every step must be that of one process. Skips (77) if there is no PyTorch
with FSDP on CPUs. TANDEM_TORCH_PYTHON may name a Python that has one.
"""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PROCESSES, STEPS, OLDEST = 4, 3, (2, 8)
STRATEGIES = ["dp", "fsdp", "deepspeed:zero=2", "megatron:tp=4", "megatron:tp=2", "megatron:tp=2,zero=3", "expert"]
TRANSFORMER_STRATEGIES = ["megatron:tp=4,sp", "megatron:tp=2,sp,zero=1", "megatron:tp=2,cp=2"]


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def load(path):
    spec = importlib.util.spec_from_file_location("plan", path)
    plan = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plan)
    return plan


def train(module, optimizer, batches):
    """Takes a step for each batch and returns the losses."""
    out = []
    for batch in batches:
        loss = module.compute_loss(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        out.append(loss.detach())
    return out


def compare_losses(rank, path, name, store):
    """Runs rank `rank` of a case: trains the module with the plan at `path`, and compares losses."""
    import torch
    import torch.distributed as dist
    from modules import MODULES

    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=PROCESSES)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    single = MODULES[name]().double()
    torch.manual_seed(1)
    parallel = MODULES[name]().double()
    torch.manual_seed(2)
    batches = [MODULES[name].make_batch() for _ in range(STEPS)]
    batches = [b.double() if b.is_floating_point() else b for b in batches]
    expected = train(single, torch.optim.Adam(single.parameters(), 1e-2), batches)
    plan = load(path)
    mesh = plan.make_mesh()
    plan.parallelize(parallel, mesh, MODULES[name].NAMES)
    part, parts = plan.data_rank(mesh)
    actual = train(parallel, torch.optim.Adam(parallel.parameters(), 1e-2), [b.chunk(parts)[part] for b in batches])
    for step, (loss, reference) in enumerate(zip(actual, expected)):
        dist.all_reduce(loss)  # the loss is the mean over the parts of the batch
        difference = abs(loss.item() / PROCESSES - reference.item()) / abs(reference.item())
        assert difference < 1e-9, f"step {step}: {loss.item() / PROCESSES}, on one process {reference.item()}"
    dist.destroy_process_group()


def run_cases(tandem, regex):
    """Runs the cases that match `regex`; returns whether any fails."""
    import torch.multiprocessing as processes
    from modules import MODULES

    passed, failed = 0, 0
    for name, module in MODULES.items():
        for strategy in STRATEGIES + (TRANSFORMER_STRATEGIES if name != "Mlp" else []):
            case = f"{name} {strategy}"
            if not re.search(regex, case):
                continue
            with tempfile.TemporaryDirectory() as directory:
                path = f"{directory}/plan.py"
                subprocess.run([tandem, "export", module.MODEL, "--machine", f"local:{PROCESSES}", "--batch", "8",
                                "--strategy", strategy, "--to", "torch", "-o", path], check=True)
                try:
                    processes.spawn(compare_losses, (path, name, f"{directory}/store"), nprocs=PROCESSES)
                    passed += 1
                    print(f"{case}: ok", flush=True)
                except Exception as error:  # of any process
                    failed += 1
                    print(f"{case}: FAILED\n{error}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


def main():
    python = os.environ.get("TANDEM_TORCH_PYTHON")
    if python and pathlib.Path(python).absolute() != pathlib.Path(sys.executable).absolute():
        os.execv(python, [python, *sys.argv])
    try:
        import torch
    except ImportError:
        skip("there is no PyTorch")
    version = tuple(int(n) for n in torch.__version__.split("+")[0].split(".")[:2])
    if version < OLDEST:
        skip(f"PyTorch is {torch.__version__}, and FSDP on CPUs needs {OLDEST[0]}.{OLDEST[1]}")
    return run_cases(str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2] if len(sys.argv) > 2 else "")


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    sys.exit(main())
