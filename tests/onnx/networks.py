"""Networks as PyTorch users write them, at published or small widths; torchvision is not needed."""

import torch
from torch import nn


def conv_bn(i, o, k, s=1, p=0, groups=1, relu=True, eps=1e-5):
    layers = [nn.Conv2d(i, o, k, s, p, groups=groups, bias=False), nn.BatchNorm2d(o, eps=eps)]
    return nn.Sequential(*layers, *([nn.ReLU(inplace=True)] if relu else []))


class Branches(nn.Module):
    """Parallel branches whose channels are concatenated."""

    def __init__(self, *branches):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x):
        return torch.cat([b(x) for b in self.branches], 1)


class Residual(nn.Module):
    def __init__(self, body, shortcut):
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


def head(channels, classes):
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def resnet50(width=64, blocks=(3, 4, 6, 3), classes=1000):
    layers = [conv_bn(3, width, 7, 2, 3), nn.MaxPool2d(3, 2, 1)]
    channels = width
    for stage, count in enumerate(blocks):
        inner = width << stage
        for block in range(count):
            stride = 2 if stage > 0 and block == 0 else 1
            body = nn.Sequential(conv_bn(channels, inner, 1), conv_bn(inner, inner, 3, stride, 1),
                                 conv_bn(inner, 4 * inner, 1, relu=False))
            shortcut = conv_bn(channels, 4 * inner, 1, stride, relu=False) if block == 0 else nn.Identity()
            layers.append(Residual(body, shortcut))
            channels = 4 * inner
    return nn.Sequential(*layers, head(channels, classes))


def alexnet(width=64, hidden=4096, classes=1000, lrn=False):
    w = width
    norm = [nn.LocalResponseNorm(5)] if lrn else []
    return nn.Sequential(
        nn.Conv2d(3, w, 11, 4, 2), nn.ReLU(), *norm, nn.MaxPool2d(3, 2),
        nn.Conv2d(w, 3 * w, 5, padding=2), nn.ReLU(), *norm, nn.MaxPool2d(3, 2),
        nn.Conv2d(3 * w, 6 * w, 3, padding=1), nn.ReLU(), nn.Conv2d(6 * w, 4 * w, 3, padding=1), nn.ReLU(),
        nn.Conv2d(4 * w, 4 * w, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2),
        nn.AdaptiveAvgPool2d(1 if hidden < 4096 else 6), nn.Flatten(),
        nn.Dropout(0.0), nn.Linear(4 * w * (1 if hidden < 4096 else 36), hidden), nn.ReLU(),
        nn.Dropout(0.0), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def vgg(plan, width=64, hidden=4096, classes=1000, spatial=7):
    layers, channels = [], 3
    for step in plan:
        if step == 0:
            layers.append(nn.MaxPool2d(2, 2))
        else:
            layers += [nn.Conv2d(channels, step * width, 3, padding=1), nn.ReLU()]
            channels = step * width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * spatial * spatial, hidden), nn.ReLU(),
                         nn.Dropout(0.0), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes))


VGG19 = (1, 1, 0, 2, 2, 0, 4, 4, 4, 4, 0, 8, 8, 8, 8, 0, 8, 8, 8, 8, 0)


def squeezenet(width=16, classes=1000):
    def fire(i, s, e):
        return nn.Sequential(nn.Conv2d(i, s, 1), nn.ReLU(), Branches(
            nn.Sequential(nn.Conv2d(s, e, 1), nn.ReLU()), nn.Sequential(nn.Conv2d(s, e, 3, padding=1), nn.ReLU())))

    w = width
    pool = lambda: nn.MaxPool2d(3, 2, ceil_mode=True)
    return nn.Sequential(
        nn.Conv2d(3, 4 * w, 3, 2), nn.ReLU(), pool(), fire(4 * w, w, 4 * w), fire(8 * w, w, 4 * w), pool(),
        fire(8 * w, 2 * w, 8 * w), fire(16 * w, 2 * w, 8 * w), pool(), fire(16 * w, 3 * w, 12 * w),
        fire(24 * w, 3 * w, 12 * w), fire(24 * w, 4 * w, 16 * w), fire(32 * w, 4 * w, 16 * w),
        nn.Conv2d(32 * w, classes, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Dense(nn.Module):
    def __init__(self, channels, growth):
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth), nn.ReLU(), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False))

    def forward(self, x):
        return torch.cat([x, self.body(x)], 1)


