"""A decoder as three compiled functions: tokens become features, a block (the same for all), features become logits.

A block is compiled once and called for each layer with the layer's weights, so that tracing takes as long for 80
layers as for one. Positions are data: only a new number of tokens or a larger cache is traced again.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

import hologram as hg
from hologram.frontend.executor import Executor
from hologram.frontend.packed import Packed
from hologram.frontend.tensor import Tensor
from hologram.llm.architecture import Architecture, Sight
from hologram.llm.weights import Block, Matrix, Weights
from hologram.runtime.launches.captured import Captured

LEAST_CAPACITY = 256  # tokens; caches grow by doubling
Rotation = tuple[Tensor, Tensor]  # cosines and sines (tokens, 1, rotated / 2)


class Decoder:
    """A model on a device with its keys and values of up to `capacity` tokens, of a context of at most so many."""

    def __init__(self, a: Architecture, weights: Weights, executor: Executor, context: int) -> None:
        self.a, self.weights, self.executor, self.context = a, weights, executor, context
        self.capacity = 0
        self.caches: list[tuple[Tensor, Tensor]] = []
        self.place, self._token, self._zero = (executor.zeros((1,), "i32") for _ in range(3))
        self._captured: Captured[Tensor] | None = None
        self._captured_for: list[int] = []
        self._begin = hg.jit(partial(begin, a))
        self._block = hg.jit(partial(block, a), donate=(3, 4))
        self._finish = hg.jit(partial(finish, a))

    def capacity_for(self, tokens: int) -> int:
        """What the capacity is once there is room for so many tokens."""
        capacity = max(self.capacity, LEAST_CAPACITY)
        while capacity < tokens:
            capacity *= 2
        return capacity

    def reserve(self, tokens: int) -> None:
        """Makes room for so many tokens; what is cached stays."""
        capacity = self.capacity_for(tokens)
        if capacity == self.capacity:
            return
        self._captured = None
        a, make = self.a, self.executor.tensor
        more = self.executor.zeros((a.key_heads, capacity - self.capacity, a.head_size), "f32")
        if not self.caches:
            self.caches = [(more.clone(), more.clone()) for _ in range(a.layers)]
        else:
            self.caches = [tuple(hg.concat([c, more], axis=1) for c in pair) for pair in self.caches]  # type: ignore
        self.capacity = capacity
        self._counted = make(np.arange(capacity, dtype=np.int32))
        divisors = self.weights.divisors
        own = None if divisors is None else divisors[self.context > a.short_context]
        tables = [rotations(a, sight, own, capacity) for sight in a.sights]
        self._tables = [(make(cos), make(sin)) for cos, sin in tables]
        self.executor.empty_cache()  # the smaller caches are no use to anybody

    def next(self, token: Tensor) -> Tensor:
        """The logits (words) behind one more token (1) of i32, which stands where `place` says; that counts on.

        All launches of it are one call, captured when it is first needed on these caches.
        """
        where = [tensor.buffer.live_block().place for pair in self.caches for tensor in pair]
        if self._captured is None or self._captured_for != where:
            self._captured, self._captured_for = Captured(self.executor, self._one_more), where
        self.executor.copy(token, self._token)
        self._captured.replay()
        return self._captured.results

    def _one_more(self) -> Tensor:
        logits, following = self(self._token, self.place, self._zero)
        self.executor.copy(following, self.place)
        return logits

    def __call__(self, tokens: Tensor, start: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        """The logits (words) behind token `last` (1) of tokens (n) that stand at `start` (1); and where the next does.

        All of i32. Room must be reserved, for tokens behind the last too.
        """
        w = self.weights
        x, y, at, rotated, masks, following = self._begin(
            tokens, start, w.embedding, self._counted, self._tables
        )
        for layer, (weights, sight) in enumerate(zip(w.blocks, self.a.sight_of, strict=True)):
            keys, values = self.caches[layer]
            x, y, keys, values = self._block(x, y, weights, keys, values, at, rotated[sight], masks[sight])
            self.caches[layer] = (keys, values)
        return self._finish(x, y, last, w.norm, w.head), following

    def launches(self) -> tuple[int, int]:
        """How many launches a token takes: in one block, and beside blocks."""
        one, w = self._zero, self.weights
        begun = (one, one, w.embedding, self._counted, self._tables)
        x, y, at, rotated, masks, _ = self._begin(*begun)
        given = (x, y, w.blocks[0], *(c.clone() for c in self.caches[0]), at, rotated[0], masks[0])
        around = self._begin.dispatches(*begun) + self._finish.dispatches(x, y, one, w.norm, w.head)
        return self._block.dispatches(*given), around


def rotations(
    a: Architecture, sight: Sight, divisors: np.ndarray | None, capacity: int
) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines (capacity, rotated / 2) of rotary embeddings (Su et al. 2021)."""
    frequencies = sight.base ** (-np.arange(0, a.rotated, 2) / a.rotated) / sight.divisor
    factor = 1.0
    if divisors is not None:
        frequencies = frequencies / divisors
        factor = a.rotation_scale
    angles = np.arange(capacity)[:, None] * frequencies
    return (np.cos(angles) * factor).astype(np.float32), (np.sin(angles) * factor).astype(np.float32)


