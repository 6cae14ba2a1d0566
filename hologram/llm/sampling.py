"""How the next token is chosen, on the device: the host reads its number and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np

import hologram as hg
from hologram.foundation.errors import ShapeError
from hologram.foundation.frozen import frozen
from hologram.frontend.tensor import Tensor

LEAST = 1e-6  # temperature below which nothing but the likeliest token is drawn


def is_integer(x: Any) -> bool:
    """Whether it is an integer, of Python's or NumPy's."""
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


@frozen
class Sampling:
    """The most likely token where the temperature is 0; else a random one by their probabilities.

    Of these the `top_k` largest count (0: all), and of them the fewest that together reach `top_p`.
    """

    temperature: float = 0.0
    top_k: int = 40
    top_p: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        if not (is_integer(self.top_k) and is_integer(self.seed)):
            raise ShapeError(
                f"sampling: top_k and the seed must be integers, got {self.top_k!r} and {self.seed!r}"
            )
        if not 0 <= self.temperature < float("inf") or self.top_k < 0 or not 0 < self.top_p <= 1:
            raise ShapeError(
                "sampling: temperature and top_k must be at least 0 and top_p above 0 and at most 1, "
                f"got {self.temperature}, {self.top_k} and {self.top_p}"
            )
        if not 0 <= self.seed < 1 << 64:
            raise ShapeError(f"sampling: the seed must be an integer of 64 bits, at least 0, got {self.seed}")

    def count(self, words: int) -> int:
        """How many of the likeliest are looked at, a power of two where not all; 0 where the first is taken."""
        if self.temperature < LEAST:
            return 0
        return min(1 << ((self.top_k or words) - 1).bit_length(), words)

    def row(self, random: np.random.Generator) -> tuple[float, float, float, float]:
        """What `chosen` is told for one token."""
        if self.temperature < LEAST:
            return 1.0, 1.0, 1.0, 0.0
        return self.temperature, self.top_k or float("inf"), self.top_p, random.random()


GREEDY = Sampling()


def chosen(logits: Tensor, settings: Tensor | None, count: int) -> Tensor:
    """A token (rows) of i32 by logits (rows, words): the likeliest, or one of the `count` likeliest.

    Settings (rows, 4) are temperatures, how many tokens count, what their probabilities reach, and a number in [0, 1)
    that says where in their sums the token is.
    """
    if settings is None:
        return hg.argmax(logits, axis=-1).astype("i32")
    temperature, most, top_p, drawn = (settings[:, k : k + 1] for k in range(4))
    values, places = hg.topk(logits / temperature, count)
    rank = hg.arange(count, dtype="f32", device=logits.executor)
    shares = hg.softmax(hg.where(rank < most, values, -np.inf), dim=-1)
    before = hg.cumsum(shares, axis=-1) - shares
    kept = (before < top_p) & (rank < most) | (rank == 0.0)  # the likeliest counts whatever is asked for
    sums = hg.cumsum(hg.where(kept, shares, 0.0), axis=-1)
    passed = hg.sum((sums <= drawn * sums[:, -1:]) & kept, axis=-1, keepdims=True)
    last = hg.sum(kept, axis=-1, keepdims=True) - 1
    return hg.gather(places, hg.minimum(passed, last), dim=1).reshape(-1).astype("i32")
