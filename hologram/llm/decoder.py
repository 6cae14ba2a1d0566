"""A decoder as three compiled functions: tokens become features, a block (the same for all), features become tokens.

A block is compiled once and called for each layer with the layer's weights, so that tracing takes as long for 80
layers as for one. Where texts and their keys and values are is data: only another number of tokens, texts or blocks is
traced again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

import hologram as hg
from hologram.foundation.frozen import frozen
from hologram.frontend.executor import Executor
from hologram.frontend.packed import Packed
from hologram.frontend.tensor import Tensor
from hologram.llm.architecture import Architecture, Sight
from hologram.llm.cache import BLOCK, CACHES, Cache, Pool, Text, power, written
from hologram.llm.sampling import chosen
from hologram.llm.weights import Block, Matrix, Weights
from hologram.runtime.launches.captured import Captured
from hologram.runtime.memory.reading import fetched

LEAST_ROTATIONS = 4 * BLOCK  # tokens for which there are rotations: a power of two
LEAST_PIECE, MOST_PIECE = 16, 512  # tokens of a prompt that are computed together: powers of two between
Rotation = tuple[Tensor, ...]  # cosines and sines (tokens, 1, rotated / 2)


class Places(NamedTuple):
    """Where tokens of some rows stand, for those who see equally far."""

    slots: Tensor  # (rows * n) in the cache
    lengths: Tensor  # (rows, 1) of what is in the table, with these tokens
    table: Tensor  # (rows, blocks)
    rotated: Rotation


class Step:
    """What gives texts a token each, captured: what it reads of the host, and what it gives."""

    def __init__(self, decoder: Decoder, rows: int, widths: tuple[int, ...], count: int) -> None:
        zeros = decoder.executor.zeros
        self.state, self.tokens = zeros((rows, 2 + sum(widths)), "i32"), zeros((rows, 1), "i32")
        self.settings = zeros((rows, 4)) if count else None
        ends = np.cumsum((2, *widths)).tolist()

        def step() -> Tensor:
            state, w = self.state, decoder.weights
            tables = [state[:, start:end] for start, end in pairwise(ends)]
            last = self.tokens if decoder.ahead else None
            x, y = decoder.features(state[:, :1], state[:, 1:2], tables, last)
            self.tokens, logits = decoder.finish(x, y, w.norm, w.head, self.settings, str(count), self.tokens)
            return logits

        self.captured = Captured(decoder.executor, step)


@frozen(eq=False, repr=False)
class Flight:
    """A token of each of some texts, on its way: the host may launch the next before it has read these."""

    texts: Sequence[Text]
    step: Step
    began_s: float  # by the clock
    read_bytes: int  # of weights and cache
    fetched: Callable[[], np.ndarray]

    def tokens(self) -> list[int]:
        """Waits for them."""
        return self.fetched().reshape(-1)[: len(self.texts)].tolist()


class Decoder:
    """A model on a device, with the keys and values of texts in a context of at most so many tokens."""

    def __init__(
        self, a: Architecture, weights: Weights, executor: Executor, context: int, cache: str = "f32"
    ) -> None:
        self.a, self.weights, self.executor, self.context, self.cache = a, weights, executor, context, cache
        keys, scales = executor.zeros((a.key_heads, 0, a.head_size), cache), (2, a.key_heads, 0, 1)
        empty: Cache = (keys, keys, *([executor.zeros(scales)] if cache == "i8" else []))
        self.pools = [
            Pool(executor, {n: empty for n, own in enumerate(a.sight_of) if own == k}, sight.window)
            for k, sight in enumerate(a.sights)
        ]
        self._steps: dict[tuple[int, tuple[int, ...], int], Step] = {}
        self._steps_for: list[Any] = []
        self._tables: list[Rotation] = []
        self._latest: Flight | None = None
        self.logits: Tensor | None = None  # (rows, words) of the last step, until the next
        self._begin = hg.jit(partial(begin, a))
        self._block = [hg.jit(partial(block, a, sight), donate=3) for sight in a.sights]
        self.finish = hg.jit(partial(finish, a), donate=6)
        self.ahead = not executor.limits.host_resident  # whether steps may begin before the last was read

    def piece(self, text: Text) -> int:
        """Computes up to MOST_PIECE tokens of a text, all but its last; gives how many."""
        n = min(len(text.tokens) - 1 - text.known, MOST_PIECE)
        if n <= 0:
            return 0
        # Those behind are hidden until they are overwritten, or of no block.
        padded = max(LEAST_PIECE, power(n))
        tokens = np.zeros((1, padded), np.int32)
        tokens[0, :n] = text.tokens[text.known : text.known + n]
        tables = self._room([text], 1, n, padded)
        known, make = np.array([[text.known]], np.int32), self.executor.tensor
        self.features(make(tokens), make(known), list(map(make, tables)))
        text.known += n
        return n

    def next(self, texts: Sequence[Text]) -> list[int]:
        """A token behind each of some texts, whose last tokens alone are not computed yet."""
        flight = self.launched(texts)
        assert flight is not None
        return flight.tokens()

    def launched(self, texts: Sequence[Text], before: Flight | None = None) -> Flight | None:
        """Has a token be computed behind each of some texts, whose last tokens alone are not computed yet.

        Those tokens may be on their way themselves, `before`: None where the device has them no more, or elsewhere.
        """
        rows, began_s = power(len(texts)), time.perf_counter()
        tables = self._room(texts, rows, 1, 1)
        count = max(text.sampling.count(self.weights.head.shape[0]) for text in texts)
        step = self.step(rows, tuple(table.shape[1] for table in tables), count)
        if before is not None and (before is not self._latest or before.step is not step):
            return None
        flown = before.texts if before else ()
        lasts = np.zeros((rows, 2), np.int32)
        lasts[: len(texts)] = [
            (t.tokens[-1] if t.known < len(t.tokens) else -1 - flown.index(t), t.known) for t in texts
        ]
        step.state.buffer.from_numpy(np.concatenate([lasts, *tables], axis=1))
        if step.settings is not None:
            drawn = [text.sampling.row(text.random) for text in texts]
            step.settings.buffer.from_numpy(np.array(drawn + [drawn[0]] * (rows - len(texts)), np.float32))
        step.captured.replay()
        self.logits = step.captured.results
        for text in texts:
            text.known += 1
        read_bytes = self.read_bytes(texts)
        self._latest = flight = Flight(texts, step, began_s, read_bytes, fetched(step.tokens.buffer))
        return flight

    def step(self, rows: int, widths: tuple[int, ...], count: int) -> Step:
        """The step of so many texts, and columns of tables; captured again when what it reads moved."""
        caches = (cache for pool in self.pools for cache in pool.caches.values())
        read = (tensor for tensors in (*caches, *self._tables) for tensor in tensors)
        where = [(tensor.buffer.live_block().place, tensor.size) for tensor in read]
        if self._steps_for != where:
            self._steps, self._steps_for = {}, where
        key = (rows, widths, count)
        return self._steps.get(key) or self._steps.setdefault(key, Step(self, *key))

    def resume(self, text: Text, past: Text) -> None:
        """Has a text take over what is computed of another, where they are the same and it is still there."""
        pairs = zip(past.tokens[: past.known], text.tokens[:-1], strict=False)
        same = min(past.known, len(text.tokens) - 1)
        same = next((k for k, (x, y) in enumerate(pairs) if x != y), same)
        if any(pool.behind(same) < held.behind for pool, held in past.held.items()):
            self.release(past)
        else:
            text.known, text.held, past.known, past.held = same, past.held, 0, {}

    def release(self, text: Text) -> None:
        """Gives a text's blocks to others."""
        text.known = 0
        for pool in self.pools:
            pool.release(text)

    def read_bytes(self, texts: Sequence[Text]) -> int:
        """What a token behind each reads of weights and cache."""
        a, each = self.a, self.a.head_size * CACHES[self.cache] + (4 if self.cache == "i8" else 0)
        seen = sum(
            len(pool.caches) * min(text.known, pool.window or text.known)
            for pool in self.pools
            for text in texts
        )
        return self.weights.read_bytes + seen * a.key_heads * 2 * each

    def features(
        self, tokens: Tensor, known: Tensor, tables: list[Tensor], last: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Features of tokens (rows, n) behind those that are known (rows, 1); their keys and values are kept."""
        w = self.weights
        x, y, places = self._begin(tokens, last, known, tables, w.embedding, self._tables)
        for layer, (weights, sight) in enumerate(zip(w.blocks, self.a.sight_of, strict=True)):
            caches = self.pools[sight].caches
            x, y, caches[layer] = self._block[sight](x, y, weights, caches[layer], places[sight])
        return x, y

    def _room(self, texts: Sequence[Text], rows: int, n: int, padded: int) -> list[np.ndarray]:
        """The tables of texts that have room for n more tokens, by sight; with rotations of as many as are padded."""
        for pool in self.pools:
            for text in texts:
                pool.room(text, text.known + n)
        ends = [text.known + padded for text in texts]
        if not self._tables or len(self._tables[0][0]) < max(ends):
            divisors = self.weights.divisors
            own = None if divisors is None else divisors[self.context > self.a.short_context]
            capacity, make = max(LEAST_ROTATIONS, power(max(ends))), self.executor.tensor
            self._tables = [
                tuple(map(make, rotations(self.a, sight, own, capacity))) for sight in self.a.sights
            ]
        return [pool.table(texts, rows, ends) for pool in self.pools]


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
    a: Architecture,
    tokens: Tensor,
    last: Tensor | None,
    known: Tensor,
    tables: list[Tensor],
    embedding: Any,
    rotations: list[Rotation],
) -> tuple[Tensor, Tensor, list[Places]]:
    """Features (rows * n, width) of tokens (rows, n) as two terms, and where these stand for each sight.

    A token of -1 or less stands for one of those that were chosen last (rows, 1): -1 for the first row's, and so on. A
    table (rows, 1 + blocks) begins behind so many tokens, the number ahead of its blocks.
    """
    n = tokens.shape[1]
    if last is not None:
        tokens = hg.where(tokens < 0, hg.gather(last, hg.maximum(-1 - tokens, 0), dim=0), tokens)
    x = hg.embedding(tokens.reshape(-1), embedding)
    x = x if a.embedding_scale == 1 else x * a.embedding_scale
    at, places = known + hg.arange(n, dtype="i32", device=known.executor), []
    for table, rotation in zip(tables, rotations, strict=True):
        behind, table = table[:, :1], table[:, 1:]
        slots = hg.gather(table, (at - behind) // BLOCK, dim=1) * BLOCK + at % BLOCK
        rotated = tuple(hg.take(t, at.reshape(-1), axis=0).unsqueeze(1) for t in rotation)
        places.append(Places(slots.reshape(-1), known - behind + n, table, rotated))
    return x, hg.zeros_like(x), places


def block(
    a: Architecture, sight: Sight, x: Tensor, y: Tensor, w: Block, cache: Cache, places: Places
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
    q, k = rotate(q, places.rotated), rotate(k, places.rotated)
    cache = written(cache, places.slots, [k.permute(1, 0, 2), v.permute(1, 0, 2)])
    y = product(attention(a, sight, q, cache, places), w["attn_output"])
    x = x + (norm(a, y, w["post_attention_norm"]) if "post_attention_norm" in w else y)
    y = norm(a, x, w["ffn_norm"])
    y = mixture(a, y, w) if a.experts else gated(a, y, w["gate_up"], w["down"])
    return x, norm(a, y, w["post_ffw_norm"]) if "post_ffw_norm" in w else y, cache


def finish(
    a: Architecture,
    x: Tensor,
    y: Tensor,
    weight: Tensor,
    head: Any,
    settings: Tensor | None,
    count: str,
    last: Tensor,
) -> tuple[Tensor, Tensor]:
    """The token (rows, 1) that is chosen of the `count` likeliest, over the last; and the logits (rows, words)."""
    logits = product(norm(a, x + y, weight), (head,))
    logits = hg.tanh(logits / a.logit_cap) * a.logit_cap if a.logit_cap else logits
    return chosen(logits, settings, int(count)).reshape(last.shape), logits


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
    (first, *second), (down,), rows = w["gate_up_experts"], w["down_experts"], x.unsqueeze(1)
    if not second and isinstance(first, Packed) and not a.gelu:
        y = first.experts(rows, chosen, a.experts, activation="silu", gated=True)
    elif second:
        y = gate(a, *(sent(part, rows, chosen, a.experts) for part in (first, *second)))
    else:  # what gates open are as many experts more
        both = sent(first, rows, hg.concat([chosen, chosen + a.experts], axis=1), 2 * a.experts)
        y = gate(a, both[:, : a.experts_used], both[:, a.experts_used :])
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
