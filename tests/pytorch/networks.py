"""Networks as PyTorch computes them, by hand, for training.py: the loss from weights by name and inputs by name."""

import dataclasses
import math
import typing

import torch
from torch.nn import functional as F

BATCH = 16


@dataclasses.dataclass
class Network:
    model: str  # as `tandem train` takes it, or a graph's text
    inputs: typing.Callable  # makes them
    loss: typing.Callable  # (weights, inputs)
    rates: dict  # by optimizer

    @property
    def is_text(self):
        return self.model.startswith("graph ")


def real(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def index(below, *shape):
    return torch.randint(below, shape)


def joined(lines):
    return "\n".join(line.strip() for line in lines.strip().split("\n")) + "\n"


def cross_entropy(logits, target):
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1))


# --- A perceptron --------------------------------------------------------------------------------

def perceptron_loss(w, x):
    y = F.linear(torch.relu(F.linear(x["x"], w["w1"])), w["w2"])
    exact = y if y.dtype == torch.float64 else y.float()
    return F.mse_loss(exact, x["target"].to(exact.dtype))


PERCEPTRON = Network("mlp:layers=2,hidden=64,inputs=48,outputs=32",
                     lambda: {"x": real(BATCH, 48), "target": real(BATCH, 32)}, perceptron_loss,
                     {"sgd": 0.05, "adam": 0.002})

# --- Images: a residual block with batch normalisation, grouped convolution, both kinds of pooling ----

