"""A second implementation of MAD-Max's public model, from the formulas in docs/internals/madmax.md. It lists the
tasks of two streams with the names of the tasks that each waits for, then runs an event loop. It is slow and
simple, and shares nothing with src/madmax, which folds over layers and stores no list."""


class Streams:
    """Two in-order queues. A task starts when its queue is free and the tasks that it waits for have ended."""

    def __init__(self):
        self.queues = {"compute": [], "network": []}
        self.pending = set()  # names of tasks that the next compute task waits for

    def compute(self, name, kind, seconds, after=()):
        self.queues["compute"].append((name, kind, seconds, set(after) | self.pending))
        self.pending = set()

    def communicate(self, name, kind, seconds, after=()):
        self.queues["network"].append((name, kind, seconds, set(after)))
        return name

    def list_last(self, queue="compute"):
        """Returns the name of the last task of a queue, in a list that is empty if there is none."""
        tasks = self.queues[queue]
        return [tasks[-1][0]] if tasks else []

    def add_barrier(self):
        everything = set(self.list_last("compute") + self.list_last("network"))
        self.queues["compute"].append(("barrier", None, 0, everything))
        self.queues["network"].append(("barrier of the network", None, 0, everything))

    def run(self):
        """Runs all tasks and returns the time at which the last one ends."""
        ends, free, at = {}, {"compute": 0.0, "network": 0.0}, {"compute": 0, "network": 0}
        moved = True
        while moved:
            moved = False
            for queue, tasks in self.queues.items():
                while at[queue] < len(tasks) and tasks[at[queue]][3] <= ends.keys():
                    name, _, seconds, after = tasks[at[queue]]
                    assert name not in ends, name
                    start = max([free[queue]] + [ends[other] for other in after])
                    ends[name] = free[queue] = start + seconds
                    at[queue] += 1
                    moved = True
        assert all(at[queue] == len(tasks) for queue, tasks in self.queues.items())
        return max(free.values())

    def sum_seconds(self, kind):
        return sum(task[2] for tasks in self.queues.values() for task in tasks if task[1] == kind)


class Rates:
    def __init__(self, system):
        self.devices = system["num_devices"]
        per_node = self.devices // system["num_nodes"]
        intra = system["num_nvlinks"] * system["bw_per_nvlink"] / 2 * system["nvlink_util"]
        inter = system["num_ibroce_ports"] * system["ibroce_bw"] / 2 * system["ibroce_util"]
        inter /= per_node
        p = system["ar_perc_intra"]
        if system["num_nodes"] == 1:
            inter, p = intra, 1
        self.all_to_all = [intra, inter]
        self.all_reduce = [intra, p * intra + (1 - p) * inter]
        self.gather = [2 * rate for rate in self.all_reduce]
        self.memory = system["mem_bw"] * system["mem_bw_util"]
        self.flops = {
            size: system[key] * system["flops_util"]
            for size, key in ((1, "i8_ops"), (2, "f16_flops"), (4, "f32_flops"), (8, "f64_flops"))
        }


class Strategy:
    def __init__(self, task, layers):
        self.methods = task[layers + "_parallel"]
        self.degrees = task[layers + "_parallel_degree"]

    def find_degree(self, method):
        return self.degrees[self.methods.index(method)] if method in self.methods else 1

    def find_rate(self, method, rates, levels=None):
        """Returns the rate at the level of a method, as if the strategy had `levels` levels."""
        level = self.methods.index(method)
        return rates[-(levels or len(self.methods)) + level]


class Layer:
    """The tasks of one dense layer on one device."""

    def __init__(self, name, strategy, rates, size, flops, weights, activation, exchange=0):
        tp, fsdp = strategy.find_degree("tp"), strategy.find_degree("fsdp")
        self.name = name
        self.seconds = flops / tp / rates.flops[size]
        self.weights = weights / tp / fsdp
        self.gather = weights / tp / strategy.find_rate("fsdp", rates.gather) if fsdp > 1 else 0
        self.gradient = 0
        if strategy.find_degree("ddp") > 1:
            whole = strategy.methods[0] == "tp"  # the whole layer's gradient under (tp, ddp)
            self.gradient = weights / (1 if whole else tp) / strategy.find_rate("ddp", rates.all_reduce)
        self.activation = activation / strategy.find_rate("tp", rates.all_reduce) if tp > 1 else 0
        self.activation_back = self.activation
        self.exchange = exchange / strategy.find_rate("tp", rates.all_to_all) if tp > 1 else 0
        self.tensor_first = strategy.methods[0] == "tp"
        self.blocks = True  # the layer before it in the backward pass waits for the activation

    def copy(self, **changes):
        out = object.__new__(Layer)
        out.__dict__ = {**self.__dict__, **changes}
        return out


