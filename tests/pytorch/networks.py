"""Networks in PyTorch, written by hand for training.py: functions of weights and inputs that return the loss."""

import dataclasses
import math
import typing

import torch
from torch.nn import functional as F

BATCH = 16


@dataclasses.dataclass
class Network:
    model: str  # the argument of `tandem train`, or a graph's text
    draw_inputs: typing.Callable
    compute_loss: typing.Callable  # (weights, inputs)
    rates: dict  # learning rates by optimizer

    @property
    def is_text(self):
        return self.model.startswith("graph ")


def draw_real(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def draw_index(below, *shape):
    return torch.randint(below, shape)


def strip_lines(lines):
    """Returns the text without blanks around its lines."""
    return "\n".join(line.strip() for line in lines.strip().split("\n")) + "\n"


def cross_entropy(logits, target):
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1))


# --- An MLP --------------------------------------------------------------------------------------

def compute_mlp_loss(w, x):
    y = F.linear(torch.relu(F.linear(x["x"], w["w1"])), w["w2"])
    exact = y if y.dtype == torch.float64 else y.float()
    return F.mse_loss(exact, x["target"].to(exact.dtype))


MLP = Network("mlp:layers=2,hidden=64,inputs=48,outputs=32",
              lambda: {"x": draw_real(BATCH, 48), "target": draw_real(BATCH, 32)}, compute_mlp_loss,
              {"sgd": 0.05, "adam": 0.002})

# --- Images: a residual block with batch normalization, grouped convolution, both kinds of pooling ----

IMAGES = strip_lines(f"""
    graph images
    %image = input() shape=[{BATCH}, 3, 16, 16] dtype=fp64
    %w_stem = weight() shape=[8, 3, 5, 5] dtype=fp64
    %stem = conv2d(%image, %w_stem) stride=[2, 2] padding=[2, 2]
    %stem_scale = weight() shape=[8] dtype=fp64
    %stem_shift = weight() shape=[8] dtype=fp64
    %stem_norm = batch_norm(%stem, %stem_scale, %stem_shift)
    %stem_relu = relu(%stem_norm)
    %pool = max_pool2d(%stem_relu) kernel=[3, 3] stride=[2, 2] padding=[1, 1]
    %w_inner = weight() shape=[8, 4, 3, 3] dtype=fp64
    %inner = conv2d(%pool, %w_inner) padding=[1, 1] groups=2
    %inner_scale = weight() shape=[8] dtype=fp64
    %inner_shift = weight() shape=[8] dtype=fp64
    %inner_norm = batch_norm(%inner, %inner_scale, %inner_shift)
    %sum = add(%inner_norm, %pool)
    %sum_relu = relu(%sum)
    %average = avg_pool2d(%sum_relu) kernel=[2, 2] stride=[2, 2]
    %pooled = global_avg_pool(%average)
    %w_logits = weight() shape=[5, 8] dtype=fp64
    %b_logits = weight() shape=[5] dtype=fp64
    %logits = linear(%pooled, %w_logits, %b_logits)
    %target = input() shape=[{BATCH}] dtype=int64 below=5
    %loss = cross_entropy(%logits, %target)
    return %loss
""")


def compute_images_loss(w, x):
    def norm(y, name):
        return F.batch_norm(y, None, None, w[f"{name}_scale"], w[f"{name}_shift"], training=True)

    stem = torch.relu(norm(F.conv2d(x["image"], w["w_stem"], stride=2, padding=2), "stem"))
    pool = F.max_pool2d(stem, 3, 2, 1)
    inner = norm(F.conv2d(pool, w["w_inner"], padding=1, groups=2), "inner")
    pooled = F.avg_pool2d(torch.relu(inner + pool), 2).mean((2, 3))
    return cross_entropy(F.linear(pooled, w["w_logits"], w["b_logits"]), x["target"])


# --- Transformers --------------------------------------------------------------------------------

LAYERS, HIDDEN, VOCAB, SEQ = 2, 16, 20, 6


def make_token_inputs(*more):
    """Returns a function that draws tokens, targets and `more` inputs, each a (name, bound)."""
    return lambda: {"tokens": draw_index(VOCAB, BATCH, SEQ), "target": draw_index(VOCAB, BATCH, SEQ),
                    **{name: draw_index(below, BATCH, SEQ) for name, below in more}}


def project_heads(x, weight):
    """Returns [batch, head, sequence, width] of a projection with a weight [head, width, hidden]."""
    count, width, hidden = weight.shape
    return F.linear(x, weight.reshape(-1, hidden)).unflatten(-1, (count, width)).transpose(1, 2)


def merge_heads(x, weight):
    """Returns [batch, sequence, hidden] of all heads, by a projection with a weight [hidden, head, width]."""
    return F.linear(x.transpose(1, 2).flatten(2), weight.flatten(1))


