"""Distributes a PyTorch module over devices as a plan of Tandem says: call `parallelize`, below.

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
    name: str  # name in the plan; {i} stands for each of `rounds`
    shape: tuple  # shape of the parameter
    stored: tuple  # placement in memory, for each dimension of PLANNED
    used: tuple  # placement that the layer reads
    rounds: tuple = ()


class Layer(NamedTuple):
    name: str
    weight: str  # the layer is the module of this weight; "" if another layer uses the weight, too
    reads: tuple  # placements of its input
    gives: tuple  # placements of its output for its readers
    rounds: tuple = ()


# --- The plan -----------------------------------------------------------------------------------

MODEL = @@model@@
MACHINE = @@machine@@
STRATEGY = @@strategy@@
BATCH = @@batch@@  # samples per step, over all processes
MICRO_BATCHES = @@micro_batches@@  # per step; their gradients are accumulated
REDUCE_EACH = @@reduce_each@@  # whether gradients are reduced over devices after each micro-batch, not once a step
# Operators that the backward pass recomputes. The module must use torch.utils.checkpoint for them.
RECOMPUTED = @@recomputed@@
# Weights that FSDP shards although the plan replicates them.
WHOLE_IN_PLAN = @@whole@@

# Mesh axis factors of the machine, outermost level first, and their order in the mesh.
DIGITS = @@digits@@
ORDER = @@order@@
MESH = @@mesh@@
DATA = @@data@@  # data parallelism: weights are replicated over the first, sharded over the second
PLANNED = @@planned@@  # dimensions over which tensors are DTensors; all placements refer to them
REGATHER = @@regather@@  # whether sharded weights are regathered for the backward pass

# Shapes as in nn.Linear, nn.Embedding and nn.LayerNorm: [outputs, inputs], heads before their features.
WEIGHTS = @@weights@@

LAYERS = @@layers@@

# --- Application of the plan --------------------------------------------------------------------------


def make_mesh(device_type=None):
    """Returns the mesh of devices as the plan groups them. Process r has the plan's device r."""
    if device_type is None:
        device_type = "cuda" if torch.cuda.is_available() else "cpu"
    ranks = torch.arange(torch.Size(DIGITS).numel()).view(DIGITS).permute(ORDER)
    names, sizes = zip(*MESH)
    return DeviceMesh(device_type, ranks.reshape(sizes), mesh_dim_names=names)


def parallelize(module, mesh=None, names=None, whole_outputs=True):
    """Distributes `module` over `mesh` in place, as the plan says, and returns it.

    `names` maps the plan's weights to the module's parameters. It is a dictionary,
    {"l{i}.w_ffn1": "layers.{i}.ffn.0.weight"}, or a function from "l3.w_ffn1" to "layers.3.ffn.0.weight".
    Weights that it omits have the same name in both. It may also map a layer to its module. That is needed if
    two layers share a weight; otherwise the layer is the module that owns the weight.

    The module is called as before. Processes that differ along `DATA` take different parts of the batch
    (data_rank), all others the same part. Gradients are those of the mean of the processes' losses. Inside the
    module, tensors are DTensors of the global shape, so its code does not depend on the number of devices.
    `whole_outputs`: return ordinary tensors, equal in all processes that share a part of the batch.
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
        # Parameters that the plan does not name are replicated.
        distribute_module(module, planned)
        for owner, leaf, used in gathered:
            parametrize.register_parametrization(owner, leaf, _Placed(planned, used), unsafe=True)
        _enter_and_leave(module, planned, whole_outputs)
    if DATA:
        _share_the_batch(module, mesh, parameters)
    return module


def data_rank(mesh):
    """Returns which part of the batch this process takes, and the number of parts."""
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


def _translate(ours, names):
    """Returns the module's name of a weight or a layer of the plan. Without an entry in `names` it is the same."""
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
    parameter = _translate(weight, names)
    try:
        found = module.get_parameter(parameter)
    except AttributeError:
        raise ValueError(f"the module has no parameter {parameter!r} for the plan's weight {weight!r}: "
                         "map it in `names`") from None
    if tuple(found.shape) != shape:
        raise ValueError(f"{parameter!r} has the shape {tuple(found.shape)}, but the plan's weight {weight!r} "
                         f"has {shape}")
    return parameter


def _layer_module(module, layer, i, parameters, names):
    """Returns the layer's module, or None if it is unknown. PyTorch then chooses the layer's placements."""
    ours = _fill(layer.name, i)
    theirs = _translate(ours, names)
    if theirs and theirs != ours:
        return module.get_submodule(theirs)
    return _owner(module, parameters[_fill(layer.weight, i)])[0] if layer.weight else None


class _Placed(nn.Module):
    """A weight that is sharded in memory: gathered before use, and its gradient is scattered."""

    def __init__(self, mesh, placements):
        super().__init__()
        self.mesh, self.placements = mesh, placements

    def forward(self, weight):
        return weight.redistribute(self.mesh, self.placements)


def _place_weights(module, mesh, parameters):
    """Places all weights. Returns (module, its parameter, placements) for each weight to gather before use."""
    gathered, done = [], {}
    for weight in WEIGHTS:
        for i in weight.rounds or (None,):
            owner, leaf = _owner(module, parameters[_fill(weight.name, i)])
            old = getattr(owner, leaf)
            if id(old) not in done:  # two modules may share a parameter
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
    """Applies FSDP: weights are sharded over `shard` and replicated over `replicate`."""
    options = {"mesh": mesh[DATA], "reshard_after_forward": REGATHER}
    for unit in _units(module, parameters):
        fully_shard(unit, **options)
    fully_shard(module, **options)


def _units(module, parameters):
    """Returns the modules that FSDP gathers as one unit: repeated blocks, or else the modules of weights."""
    paths = {}
    for parameter in parameters.values():
        block = re.match(r"(?:.*?\.)?\d+(?=\.)", parameter)
        paths[block[0] if block else parameter.rpartition(".")[0]] = None
    units = [module.get_submodule(path) for path in paths if path]
    # A weight that two units share is gathered with the rest of the module.
    owners = {}
    for owner in module.modules():
        for parameter in owner.parameters(recurse=False):
            owners.setdefault(parameter, set()).add(owner)
    units = [u for u in units if all(owners[p] <= set(u.modules()) for p in u.parameters())]
    # Inner modules come before those that contain them.
    return sorted(units, key=lambda unit: sum(1 for _ in unit.modules()))


if __name__ == "__main__":
    for weight, shape in _weights_and_shapes():
        print(weight, *shape)