def densenet(growth=32, blocks=(6, 12, 24, 16), classes=1000):
    channels = 2 * growth
    layers = [conv_bn(3, channels, 7, 2, 3), nn.MaxPool2d(3, 2, 1)]
    for n, count in enumerate(blocks):
        for _ in range(count):
            layers.append(Dense(channels, growth))
            channels += growth
        layers += [nn.BatchNorm2d(channels), nn.ReLU()]
        if n + 1 < len(blocks):
            layers += [nn.Conv2d(channels, channels // 2, 1, bias=False), nn.AvgPool2d(2, 2)]
            channels //= 2
    return nn.Sequential(*layers, head(channels, classes))


class ShuffleUnit(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.stride, half = stride, o // 2
        inner = i if stride > 1 else half
        if stride > 1:
            self.left = nn.Sequential(conv_bn(i, i, 3, stride, 1, groups=i, relu=False), conv_bn(i, half, 1))
        self.right = nn.Sequential(conv_bn(inner, half, 1),
                                   conv_bn(half, half, 3, stride, 1, groups=half, relu=False), conv_bn(half, half, 1))

    def forward(self, x):
        if self.stride == 1:
            a, b = x.chunk(2, dim=1)
            out = torch.cat((a, self.right(b)), 1)
        else:
            out = torch.cat((self.left(x), self.right(x)), 1)
        n, c, h, w = out.shape
        return out.view(n, 2, c // 2, h, w).transpose(1, 2).contiguous().view(n, c, h, w)


def shufflenet(stages=(24, 116, 232, 464, 1024), repeats=(4, 8, 4), classes=1000):
    layers, channels = [conv_bn(3, stages[0], 3, 2, 1), nn.MaxPool2d(3, 2, 1)], stages[0]
    for width, count in zip(stages[1:], repeats):
        for n in range(count):
            layers.append(ShuffleUnit(channels, width, 2 if n == 0 else 1))
            channels = width
    return nn.Sequential(*layers, conv_bn(channels, stages[-1], 1), head(stages[-1], classes))


GOOGLENET = ((192, 64, 96, 128, 16, 32, 32), (256, 128, 128, 192, 32, 96, 64), 0, (480, 192, 96, 208, 16, 48, 64),
             (512, 160, 112, 224, 24, 64, 64), (512, 128, 128, 256, 24, 64, 64), (512, 112, 144, 288, 32, 64, 64),
             (528, 256, 160, 320, 32, 128, 128), 0, (832, 256, 160, 320, 32, 128, 128),
             (832, 384, 192, 384, 48, 128, 128))


def inception_v1(divide=1, classes=1000):
    d = divide
    layers = [conv_bn(3, 64 // d, 7, 2, 3), nn.MaxPool2d(3, 2, ceil_mode=True), conv_bn(64 // d, 64 // d, 1),
              conv_bn(64 // d, 192 // d, 3, 1, 1), nn.MaxPool2d(3, 2, ceil_mode=True)]
    for block in GOOGLENET:
        if block == 0:
            layers.append(nn.MaxPool2d(3, 2, ceil_mode=True))
            continue
        i, a, b1, b, c1, c, p = (n // d for n in block)
        layers.append(Branches(
            conv_bn(i, a, 1), nn.Sequential(conv_bn(i, b1, 1), conv_bn(b1, b, 3, 1, 1)),
            nn.Sequential(conv_bn(i, c1, 1), conv_bn(c1, c, 3, 1, 1)),
            nn.Sequential(nn.MaxPool2d(3, 1, 1, ceil_mode=True), conv_bn(i, p, 1))))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.0), nn.Linear(1024 // d, classes))


def inception_v3(divide=1, classes=1000):
    d = divide

    def cb(i, o, k, s=1, p=0):
        return conv_bn(i // d, o // d, k, s, p, eps=1e-3)

    def pool(i, o):
        return nn.Sequential(nn.AvgPool2d(3, 1, 1), cb(i, o, 1))

    def a(i, p):
        return Branches(cb(i, 64, 1), nn.Sequential(cb(i, 48, 1), cb(48, 64, 5, 1, 2)),
                        nn.Sequential(cb(i, 64, 1), cb(64, 96, 3, 1, 1), cb(96, 96, 3, 1, 1)), pool(i, p))

    def c(c7):
        return Branches(cb(768, 192, 1),
                        nn.Sequential(cb(768, c7, 1), cb(c7, c7, (1, 7), 1, (0, 3)), cb(c7, 192, (7, 1), 1, (3, 0))),
                        nn.Sequential(cb(768, c7, 1), cb(c7, c7, (7, 1), 1, (3, 0)), cb(c7, c7, (1, 7), 1, (0, 3)),
                                      cb(c7, c7, (7, 1), 1, (3, 0)), cb(c7, 192, (1, 7), 1, (0, 3))), pool(768, 192))

    def e(i):
        def both():
            return Branches(cb(384, 384, (1, 3), 1, (0, 1)), cb(384, 384, (3, 1), 1, (1, 0)))

        return Branches(cb(i, 320, 1), nn.Sequential(cb(i, 384, 1), both()),
                        nn.Sequential(cb(i, 448, 1), cb(448, 384, 3, 1, 1), both()), pool(i, 192))

    first = conv_bn(3, 32 // d, 3, 2, eps=1e-3)
    return nn.Sequential(
        first, cb(32, 32, 3), cb(32, 64, 3, 1, 1), nn.MaxPool2d(3, 2), cb(64, 80, 1), cb(80, 192, 3), nn.MaxPool2d(3, 2),
        a(192, 32), a(256, 64), a(288, 64),
        Branches(cb(288, 384, 3, 2), nn.Sequential(cb(288, 64, 1), cb(64, 96, 3, 1, 1), cb(96, 96, 3, 2)), nn.MaxPool2d(3, 2)),
        c(128), c(160), c(160), c(192),
        Branches(nn.Sequential(cb(768, 192, 1), cb(192, 320, 3, 2)),
                 nn.Sequential(cb(768, 192, 1), cb(192, 192, (1, 7), 1, (0, 3)), cb(192, 192, (7, 1), 1, (3, 0)),
                               cb(192, 192, 3, 2)), nn.MaxPool2d(3, 2)),
        e(1280), e(2048), nn.AdaptiveAvgPool2d(1), nn.Dropout(0.0), nn.Flatten(), nn.Linear(2048 // d, classes))


# --- Transformers ----------------------------------------------------------------------------------


class Attention(nn.Module):
    """Self-attention written by hand. It is causal as in GPT-2, with a buffer of ones below the diagonal."""

    def __init__(self, width, heads, causal=0):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads
        self.causal = causal > 0
        if self.causal:
            self.register_buffer("mask", torch.tril(torch.ones(causal, causal)).bool().view(1, 1, causal, causal))

    def forward(self, x):
        b, s, w = x.shape
        q, k, v = (t.view(b, s, self.heads, w // self.heads).transpose(1, 2) for t in self.qkv(x).split(w, dim=2))
        scores = q @ k.transpose(-2, -1) / (k.size(-1) ** 0.5)
        if self.causal:
            scores = scores.masked_fill(self.mask[:, :, :s, :s] == 0, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, w))


class Block(nn.Module):
    def __init__(self, width, heads, hidden, causal=0, before=True, act=None):
        super().__init__()
        self.n1, self.n2, self.before = nn.LayerNorm(width), nn.LayerNorm(width), before
        self.attention = Attention(width, heads, causal)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), act or nn.GELU(), nn.Linear(hidden, width))

    def forward(self, x):
        if self.before:
            x = x + self.attention(self.n1(x))
            return x + self.mlp(self.n2(x))
        x = self.n1(x + self.attention(x))
        return self.n2(x + self.mlp(x))


class GeluTanh(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * torch.pow(x, 3.0))))


class Gpt2(nn.Module):
    def __init__(self, vocab=50257, context=1024, width=768, layers=12, heads=12):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, 4 * width, context, act=GeluTanh()) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.size(1)))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Bert(nn.Module):
    def __init__(self, vocab=30522, context=512, width=768, layers=12, heads=12):
        super().__init__()
        self.token_embedding, self.type_embedding = nn.Embedding(vocab, width), nn.Embedding(2, width)
        self.position_embedding, self.norm = nn.Embedding(context, width), nn.LayerNorm(width)
        self.register_buffer("positions", torch.arange(context).unsqueeze(0))
        self.blocks = nn.ModuleList(Block(width, heads, 4 * width, before=False) for _ in range(layers))
        self.pool = nn.Linear(width, width)

    def forward(self, tokens, types):
        x = self.token_embedding(tokens) + self.type_embedding(types)
        x = self.norm(x + self.position_embedding(self.positions[:, : tokens.size(1)]))
        for block in self.blocks:
            x = block(x)
        return x, torch.tanh(self.pool(x[:, 0]))


class Vit(nn.Module):
    def __init__(self, image=224, patch=16, width=768, layers=12, heads=12, classes=1000):
        super().__init__()
        self.patch = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.1)
        self.positions = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, width) * 0.1)
        self.blocks = nn.Sequential(*(Block(width, heads, 4 * width) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.size(0), -1, -1), x], dim=1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


class Encoder(nn.Module):
    """PyTorch's own encoder, under a causal mask."""

    def __init__(self, vocab=100, width=16, layers=2, heads=4, causal=True):
        super().__init__()
        self.embedding, self.causal = nn.Embedding(vocab, width), causal
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)

    def forward(self, tokens):
        s = tokens.size(1)
        mask = torch.triu(torch.full((s, s), float("-inf")), 1) if self.causal else None
        return self.encoder(self.embedding(tokens), mask)


class Recommender(nn.Module):
    """An MLP over embeddings and dense features."""

    def __init__(self, rows=1000, dim=16, tables=3):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, dim) for _ in range(tables))
        self.mlp = nn.Sequential(nn.Linear(dim * tables + 4, 32), nn.LeakyReLU(0.1), nn.Linear(32, 8), nn.ELU(),
                                 nn.Linear(8, 1), nn.Sigmoid())

    def forward(self, x, ids):
        return self.mlp(torch.cat([x] + [t(ids[:, n]) for n, t in enumerate(self.tables)], 1))


class Zoo(nn.Module):
    """A network of operators that the others lack."""

    def __init__(self):
        super().__init__()
        self.group, self.instance = nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True)
        self.conv1d, self.prelu = nn.Conv1d(4, 6, 3, 2, 1), nn.PReLU(4)

    def forward(self, x):
        x = self.prelu(self.group(x)) + self.instance(x)
        x = nn.functional.hardswish(x) + nn.functional.hardsigmoid(x) + nn.functional.silu(x)
        x = nn.functional.mish(x) + nn.functional.softplus(x) + nn.functional.selu(x)
        x = nn.functional.pixel_shuffle(x, 2)
        x = nn.functional.interpolate(x, scale_factor=2, mode="nearest")
        x = nn.functional.pad(x, (1, 2, 0, 1))[:, :, 1:9:2, ::3]
        x = x.repeat(1, 4, 1, 1) ** 2
        x = self.conv1d(x.flatten(2)) + x.amax((2, 3)).sum(1, keepdim=True).unsqueeze(-1)
        x = torch.einsum("bct,bdt->bcd", x, x) / x.norm(dim=(1, 2), keepdim=True)
        return nn.functional.log_softmax(x.clamp(-1, 1), dim=1).min(dim=2).values
