"""How the next token is chosen, on the device: the host reads its number and nothing else."""

from __future__ import annotations

from typing import Any

import hologram as hg
from hologram.foundation.errors import ShapeError
from hologram.foundation.frozen import frozen
from hologram.frontend.tensor import Tensor

LEAST = 1e-6  # temperature below which nothing but the likeliest token is drawn


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
        if not 0 <= self.temperature < float("inf") or self.top_k < 0 or not 0 < self.top_p <= 1:
            raise ShapeError(
                "sampling: temperature and top_k must be at least 0 and top_p above 0 and at most 1, "
                f"got {self.temperature}, {self.top_k} and {self.top_p}"
            )
        if not 0 <= self.seed < 1 << 64:
            raise ShapeError(f"sampling: the seed must be an integer of 64 bits, at least 0, got {self.seed}")


class Sampler:
    """Chooses tokens; the number of choices so far makes each random number another one."""

    def __init__(self, settings: Sampling) -> None:
        self.settings, self.turn = settings, 0

    def __call__(self, logits: Tensor) -> Tensor:
        """A token (1) of i32 by logits (words)."""
        s = self.settings
        if s.temperature < LEAST:
            return _likeliest(logits)
        self.turn += 1
        count = min(s.top_k or logits.size, logits.size)
        # A small offset apart, so that numbers of neighbouring turns share no block.
        return _drawn(str(count), logits, float(s.temperature), float(s.top_p), s.seed, 16 * self.turn)


@hg.jit
def _likeliest(logits: Tensor) -> Tensor:
    return hg.argmax(logits, axis=0).astype("i32").reshape(1)


@hg.jit
def _drawn(count: str, logits: Tensor, temperature: Any, top_p: Any, seed: Any, offset: Any) -> Tensor:
    """One of the `count` likeliest, by the sums of their probabilities."""
    values, places = hg.topk(logits / temperature, int(count))
    shares = hg.softmax(values, dim=-1)
    before = hg.cumsum(shares, axis=0) - shares
    kept = (before < top_p) | (before <= 0.0)  # the likeliest counts whatever is asked for
    sums = hg.cumsum(hg.where(kept, shares, 0.0), axis=0)
    drawn = hg.random_uniform(shape=(1,), seed=seed, offset=offset, device=logits.executor) * sums[-1:]
    passed = hg.sum((sums <= drawn) & kept, axis=0, keepdims=True)
    last = hg.sum(kept, axis=0, keepdims=True) - 1
    return hg.take(places, hg.minimum(passed, last), axis=0).astype("i32")
