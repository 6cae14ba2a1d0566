"""Structures of a class follow from one that was traced; see hologram/runtime/launches/templates.py."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.backends.cpu.fourier import kernel as fourier
from hologram.foundation.errors import HologramError
from hologram.machine.layout import Layout
from hologram.opset import OPERATIONS
from hologram.opset.forms.operation import Operation, Sample
from hologram.runtime.launches.shape_classes import class_of
from hologram.runtime.launches.templates import Templates, alike

ALIKE = 3  # operations of each form: others of it are planned by the same code
OTHERS = 4  # members of each class
MOST_STEPS = (
    1000  # of a plan that is traced or compared: 25,000, of as many products, take a minute and show no more
)
# Of queries, keys and values with batches of heads: of more, attention plans up to 89,000 steps, in 39 s.
MOST_NUMBERS = 10_000_000
SIZES: tuple[int, ...] = (
    2,
    3,
    4,
    7,
    8,
    15,
    16,
    17,
    31,
    32,
    33,
    63,
    64,
    65,
    100,
    127,
    128,
    129,
    255,
    256,
    257,
    1000,
)
LARGE: tuple[int, ...] = (1023, 1024, 1025, 4096, 5000, 70_000)  # of one size


def layouts(operand: Any) -> Any:
    if isinstance(operand, tuple):
        return tuple(map(layouts, operand))
    if not isinstance(operand, np.ndarray):
        return operand
    return Layout.contiguous(hg.dtypes.dtype(operand.dtype), operand.shape)


def like(inputs: Sequence[Any], sizes: dict[int, int], turned: bool) -> list[Any]:
    """Layouts with other sizes, their last two axes turned over."""
    found: list[Any] = []
    for x in inputs:
        if isinstance(x, Layout):
            x = Layout.contiguous(x.dtype, [sizes.get(n, n) for n in x.shape])
            if turned and x.ndim > 1:
                x = x.permute((*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
                x = Layout.contiguous(x.dtype, x.shape).permute((*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
        found.append(x)
    return found


def members(inputs: Sequence[Any], draw: random.Random) -> Iterator[list[Any]]:
    """Layouts of the same class, more or less."""
    distinct = {n for x in inputs if isinstance(x, Layout) for n in x.shape if n > 1}
    for k in range(OTHERS):
        sizes = dict(zip(distinct, draw.sample(SIZES, len(distinct)), strict=True))
        if k % 3 == 2 and sizes:
            sizes[draw.choice(list(sizes))] = draw.choice(LARGE)
        yield like(inputs, sizes, k % 2 == 1)


def long(inputs: Sequence[Any]) -> bool:
    """Whether a plan would be too long to be compared."""
    batches = [x.shape for x in inputs if isinstance(x, Layout) and x.ndim > 3]
    return len(batches) > 2 and max(map(math.prod, batches)) > MOST_NUMBERS


def samples(operation: Operation) -> list[tuple[Sample, list[Any]]]:
    dtype = next((d for d in operation.dtypes if d.name == "f32"), next(iter(operation.dtypes)))
    found = []
    for sample in operation.samples(np.random.default_rng(3), dtype):
        given = [y for x in sample.operands for y in (x if isinstance(x, tuple) else (x,))]
        found.append((sample, [layouts(x) for x in given]))
    return found


def some() -> list[str]:
    """The first operations of each form."""
    forms: dict[type, list[str]] = {}
    for operation in OPERATIONS.values():
        if not operation.composite:
            forms.setdefault(type(operation), []).append(operation.name)
    return [name for names in forms.values() for name in names[:ALIKE]]


@pytest.mark.parametrize("name", some())
def test_a_template_plans_as_the_operation_does(name: str, executor: hg.Executor) -> None:
    operation, draw = OPERATIONS[name], random.Random(name)
    templates = Templates(executor.kind)
    for sample, inputs in samples(operation):
        attributes = {**operation.attributes, **sample.attributes}
        others = [other for other in members(inputs, draw) if not long(other)]
        for base in (inputs, *others[-1:]):
            check(executor, operation, attributes, templates, base, [inputs, *others])


def check(
    executor: hg.Executor,
    operation: Operation,
    attributes: dict[str, Any],
    templates: Templates,
    base: list[Any],
    others: list[list[Any]],
) -> None:
    """What is traced for layouts and numbers serves others of the class, or refuses them."""

    def planned(given: Sequence[Any], found: Sequence[Layout]) -> Any:
        rest = iter(found)
        now = [next(rest) if isinstance(x, Layout) else x for x in given]
        return executor.planned(operation, now, None, attributes)

    def given_layouts(given: Sequence[Any]) -> list[Layout]:
        return [x for x in given if isinstance(x, Layout)]

    try:
        plan = planned(base, given_layouts(base))
    except (HologramError, TypeError, ValueError):
        return  # no such call
    if len(plan.steps) > MOST_STEPS:
        return
    name, sizes = class_of(given_layouts(base))
    made = templates.traced(given_layouts(base), sizes, lambda found: planned(base, found))
    if made is None:
        return
    for other in others:
        same, numbers = class_of(given_layouts(other))
        if same != name:
            continue
        guess = made(tuple(numbers))
        try:
            wanted = planned(other, given_layouts(other))
        except (HologramError, TypeError, ValueError):
            assert guess is None, f"{base} stands for {other}, which is refused"
            continue
        assert guess is None or alike(guess, wanted), f"{base} stands for {other}"


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def layer_norm(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w[0] + w[1]


# Of x (rows, 24) and w (24, 24): ours, and NumPy's in float64.
CALLS: dict[str, tuple[Any, Any]] = {
    "x + x": (lambda x, w: x + x, lambda x, w: x + x),
    "x + row": (lambda x, w: x + w[0], lambda x, w: x + w[0]),
    "x * 1.5": (lambda x, w: x * 1.5, lambda x, w: x * 1.5),
    "exp": (lambda x, w: hg.exp(x), lambda x, w: np.exp(x)),
    "sum": (lambda x, w: x.sum(axis=0), lambda x, w: x.sum(axis=0)),
    "softmax": (lambda x, w: hg.softmax(x), lambda x, w: softmax(x)),
    "x @ w": (lambda x, w: x @ w, lambda x, w: x @ w),
    "x.T @ x": (lambda x, w: x.T @ x, lambda x, w: x.T @ x),
    "linear": (lambda x, w: hg.linear(x, w, w[0]), lambda x, w: x @ w.T + w[0]),
    "layer_norm": (lambda x, w: hg.layer_norm(x, w[0], w[1]), layer_norm),
    "clone": (lambda x, w: x.T.clone(), lambda x, w: x.T),
    "concat": (lambda x, w: hg.concat([x, x], axis=1), lambda x, w: np.concatenate([x, x], 1)),
    "sort": (lambda x, w: hg.sort(x), lambda x, w: np.sort(x)),
    "cumsum": (lambda x, w: hg.cumsum(x, axis=0), lambda x, w: np.cumsum(x, axis=0)),
}


@pytest.mark.parametrize("name", CALLS)
def test_new_shapes_are_right_and_not_planned(name: str, executor: hg.Executor) -> None:
    ours, numpys = CALLS[name]
    host = np.random.default_rng(5)
    w = host.standard_normal((24, 24), np.float32)
    own = executor.tensor(w)
    before = 0
    for rows in range(33, 63):
        if rows == 48:
            before = executor.preparation_stats()["planned"]
        x = host.standard_normal((rows, 24), np.float32)
        found = ours(executor.tensor(x), own).to_numpy()
        wanted = numpys(x.astype(np.float64), w.astype(np.float64))
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)
    assert executor.preparation_stats()["planned"] - before < 8


def _planned_late(backend: str, call: Callable[[hg.Executor, int], None]) -> list[int]:
    """The sizes from 48 on that a new executor plans, where each call from 33 to 62 comes after all caches forgot."""
    planned: list[int] = []
    with hg.Executor(backend=backend) as own:
        for rows in range(33, 63):
            own.device.forget_kernels()
            fourier.roots.cache_clear()
            before = own.preparation_stats()["planned"]
            call(own, rows)
            if own.preparation_stats()["planned"] > before:
                planned.append(rows)
    return [rows for rows in planned if rows >= 48]


def _elementwise(own: hg.Executor, rows: int) -> None:
    x = own.tensor(np.full((rows, 24), 0.5, np.float32))
    np.testing.assert_allclose((hg.exp(x) + x).to_numpy(), np.full((rows, 24), np.exp(0.5) + 0.5), 1e-6)


def _fourier(own: hg.Executor, rows: int) -> None:
    x = np.random.default_rng(rows).standard_normal((rows, 60), np.float32)
    np.testing.assert_allclose(hg.fft.fft(own.tensor(x)).to_numpy(), np.fft.fft(x), rtol=1e-4, atol=1e-4)


def test_a_class_stays_known_when_its_kernels_are_let_go(executor: hg.Executor) -> None:
    """Devices keep some hundred kernels at hand; what launches of a long program run is more."""
    late = _planned_late(executor.backend, _elementwise)
    assert len(late) < 8, f"planned anew for rows of {late}"


def test_a_class_stays_known_when_its_tables_are_let_go() -> None:
    """Roots of unity on the CPU, of which some are kept; launches hold their addresses."""
    late = _planned_late("cpu", _fourier)
    assert len(late) < 8, f"planned anew for rows of {late}"
