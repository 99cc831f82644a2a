"""MAD-Max's public model a second time, from the formulas that docs/internals/madmax.md states: a list of what
the two streams do, with names of what each piece waits for, then an event loop. Slow and obvious;
it shares nothing with src/madmax, which folds over layers and keeps no list."""


class Streams:
    """Two queues in order. A piece starts when its queue is free and what it waits for has ended."""

    def __init__(self):
        self.queues = {"compute": [], "network": []}
        self.waited = set()  # names that the next compute waits for

    def compute(self, name, kind, seconds, after=()):
        self.queues["compute"].append((name, kind, seconds, set(after) | self.waited))
        self.waited = set()

    def communicate(self, name, kind, seconds, after=()):
        self.queues["network"].append((name, kind, seconds, set(after)))
        return name

    def last(self, queue="compute"):
        pieces = self.queues[queue]
        return [pieces[-1][0]] if pieces else []

    def barrier(self):
        everything = set(self.last("compute") + self.last("network"))
        self.queues["compute"].append(("barrier", None, 0, everything))
        self.queues["network"].append(("barrier of the network", None, 0, everything))

    def run(self):
        ends, free, at = {}, {"compute": 0.0, "network": 0.0}, {"compute": 0, "network": 0}
        moved = True
        while moved:
            moved = False
            for queue, pieces in self.queues.items():
                while at[queue] < len(pieces) and pieces[at[queue]][3] <= ends.keys():
                    name, _, seconds, after = pieces[at[queue]]
                    assert name not in ends, name
                    start = max([free[queue]] + [ends[other] for other in after])
                    ends[name] = free[queue] = start + seconds
                    at[queue] += 1
                    moved = True
        assert all(at[queue] == len(pieces) for queue, pieces in self.queues.items())
        return max(free.values())

    def total(self, kind):
        return sum(p[2] for pieces in self.queues.values() for p in pieces if p[1] == kind)


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

    def degree(self, method):
        return self.degrees[self.methods.index(method)] if method in self.methods else 1

    def at(self, method, rates, levels=None):
        """The rate at the level of a method; `levels`: as if the strategy had that many."""
        level = self.methods.index(method)
        return rates[-(levels or len(self.methods)) + level]


class Layer:
    """What one dense layer does on one device."""

    def __init__(self, name, strategy, rates, size, flops, weights, activation, exchange=0):
        tp, fsdp = strategy.degree("tp"), strategy.degree("fsdp")
        self.name = name
        self.seconds = flops / tp / rates.flops[size]
        self.kept = weights / tp / fsdp
        self.gather = weights / tp / strategy.at("fsdp", rates.gather) if fsdp > 1 else 0
        self.gradient = 0
        if strategy.degree("ddp") > 1:
            whole = strategy.methods[0] == "tp"  # the whole layer's gradient under (tp, ddp)
            self.gradient = weights / (1 if whole else tp) / strategy.at("ddp", rates.all_reduce)
        self.activation = activation / strategy.at("tp", rates.all_reduce) if tp > 1 else 0
        self.activation_back = self.activation
        self.exchange = exchange / strategy.at("tp", rates.all_to_all) if tp > 1 else 0
        self.tensor_first = strategy.methods[0] == "tp"
        self.blocks = True  # the layer before it in the backward pass waits for the activation

    def copy(self, **changes):
        out = object.__new__(Layer)
        out.__dict__ = {**self.__dict__, **changes}
        return out


def mlp(part, model, strategy, rates, batch):
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


