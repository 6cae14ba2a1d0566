"""A decoder as three compiled functions: tokens become features, a block (the same for all), features become tokens.

A block is compiled once and called for each layer with the layer's weights, so that tracing takes as long for 80
layers as for one. Keys and values of all texts lie in one pool of blocks, which a table names for each of them (Kwon
et al. 2023), and positions are data: only another number of tokens, texts or blocks is traced again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import hologram as hg
from hologram.frontend.executor import Executor
from hologram.frontend.packed import Packed
from hologram.frontend.tensor import Tensor
from hologram.llm.architecture import Architecture, Sight
from hologram.llm.sampling import GREEDY, Sampling, chosen
from hologram.llm.weights import Block, Matrix, Weights
from hologram.runtime.launches.captured import Captured

BLOCK = 64  # tokens whose keys and values lie together
LEAST_BLOCKS = 4  # of a pool, and of a text's row in a table: both are powers of two
LEAST_PIECE, MOST_PIECE = 16, 512  # tokens of a prompt that are computed together: powers of two between
CACHES = {
    "f32": 4,
    "f16": 2,
    "i8": 1,
}  # dtypes of keys and values, and their bytes; i8 has scales beside them
Rotation = tuple[Tensor, Tensor]  # cosines and sines (tokens, 1, rotated / 2)
Cache = tuple[
    Tensor, ...
]  # keys and values (key heads, places, size), and scales (2, key heads, places, 1) of codes


class Places(NamedTuple):
    """Where tokens of some rows stand."""

    slots: Tensor  # (rows * n) in the cache
    lengths: Tensor  # (rows, 1) with these tokens
    table: Tensor  # (rows, blocks)
    rotated: list[Rotation]  # by sight


class Text:
    """Tokens, of which the first `known` are computed: their keys and values lie in blocks of the pool."""

    def __init__(self, tokens: Sequence[int], sampling: Sampling = GREEDY) -> None:
        self.tokens, self.sampling, self.random = list(tokens), sampling, np.random.default_rng(sampling.seed)
        self.known, self.blocks = 0, list[int]()


class Step:
    """What gives texts a token each, captured: what it reads of the host, and what it gives."""

    def __init__(self, decoder: Decoder, rows: int, width: int, count: int) -> None:
        zeros = decoder.executor.zeros
        self.state, self.settings = zeros((rows, 2 + width), "i32"), zeros((rows, 4)) if count else None

        def step() -> tuple[Tensor, Tensor]:
            state, w = self.state, decoder.weights
            x, y = decoder.features(state[:, :1], state[:, 1:2], state[:, 2:])
            return decoder.finish(x, y, w.norm, w.head, self.settings, str(count))

        self.captured = Captured(decoder.executor, step)


class Decoder:
    """A model on a device, with the keys and values of texts in a context of at most so many tokens."""

    def __init__(
        self, a: Architecture, weights: Weights, executor: Executor, context: int, cache: str = "f32"
    ) -> None:
        self.a, self.weights, self.executor, self.context, self.cache = a, weights, executor, context, cache
        shapes = ((a.key_heads, 0, a.head_size), (2, a.key_heads, 0, 1))
        keys, scales = executor.zeros(shapes[0], cache), executor.zeros(shapes[1])
        self.caches: list[Cache] = [(keys, keys, *([scales] if cache == "i8" else []))] * a.layers
        self.blocks, self.free = 0, list[int]()  # of the pool; those of no text
        self._steps: dict[tuple[int, int, int], Step] = {}
        self._steps_for: list[Any] = []
        self._tables: list[Rotation] = []
        self.logits: Tensor | None = None  # (rows, words) of the last step, until the next
        self._begin = hg.jit(partial(begin, a))
        self._block = [hg.jit(partial(block, a, sight), donate=3) for sight in range(len(a.sights))]
        self.finish = hg.jit(partial(finish, a))

    def piece(self, text: Text) -> int:
        """Computes up to MOST_PIECE tokens of a text, all but its last; gives how many."""
        n = min(len(text.tokens) - 1 - text.known, MOST_PIECE)
        if n <= 0:
            return 0
        padded = max(
            LEAST_PIECE, _power(n)
        )  # those behind are hidden until they are overwritten, or of no block
        self._room(text, text.known + n)
        tokens = np.zeros((1, padded), np.int32)
        tokens[0, :n] = text.tokens[text.known : text.known + n]
        width = self._width(text.known + padded)
        known = np.array([[text.known]], np.int32)
        self.features(*map(self.executor.tensor, (tokens, known, self._table([text], 1, width))))
        text.known += n
        return n

    def next(self, texts: Sequence[Text]) -> list[int]:
        """A token behind each of some texts, whose last tokens alone are not computed yet."""
        for text in texts:
            self._room(text, len(text.tokens))
        rows, width = _power(len(texts)), self._width(max(len(text.tokens) for text in texts))
        state = np.zeros((rows, 2 + width), np.int32)
        state[:, 2:] = self._table(texts, rows, width)
        state[: len(texts), :2] = [(text.tokens[-1], text.known) for text in texts]
        step = self.step(rows, width, max(text.sampling.count(self.weights.head.shape[0]) for text in texts))
        step.state.buffer.from_numpy(state)
        if step.settings is not None:
            drawn = [text.sampling.row(text.random) for text in texts]
            step.settings.buffer.from_numpy(np.array(drawn + [drawn[0]] * (rows - len(texts)), np.float32))
        step.captured.replay()
        tokens, self.logits = step.captured.results
        for text in texts:
            text.known += 1
        return tokens.to_numpy()[: len(texts)].tolist()

    def step(self, rows: int, width: int, count: int) -> Step:
        """The step of so many texts and blocks; captured again when a cache moved."""
        where = [tensor.buffer.live_block().place for cache in self.caches for tensor in cache]
        if self._steps_for != where:
            self._steps, self._steps_for = {}, where
        key = (rows, width, count)
        return self._steps.get(key) or self._steps.setdefault(key, Step(self, *key))

    def release(self, text: Text) -> None:
        """Gives a text's blocks to others."""
        self.free += text.blocks
        text.known, text.blocks = 0, []

    def read_bytes(self, texts: Sequence[Text]) -> int:
        """What a token behind each reads of weights and cache."""
        a, known = self.a, sum(text.known for text in texts)
        each = 2 * (a.head_size * CACHES[self.cache] + (4 if self.cache == "i8" else 0))
        return self.weights.read_bytes + known * a.layers * a.key_heads * each

    def features(self, tokens: Tensor, known: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
        """Features of tokens (rows, n) behind those that are known (rows, 1); their keys and values are kept."""
        w = self.weights
        x, y, places = self._begin(tokens, known, table, w.embedding, self._tables)
        for layer, (weights, sight) in enumerate(zip(w.blocks, self.a.sight_of, strict=True)):
            x, y, self.caches[layer] = self._block[sight](x, y, weights, self.caches[layer], places)
        return x, y

    def _table(self, texts: Sequence[Text], rows: int, width: int) -> np.ndarray:
        """The blocks of each text, and behind them a number that is none's."""
        table = np.full((rows, width), self.blocks, np.int32)
        for row, text in zip(table, texts, strict=False):
            row[: min(width, len(text.blocks))] = text.blocks[:width]
        return table

    def _width(self, tokens: int) -> int:
        """Blocks of a table for texts of so many tokens, for which there are then rotations."""
        width = max(LEAST_BLOCKS, _power(-(-tokens // BLOCK)))
        if not self._tables or len(self._tables[0][0]) < width * BLOCK:
            divisors = self.weights.divisors
            own = None if divisors is None else divisors[self.context > self.a.short_context]
            tables = [rotations(self.a, sight, own, width * BLOCK) for sight in self.a.sights]
            make = self.executor.tensor
            self._tables, self._steps = [(make(cos), make(sin)) for cos, sin in tables], {}
        return width

    def _room(self, text: Text, tokens: int) -> None:
        """Has a text have blocks for so many tokens. The pool doubles where none is free."""
        missing = -(-tokens // BLOCK) - len(text.blocks)
        if missing > len(self.free):
            more = max(LEAST_BLOCKS, _power(self.blocks + missing - len(self.free))) - self.blocks
            self._steps = {}
            for layer, cache in enumerate(self.caches):
                shapes = ((*x.shape[:-2], more * BLOCK, x.shape[-1]) for x in cache)
                grown = [self.executor.zeros(s, x.dtype) for s, x in zip(shapes, cache, strict=True)]
                self.caches[layer] = tuple(
                    hg.concat(pair, axis=-2) for pair in zip(cache, grown, strict=True)
                )
            self.free = [*range(self.blocks + more - 1, self.blocks - 1, -1), *self.free]
            self.blocks += more
            self.executor.empty_cache()  # the smaller pool is no use to anybody
        text.blocks += [self.free.pop() for _ in range(missing)]


def _power(n: int) -> int:
    """The least power of two that is not smaller."""
    return 1 << (n - 1).bit_length()


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
    a: Architecture, tokens: Tensor, known: Tensor, table: Tensor, embedding: Any, tables: list[Rotation]
) -> tuple[Tensor, Tensor, Places]:
    """Features (rows * n, width) of tokens (rows, n) as two terms, and where these stand."""
    n = tokens.shape[1]
    x = hg.embedding(tokens.reshape(-1), embedding)
    x = x if a.embedding_scale == 1 else x * a.embedding_scale
    at = known + hg.arange(n, dtype="i32", device=known.executor)
    slots = hg.gather(table, at // BLOCK, dim=1) * BLOCK + at % BLOCK
    at = at.reshape(-1)
    rotated = [tuple(hg.take(t, at, axis=0).unsqueeze(1) for t in each) for each in tables]
    return x, hg.zeros_like(x), Places(slots.reshape(-1), known + n, table, rotated)  # type: ignore[arg-type]


def block(
    a: Architecture, sight: int, x: Tensor, y: Tensor, w: Block, cache: Cache, places: Places
) -> tuple[Tensor, Tensor, Cache]:
    """A block's features (n, width) of features, and the cache with their keys and values.

    Features are given as two terms, whose sum is then part of the kernel that normalises it.
    """
    x = x + y
    n, (heads, kept, size) = x.shape[0], (a.heads, a.key_heads, a.head_size)
    y = product(norm(a, x, w["attn_norm"]), w["qkv"], w.get("qkv_bias")).reshape(n, heads + 2 * kept, size)
    q, k, v = y[:, :heads], y[:, heads : heads + kept], y[:, heads + kept :]
    if "attn_q_norm" in w:
        q, k = norm(a, q, w["attn_q_norm"]), norm(a, k, w["attn_k_norm"])
    q, k = rotate(q, places.rotated[sight]), rotate(k, places.rotated[sight])
    cache = written(cache, places.slots, [k.permute(1, 0, 2), v.permute(1, 0, 2)])
    y = product(attention(a, a.sights[sight], q, cache, places), w["attn_output"])
    x = x + (norm(a, y, w["post_attention_norm"]) if "post_attention_norm" in w else y)
    y = norm(a, x, w["ffn_norm"])
    y = mixture(a, y, w) if a.experts else gated(a, y, w["gate_up"], w["down"])
    return x, norm(a, y, w["post_ffw_norm"]) if "post_ffw_norm" in w else y, cache


def finish(
    a: Architecture, x: Tensor, y: Tensor, weight: Tensor, head: Any, settings: Tensor | None, count: str
) -> tuple[Tensor, Tensor]:
    """The token (rows) that is chosen of the `count` likeliest, and the logits (rows, words)."""
    logits = product(norm(a, x + y, weight), (head,))
    logits = hg.tanh(logits / a.logit_cap) * a.logit_cap if a.logit_cap else logits
    return chosen(logits, settings, int(count)), logits


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


def written(cache: Cache, slots: Tensor, new: list[Tensor]) -> Cache:
    """A cache with keys and values (key heads, n, size) in some places, as codes where it has scales of them."""
    if len(cache) > len(new):
        scales = hg.stack([hg.max(hg.abs(x), axis=-1, keepdims=True) for x in new]) / 127.0
        divisors = hg.where(scales == 0.0, 1.0, scales)
        new = [*(hg.round(x / divisors[k]) for k, x in enumerate(new)), scales]
    return tuple(
        hg.scatter(pool, slots.unsqueeze(1).expand(x.shape), x.astype(pool.dtype), dim=-2)
        for pool, x in zip(cache, new, strict=True)
    )


def attention(a: Architecture, sight: Sight, q: Tensor, cache: Cache, places: Places) -> Tensor:
    """What queries (rows * n, heads, size), the last of a row, find in its blocks: (rows * n, heads * size)."""
    keys, values = (x.reshape(a.key_heads, -1, BLOCK, a.head_size).permute(1, 0, 2, 3) for x in cache[:2])
    scales = [x.reshape(2, a.key_heads, -1, BLOCK).permute(0, 2, 1, 3) for x in cache[2:]] or [None]
    q = q.reshape(len(places.table), -1, a.heads, a.head_size).permute(0, 2, 1, 3)
    y = hg.scaled_dot_product_attention(
        q, keys, values, lengths=places.lengths, table=places.table, scales=scales[0], causal=True,
        window=sight.window, scale=a.attention_scale, softcap=a.attention_cap or None, enable_gqa=True,
    )  # fmt: skip
    return y.permute(0, 2, 1, 3).reshape(-1, a.heads * a.head_size)


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
