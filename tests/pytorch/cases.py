"""A generator of random cases for each operator: attributes, operands, and a function that computes the
operator with PyTorch, in float64."""

import math
import random

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)


class Draw:
    """A source of random shapes, tensors and choices."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)

    def n(self, low=1, high=5):
        return self.random.randint(low, high)

    def pick(self, *choices):
        return self.random.choice(choices)

    def shape(self, least=1, most=4):
        return [self.n() for _ in range(self.n(least, most))]

    def real(self, *shape):
        return torch.rand(shape, generator=self.generator) * 2 - 1

    def positive(self, *shape):
        return torch.rand(shape, generator=self.generator) + 0.5

    def index(self, below, *shape):
        return torch.randint(0, below, shape, generator=self.generator)


CASES = {}


def register_case(*names):
    """Registers `make(draw, name) -> (attributes, operands, function of operands)`."""

    def register(make):
        for name in names:
            CASES[name] = make
        return make

    return register


UNARY = {
    "abs": torch.abs, "cos": torch.cos, "erf": torch.erf, "exp": torch.exp, "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "hard_swish": F.hardswish, "identity": lambda x: x * 1,
    "neg": torch.neg, "relu": torch.relu, "sigmoid": torch.sigmoid, "silu": F.silu,
    "sin": torch.sin, "softplus": F.softplus, "square": torch.square, "tanh": torch.tanh,
}
POSITIVE = {"log": torch.log, "reciprocal": torch.reciprocal, "rsqrt": torch.rsqrt, "sqrt": torch.sqrt}
ACTIVATIONS = {"none": lambda x: x, **{k: UNARY[k] for k in ("relu", "gelu", "silu", "sigmoid", "tanh")}}


@register_case(*UNARY)
def unary(draw, name):
    return {}, [3 * draw.real(*draw.shape())], UNARY[name]


@register_case(*POSITIVE)
def unary_positive(draw, name):
    return {}, [draw.positive(*draw.shape())], POSITIVE[name]


@register_case("scale")
def scale(draw, _):
    factor = draw.pick(0.5, -3, 0.125)
    return {"factor": factor}, [draw.real(*draw.shape())], lambda x: x * factor


@register_case("leaky_relu")
def leaky_relu(draw, _):
    slope = draw.pick(0.01, 0.25)
    return {"slope": slope}, [draw.real(*draw.shape())], lambda x: F.leaky_relu(x, slope)


@register_case("clip")
def clip(draw, _):
    return {"min": -0.5, "max": 0.25}, [draw.real(*draw.shape())], lambda x: torch.clamp(x, -0.5, 0.25)


@register_case("hard_sigmoid")
def hard_sigmoid(draw, _):
    slope, shift = draw.pick(1 / 6, 0.75), draw.pick(0.5, 0.25)
    return {"slope": slope, "shift": shift}, [2 * draw.real(*draw.shape())], lambda x: (
        torch.clamp(slope * x + shift, 0, 1))


@register_case("pow")
def power(draw, _):
    exponent = draw.pick(3, 2.5, -1, -1.5, 4, 0.5, 1.7, 0)
    return {"exponent": exponent}, [draw.positive(*draw.shape())], lambda x: x ** exponent


@register_case("prelu")
def prelu(draw, _):
    c = draw.n()
    lead = draw.shape(0, 2)
    return {}, [draw.real(*lead, c, draw.n()), draw.real(c, 1)], lambda x, slope: (
        torch.where(x > 0, x, x * slope))


@register_case("lrn")
def lrn(draw, _):
    size, alpha, beta, bias = draw.n(1, 5), draw.pick(1e-4, 0.5), draw.pick(0.75, 0.5), draw.pick(1.0, 2.0)
    c = draw.n(1, 6)
    x = draw.real(draw.n(1, 2), c, *draw.shape(0, 2))

    def compute(x):
        squares = F.pad((x * x).transpose(1, -1), [(size - 1) // 2, size // 2]).transpose(1, -1)
        total = sum(squares.narrow(1, k, c) for k in range(size))
        return x / (bias + alpha / size * total) ** beta

    return {"size": size, "alpha": alpha, "beta": beta, "bias": bias}, [x], compute


@register_case("where")
def where(draw, _):
    shape = draw.shape(1, 3)
    condition = draw.real(*shape[draw.n(0, 1):])
    return {}, [condition, draw.real(*shape), draw.real(*draw.pick(shape, [], shape[1:]))], (
        lambda c, a, b: c * a + (1 - c) * b)


@register_case("log_softmax")
def log_softmax(draw, _):
    x = 3 * draw.real(*draw.shape())
    axis = draw.n(-x.dim(), x.dim() - 1)
    return {"axis": axis}, [x], lambda x: x.log_softmax(axis)


@register_case("cast")
def cast(draw, _):
    return {"to": "fp64"}, [draw.real(*draw.shape())], lambda x: x * 1


BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "max": torch.maximum,
          "min": torch.minimum}


@register_case(*BINARY)
def binary(draw, name):
    shape = draw.shape(0, 4)
    a, b = ([n if draw.n(1, 4) > 1 else 1 for n in shape] for _ in range(2))
    b = b[draw.n(0, len(b)):]
    if draw.n(1, 2) == 1:
        a, b = b, a
    second = draw.positive(*b) if name == "div" else draw.real(*b)
    return {}, [draw.real(*a), second], BINARY[name]


@register_case("linear")
def linear(draw, _):
    act = draw.pick(*ACTIVATIONS)
    k, n = draw.n(), draw.n()
    operands = [draw.real(*draw.shape(0, 3), k), draw.real(n, k)]
    if draw.n(1, 2) == 1:
        operands.append(draw.real(n))
    return {"act": act}, operands, lambda *x: ACTIVATIONS[act](F.linear(*x))


@register_case("matmul")
def matmul(draw, _):
    m, k, n = draw.n(), draw.n(), draw.n()
    lead = draw.shape(0, 2)
    left, right = ([d if draw.n(1, 3) > 1 else 1 for d in lead] for _ in range(2))
    right = right[draw.n(0, len(right)):]
    return {}, [draw.real(*left, m, k), draw.real(*right, k, n)], torch.matmul


@register_case("batch_matmul")
def batch_matmul(draw, _):
    b, m, k, n = (draw.n() for _ in range(4))
    return {}, [draw.real(b, m, k), draw.real(b, k, n)], torch.bmm


@register_case("contract")
def contract(draw, _):
    b, s, i, h, d, g = (draw.n(1, 3) for _ in range(6))
    text, letters, operands = draw.pick(
        ("b s i, h d i -> b h s d", "bsi,hdi->bhsd", [[b, s, i], [h, d, i]]),
        ("b h s d, b h t d -> b h s t", "bhsd,bhtd->bhst", [[b, h, s, d], [b, h, i, d]]),
        ("b h s d, o h d -> b s o", "bhsd,ohd->bso", [[b, h, s, d], [i, h, d]]),
        ("a, b -> b a", "a,b->ba", [[b], [s]]),
        ("a b, b c, c d -> a d", "ab,bc,cd->ad", [[b, s], [s, i], [i, h]]),
        ("a b -> b", "ab->b", [[b, s]]),
        ("b (kv g) s d, b kv t d -> b (kv g) s t", None, [[b, h * g, s, d], [b, h, i, d]]))
    factor = draw.pick(1, 0.5)

    def contract_grouped(q, k):
        q = q.reshape(b, h, g, s, d)
        return torch.einsum("bkgsd,bktd->bkgst", q, k).reshape(b, h * g, s, i)

    def compute(*x):
        return factor * (torch.einsum(letters, *x) if letters else contract_grouped(*x))

    return {"index": f'"{text}"', "scale": factor}, [draw.real(*shape) for shape in operands], compute


@register_case("conv2d")
def conv2d(draw, _):
    groups, c, k = draw.n(1, 3), draw.n(1, 2), draw.n(1, 2)
    kernel, stride, dilation, pad = ([draw.n(1, 3) for _ in range(2)] for _ in range(4))
    pad = [p - 1 for p in pad] + [draw.n(0, 2) for _ in range(2)]
    if draw.n(1, 2) == 1:
        pad = pad[:2]
    act = draw.pick("none", "relu", "silu")
    top, left, bottom, right = (pad * 2)[:4]
    size = [dilation[d] * (kernel[d] - 1) + 1 + draw.n(0, 4) for d in range(2)]
    operands = [draw.real(draw.n(1, 2), groups * c, *size), draw.real(groups * k, c, *kernel)]
    if draw.n(1, 2) == 1:
        operands.append(draw.real(groups * k))

    def compute(x, *rest):
        x = F.pad(x, [left, right, top, bottom])
        return ACTIVATIONS[act](F.conv2d(x, *rest, stride=stride, dilation=dilation, groups=groups))

    return {"stride": stride, "padding": pad, "dilation": dilation, "groups": groups, "act": act}, operands, compute


@register_case("max_pool2d", "avg_pool2d")
def pool2d(draw, name):
    kernel = [draw.n(1, 3) for _ in range(2)]
    stride = [draw.n(1, 3) for _ in range(2)]
    pad = [draw.n(0, k // 2) for k in kernel]
    ceil, count = draw.pick(True, False), draw.pick(True, False)
    x = draw.real(draw.n(1, 2), draw.n(1, 2), *(k + draw.n(0, 4) for k in kernel))
    attributes = {"kernel": kernel, "stride": stride, "padding": pad, "ceil": ceil}
    if name == "max_pool2d":
        return attributes, [x], lambda x: F.max_pool2d(x, kernel, stride, pad, ceil_mode=ceil)
    # If the last window exceeds the padded edge, PyTorch counts only the part inside, and we count the whole window.
    # The cases avoid this.
    attributes |= {"count_padding": count, "ceil": ceil and not count}
    return attributes, [x], lambda x: F.avg_pool2d(
        x, kernel, stride, pad, ceil_mode=ceil and not count, count_include_pad=count)


@register_case("global_avg_pool")
def global_avg_pool(draw, _):
    return {}, [draw.real(*(draw.n() for _ in range(4)))], lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1)


@register_case("batch_norm")
def batch_norm(draw, _):
    group, groups, c = draw.n(2, 3), draw.n(1, 2), draw.n(1, 3)
    x = draw.real(group * groups, c, *draw.shape(0, 2))

    def compute(x, scale, shift):
        return torch.cat([F.batch_norm(part, None, None, scale, shift, True, 0, 1e-5)
                          for part in x.split(group)])

    attributes = {"group": group if groups > 1 else draw.pick(0, group)}
    return attributes, [x, draw.real(c), draw.real(c)], compute


@register_case("batch_moments")
def batch_moments(draw, _):
    group, groups, c = draw.n(), draw.n(1, 2), draw.n(1, 3)
    x = draw.real(group * groups, c, *draw.shape(0, 2))

    def compute(x):
        y = x.reshape(groups, group, c, -1)
        return torch.stack([y.mean((1, 3)), (y * y).mean((1, 3))], -1)

    return {"group": group}, [x], compute


@register_case("batch_normalize")
def batch_normalize(draw, _):
    group, groups, c = draw.n(), draw.n(1, 2), draw.n(1, 3)
    x = draw.real(group * groups, c, draw.n(), draw.n())
    moments = torch.stack([draw.real(groups, c), 1 + draw.positive(groups, c)], -1)

    def compute(x, m, scale, shift):
        m = m.repeat_interleave(group, 0)[..., None, None, :]
        normal = (x - m[..., 0]) / torch.sqrt(m[..., 1] - m[..., 0] ** 2 + 1e-5)
        return normal * scale[:, None, None] + shift[:, None, None]

    return {}, [x, moments, draw.real(c), draw.real(c)], compute


@register_case("layer_norm")
def layer_norm(draw, _):
    h, eps = draw.n(2, 6), draw.pick(1e-5, 0.1)
    operands = [draw.real(*draw.shape(0, 3), h), draw.real(h)]
    if draw.n(1, 2) == 1:
        operands.append(draw.real(h))
    return {"eps": eps}, operands, lambda x, *rest: F.layer_norm(x, [h], *rest, eps=eps)


@register_case("group_norm")
def group_norm(draw, _):
    groups, c = draw.n(1, 3), draw.n(1, 3)
    x = draw.real(draw.n(), groups * c, draw.n(2, 4), *draw.shape(0, 2))
    return {"groups": groups}, [x, draw.real(groups * c), draw.real(groups * c)], lambda x, *rest: (
        F.group_norm(x, groups, *rest))


@register_case("rms_norm")
def rms_norm(draw, _):
    h = draw.n(2, 6)
    return {}, [draw.real(*draw.shape(0, 3), h), draw.real(h)], lambda x, scale: (
        x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * scale)


def make_causal_mask(s, t):
    return torch.ones(s, t).tril().bool()


@register_case("softmax")
def softmax(draw, _):
    if draw.n(1, 3) == 1:
        x = draw.real(*draw.shape(0, 2), draw.n(), draw.n())
        mask = make_causal_mask(*x.shape[-2:])
        return {"causal": True}, [x], lambda x: x.masked_fill(~mask, -math.inf).softmax(-1)
    x = 3 * draw.real(*draw.shape())
    axis = draw.n(-x.dim(), x.dim() - 1)
    return {"axis": axis}, [x], lambda x: x.softmax(axis)


@register_case("attention")
def attention(draw, _):
    b, kv, g, t, d, e = (draw.n(1, 3) for _ in range(6))
    causal = draw.pick(True, False)
    s = t if causal else draw.n()
    factor = draw.pick(1, 0.5)

    def compute(q, k, v):
        k, v = (x.repeat_interleave(g, 1) for x in (k, v))
        scores = factor * q @ k.transpose(-1, -2)
        if causal:
            scores = scores.masked_fill(~make_causal_mask(s, t), -math.inf)
        return scores.softmax(-1) @ v

    return ({"causal": causal, "scale": factor},
            [draw.real(b, kv * g, s, d), draw.real(b, kv, t, d), draw.real(b, kv, t, e)], compute)


@register_case("rope")
def rope(draw, _):
    s, d, base, first = draw.n(), 2 * draw.n(1, 4), draw.pick(10000.0, 500.0), draw.n(0, 5)
    angles = torch.arange(first, first + s)[:, None] * base ** (-2 * torch.arange(d // 2) / d)
    cos, sin = (torch.cat([f(angles)] * 2, -1) for f in (torch.cos, torch.sin))

    def compute(x):
        rotated = torch.cat([-x[..., d // 2:], x[..., :d // 2]], -1)
        return x * cos + rotated * sin

    return {"base": base, "first": first}, [draw.real(*draw.shape(0, 2), s, d)], compute


@register_case("embedding")
def embedding(draw, _):
    v = draw.n()
    return {}, [draw.index(v, *draw.shape()), draw.real(v, draw.n())], F.embedding


@register_case("embedding_bag")
def embedding_bag(draw, _):
    v, mode = draw.n(), draw.pick("sum", "mean")
    return {"mode": mode}, [draw.index(v, *draw.shape(1, 3)), draw.real(v, draw.n())], lambda i, w: (
        getattr(F.embedding(i, w), mode)(-2))


@register_case("embedding_bags")
def embedding_bags(draw, _):
    t, v = draw.n(1, 3), draw.n()
    return {}, [draw.index(v, draw.n(), t, draw.n()), draw.real(t, v, draw.n())], lambda i, w: (
        torch.stack([F.embedding(i[:, k], w[k]).sum(-2) for k in range(t)], 1))


@register_case("top_k_gate")
def top_k_gate(draw, _):
    e = draw.n(2, 6)
    k = draw.n(1, e)

    def compute(x):
        is_selected = torch.zeros_like(x).scatter(-1, x.topk(k, -1).indices, 1.0).bool()
        return x.masked_fill(~is_selected, -math.inf).softmax(-1)

    return {"k": k}, [draw.real(*draw.shape(1, 2), e)], compute


@register_case("moe_dispatch")
def moe_dispatch(draw, _):
    lead, e = draw.shape(1, 2), draw.n()
    gates = draw.real(*lead, e) * (draw.real(*lead, e) > 0)

    def compute(x, gates):
        return torch.stack([x * (gates[..., k:k + 1] != 0) for k in range(e)])

    return {"density": 0.5}, [draw.real(*lead, draw.n()), gates], compute


@register_case("moe_combine")
def moe_combine(draw, _):
    lead, e = draw.shape(1, 2), draw.n()
    return {}, [draw.real(*lead, e), draw.real(e, *lead, draw.n())], lambda gates, y: (
        (gates.movedim(-1, 0)[..., None] * y).sum(0))


@register_case("append")
def append(draw, _):
    shape = draw.shape()
    axis = draw.n(0, len(shape) - 1)
    operands = [draw.real(*shape[:axis], draw.n(), *shape[axis + 1:]) for _ in range(2)]
    return {"axis": axis}, operands, lambda *x: torch.cat(x, axis)


@register_case("concat")
def concat(draw, _):
    shape = draw.shape()
    axis = draw.n(0, len(shape) - 1)
    operands = [draw.real(*shape[:axis], draw.n(), *shape[axis + 1:]) for _ in range(draw.n(1, 4))]
    return {"axis": axis}, operands, lambda *x: torch.cat(x, axis)


@register_case("split")
def split(draw, _):
    shape, parts = draw.shape(), draw.n(1, 3)
    axis, part = draw.n(0, len(shape) - 1), draw.n(0, parts - 1)
    shape[axis] *= parts
    return ({"axis": axis, "parts": parts, "part": part}, [draw.real(*shape)],
            lambda x: x.chunk(parts, axis)[part])


@register_case("slice")
def slice_axis(draw, _):
    shape = draw.shape()
    axis = draw.n(0, len(shape) - 1)
    begin = draw.n(0, shape[axis] - 1)
    size = draw.n(1, shape[axis] - begin)
    return ({"axis": axis, "begin": begin, "size": size}, [draw.real(*shape)],
            lambda x: x.narrow(axis, begin, size))


@register_case("pad")
def pad(draw, _):
    shape = draw.shape()
    axis, before, after = draw.n(0, len(shape) - 1), draw.n(0, 3), draw.n(0, 3)
    widths = [0, 0] * (len(shape) - 1 - axis) + [before, after]
    return ({"axis": axis, "before": before, "after": after}, [draw.real(*shape)],
            lambda x: F.pad(x, widths))


@register_case("reshape")
def reshape(draw, _):
    a, b, c, d = (draw.n(1, 3) for _ in range(4))
    source, target = draw.pick(
        ([a * b, c], [a, b, c]), ([a, b, c], [a * b, c]), ([a, b * c], [a * b, c]), ([a, 1, b], [a, b]),
        ([a, b, c, d], [a * b * c * d]), ([a, b], [1, a, 1, b]), ([a, b * c, d], [a * b, c * d]),
        ([a, b], [a, -1]))
    return {"shape": target}, [draw.real(*source)], lambda x: x.reshape(target)


@register_case("flatten")
def flatten(draw, _):
    shape = draw.shape()
    axis = draw.n(0, len(shape))
    return {"axis": axis}, [draw.real(*shape)], lambda x: x.reshape(math.prod(shape[:axis]), -1)


@register_case("expand")
def expand(draw, _):
    target = draw.shape()
    source = [n if draw.n(1, 2) == 1 else 1 for n in target][draw.n(0, len(target) - 1):]
    return {"shape": target}, [draw.real(*source)], lambda x: x.expand(target)


@register_case("transpose")
def transpose(draw, _):
    shape = draw.shape()
    order = list(range(len(shape)))
    draw.random.shuffle(order)
    return {"perm": order}, [draw.real(*shape)], lambda x: x.permute(order)


@register_case("reduce_sum", "reduce_mean", "reduce_max")
def reduction(draw, name):
    shape, keepdim = draw.shape(), draw.pick(True, False)
    axes = draw.random.sample(range(len(shape)), draw.n(0, len(shape)))
    written = [a - len(shape) if draw.n(1, 2) == 1 else a for a in axes]
    dims = axes or list(range(len(shape)))
    function = {"reduce_sum": torch.sum, "reduce_mean": torch.mean, "reduce_max": torch.amax}[name]
    return {"axes": written, "keep": keepdim}, [draw.real(*shape)], lambda x: function(x, dims, keepdim=keepdim)


@register_case("row_max")
def row_max(draw, _):  # its gradient is zero
    return {}, [draw.real(*draw.shape())], lambda x: x.amax(-1).detach() + 0 * x.sum(-1)


@register_case("mse")
def mse(draw, _):
    shape = draw.shape()
    return {}, [draw.real(*shape), draw.real(*shape)], F.mse_loss


@register_case("cross_entropy")
def cross_entropy(draw, _):
    lead, v = draw.shape(1, 3), draw.n(2, 6)
    return {}, [3 * draw.real(*lead, v), draw.index(v, *lead)], lambda x, t: (
        F.cross_entropy(x.reshape(-1, v), t.reshape(-1)))


@register_case("pick")
def pick(draw, _):
    lead, v = draw.shape(1, 3), draw.n()
    return {}, [draw.real(*lead, v), draw.index(v, *lead)], lambda x, t: x.gather(-1, t[..., None])[..., 0]


@register_case("interaction")
def interaction(draw, _):
    n = draw.n(2, 5)
    row, column = torch.tril_indices(n, n, -1)
    return {}, [draw.real(draw.n(), n, draw.n())], lambda x: (x @ x.transpose(1, 2))[:, row, column]


# Operators that draw random numbers of their own.
NOT_COMPARED = {"dropout"}
