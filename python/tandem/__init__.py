"""Plans how to train a neural network on many devices.

    import tandem

    plan = tandem.plan("gpt2", "dgx_a100:2", dtype="bf16", budget=10)
    print(plan.time, plan.throughput, plan.memory)
    plan.save("plan.json")

Networks are built in (`models`, `model`), read (`from_onnx`, `load`), exported from PyTorch
(`from_torch`) or built node by node (`GraphBuilder`). `plan` finds the fastest plan for training a network
on a machine. `simulate` predicts the step of a known strategy, `explore` compares all strategies, and
`check` verifies that a plan computes what its network computes.

Times are in seconds, sizes in bytes, rates per second. Calls raise `Error` for wrong input and `DoesNotFit`
if no plan fits. Calls let other threads run, and Ctrl-C ends them. The manual is docs/reference/python.md.
"""

from ._commands import command
from ._core import Node, version as __version__
from ._errors import DoesNotFit, Error
from ._graphs import Graph, GraphBuilder
from ._machines import Machine, machine, machines
from ._models import Model, from_onnx, from_torch, load, model, models
from ._planning import check, explore, load_plan, plan, simulate
from ._results import Baseline, Check, Exploration, Plan, Point, Prediction

__all__ = [
    "Baseline",
    "Check",
    "DoesNotFit",
    "Error",
    "Exploration",
    "Graph",
    "GraphBuilder",
    "Machine",
    "Model",
    "Node",
    "Plan",
    "Point",
    "Prediction",
    "__version__",
    "check",
    "command",
    "explore",
    "from_onnx",
    "from_torch",
    "load",
    "load_plan",
    "machine",
    "machines",
    "model",
    "models",
    "plan",
    "simulate",
]
