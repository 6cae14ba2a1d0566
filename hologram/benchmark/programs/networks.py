"""Modules of PyTorch that programs train: each gives the loss of its arguments."""

# pyright: reportPrivateImportUsage=false

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from hologram.foundation.frozen import frozen


class Recurrent(nn.Module):
    """Two recurrent layers over sequences of 64 features, and a class from the last state."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU], classes: int) -> None:
        super().__init__()
        self.layers = kind(64, 64, num_layers=2, batch_first=True)
        self.head = nn.Linear(64, classes)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self.head(self.layers(x)[0][:, -1]), labels)


class Labelled(nn.Module):
    """A classifier of transformers."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self.model(x).logits, labels)


class Language(nn.Module):
    """A language model of transformers, which is to continue its own tokens."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=tokens, labels=tokens, use_cache=False).loss


class _Scored(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self.layers(x), labels)


def convolutions(classes: int) -> nn.Module:
    """A classifier of images of 32 x 32."""
    layers: list[nn.Module] = []
    for inward, outward in ((3, 16), (16, 16), (16, 32), (32, 32)):
        layers += [nn.Conv2d(inward, outward, 3, padding=1), nn.BatchNorm2d(outward), nn.ReLU()]
        if inward == outward:
            layers.append(nn.MaxPool2d(2))
    return _Scored(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, classes))


class Graph(nn.Module):
    """Nodes that send messages along edges, summed where they arrive."""

    def __init__(self, classes: int, width: int = 32) -> None:
        super().__init__()
        self.enter = nn.Linear(16, width)
        self.messages = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(3))
        self.updates = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(3))
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor, edges: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        source, target = edges
        x = self.enter(x)
        for message, update in zip(self.messages, self.updates, strict=True):
            sent = functional.relu(message(torch.cat([x[source], x[target]], dim=1)))
            received = torch.zeros_like(x).index_add(0, target, sent)
            x = x + functional.relu(update(torch.cat([x, received], dim=1)))
        return functional.cross_entropy(self.head(x), labels)


class _Residual(nn.Module):
    """Two convolutions with group norm, between which the time is added."""

    def __init__(self, inward: int, outward: int, time: int) -> None:
        super().__init__()
        self.norm_in, self.norm_out = nn.GroupNorm(4, inward), nn.GroupNorm(4, outward)
        self.first = nn.Conv2d(inward, outward, 3, padding=1)
        self.second = nn.Conv2d(outward, outward, 3, padding=1)
        self.time = nn.Linear(time, outward)
        self.beside = nn.Conv2d(inward, outward, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        h = self.first(functional.silu(self.norm_in(x))) + self.time(time)[:, :, None, None]
        return self.beside(x) + self.second(functional.silu(self.norm_out(h)))


class Denoiser(nn.Module):
    """A UNet of one level down and up, attention at its bottom, that is to find the noise."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.width = width
        self.enter = nn.Conv2d(4, width, 3, padding=1)
        self.down, self.bottom = _Residual(width, width, width), _Residual(width, 2 * width, width)
        self.norm = nn.GroupNorm(4, 2 * width)
        self.attend = nn.MultiheadAttention(2 * width, 4, batch_first=True)
        self.up = _Residual(3 * width, width, width)
        self.leave = nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, x: torch.Tensor, time: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        places = torch.arange(self.width // 2, device=x.device) / (self.width // 2)
        angles = 1000 * time[:, None] * torch.exp(-9.2 * places)
        time = torch.cat([angles.sin(), angles.cos()], dim=1)
        kept = self.down(self.enter(x), time)
        h = self.bottom(functional.avg_pool2d(kept, 2), time)
        flat = self.norm(h).flatten(2).transpose(1, 2)
        h = h + self.attend(flat, flat, flat, need_weights=False)[0].transpose(1, 2).view_as(h)
        h = functional.interpolate(h, scale_factor=2, mode="nearest")
        return functional.mse_loss(self.leave(self.up(torch.cat([h, kept], dim=1), time)), noise)


@frozen
class Size:
    """A language model's: layers of so many heads, numbers per token, tokens it knows, batches of so many tokens."""

    layers: int
    heads: int
    width: int
    vocabulary: int
    batch: int
    tokens: int


class _Block(nn.Module):
    """Attention and a layer of neurons, each added to what it reads."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        width = size.width
        self.heads = size.heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        three = self.attend(self.before(x)).split(width, dim=2)
        q, k, v = (each.view(batch, tokens, self.heads, -1).transpose(1, 2) for each in three)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.join(seen.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.narrow(functional.gelu(self.widen(self.between(x)), approximate="tanh"))


class Transformer(nn.Module):
    """A language model as GPT-2 is one: it gives logits, or the loss where targets are given."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.token = nn.Embedding(size.vocabulary, size.width)
        self.place = nn.Embedding(size.tokens, size.width)
        self.blocks = nn.ModuleList(_Block(size) for _ in range(size.layers))
        self.last = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)
        self.head.weight = self.token.weight

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor | None = None) -> torch.Tensor:
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.last(x))
        if targets is None:
            return logits
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


GPT = Size(layers=4, heads=8, width=256, vocabulary=256, batch=8, tokens=128)
GPT2 = Size(layers=12, heads=12, width=768, vocabulary=50257, batch=1, tokens=128)