def compute_bert_loss(w, x):
    def norm(y, name):
        return F.layer_norm(y, (HIDDEN,), w[f"{name}_norm_scale"], w[f"{name}_norm_shift"], 1e-12)

    y = F.embedding(x["tokens"], w["w_tokens"]) + w["w_positions"][:SEQ] + F.embedding(x["types"], w["w_types"])
    y = norm(y, "embedding")
    for n in range(LAYERS):
        layer = {name.split(".", 1)[1]: t for name, t in w.items() if name.startswith(f"l{n}.")}
        q, k, v = (project_heads(y, layer[f"w_{name}"]) + layer[f"b_{name}"] for name in "qkv")
        weights = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1)
        y = norm(y + merge_heads(weights @ v, layer["w_o"]) + layer["b_o"], f"l{n}.attention")
        inner = F.gelu(F.linear(y, layer["w_ffn1"], layer["b_ffn1"]))
        y = norm(y + F.linear(inner, layer["w_ffn2"], layer["b_ffn2"]), f"l{n}.ffn")
    y = norm(F.gelu(F.linear(y, w["w_head"], w["b_head"])), "head")
    return cross_entropy(F.linear(y, w["w_tokens"], w["b_logits"]), x["target"])


def rms_norm(x, scale):
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-5) * scale


def rotate(x, base):
    """Applies rotary embeddings: the halves of a head are complex numbers, rotated by the position."""
    half = x.shape[-1] // 2
    angles = torch.outer(torch.arange(x.shape[-2], dtype=torch.float64),
                         base ** (-torch.arange(half, dtype=torch.float64) / half))
    rotated = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([rotated.real, rotated.imag], -1)


def run_gated_ffn(x, gate, up, down):
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


def run_experts(x, layer, active):
    """Returns the output of a mixture of experts. Every expert computes all tokens; inactive experts have gate 0."""
    scores = F.linear(x, layer["w_router"])
    best = scores.topk(active, -1)
    gates = torch.zeros_like(scores).scatter(-1, best.indices, best.values.softmax(-1))
    outputs = [run_gated_ffn(x, *(layer[f"w_expert_{part}"][e] for part in ("gate", "up", "down")))
               for e in range(gates.shape[-1])]
    return sum(gates[..., e:e + 1] * y for e, y in enumerate(outputs))


def compute_llama_loss(w, x, base=1e4, active=None):
    y = F.embedding(x["tokens"], w["w_tokens"])
    future = torch.ones(SEQ, SEQ).triu(1).bool()
    for n in range(LAYERS):
        layer = {name.split(".", 1)[1]: t for name, t in w.items() if name.startswith(f"l{n}.")}
        normal = rms_norm(y, layer["attention_norm_scale"])
        q, k, v = (project_heads(normal, layer[f"w_{name}"]) for name in "qkv")
        q, k = rotate(q, base), rotate(k, base)
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
        scores = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(future, -math.inf)
        y = y + merge_heads(scores.softmax(-1) @ v, layer["w_o"])
        normal = rms_norm(y, layer["ffn_norm_scale"])
        if active is None:
            y = y + run_gated_ffn(normal, *(layer[f"w_ffn_{part}"] for part in ("gate", "up", "down")))
        else:
            y = y + run_experts(normal, layer, active)
    return cross_entropy(F.linear(rms_norm(y, w["final_norm_scale"]), w["w_logits"]), x["target"])


# --- Recommendations -----------------------------------------------------------------------------

TABLES, ROWS = 3, 50


def draw_dlrm_inputs():
    return {"dense": draw_real(BATCH, 6), "target": draw_real(BATCH, 1),
            **{f"index{t}": draw_index(ROWS, BATCH, 2) for t in range(TABLES)}}


def compute_dlrm_loss(w, x):
    dense = F.linear(torch.relu(F.linear(x["dense"], w["w_bottom1"])), w["w_bottom2"])
    bags = [F.embedding_bag(x[f"index{t}"], w[f"table{t}"], mode="sum") for t in range(TABLES)]
    top = torch.relu(F.linear(torch.cat([dense, *bags], 1), w["w_top1"]))
    return F.mse_loss(F.linear(top, w["w_top2"]), x["target"])


SIZES = f"layers={LAYERS},hidden={HIDDEN},heads=4,ffn=24,vocab={VOCAB},seq={SEQ}"
NETWORKS = {
    "images": Network(IMAGES, lambda: {"image": draw_real(BATCH, 3, 16, 16), "target": draw_index(5, BATCH)},
                      compute_images_loss, {"sgd": 0.05, "adam": 0.002}),
    "bert": Network(f"bert_large:{SIZES}", make_token_inputs(("types", 2)), compute_bert_loss,
                    {"sgd": 0.5, "adam": 0.005}),
    "dlrm": Network(f"dlrm:tables={TABLES},rows={ROWS},dim=8,dense=6,bag=2,bottom=16-8,top=16-1", draw_dlrm_inputs,
                    compute_dlrm_loss, {"sgd": 0.05, "adam": 0.002}),
    "llama": Network(f"llama2_7b:{SIZES},kv_heads=2", make_token_inputs(), compute_llama_loss,
                     {"sgd": 0.3, "adam": 0.005}),
    "mixtral": Network(f"mixtral_8x7b:{SIZES},kv_heads=2,experts=4,active_experts=2", make_token_inputs(),
                       lambda w, x: compute_llama_loss(w, x, 1e6, 2), {"sgd": 0.3, "adam": 0.005}),
}
