"""Spreads a module of PyTorch over devices as a plan of tandem does: `parallelize`, below.

Written by `tandem export --to torch`. `python THIS_FILE` lists the weights that the module must have.
"""

import re
from typing import NamedTuple

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor
from torch.nn.utils import parametrize


class Weight(NamedTuple):
    name: str  # the plan's; {i} stands for each of `rounds`
    shape: tuple  # of the parameter
    stored: tuple  # a placement for each dimension of PLANNED
    used: tuple  # the same where the layer reads it
    rounds: tuple = ()


class Layer(NamedTuple):
    name: str
    weight: str  # whose module it is; "" where another layer has it, too
    reads: tuple  # how its input lies
    gives: tuple  # how those who read its output want it
    rounds: tuple = ()


# --- The plan -----------------------------------------------------------------------------------

MODEL = @@model@@
MACHINE = @@machine@@
STRATEGY = @@strategy@@
BATCH = @@batch@@  # samples of a step, over all processes
MICRO_BATCHES = @@micro_batches@@  # of a step, whose gradients are added up
REDUCE_EACH = @@reduce_each@@  # are they summed over devices after each of these, not once a step?
# Operators that the backward pass computes again: for torch.utils.checkpoint, which is left to the module.
RECOMPUTED = @@recomputed@@
# Weights that FSDP stores in parts although the plan does not.
WHOLE_IN_PLAN = @@whole@@

# The machine's devices, outermost level first, and in which order these sizes make the mesh.
DIGITS = @@digits@@
ORDER = @@order@@
MESH = @@mesh@@
DATA = @@data@@  # data parallelism: copies of weights over the first, parts of them over the second
PLANNED = @@planned@@  # where tensors are DTensors: all placements are for these
GATHER_AGAIN = @@gather_again@@  # are stored parts gathered for the backward pass, too?

# As nn.Linear, nn.Embedding and nn.LayerNorm have them: [outputs, inputs], heads before their features.
WEIGHTS = @@weights@@

LAYERS = @@layers@@

# --- How it is applied --------------------------------------------------------------------------


def make_mesh(device_type=None):
    """The devices as the plan groups them: process r has the plan's device r."""
    if device_type is None:
        device_type = "cuda" if torch.cuda.is_available() else "cpu"
    ranks = torch.arange(torch.Size(DIGITS).numel()).view(DIGITS).permute(ORDER)
    names, sizes = zip(*MESH)
    return DeviceMesh(device_type, ranks.reshape(sizes), mesh_dim_names=names)


def parallelize(module, mesh=None, names=None, whole_outputs=True):
    """Spreads `module` over `mesh`, in place, as the plan has it, and returns it.

    `names` leads from the plan's weights to the module's parameters: a dictionary,
    {"l{i}.w_ffn1": "layers.{i}.ffn.0.weight"}, or a function from "l3.w_ffn1" to "layers.3.ffn.0.weight".
    What it leaves out has the same name in both. It may also lead from a layer to its module: needed where
    two layers have one weight, else the layer is the module that has the weight.

    The module is called as before. Processes that differ along `DATA` take parts of the batch of their own
    (data_rank), all others the same; gradients are those of the mean of the processes' losses. Inside are
    DTensors of the whole tensors, so that nothing in the module's code depends on how many devices there are.
    `whole_outputs`: what it returns are ordinary tensors, the same for all processes of a part of the batch.
    """
    mesh = make_mesh() if mesh is None else mesh
    parameters = {w: _find(module, w, shape, names) for w, shape in _weights_and_shapes()}
    if PLANNED:
        planned = mesh[PLANNED]
        gathered = _place_weights(module, planned, parameters)
        for layer in LAYERS:
            for i in layer.rounds or (None,):
                owner = _layer_module(module, layer, i, parameters, names)
                if owner is not None:
                    _place_activations(owner, planned, layer)
        # What the plan does not know of is whole everywhere.
        distribute_module(module, planned)
        for owner, leaf, used in gathered:
            parametrize.register_parametrization(owner, leaf, _Placed(planned, used), unsafe=True)
        _enter_and_leave(module, planned, whole_outputs)
    if DATA:
        _share_the_batch(module, mesh, parameters)
    return module


def data_rank(mesh):
    """Which part of the batch this process takes, and of how many."""
    rank, parts = 0, 1
    for name in DATA:
        size = dict(MESH)[name]
        rank, parts = rank * size + mesh.get_local_rank(name), parts * size
    return rank, parts


def _fill(name, i):
    return name if i is None else name.replace("{i}", str(i))


def _weights_and_shapes():
    for weight in WEIGHTS:
        for i in weight.rounds or (None,):
            yield _fill(weight.name, i), weight.shape


def _name_of(ours, names):
    """What the module calls a weight or a layer of the plan; the same where `names` does not say."""
    if callable(names):
        return names(ours)
    names = names or {}
    if ours in names:
        return names[ours]
    for pattern, theirs in names.items():
        found = re.fullmatch(re.escape(pattern).replace(r"\{i\}", r"(\d+)"), ours)
        if found and found.groups():
            return theirs.replace("{i}", found[1])
    return ours