def begin(
    a: Architecture, tokens: Tensor, start: Tensor, embedding: Any, counted: Tensor, tables: list[Rotation]
) -> Any:
    """Features (n, width) of tokens (n) as two terms, positions, and by sight rotations and what may be looked at."""
    n = tokens.shape[0]
    x = hg.embedding(tokens, embedding)
    x = x if a.embedding_scale == 1 else x * a.embedding_scale
    at = start + counted[:n]
    rotated = [tuple(hg.take(t, at, axis=0).reshape(n, 1, a.rotated // 2) for t in table) for table in tables]
    rows, columns = at.reshape(n, 1), counted.reshape(1, -1)
    masks = []
    for sight in a.sights:
        mask = columns <= rows
        masks.append(mask if sight.window is None else mask & (columns > rows - sight.window))
    return x, hg.zeros_like(x), at, rotated, masks, start + n


def block(
    a: Architecture,
    x: Tensor,
    y: Tensor,
    w: Block,
    keys: Tensor,
    values: Tensor,
    at: Tensor,
    rotated: Rotation,
    mask: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A block's features (n, width) of features, and its keys and values (key heads, capacity, size) with theirs.

    Features are given as two terms, whose sum is then part of the kernel that normalises it.
    """
    x = x + y
    n, (heads, kept, size) = x.shape[0], (a.heads, a.key_heads, a.head_size)
    y = product(norm(a, x, w["attn_norm"]), w["qkv"], w.get("qkv_bias")).reshape(n, heads + 2 * kept, size)
    q, k, v = y[:, :heads], y[:, heads : heads + kept], y[:, heads + kept :]
    if "attn_q_norm" in w:
        q, k = norm(a, q, w["attn_q_norm"]), norm(a, k, w["attn_k_norm"])
    q, k = rotate(q, rotated), rotate(k, rotated)
    place = at.reshape(1, n, 1).expand((kept, n, size))
    keys = hg.scatter(keys, place, k.permute(1, 0, 2), dim=1)
    values = hg.scatter(values, place, v.permute(1, 0, 2), dim=1)
    y = product(attention(a, q, keys, values, mask), w["attn_output"])
    x = x + (norm(a, y, w["post_attention_norm"]) if "post_attention_norm" in w else y)
    y = norm(a, x, w["ffn_norm"])
    y = mixture(a, y, w) if a.experts else gated(a, y, w["gate_up"], w["down"])
    return x, norm(a, y, w["post_ffw_norm"]) if "post_ffw_norm" in w else y, keys, values


def finish(a: Architecture, x: Tensor, y: Tensor, last: Tensor, weight: Tensor, head: Any) -> Tensor:
    """The logits (words) of one of the tokens."""
    x = hg.take(x, last, axis=0) + hg.take(y, last, axis=0)
    logits = product(norm(a, x, weight), (head,)).reshape(-1)
    return hg.tanh(logits / a.logit_cap) * a.logit_cap if a.logit_cap else logits


def norm(a: Architecture, x: Tensor, weight: Tensor) -> Tensor:
    return hg.rms_norm(x, weight, eps=a.epsilon)


def product(x: Tensor, parts: Matrix, bias: Tensor | None = None) -> Tensor:
    """x times matrices that stand one below the other."""
    y = [hg.linear(x, part) for part in parts]
    whole = y[0] if len(y) == 1 else hg.concat(y, axis=-1)
    return whole if bias is None else whole + bias


def rotate(x: Tensor, rotated: Rotation) -> Tensor:
    """Heads (n, heads, size), pairs half of what is rotated apart."""
    (cos, sin), half = rotated, rotated[0].shape[-1]
    first, second = x[..., :half], x[..., half : 2 * half]
    rest = [x[..., 2 * half :]] if x.shape[-1] > 2 * half else []
    return hg.concat([first * cos - second * sin, second * cos + first * sin, *rest], axis=-1)


def attention(a: Architecture, q: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """What queries (n, heads, size) find: (n, heads * size). Heads that share keys are rows of one product."""
    n, group = q.shape[0], a.heads // a.key_heads
    q = q.permute(1, 0, 2)
    if n == 1:
        q = q.reshape(a.key_heads, group, a.head_size)
    else:
        q = q.reshape(a.key_heads, group, n, a.head_size)
        keys, values = keys.unsqueeze(1), values.unsqueeze(1)
    if a.attention_cap:
        scores = hg.tanh(q @ keys.mT * (a.attention_scale / a.attention_cap)) * a.attention_cap
        y = hg.softmax(hg.where(mask, scores, -math.inf), dim=-1) @ values
    else:
        y = hg.scaled_dot_product_attention(q, keys, values, mask, scale=a.attention_scale)
    return y.reshape(a.heads, n, a.head_size).permute(1, 0, 2).reshape(n, a.heads * a.head_size)


def gated(a: Architecture, x: Tensor, gate_up: Matrix, down: Matrix) -> Tensor:
    """A gated network (Shazeer 2020)."""
    if len(gate_up) == 1 and isinstance(gate_up[0], Packed) and not a.gelu:
        return product(gate_up[0].linear(x, activation="silu", gated=True), down)
    y = product(x, gate_up)
    return product(gate(a, y[:, : y.shape[1] // 2], y[:, y.shape[1] // 2 :]), down)


def gate(a: Architecture, opened: Tensor, y: Tensor) -> Tensor:
    return (hg.gelu(opened, approximate="tanh") if a.gelu else hg.silu(opened)) * y


def mixture(a: Architecture, x: Tensor, w: Block) -> Tensor:
    """What the experts say that a token is sent to, by their shares (Shazeer et al. 2017); and the one for all."""
    shares, chosen = hg.topk(hg.softmax(product(x, w["router"]), dim=-1), a.experts_used)
    if a.shares_sum_to_one:
        shares = shares / hg.sum(shares, axis=-1, keepdims=True)
    gate_up, (down,) = w["gate_up_experts"], w["down_experts"]
    rows = x.unsqueeze(1)
    if len(gate_up) == 1 and isinstance(gate_up[0], Packed) and not a.gelu:
        y = gate_up[0].experts(rows, chosen, a.experts, activation="silu", gated=True)
    else:
        y = gate(a, *(sent(part, rows, chosen, a.experts) for part in halves(gate_up)))
    y = hg.sum(sent(down, y, chosen, a.experts) * shares.unsqueeze(-1), axis=1)
    if "shared_gate" in w:
        shared = gated(a, x, w["gate_up_shexp"], w["down_shexp"])
        y = y + shared * hg.sigmoid(hg.sum(x * w["shared_gate"], axis=-1, keepdims=True))
    return y


def sent(matrix: Any, x: Tensor, chosen: Tensor, experts: int) -> Tensor:
    """Tokens (n, 1 or used, columns) times the matrices of the experts chosen (n, used): (n, used, rows)."""
    if isinstance(matrix, Packed):
        return matrix.experts(x, chosen, experts)
    matrices = matrix.reshape(experts, -1, matrix.shape[1])
    if x.shape[0] == 1:  # those that are used
        return (hg.take(matrices, chosen[0], axis=0) @ x[0].unsqueeze(-1)).reshape(*chosen.shape, -1)
    y = hg.zeros_like(chosen, dtype="f32").unsqueeze(-1)
    for expert in range(experts):
        y = hg.where((chosen == expert).unsqueeze(-1), hg.linear(x, matrices[expert]), y)
    return y


def halves(gate_up: Matrix) -> Matrix:
    """Gates and what they open, apart."""
    if len(gate_up) == 2:
        return gate_up
    (both,) = gate_up
    middle = both.shape[0] // 2
    if isinstance(both, Packed):
        parts = ({n: p[own] for n, p in both.planes.items()} for own in (slice(middle), slice(middle, None)))
        return tuple(Packed(both.format, both.columns, planes) for planes in parts)
    return both[:middle], both[middle:]
