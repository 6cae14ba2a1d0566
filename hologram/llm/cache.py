"""Keys and values of texts, in pools of blocks that a table names for each of them (Kwon et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import hologram as hg
from hologram.foundation.frozen import frozen
from hologram.frontend.executor import Executor
from hologram.frontend.tensor import Tensor
from hologram.llm.sampling import GREEDY, Sampling

BLOCK = 64  # tokens whose keys and values lie together
LEAST_BLOCKS = 4  # of a pool, and of a text's row in a table: both are powers of two
CACHES = {"f32": 4, "f16": 2, "i8": 1}  # dtypes and their bytes; i8 has scales beside them
# Keys and values (key heads, places, size), and scales (2, key heads, places, 1) of codes.
Cache = tuple[Tensor, ...]


class Text:
    """Tokens, of which the first `known` are computed: what it has of each pool are their keys and values."""

    def __init__(self, tokens: Sequence[int], sampling: Sampling = GREEDY) -> None:
        self.tokens, self.sampling, self.random = list(tokens), sampling, np.random.default_rng(sampling.seed)
        self.known, self.held = 0, dict[Pool, Held]()


@frozen
class Held:
    """Blocks that a text has of a pool, behind so many that it has given back."""

    behind: int = 0
    blocks: tuple[int, ...] = ()


class Pool:
    """The blocks of those layers that see equally far. A text's are those that its next token sees."""

    def __init__(self, executor: Executor, caches: dict[int, Cache], window: int | None) -> None:
        self.executor, self.caches, self.window = executor, caches, window
        self.blocks, self.free = 0, list[int]()  # of no text

    def behind(self, known: int) -> int:
        """Blocks that no token sees any more which has so many ahead of it."""
        return 0 if self.window is None else max(0, known + 1 - self.window) // BLOCK

    def room(self, text: Text, tokens: int) -> None:
        """Has a text have blocks for so many tokens. The pool doubles where none is free."""
        held, behind = text.held.get(self, Held()), self.behind(text.known)
        passed = behind - held.behind
        self.free += held.blocks[:passed]
        blocks = held.blocks[passed:]
        missing = -(-tokens // BLOCK) - behind - len(blocks)
        if missing > len(self.free):
            self._grow(missing - len(self.free))
        text.held[self] = Held(behind, (*blocks, *(self.free.pop() for _ in range(missing))))

    def release(self, text: Text) -> None:
        self.free += text.held.pop(self, Held()).blocks

    def table(self, texts: Sequence[Text], rows: int, tokens: Sequence[int]) -> np.ndarray:
        """Where so many tokens of texts are (rows, 1 + blocks): tokens given back, and blocks, or a number of none."""
        each = [text.held[self] for text in texts]
        width = max(-(-n // BLOCK) - held.behind for n, held in zip(tokens, each, strict=True))
        width = max(LEAST_BLOCKS, power(width))
        table = np.full((rows, 1 + width), self.blocks, np.int32)
        table[:, 0] = 0
        for row, held in zip(table, each, strict=False):
            row[0] = held.behind * BLOCK
            row[1 : 1 + len(held.blocks)] = held.blocks[:width]
        return table

    def _grow(self, missing: int) -> None:
        more = max(LEAST_BLOCKS, power(self.blocks + missing)) - self.blocks
        for layer, cache in self.caches.items():
            shapes = ((*x.shape[:-2], more * BLOCK, x.shape[-1]) for x in cache)
            grown = [self.executor.zeros(s, x.dtype) for s, x in zip(shapes, cache, strict=True)]
            self.caches[layer] = tuple(hg.concat(pair, axis=-2) for pair in zip(cache, grown, strict=True))
        self.free = [*range(self.blocks + more - 1, self.blocks - 1, -1), *self.free]
        self.blocks += more
        self.executor.empty_cache()  # the smaller pool is no use to anybody


def power(n: int) -> int:
    """The least power of two that is not smaller."""
    return 1 << (n - 1).bit_length()


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