IMAGES = joined(f"""
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


def images_loss(w, x):
    def norm(y, name):
        return F.batch_norm(y, None, None, w[f"{name}_scale"], w[f"{name}_shift"], training=True)

    stem = torch.relu(norm(F.conv2d(x["image"], w["w_stem"], stride=2, padding=2), "stem"))
    pool = F.max_pool2d(stem, 3, 2, 1)
    inner = norm(F.conv2d(pool, w["w_inner"], padding=1, groups=2), "inner")
    pooled = F.avg_pool2d(torch.relu(inner + pool), 2).mean((2, 3))
    return cross_entropy(F.linear(pooled, w["w_logits"], w["b_logits"]), x["target"])


# --- Transformers --------------------------------------------------------------------------------

LAYERS, HIDDEN, VOCAB, SEQ = 2, 16, 20, 6


def tokens_and(*more):
    return lambda: {"tokens": index(VOCAB, BATCH, SEQ), "target": index(VOCAB, BATCH, SEQ),
                    **{name: index(below, BATCH, SEQ) for name, below in more}}


def heads(x, weight):
    """Of a projection [head, width, hidden]: [batch, head, sequence, width]."""
    count, width, hidden = weight.shape
    return F.linear(x, weight.reshape(-1, hidden)).unflatten(-1, (count, width)).transpose(1, 2)


def merged(x, weight):
    """Of all heads, by a projection [hidden, head, width]."""
    return F.linear(x.transpose(1, 2).flatten(2), weight.flatten(1))


def bert_loss(w, x):
    def norm(y, name):
        return F.layer_norm(y, (HIDDEN,), w[f"{name}_norm_scale"], w[f"{name}_norm_shift"], 1e-12)

    y = F.embedding(x["tokens"], w["w_tokens"]) + w["w_positions"][:SEQ] + F.embedding(x["types"], w["w_types"])
    y = norm(y, "embedding")
    for n in range(LAYERS):
        of = {name.split(".", 1)[1]: t for name, t in w.items() if name.startswith(f"l{n}.")}
        q, k, v = (heads(y, of[f"w_{name}"]) + of[f"b_{name}"] for name in "qkv")
        weights = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1)
        y = norm(y + merged(weights @ v, of["w_o"]) + of["b_o"], f"l{n}.attention")
        inner = F.gelu(F.linear(y, of["w_ffn1"], of["b_ffn1"]))
        y = norm(y + F.linear(inner, of["w_ffn2"], of["b_ffn2"]), f"l{n}.ffn")
    y = norm(F.gelu(F.linear(y, w["w_head"], w["b_head"])), "head")
    return cross_entropy(F.linear(y, w["w_tokens"], w["b_logits"]), x["target"])


def rms_norm(x, scale):
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-5) * scale


def rotated(x, base):
    """The halves of a head as the parts of complex numbers, turned by the position."""
    half = x.shape[-1] // 2
    angles = torch.outer(torch.arange(x.shape[-2], dtype=torch.float64),
                         base ** (-torch.arange(half, dtype=torch.float64) / half))
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([turned.real, turned.imag], -1)


def gated(x, gate, up, down):
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


def experts(x, of, active):
    """Every expert computes everything; what a token is not sent to counts nothing."""
    scores = F.linear(x, of["w_router"])
    best = scores.topk(active, -1)
    gates = torch.zeros_like(scores).scatter(-1, best.indices, best.values.softmax(-1))
    each = [gated(x, *(of[f"w_expert_{part}"][e] for part in ("gate", "up", "down"))) for e in range(gates.shape[-1])]
    return sum(gates[..., e:e + 1] * y for e, y in enumerate(each))


def llama_loss(w, x, base=1e4, active=None):
    y = F.embedding(x["tokens"], w["w_tokens"])
    future = torch.ones(SEQ, SEQ).triu(1).bool()
    for n in range(LAYERS):
        of = {name.split(".", 1)[1]: t for name, t in w.items() if name.startswith(f"l{n}.")}
        normal = rms_norm(y, of["attention_norm_scale"])
        q, k, v = (heads(normal, of[f"w_{name}"]) for name in "qkv")
        q, k = rotated(q, base), rotated(k, base)
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
        scores = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(future, -math.inf)
        y = y + merged(scores.softmax(-1) @ v, of["w_o"])
        normal = rms_norm(y, of["ffn_norm_scale"])
        if active is None:
            y = y + gated(normal, *(of[f"w_ffn_{part}"] for part in ("gate", "up", "down")))
        else:
            y = y + experts(normal, of, active)
    return cross_entropy(F.linear(rms_norm(y, w["final_norm_scale"]), w["w_logits"]), x["target"])


# --- Recommendations -----------------------------------------------------------------------------

TABLES, ROWS = 3, 50


def dlrm_inputs():
    return {"dense": real(BATCH, 6), "target": real(BATCH, 1),
            **{f"index{t}": index(ROWS, BATCH, 2) for t in range(TABLES)}}


def dlrm_loss(w, x):
    dense = F.linear(torch.relu(F.linear(x["dense"], w["w_bottom1"])), w["w_bottom2"])
    bags = [F.embedding_bag(x[f"index{t}"], w[f"table{t}"], mode="sum") for t in range(TABLES)]
    top = torch.relu(F.linear(torch.cat([dense, *bags], 1), w["w_top1"]))
    return F.mse_loss(F.linear(top, w["w_top2"]), x["target"])


SIZES = f"layers={LAYERS},hidden={HIDDEN},heads=4,ffn=24,vocab={VOCAB},seq={SEQ}"
NETWORKS = {
    "images": Network(IMAGES, lambda: {"image": real(BATCH, 3, 16, 16), "target": index(5, BATCH)}, images_loss,
                      {"sgd": 0.05, "adam": 0.002}),
    "bert": Network(f"bert_large:{SIZES}", tokens_and(("types", 2)), bert_loss, {"sgd": 0.5, "adam": 0.005}),
    "dlrm": Network(f"dlrm:tables={TABLES},rows={ROWS},dim=8,dense=6,bag=2,bottom=16-8,top=16-1", dlrm_inputs,
                    dlrm_loss, {"sgd": 0.05, "adam": 0.002}),
    "llama": Network(f"llama2_7b:{SIZES},kv_heads=2", tokens_and(), llama_loss, {"sgd": 0.3, "adam": 0.005}),
    "mixtral": Network(f"mixtral_8x7b:{SIZES},kv_heads=2,experts=4,active_experts=2", tokens_and(),
                       lambda w, x: llama_loss(w, x, 1e6, 2), {"sgd": 0.3, "adam": 0.005}),
}
