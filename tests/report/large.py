"""Synthetic data of a report on a large plan: many nodes without repetition, and many tasks in a pipeline of
four stages. Only the size matters."""

import random


def build_document(nodes=10_000, spans=100_000):
    random.seed(1)
    return {"tandem_report": 1, "title": "large", "headline": build_headline(), "explanation": build_explanation(),
            "strategies": {"points": [], "baselines": [], "why_none": "it is made up"}, "search": None,
            "graph": build_graph(nodes), "before": None, "machine": build_machine(),
            "timeline": build_timeline(nodes, spans)}


def build_headline():
    return {"model": "large", "machine": "made_up:4", "devices": 16, "batch": 64, "dtype": "fp32", "optimizer": "adam",
            "strategy": "search", "task": "pretrain", "iteration_s": 0.1, "throughput": 640.0, "compute_s": 0.07,
            "exposed_comm_s": 0.02, "bubble_s": 0.01, "memory_bytes": 10_000_000_000, "mfu": 0.4}


def build_explanation():
    kinds = ["compute", "embedding", "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"]
    breakdown = {k: {"serialized_s": 0.0, "overlapped_s": 0.0, "exposed_s": 0.0} for k in kinds}
    breakdown["compute"].update(serialized_s=0.07, exposed_s=0.05, overlapped_s=0.02)
    breakdown["all_reduce"].update(serialized_s=0.04, exposed_s=0.02, overlapped_s=0.02)
    return {"feasible": True, "memory_limit_bytes": 16_000_000_000, "breakdown": breakdown, "bound_by": "compute",
            "memory_at_peak": {"inputs_bytes": 0, "weights_bytes": 4e9, "optimizer_state_bytes": 2e9,
                               "activations_bytes": 3e9, "gathered_weights_bytes": 0, "gradients_bytes": 1e9, "unused_bytes": 0, "cache_bytes": 0,
                               "device": 0, "when": "the update of %n1", "largest": "", "largest_bytes": 0},
            "schedule": {"order": "1f1b", "stages": 4, "micro_batches": 16, "in_words": ["It is made up."]},
            "rules": [], "slowest_operators": [], "most_exposed": [], "largest_tensors": []}


def build_graph(count):
    out = {"ops": ["linear", "add", "weight"], "types": ["[64/4, 1024] fp32", "[1024, 1024] fp32"],
           "how": ["batch over node 4", ""], "layouts": ["00rr", "rrrr"], "name": [], "op": [], "inputs": [],
           "source": [], "type": [], "how_of": [], "layout": [], "stage": [], "bytes": [], "recomputed": [],
           "moves": [], "blocks": [], "facts": {}, "rules": {}, "steps": 0, "rule_texts": {}}
    for n in range(count):
        weight = n % 4 == 0
        reads = [] if weight else [n - 1] if n < 8 else [n - 1, n - random.choice([2, 3, 5, 6])]
        if not weight:
            reads = [r - 1 if r % 4 == 0 and r > 1 and r != n - 1 else r for r in reads]
            before = n - 2 if (n - 1) % 4 == 0 else n - 1
            reads = sorted({r for r in [*reads, before] if 0 <= r < n})
        out["name"].append(f"n{n}")
        out["op"].append(2 if weight else n % 2)
        out["inputs"].append(reads)
        out["source"].append("weight" if weight else "")
        for key, value in (("type", 1 if weight else 0), ("how_of", 0), ("layout", 0), ("stage", 0),
                           ("bytes", 65536), ("recomputed", False)):
            out[key].append(value)
        if n % 5 == 1 and reads:
            out["moves"].append([n, 0, "all_reduce", "node 4", 65536, 16, False, False])
    return out


def build_machine():
    classes = [{"name": f"devices of rank {c}", "device": 4 * c, "compute_s": 0.07, "exposed_s": 0.02, "idle_s": 0.01,
                "memory_bytes": 10_000_000_000} for c in range(4)]
    level = {"bytes_per_s": 1e10, "bytes_per_s_and_device": 1e10, "latency_s": 1e-6, "shared": False, "topology": "switch"}
    return {"name": "made_up:4", "devices": 16, "levels": [{"name": "node", "count": 4, **level}, {"name": "gpu", "count": 4, **level}],
            "groups": [{"name": "gpu", "flops_per_s": 1e14, "memory_bytes": 16e9, "reserve_bytes": 0, "bytes_per_s": 1e12, "units": None}],
            "digits": [{"level": 0, "size": 2}, {"level": 0, "size": 2}, {"level": 1, "size": 2}, {"level": 1, "size": 2}],
            "class_digits": [0, 1], "stage_digits": [0, 1], "stages": 4, "classes": classes}


def build_timeline(nodes, spans):
    iteration = 100_000_000
    tasks = {k: [] for k in ("name", "what", "kind", "pass", "node", "bytes", "over")}
    for t in range(4000):
        moves = t % 4 == 3
        node = (7 * t) % nodes
        for key, value in (("name", f"n{node}"), ("what", f"the forward pass of %n{node}"), ("kind", "all_reduce" if moves else "compute"),
                           ("pass", "forward"), ("node", node), ("bytes", 65536 if moves else 0), ("over", 0 if moves else None)):
            tasks[key].append(value)
    classes = []
    for number in range(4):
        streams = []
        for stream in range(2):
            count = spans // 8
            length = iteration / count
            starts = [int(i * length) for i in range(count)]
            streams.append({"name": "compute" if stream == 0 else "node: collectives", "computes": stream == 0,
                            "task": [(4 * i + 3 * stream) % 4000 for i in range(count)], "start": starts,
                            "duration": [int(length * random.uniform(0.3, 1)) for _ in range(count)],
                            "micro_batch": [i % 16 for i in range(count)]})
        points = 4000
        memory = {"at": [iteration * i // points for i in range(points)], "weights": [4e9] * points,
                  "optimizer_state": [2e9] * points, "gradients": [1e9 * (i % 500) / 500 for i in range(points)],
                  "activations": [3e9 * (i % 900) / 900 for i in range(points)], "gathered_weights": [0] * points, "inputs": [0] * points}
        classes.append({"number": number, "name": f"devices of rank {number}", "streams": streams, "memory": memory})
    return {"iteration": iteration, "classes_in_all": 4, "busiest": 0, "micro_batches": 16, "steps_overlap": False,
            "tasks": tasks, "overs": ["node 4"], "classes": classes}
