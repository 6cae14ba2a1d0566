"""Every operation in a batch, beside one example at a time; and forward mode beside reverse mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation import dtypes
from hologram.opset import OPERATIONS

pytestmark = pytest.mark.sampled(3)

BATCH = 3
NAMES = [n for n, o in OPERATIONS.items() if dtypes.f32 in o.dtypes]
# Their samples are large, and a batch goes over them one by one.
SLOW = {"resample"}


def calls(name: str, most: int) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Operands and attributes of an operation's first samples with arrays among them."""
    operation = OPERATIONS[name]
    found = 0
    for sample in operation.samples(np.random.default_rng(3), dtypes.f32):
        flat = [x for o in sample.operands for x in (o if isinstance(o, (list, tuple)) else [o])]
        sizes = [x.size for x in flat if isinstance(x, np.ndarray)]
        if sizes and max(sizes) <= 4096 and found < most:
            found += 1
            yield list(sample.operands), dict(sample.attributes)


def moved(executor: hg.Executor, x: Any, flags: Iterator[bool], k: int) -> Any:
    """An operand of example k: floats that are flagged differ."""
    if isinstance(x, (list, tuple)):
        return [moved(executor, each, flags, k) for each in x]
    if not isinstance(x, np.ndarray):
        return x
    flag = next(flags)
    return executor.tensor((x * (1 - 0.25 * k)).astype(x.dtype) if flag and x.dtype.kind == "f" else x)


def results(made: Any) -> list[np.ndarray]:
    return [np.asarray(m) for m in (made if isinstance(made, tuple) else (made,))]


@pytest.mark.parametrize("name", [n for n in NAMES if n not in SLOW])
def test_a_batch(executor: hg.Executor, name: str) -> None:
    operation = OPERATIONS[name]
    for operands, attributes in calls(name, 3):
        count = sum(
            isinstance(x, np.ndarray) for o in operands for x in (o if isinstance(o, (list, tuple)) else [o])
        )
        for chosen in {tuple([True] * count), (True, *[False] * (count - 1)), (*[False] * (count - 1), True)}:
            each = [
                [moved(executor, o, it, k) for o in operands]
                for k in range(BATCH)
                for it in [iter(chosen * 2)]
            ]
            wanted = [results(operation(*given, **attributes)) for given in each]
            stacked, axes = batched(each, chosen)
            run = hg.vmap(lambda *given, a=attributes: operation(*given, **a), in_axes=axes)
            for found, *others in zip(results(run(*stacked)), *wanted, strict=True):
                np.testing.assert_allclose(found, np.stack(others), rtol=2e-5, atol=2e-5)


def batched(each: list[list[Any]], chosen: tuple[bool, ...]) -> tuple[list[Any], tuple[Any, ...]]:
    """The examples' operands stacked where they are flagged, and along which axes."""
    flags = iter(chosen)

    def put(parts: list[Any]) -> tuple[Any, Any]:
        if isinstance(parts[0], list):
            pairs = [put(list(p)) for p in zip(*parts, strict=True)]
            return [p for p, _ in pairs], [a for _, a in pairs]
        if not isinstance(parts[0], hg.Tensor):
            return parts[0], None
        return (hg.stack(parts), 0) if next(flags) else (parts[0], None)

    pairs = [put(list(parts)) for parts in zip(*each, strict=True)]
    return [p for p, _ in pairs], tuple(a for _, a in pairs)


@pytest.mark.parametrize("name", NAMES)
def test_forward_mode_is_the_transpose_of_reverse_mode(executor: hg.Executor, name: str) -> None:
    """<u, J v> is <u J, v>."""
    operation, rng = OPERATIONS[name], np.random.default_rng(4)
    for operands, attributes in calls(name, 2):
        flat = [x for o in operands for x in (o if isinstance(o, (list, tuple)) else [o])]
        chosen = [x for x in flat if isinstance(x, np.ndarray) and x.dtype.kind == "f"]

        def function(*given: Any, operands: Any = operands, attributes: Any = attributes) -> Any:
            rest = iter(given)

            def put(one: Any) -> Any:
                if isinstance(one, (list, tuple)):
                    return [put(each) for each in one]
                if not isinstance(one, np.ndarray):
                    return one
                return next(rest) if one.dtype.kind == "f" else executor.tensor(one)

            made = operation(*map(put, operands), **attributes)
            first = made[0] if isinstance(made, tuple) else made
            return hg.where(hg.isfinite(first), first, 0.0) if first.dtype.is_float else first

        primals = [executor.tensor(np.nan_to_num(np.clip(x, -1e3, 1e3)) * 0.5 + 0.1) for x in chosen]
        slopes = [executor.tensor(rng.standard_normal(x.shape).astype(np.float32)) for x in chosen]
        if not primals:
            continue
        try:
            result, pullback = hg.vjp(function, *primals)
        except (hg.GradientError, hg.UnsupportedDType):
            with pytest.raises((hg.GradientError, hg.UnsupportedDType)):
                hg.jvp(function, primals, slopes)
            continue
        if not result.dtype.is_float:
            continue
        u = executor.tensor(rng.standard_normal(result.shape).astype(np.float32)).astype(result.dtype)
        _, forward = hg.jvp(function, primals, slopes)
        along = (u.astype("f32").to_numpy().astype(np.float64) * forward.astype("f32").to_numpy()).sum()
        pulled = pullback(u)
        parts = [
            (p.to_numpy().astype(np.float64) * s.to_numpy()) for p, s in zip(pulled, slopes, strict=True)
        ]
        if not all(np.isfinite(p).all() for p in parts):
            continue
        scale = max(1.0, *(np.abs(p).sum() for p in parts))
        assert abs(along - sum(p.sum() for p in parts)) <= 1e-3 * scale
