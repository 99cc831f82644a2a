"""PyTorch modules for networks of tandem, with the names of their parameters in both."""

import torch
from torch import nn
from torch.nn import functional


class Mlp(nn.Module):
    MODEL = "mlp:layers=3,hidden=64,inputs=32,outputs=16"
    NAMES = {"w{i}": "layers.{i}.weight"}

    def __init__(self):
        super().__init__()
        widths = (32, 64, 64, 16)
        self.layers = nn.ModuleDict({str(i): nn.Linear(widths[i - 1], widths[i], bias=False) for i in (1, 2, 3)})

    def forward(self, x):
        x = torch.relu(self.layers["1"](x))
        return self.layers["3"](torch.relu(self.layers["2"](x)))

    def compute_loss(self, x):
        return self(x).square().mean()

    @staticmethod
    def make_batch():
        return torch.randn(8, 32)


class Attention(nn.Module):
    def __init__(self, width, heads, kv_heads, bias):
        super().__init__()
        self.head = width // heads
        self.q = nn.Linear(width, heads * self.head, bias=bias)
        self.k = nn.Linear(width, kv_heads * self.head, bias=bias)
        self.v = nn.Linear(width, kv_heads * self.head, bias=bias)
        self.o = nn.Linear(width, width, bias=bias)
        self.groups = heads // kv_heads

    def split_heads(self, x, groups=1):
        """Returns [batch, head, sequence, width] of a projection; `groups` queries share a head."""
        b, s, _ = x.shape
        x = x.view(b, s, -1, self.head).transpose(1, 2)
        if groups == 1:
            return x
        return x.unsqueeze(2).expand(b, x.shape[1], groups, s, self.head).reshape(b, -1, s, self.head)

    def forward(self, x, mask):
        q = self.split_heads(self.q(x))
        k, v = self.split_heads(self.k(x), self.groups), self.split_heads(self.v(x), self.groups)
        scores = q @ k.transpose(-1, -2) * self.head**-0.5 + mask
        mixed = torch.softmax(scores, -1) @ v
        return self.o(mixed.transpose(1, 2).reshape(x.shape))


class LlamaLayer(nn.Module):
    def __init__(self, width, heads, kv_heads, inner):
        super().__init__()
        self.attention_norm = nn.RMSNorm(width, eps=1e-5)
        self.attention = Attention(width, heads, kv_heads, False)
        self.ffn_norm = nn.RMSNorm(width, eps=1e-5)
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x, mask):
        x = x + self.attention(self.attention_norm(x), mask)
        inner = self.ffn_norm(x)
        return x + self.down(functional.silu(self.gate(inner)) * self.up(inner))


class Transformer(nn.Module):
    """The base of Llama and Gpt: scores of the next token, with cross entropy as the loss."""

    SEQUENCE, VOCABULARY = 16, 128

    def __init__(self):
        super().__init__()
        # A buffer becomes a DTensor; a tensor that forward makes would not.
        mask = torch.full((self.SEQUENCE, self.SEQUENCE), -1e9).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def compute_loss(self, tokens):
        scores = self(tokens)
        return functional.cross_entropy(scores.flatten(0, 1), tokens.roll(-1, 1).flatten())

    @classmethod
    def make_batch(cls):
        return torch.randint(0, cls.VOCABULARY, (8, cls.SEQUENCE))


class Llama(Transformer):
    MODEL = "llama3_8b:layers=2,hidden=64,heads=8,kv_heads=4,ffn=128,vocab=128,seq=16"
    NAMES = {
        "w_tokens": "tokens.weight",
        "l{i}.attention_norm_scale": "layers.{i}.attention_norm.weight",
        "l{i}.w_q": "layers.{i}.attention.q.weight",
        "l{i}.w_k": "layers.{i}.attention.k.weight",
        "l{i}.w_v": "layers.{i}.attention.v.weight",
        "l{i}.w_o": "layers.{i}.attention.o.weight",
        "l{i}.ffn_norm_scale": "layers.{i}.ffn_norm.weight",
        "l{i}.w_ffn_gate": "layers.{i}.gate.weight",
        "l{i}.w_ffn_up": "layers.{i}.up.weight",
        "l{i}.w_ffn_down": "layers.{i}.down.weight",
        "final_norm_scale": "norm.weight",
        "w_logits": "scores.weight",
    }

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(128, 64)
        self.layers = nn.ModuleList(LlamaLayer(64, 8, 4, 128) for _ in range(2))
        self.norm = nn.RMSNorm(64, eps=1e-5)
        self.scores = nn.Linear(64, 128, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x, self.mask)
        return self.scores(self.norm(x))


class GptLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads, heads, True)
        self.ffn_norm = nn.LayerNorm(width)
        self.ffn = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, mask):
        x = x + self.attention(self.attention_norm(x), mask)
        return x + self.ffn(self.ffn_norm(x))


class Gpt(Transformer):
    """A GPT-2: with biases, and with the embedding table tied to the LM head."""

    MODEL = "gpt2:layers=2,hidden=64,heads=4,ffn=256,vocab=128,seq=16"
    NAMES = {
        "w_tokens": "tokens.weight",
        "w_positions": "positions",
        **{f"l{{i}}.{kind}_norm_{there}": f"layers.{{i}}.{kind}_norm.{here}"
           for kind in ("attention", "ffn") for there, here in (("scale", "weight"), ("shift", "bias"))},
        **{f"l{{i}}.{there}_{name}": f"layers.{{i}}.attention.{name}.{here}"
           for name in "qkvo" for there, here in (("w", "weight"), ("b", "bias"))},
        **{f"l{{i}}.{there}_ffn{n}": f"layers.{{i}}.ffn.{2 * n - 2}.{here}"
           for n in (1, 2) for there, here in (("w", "weight"), ("b", "bias"))},
        "final_norm_scale": "norm.weight",
        "final_norm_shift": "norm.bias",
        "logits": "scores",
    }

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(128, 64)
        self.positions = nn.Parameter(torch.randn(1024, 64))
        self.layers = nn.ModuleList(GptLayer(64, 4) for _ in range(2))
        self.norm = nn.LayerNorm(64)
        self.scores = nn.Linear(64, 128, bias=False)
        self.scores.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x, self.mask)
        return self.scores(self.norm(x))


MODULES = {module.__name__: module for module in (Mlp, Llama, Gpt)}
