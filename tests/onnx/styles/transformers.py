"""Parts of transformers, computed with PyTorch."""

import math

import numpy
import torch
import torch.nn.functional as F

from styles.writing import EPS, double


def attend(q, k, v, heads, mask=None, kv_heads=None):
    """Returns the attention output [b, s, width]; `mask` is added to the scores."""
    b, s, w = q.shape
    size = w // heads
    q, k, v = (t.view(b, -1, t.shape[-1] // size, size).transpose(1, 2) for t in (q, k, v))
    if kv_heads:
        k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
    scores = q @ k.transpose(-2, -1) / math.sqrt(size)
    scores = scores if mask is None else scores + mask
    return (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, w)


def make_mask(mask):
    """Returns what to add to the scores for a mask of 0 and 1: -10000 where it is 0."""
    return (1 - double(mask))[:, None, None, :] * -10000.0


def make_causal_mask(s):
    return torch.full((s, s), -1e30, dtype=torch.float64).triu(1)


def norm(x, scale, bias):
    return F.layer_norm(x, x.shape[-1:], scale, bias, EPS)


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(float(numpy.float32(math.sqrt(2 / math.pi))) * (x + float(numpy.float32(0.044715)) * x ** 3)))


def gelu_erf(x):
    return x * 0.5 * (1 + torch.erf(x / float(numpy.float32(math.sqrt(2)))))


def run_encoder_layer(x, w, p, heads, mask, act):
    """Computes a layer of BERT, with norms after the residual sums and weights [in, out]."""
    lin = lambda t, n: t @ w[p + n + ".w"] + w[p + n + ".b"]
    a = attend(lin(x, "q"), lin(x, "k"), lin(x, "v"), heads, mask)
    x = norm(x + lin(a, "o"), w[p + "n1.g"], w[p + "n1.b"])
    return norm(x + lin(act(lin(x, "up")), "down"), w[p + "n2.g"], w[p + "n2.b"])


def add_layer_weights(f, p, width, inner):
    """Adds the weights of an encoder layer to the file, with names that begin with `p`."""
    for n, i, o in (("q", width, width), ("k", width, width), ("v", width, width), ("o", width, width),
                    ("up", width, inner), ("down", inner, width)):
        f.weight(p + n + ".w", i, o)
        f.weight(p + n + ".b", o)
    for n in ("n1", "n2"):
        f.weight(p + n + ".g", width, offset=1)
        f.weight(p + n + ".b", width)