def tokens_of(model):
    if model["type"] == "ViT":
        return (model["image_size"] // model["patch_dim"]) ** 2
    return model["transformer_seq_len"]


def blocks(model, strategy, rates, batch):
    d, ff = model["attention_dim"], model["transformer_fc_dim"]
    size, tokens = model["bytes_per_nonemb_param"], tokens_of(model) * batch
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
        spread = task["emb_parallel"] == ["mp"]
        if model["type"].startswith("DLRM"):
            values = model["num_tables"] * model["pooling_size"] * model["emb_dim"]
            stored = model["num_tables"] * model["entries_per_table"] * model["emb_dim"]
        else:  # a sequence looks up its tokens and its positions
            tokens, d = tokens_of(model), model["attention_dim"]
            rows = 3 * model["patch_dim"] ** 2 if model["type"] == "ViT" else model["entries_per_table"]
            values, stored = 2 * tokens * d, (rows + tokens) * d
        parts = self.devices if spread else 1
        size = model["bytes_per_emb_param"]
        moved = values * size * task["local_emb_bs"] / parts
        self.lookup = moved / rates.memory
        self.kept = stored * size / parts
        self.exchange = 2 * moved / self.devices / rates.all_to_all[1] if spread else 0
        self.gradient = 0 if spread else moved / rates.all_reduce[1]


def run_layer(streams, layer, tag, seconds, gathered):
    if gathered:
        streams.waited.add(gathered)
    if layer.exchange:
        streams.waited.add(streams.communicate(f"{tag} {layer.name} to experts", "all2all",
                                               layer.exchange, streams.last()))
    streams.compute(f"{tag} {layer.name}", "gemm", seconds)
    if layer.exchange:
        streams.waited.add(streams.communicate(f"{tag} {layer.name} from experts", "all2all",
                                               layer.exchange, [f"{tag} {layer.name}"]))


def gather(streams, layer, tag, done):
    """FSDP: an all-gather waits for the layer before last."""
    if not layer.gather:
        return None
    after = [done[-2]] if len(done) > 1 else []
    return streams.communicate(f"{tag} {layer.name} gather", "allgather", layer.gather, after)


def forward(streams, layers, done):
    for layer in layers:
        run_layer(streams, layer, "fwd", layer.seconds, gather(streams, layer, "fwd", done))
        done.append(f"fwd {layer.name}")
        if layer.activation:
            streams.waited.add(streams.communicate(f"fwd {layer.name} activation", "allreduce",
                                                   layer.activation, streams.last()))


def backward_layer(streams, layer, gathered, synchronised):
    name = f"bwd {layer.name}"
    run_layer(streams, layer, "bwd", 2 * layer.seconds, gathered)

    def gradients():
        if synchronised and layer.gather:
            streams.communicate(name + " scatter", "reducescatter", layer.gather, [name])
        if synchronised and layer.gradient:
            streams.communicate(name + " gradient", "allreduce", layer.gradient, [name])

    if not layer.tensor_first:
        gradients()
    if layer.activation_back:
        end = streams.communicate(name + " activation", "allreduce", layer.activation_back, [name])
        if layer.blocks:
            streams.waited.add(end)
    if layer.tensor_first:
        gradients()


def backward(streams, layers, synchronised, done):
    for layer in layers:
        backward_layer(streams, layer, gather(streams, layer, "bwd", done), synchronised)
        done.append(f"bwd {layer.name}")


def reversed_mlp(layers):
    """Every second layer of a pass is followed by an all-reduce, from whichever end it begins."""
    kinds = layers[:2]
    return [kinds[i % 2].copy(name=layer.name) if len(kinds) > 1 else layer
            for i, layer in enumerate(reversed(layers))]


def recommendation(model, system, task, rates, streams):
    strategy = Strategy(task, "mlp")
    batch = task["local_mlp_bs"]
    embedding = Embedding(model, task, rates)
    bottom = mlp("bot", model, strategy, rates, batch)
    top = mlp("top", model, strategy, rates, batch)
    middle = []
    top_back = reversed_mlp(top)
    if model["type"] == "DLRM_Transformer":
        own = Strategy(task, "transformer")
        middle = blocks(model, own, rates, task["local_transformer_bs"])
        # The backward pass mixes up whose levels count, and does not wait for the FFN's sum.
        if "tp" in strategy.methods:
            ratio = strategy.at("tp", rates.all_reduce) / strategy.at("tp", rates.all_reduce,
                                                                      len(own.methods))
            top_back = [l.copy(activation_back=l.activation * ratio) for l in top_back]
        ratio = 1
        if "tp" in own.methods:
            ratio = own.at("tp", rates.all_reduce) / own.at("tp", rates.all_reduce,
                                                            len(strategy.methods))
        middle = [(a, f.copy(activation_back=f.activation * ratio, blocks=False))
                  for a, f in middle]
    done = []
    streams.compute("fwd lookup", "emb", embedding.lookup)
    exchanged = streams.communicate("fwd exchange", "all2all", embedding.exchange, ["fwd lookup"])
    forward(streams, bottom, done)
    streams.waited.add(exchanged)
    for pair in middle:
        forward(streams, pair, done)
    forward(streams, top, done)
    if task["type"] != "inference":
        frozen = {key: task["type"] == "finetune" and task.get("freeze_" + key, False)
                  for key in ("top_mlp", "bot_mlp", "emb", "transformer")}
        streams.barrier()
        done = []
        backward(streams, top_back, not frozen["top_mlp"], done)
        if not frozen["transformer"]:
            for attention, ffn in reversed(middle):
                backward(streams, [ffn, attention], True, done)
        after = []
        if not frozen["emb"]:
            after = [streams.communicate("bwd exchange", "all2all", embedding.exchange,
                                         streams.last())]
        if not frozen["bot_mlp"]:
            backward(streams, reversed_mlp(bottom), True, done)
        if not frozen["emb"]:
            streams.waited = set()  # for its exchange alone, not for the bottom MLP's last sum
            streams.compute("bwd lookup", "emb", embedding.lookup, after)
    weights = embedding.kept + sum(l.kept for l in bottom + top)
    weights += sum(a.kept + f.kept for a, f in middle)
    return batch * rates.devices / strategy.degree("tp"), weights


def transformer(model, system, task, rates, streams):
    strategy = Strategy(task, "transformer")
    batch = task["local_transformer_bs"]
    embedding = Embedding(model, task, rates)
    pairs = blocks(model, strategy, rates, batch)
    streams.compute("fwd lookup", "emb", embedding.lookup)
    if embedding.exchange:
        streams.waited.add(streams.communicate("fwd exchange", "all2all", embedding.exchange,
                                               ["fwd lookup"]))
    done = []
    for pair in pairs:
        forward(streams, pair, done)
    if task["type"] != "inference":
        finetune = task["type"] == "finetune"
        trained = len(pairs)
        if finetune:
            trained = task.get("min_frozen_layer", trained)
            if task.get("freeze_transformer", False):
                trained = 0
        streams.barrier()
        if model["type"] == "ViT":
            prefetching_backward(streams, pairs, strategy, rates, trained)
        else:
            done = []
            for i in reversed(range(len(pairs))):
                backward(streams, [pairs[i][1], pairs[i][0]], i < trained, done)
        if not (finetune and task.get("freeze_emb", False)):
            if embedding.exchange:
                streams.communicate("bwd exchange", "all2all", embedding.exchange, streams.last())
            streams.compute("bwd lookup", "emb", embedding.lookup, streams.last("network"))
            if embedding.gradient:
                streams.communicate("bwd lookup gradient", "allreduce", embedding.gradient,
                                    ["bwd lookup"])
    weights = embedding.kept + sum(a.kept + f.kept for a, f in pairs)
    return batch * rates.devices / strategy.degree("tp"), weights


def prefetching_backward(streams, pairs, strategy, rates, trained):
    """Vision models gather a layer's weights while the layer before is computed; the first gather is
    there even where nothing is sharded, of the first level's degree and at its rate."""
    ffn = pairs[-1][1]
    first = rates.gather[-len(strategy.methods)]
    gathered = streams.communicate("bwd first gather", "allgather",
                                   ffn.kept * strategy.degrees[0] / first)
    for i in reversed(range(len(pairs))):
        attention, ffn = pairs[i]
        ahead = gather(streams, attention, "bwd", [])
        backward_layer(streams, ffn, gathered, i < trained)
        gathered = gather(streams, pairs[i - 1][1], "bwd", []) if i > 0 else None
        backward_layer(streams, attention, ahead, i < trained)


def evaluate(model, system, task):
    rates, streams = Rates(system), Streams()
    family = recommendation if model["type"].startswith("DLRM") else transformer
    batch, weights = family(model, system, task, rates, streams)
    end = streams.run()
    kinds = ("gemm", "emb", "all2all", "allreduce", "allgather", "reducescatter")
    total = {kind: streams.total(kind) for kind in kinds}
    compute = total["gemm"] + total["emb"]
    serialized = sum(total.values())
    exposed = end - compute
    moved = serialized - compute
    out = {f"{kind}_ms": 1e3 * seconds for kind, seconds in total.items()}
    return {**out, "global_bs": batch, "iter_ms": 1e3 * end, "qps": batch / end,
            "exposed_ms": 1e3 * exposed, "exposed_pct": 100 * exposed / moved if moved else 0,
            "overlapped_ms": 1e3 * (serialized - end), "serialized_ms": 1e3 * serialized,
            "weight_gb_per_device": weights / 1e9}