def _owner(module, parameter):
    path, _, leaf = parameter.rpartition(".")
    return module.get_submodule(path), leaf


def _find(module, weight, shape, names):
    parameter = _name_of(weight, names)
    try:
        found = module.get_parameter(parameter)
    except AttributeError:
        raise ValueError(f"the module has no parameter {parameter!r} for the plan's weight {weight!r}: "
                         "`names` can say another") from None
    if tuple(found.shape) != shape:
        raise ValueError(f"{parameter!r} has the shape {tuple(found.shape)}, and the plan's weight {weight!r} "
                         f"{shape}")
    return parameter


def _layer_module(module, layer, i, parameters, names):
    """None where nothing says it: then the layer's tensors lie as PyTorch finds best."""
    ours = _fill(layer.name, i)
    theirs = _name_of(ours, names)
    if theirs and theirs != ours:
        return module.get_submodule(theirs)
    return _owner(module, parameters[_fill(layer.weight, i)])[0] if layer.weight else None


class _Placed(nn.Module):
    """A weight that is stored otherwise than it is used: gathered for its use, its gradient scattered."""

    def __init__(self, mesh, placements):
        super().__init__()
        self.mesh, self.placements = mesh, placements

    def forward(self, weight):
        return weight.redistribute(self.mesh, self.placements)


def _place_weights(module, mesh, parameters):
    """Returns (module, its parameter, placements) of those that are used otherwise than stored."""
    gathered, done = [], {}
    for weight in WEIGHTS:
        for i in weight.rounds or (None,):
            owner, leaf = _owner(module, parameters[_fill(weight.name, i)])
            old = getattr(owner, leaf)
            if id(old) not in done:  # two modules may share it
                placed = distribute_tensor(old.detach(), mesh, weight.stored)
                done[id(old)] = (old, nn.Parameter(placed, requires_grad=old.requires_grad))
                if weight.stored == weight.used and old.requires_grad:
                    stored = weight.stored
                    done[id(old)][1].register_hook(lambda g, stored=stored: g.redistribute(placements=stored))
            for other in module.modules():
                for name, parameter in list(other._parameters.items()):
                    if parameter is old:
                        other.register_parameter(name, done[id(old)][1])
                        if weight.stored != weight.used:
                            gathered.append((other, name, weight.used))
    return gathered


def _as_dtensor(value, mesh):
    if isinstance(value, torch.Tensor) and not isinstance(value, DTensor):
        return DTensor.from_local(value, mesh, [Replicate()] * mesh.ndim, run_check=False)
    return value


def _map(function, value):
    if isinstance(value, (tuple, list)):
        return type(value)(_map(function, v) for v in value)
    if isinstance(value, dict):
        return {k: _map(function, v) for k, v in value.items()}
    return function(value)


def _place_activations(module, mesh, layer):
    def read(_, inputs):
        first = _as_dtensor(inputs[0], mesh).redistribute(mesh, layer.reads)
        return (first, *inputs[1:])

    def give(_, inputs, output):
        return output.redistribute(mesh, layer.gives)

    module.register_forward_pre_hook(read)
    module.register_forward_hook(give)


def _enter_and_leave(module, mesh, whole_outputs):
    def enter(_, inputs, named):
        return _map(lambda v: _as_dtensor(v, mesh), inputs), _map(lambda v: _as_dtensor(v, mesh), named)

    def leave(_, inputs, output):
        def whole(value):
            return value.full_tensor() if isinstance(value, DTensor) else value
        return _map(whole, output)

    module.register_forward_pre_hook(enter, with_kwargs=True)
    if whole_outputs:
        module.register_forward_hook(leave)


def _share_the_batch(module, mesh, parameters):
    """FSDP: over `shard` weights are stored in parts, over `replicate` each process has its own."""
    options = {"mesh": mesh[DATA], "reshard_after_forward": GATHER_AGAIN}
    for unit in _units(module, parameters):
        fully_shard(unit, **options)
    fully_shard(module, **options)


def _units(module, parameters):
    """What is gathered together: a block that repeats; else the module of a weight."""
    paths = {}
    for parameter in parameters.values():
        block = re.match(r"(?:.*?\.)?\d+(?=\.)", parameter)
        paths[block[0] if block else parameter.rpartition(".")[0]] = None
    units = [module.get_submodule(path) for path in paths if path]
    # A weight that two of them share is gathered with the rest of the module.
    owners = {}
    for owner in module.modules():
        for parameter in owner.parameters(recurse=False):
            owners.setdefault(parameter, set()).add(owner)
    units = [u for u in units if all(owners[p] <= set(u.modules()) for p in u.parameters())]
    # Those inside come before those around them.
    return sorted(units, key=lambda unit: sum(1 for _ in unit.modules()))


if __name__ == "__main__":
    for weight, shape in _weights_and_shapes():
        print(weight, *shape)
