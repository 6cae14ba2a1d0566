"""What a recurrence and its gradient are, in NumPy, and what they are tested with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from hologram.foundation.dtypes import DType
from hologram.opset.forms.operation import Sample
from hologram.opset.forms.samples import array

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _lstm(x, h, hidden, cell, bias):
    i, f, g, o = np.split(x + h, 4, -1)
    grown = _sigmoid(f) * cell + _sigmoid(i) * np.tanh(g)
    kept = np.concatenate([_sigmoid(i), _sigmoid(f), np.tanh(g), _sigmoid(o), cell], -1)
    return _sigmoid(o) * np.tanh(grown), grown, kept


def _gru(x, h, hidden, cell, bias):
    (ir, iz, inner), (hr, hz, hn) = np.split(x, 3, -1), np.split(h, 3, -1)
    r, z, hn = _sigmoid(ir + hr), _sigmoid(iz + hz), hn + (0 if bias is None else bias)
    n = np.tanh(inner + r * hn)
    return (1 - z) * n + z * hidden, None, np.concatenate([r, z, n, hn, hidden], -1)


STEPS: dict[str, Callable[..., Any]] = {
    "lstm": _lstm,
    "gru": _gru,
    "rnn_tanh": lambda x, h, *_: (np.tanh(x + h), None, None),
    "rnn_relu": lambda x, h, *_: (np.maximum(x + h, 0), None, None),
}


def _order(times: int, reverse: bool) -> list[int]:
    return list(reversed(range(times)) if reverse else range(times))


def forward(kind: str) -> Callable[..., Any]:
    def reference(gates, weight, hidden, cell=None, bias=None, projection=None, lengths=None, reverse=False):
        out = np.zeros((*gates.shape[:2], hidden.shape[1]))
        kept: list[Any] = [None] * len(gates)
        for t in _order(len(gates), reverse):
            state, grown, kept[t] = STEPS[kind](gates[t], hidden @ weight.T, hidden, cell, bias)
            if projection is not None:
                kept[t], state = np.concatenate([kept[t], state], -1), state @ projection.T
            active = np.ones((len(hidden), 1), bool) if lengths is None else (t < lengths)[:, None]
            out[t] = hidden = np.where(active, state, hidden)
            cell = cell if grown is None else np.where(active, grown, cell)
        states = (out, hidden) if cell is None else (out, hidden, cell)
        return states if kept[0] is None else (*states, np.stack(kept))

    return reference


def _lstm_back(kept, by_hidden, by_cell):
    i, f, g, o, cell = np.split(kept, 5, -1)
    inner = np.tanh(f * cell + i * g)
    by_cell = by_cell + by_hidden * o / np.cosh(f * cell + i * g) ** 2
    by_activated = by_cell * g, by_cell * cell, by_cell * i, by_hidden * inner
    slopes = i - i * i, f - f * f, 1 - g * g, o - o * o
    parts = np.concatenate([a * s for a, s in zip(by_activated, slopes, strict=True)], -1)
    return parts, parts, 0 * by_hidden, by_cell * f


def _gru_back(kept, by_hidden, by_cell):
    r, z, n, inner, hidden = np.split(kept, 5, -1)
    by_sum = by_hidden * (1 - z) * (1 - n * n)
    first = by_sum * inner * (r - r * r), by_hidden * (hidden - n) * (z - z * z)
    return np.concatenate([*first, by_sum], -1), np.concatenate([*first, by_sum * r], -1), by_hidden * z, None


def _plain_back(slope):
    return lambda kept, by_hidden, _: (by_hidden * slope(kept), by_hidden * slope(kept), 0 * by_hidden, None)


BACKS: dict[str, Callable[..., Any]] = {
    "lstm": _lstm_back,
    "gru": _gru_back,
    "rnn_tanh": _plain_back(lambda h: 1 - h * h),
    "rnn_relu": _plain_back(lambda h: h > 0),
}


def backward(kind: str) -> Callable[..., Any]:
    def reference(
        kept, weight, by_hidden, by_cell=None, cotangent=None, projection=None, lengths=None, reverse=False
    ):
        times, batch, _ = kept.shape
        grown, inner = (np.zeros((times, batch, len(weight))) for _ in range(2))
        totals = np.zeros((times, batch, by_hidden.shape[1]))
        for t in _order(times, not reverse):
            total = by_hidden if cotangent is None else by_hidden + cotangent[t]
            active = np.ones((batch, 1), bool) if lengths is None else (t < lengths)[:, None]
            totals[t] = through = np.where(active, total, 0)
            own = kept[t]
            if projection is not None:
                through, own = through @ projection, own[:, : -projection.shape[1]]
            parts, hiddens, direct, before = BACKS[kind](own, through, by_cell)
            grown[t], inner[t] = np.where(active, parts, 0), np.where(active, hiddens, 0)
            direct = 0 if projection is not None else direct
            by_hidden = np.where(active, direct, total) + inner[t] @ weight
            by_cell = before if before is None else np.where(active, before, by_cell)
        results = (grown, inner, by_hidden) if kind == "gru" else (grown, by_hidden)
        results = results if by_cell is None else (*results, by_cell)
        return results if projection is None else (*results, totals)

    return reference


def _sizes(kind: str) -> Iterable[tuple[int, int, int, int | None]]:
    """Times, batch, width, and of what is projected the size."""
    yield from ((5, 3, 7, None), (1, 1, 1, None), (4, 2, 70, None), (0, 2, 3, None), (3, 0, 4, None))
    if kind == "lstm":
        yield from ((3, 4, 5, 2), (2, 3, 4, 6))


def samples(kind: str) -> Callable[[np.random.Generator, DType], Iterable[Sample]]:
    def made(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
        for times, batch, width, state in _sizes(kind):
            shapes = {
                "gates": (times, batch, GATES[kind] * width), "weight": (GATES[kind] * width, state or width),
                "hidden": (batch, state or width), "cell": (batch, width) if kind == "lstm" else None,
                "bias": (width,) if kind == "gru" and times > 1 else None,
                "projection": (state, width) if state else None,
            }  # fmt: skip
            given = [s if s is None else array(rng, dtype, s, -0.5, 0.5) for s in shapes.values()]
            for reverse in (False, True):
                lengths = rng.integers(0, times + 1, batch).astype(np.int32)
                yield Sample((*given, lengths), {"reverse": reverse})
                yield Sample((*given, None), {"reverse": reverse})

    return made


def backward_samples(kind: str) -> Callable[[np.random.Generator, DType], Iterable[Sample]]:
    def made(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
        widths = {"lstm": 5, "gru": 5}.get(kind, 1)
        for times, batch, width, state in _sizes(kind):
            shapes = {
                "kept": (times, batch, (widths + (state is not None)) * width),
                "weight": (GATES[kind] * width, state or width), "by_hidden": (batch, state or width),
                "by_cell": (batch, width) if kind == "lstm" else None,
                "cotangent": (times, batch, state or width) if times != 4 else None,
                "projection": (state, width) if state else None,
            }  # fmt: skip
            given = [s if s is None else array(rng, dtype, s, -0.5, 0.5) for s in shapes.values()]
            for reverse in (False, True):
                lengths = rng.integers(0, times + 1, batch).astype(np.int32)
                yield Sample((*given, lengths), {"reverse": reverse})
                yield Sample((*given, None), {"reverse": reverse})

    return made