def list_mlp_layers(part, model, strategy, rates, batch):
    """Returns the layers of the bottom or top MLP."""
    dim, size = model["mlp_dim"], model["bytes_per_nonemb_param"]
    experts, active = 1, 1
    if part == "top" and model["type"] == "DLRM_MoE":
        experts, active = model["num_experts"], model["num_active_experts"]
    activation = batch * dim * size
    out = []
    for i in range(model[f"num_{part}_mlp_layers"]):
        layer = Layer(f"{part}{i}", strategy, rates, size, 2 * dim**2 * batch * active,
                      dim**2 * size * experts, activation,
                      activation / experts if experts > 1 else 0)
        out.append(layer if i % 2 == 1 else layer.copy(activation=0, activation_back=0))
    return out


def count_tokens(model):
    """Returns the length of a sequence."""
    if model["type"] == "ViT":
        return (model["image_size"] // model["patch_dim"]) ** 2
    return model["transformer_seq_len"]


def list_blocks(model, strategy, rates, batch):
    """Returns (attention, FFN) of each transformer layer."""
    d, ff = model["attention_dim"], model["transformer_fc_dim"]
    size, tokens = model["bytes_per_nonemb_param"], count_tokens(model) * batch
    experts, active = 1, 1
    if model["type"] == "LLM_MoE":
        experts, active = model["num_experts"], model["num_active_experts"]
    activation = tokens * d * size
    attention = Layer("attention", strategy, rates, size, 2 * 4 * d**2 * tokens, 4 * d**2 * size,
                      activation)
    ffn = Layer("ffn", strategy, rates, size, 2 * 2 * d * ff * tokens * active,
                2 * d * ff * size * experts, activation, activation / experts if experts > 1 else 0)
    return [(attention.copy(name=f"attention{i}"), ffn.copy(name=f"ffn{i}"))
            for i in range(model["num_transformer_layers"])]


class Embedding:
    def __init__(self, model, task, rates):
        self.devices = task["emb_parallel_degree"][0]
        is_sharded = task["emb_parallel"] == ["mp"]
        if model["type"].startswith("DLRM"):
            values = model["num_tables"] * model["pooling_size"] * model["emb_dim"]
            stored = model["num_tables"] * model["entries_per_table"] * model["emb_dim"]
        else:  # a sequence looks up its tokens and its positions
            tokens, d = count_tokens(model), model["attention_dim"]
            rows = 3 * model["patch_dim"] ** 2 if model["type"] == "ViT" else model["entries_per_table"]
            values, stored = 2 * tokens * d, (rows + tokens) * d
        parts = self.devices if is_sharded else 1
        size = model["bytes_per_emb_param"]
        moved = values * size * task["local_emb_bs"] / parts
        self.lookup = moved / rates.memory
        self.weights = stored * size / parts
        self.exchange = 2 * moved / self.devices / rates.all_to_all[1] if is_sharded else 0
        self.gradient = 0 if is_sharded else moved / rates.all_reduce[1]


def add_layer(streams, layer, tag, seconds, gathered):
    """Adds the tasks of a layer in one pass, which waits for the task `gathered`."""
    if gathered:
        streams.pending.add(gathered)
    if layer.exchange:
        streams.pending.add(streams.communicate(f"{tag} {layer.name} to experts", "all2all",
                                               layer.exchange, streams.list_last()))
    streams.compute(f"{tag} {layer.name}", "gemm", seconds)
    if layer.exchange:
        streams.pending.add(streams.communicate(f"{tag} {layer.name} from experts", "all2all",
                                               layer.exchange, [f"{tag} {layer.name}"]))


def add_gather(streams, layer, tag, done):
    """Adds the all-gather of FSDP, which waits for the layer before last, and returns its name, or None."""
    if not layer.gather:
        return None
    after = [done[-2]] if len(done) > 1 else []
    return streams.communicate(f"{tag} {layer.name} gather", "allgather", layer.gather, after)


def add_forward(streams, layers, done):
    """Adds the forward pass of `layers`, and their names to `done`."""
    for layer in layers:
        add_layer(streams, layer, "fwd", layer.seconds, add_gather(streams, layer, "fwd", done))
        done.append(f"fwd {layer.name}")
        if layer.activation:
            streams.pending.add(streams.communicate(f"fwd {layer.name} activation", "allreduce",
                                                   layer.activation, streams.list_last()))


def add_backward_layer(streams, layer, gathered, synchronised):
    """Adds the backward pass of a layer, and the sum of its gradients if `synchronised`."""
    name = f"bwd {layer.name}"
    add_layer(streams, layer, "bwd", 2 * layer.seconds, gathered)

    def add_gradients():
        if synchronised and layer.gather:
            streams.communicate(name + " scatter", "reducescatter", layer.gather, [name])
        if synchronised and layer.gradient:
            streams.communicate(name + " gradient", "allreduce", layer.gradient, [name])

    if not layer.tensor_first:
        add_gradients()
    if layer.activation_back:
        end = streams.communicate(name + " activation", "allreduce", layer.activation_back, [name])
        if layer.blocks:
            streams.pending.add(end)
    if layer.tensor_first:
        add_gradients()


def add_backward(streams, layers, synchronised, done):
    """Adds the backward pass of `layers`, in this order, and their names to `done`."""
    for layer in layers:
        add_backward_layer(streams, layer, add_gather(streams, layer, "bwd", done), synchronised)
        done.append(f"bwd {layer.name}")


def reverse_mlp(layers):
    """Returns the layers of the backward pass. An all-reduce follows every second layer of each pass."""
    kinds = layers[:2]
    return [kinds[i % 2].copy(name=layer.name) if len(kinds) > 1 else layer
            for i, layer in enumerate(reversed(layers))]


def add_recommendation(model, system, task, rates, streams):
    """Adds the tasks of a recommendation model; returns its global batch and weights of a device in bytes."""
    strategy = Strategy(task, "mlp")
    batch = task["local_mlp_bs"]
    embedding = Embedding(model, task, rates)
    bottom = list_mlp_layers("bot", model, strategy, rates, batch)
    top = list_mlp_layers("top", model, strategy, rates, batch)
    middle = []
    top_back = reverse_mlp(top)
    if model["type"] == "DLRM_Transformer":
        own = Strategy(task, "transformer")
        middle = list_blocks(model, own, rates, task["local_transformer_bs"])
        # MAD-Max's backward pass uses the levels of the other strategy, and does not wait for the FFN's all-reduce.
        if "tp" in strategy.methods:
            ratio = strategy.find_rate("tp", rates.all_reduce) / strategy.find_rate("tp", rates.all_reduce,
                                                                      len(own.methods))
            top_back = [l.copy(activation_back=l.activation * ratio) for l in top_back]
        ratio = 1
        if "tp" in own.methods:
            ratio = own.find_rate("tp", rates.all_reduce) / own.find_rate("tp", rates.all_reduce,
                                                            len(strategy.methods))
        middle = [(a, f.copy(activation_back=f.activation * ratio, blocks=False))
                  for a, f in middle]
    done = []
    streams.compute("fwd lookup", "emb", embedding.lookup)
    exchanged = streams.communicate("fwd exchange", "all2all", embedding.exchange, ["fwd lookup"])
    add_forward(streams, bottom, done)
    streams.pending.add(exchanged)
    for pair in middle:
        add_forward(streams, pair, done)
    add_forward(streams, top, done)
    if task["type"] != "inference":
        frozen = {key: task["type"] == "finetune" and task.get("freeze_" + key, False)
                  for key in ("top_mlp", "bot_mlp", "emb", "transformer")}
        streams.add_barrier()
        done = []
        add_backward(streams, top_back, not frozen["top_mlp"], done)
        if not frozen["transformer"]:
            for attention, ffn in reversed(middle):
                add_backward(streams, [ffn, attention], True, done)
        after = []
        if not frozen["emb"]:
            after = [streams.communicate("bwd exchange", "all2all", embedding.exchange,
                                         streams.list_last())]
        if not frozen["bot_mlp"]:
            add_backward(streams, reverse_mlp(bottom), True, done)
        if not frozen["emb"]:
            streams.pending = set()  # the lookup waits for its exchange alone, not for the bottom MLP's last all-reduce
            streams.compute("bwd lookup", "emb", embedding.lookup, after)
    weights = embedding.weights + sum(l.weights for l in bottom + top)
    weights += sum(a.weights + f.weights for a, f in middle)
    return batch * rates.devices / strategy.find_degree("tp"), weights


def add_transformer(model, system, task, rates, streams):
    """Adds the tasks of a transformer; returns its global batch and weights of a device in bytes."""
    strategy = Strategy(task, "transformer")
    batch = task["local_transformer_bs"]
    embedding = Embedding(model, task, rates)
    pairs = list_blocks(model, strategy, rates, batch)
    streams.compute("fwd lookup", "emb", embedding.lookup)
    if embedding.exchange:
        streams.pending.add(streams.communicate("fwd exchange", "all2all", embedding.exchange,
                                               ["fwd lookup"]))
    done = []
    for pair in pairs:
        add_forward(streams, pair, done)
    if task["type"] != "inference":
        finetune = task["type"] == "finetune"
        trained = len(pairs)
        if finetune:
            trained = task.get("min_frozen_layer", trained)
            if task.get("freeze_transformer", False):
                trained = 0
        streams.add_barrier()
        if model["type"] == "ViT":
            add_prefetching_backward(streams, pairs, strategy, rates, trained)
        else:
            done = []
            for i in reversed(range(len(pairs))):
                add_backward(streams, [pairs[i][1], pairs[i][0]], i < trained, done)
        if not (finetune and task.get("freeze_emb", False)):
            if embedding.exchange:
                streams.communicate("bwd exchange", "all2all", embedding.exchange, streams.list_last())
            streams.compute("bwd lookup", "emb", embedding.lookup, streams.list_last("network"))
            if embedding.gradient:
                streams.communicate("bwd lookup gradient", "allreduce", embedding.gradient,
                                    ["bwd lookup"])
    weights = embedding.weights + sum(a.weights + f.weights for a, f in pairs)
    return batch * rates.devices / strategy.find_degree("tp"), weights


def add_prefetching_backward(streams, pairs, strategy, rates, trained):
    """Adds the backward pass of a vision model, which gathers a layer's weights during the layer before.

    The first gather exists even if nothing is sharded; it has the degree and the rate of the first level."""
    ffn = pairs[-1][1]
    first = rates.gather[-len(strategy.methods)]
    gathered = streams.communicate("bwd first gather", "allgather",
                                   ffn.weights * strategy.degrees[0] / first)
    for i in reversed(range(len(pairs))):
        attention, ffn = pairs[i]
        ahead = add_gather(streams, attention, "bwd", [])
        add_backward_layer(streams, ffn, gathered, i < trained)
        gathered = add_gather(streams, pairs[i - 1][1], "bwd", []) if i > 0 else None
        add_backward_layer(streams, attention, ahead, i < trained)


def evaluate(model, system, task):
    """Returns the output of MAD-Max for these configurations."""
    rates, streams = Rates(system), Streams()
    add_tasks = add_recommendation if model["type"].startswith("DLRM") else add_transformer
    batch, weights = add_tasks(model, system, task, rates, streams)
    end = streams.run()
    kinds = ("gemm", "emb", "all2all", "allreduce", "allgather", "reducescatter")
    total = {kind: streams.sum_seconds(kind) for kind in kinds}
    compute = total["gemm"] + total["emb"]
    serialized = sum(total.values())
    exposed = end - compute
    moved = serialized - compute
    out = {f"{kind}_ms": 1e3 * seconds for kind, seconds in total.items()}
    return {**out, "global_bs": batch, "iter_ms": 1e3 * end, "qps": batch / end,
            "exposed_ms": 1e3 * exposed, "exposed_pct": 100 * exposed / moved if moved else 0,
            "overlapped_ms": 1e3 * (serialized - end), "serialized_ms": 1e3 * serialized,
            "weight_gb_per_device": weights / 1e9}
