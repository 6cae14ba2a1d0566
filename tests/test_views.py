"""Declared operations give of views what they give of contiguous copies: called, into outputs, compiled, followed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation.dtypes import ALL, DType, c64, c128, f32, f64
from hologram.opset import OPERATIONS
from hologram.opset.forms.operation import Operation, Sample
from tests import views
from tests.accuracy import check, flushed

LARGEST = 600  # elements of an operand
WIDE = frozenset({f32, f64, c64, c128})
TAKING = [operation for operation in OPERATIONS.values() if operation.operands]


def cases(operations: Sequence[Operation]) -> list[Any]:
    """Operations with a number, which tells samples and dtypes apart, and each kind of view."""
    return [
        pytest.param(operation, k, kind, id=f"{operation.name}-{kind}")
        for n, operation in enumerate(operations)
        for k, kind in enumerate(views.KINDS, n)
    ]


def sample_of(
    operation: Operation, executor: hg.Executor, number: int, among: frozenset[DType] = frozenset(ALL)
) -> tuple[DType, Sample]:
    """A sample with arrays that are no numbers, of another dtype for another number."""
    known = [d for d in operation.dtypes if d in executor.limits.dtypes & among]
    dtype = known[number % len(known)]
    samples = operation.samples(np.random.default_rng(number), dtype)
    fit = [s for s in samples if 0 < largest(s.operands) <= LARGEST] or [next(iter(samples))]
    sample = fit[number % len(fit)]
    if executor.limits.keeps("denormals"):
        return dtype, sample
    return dtype, Sample(flushed(sample.operands), sample.attributes)


def largest(tree: Any) -> int:
    if isinstance(tree, tuple):
        return max(map(largest, tree), default=0)
    return tree.size if isinstance(tree, np.ndarray) and tree.ndim else 0


def outcome(call: Any, *given: Any) -> Any:
    """What a call gives, or which error it raises."""
    try:
        return call(*given)
    except (hg.HologramError, ValueError, TypeError, IndexError) as error:
        return type(error)


def results_of(found: Any) -> Sequence[Any]:
    return found if isinstance(found, (tuple, list)) else (found,)


def alike(operation: Operation, dtype: DType, copies: Any, got: Any, want: Any) -> None:
    """Fails unless both raise the same, or are equal in bits or within twice what the declaration allows."""
    if isinstance(want, type):
        assert got is want
        return
    assert not isinstance(got, type), got
    operands = views.on_host(copies)
    for g, w in zip(results_of(got), results_of(want), strict=True):
        found, wanted = g.to_numpy(), w.to_numpy()
        if found.tobytes() != wanted.tobytes():
            limits = g.executor.limits
            bound = max(operation.ulp_on(limits), operation.parts_ulp if dtype.is_complex else 0.5)
            check(found, wanted, g.dtype, 2 * bound, 2 * operation.absolute, operands, 1e-36)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("operation", "number", "kind"), cases(TAKING))
def test_operation(operation: Operation, number: int, kind: str, executor: hg.Executor) -> None:
    dtype, sample = sample_of(operation, executor, number)
    given = views.placed(lambda x: views.seen(executor, x, kind), sample.operands)
    copies = views.copied(executor, given)

    def call(*operands: Any) -> Any:
        return operation(*operands, **sample.attributes)

    want = outcome(call, *copies)
    alike(operation, dtype, copies, outcome(call, *given), want)
    alike(operation, dtype, copies, outcome(hg.jit(call), *given), want)
    if isinstance(want, type):
        return
    lies = "stepped" if kind in views.REPEATED else kind
    outs = [views.seen(executor, views.poison(x.shape, x.dtype.numpy), lies) for x in results_of(want)]
    before = [views.around(x) for x in outs]
    getattr(hg.ops, operation.name)(executor, *given, *outs, **sample.attributes)
    alike(operation, dtype, copies, outs, want)
    for out, untouched in zip(outs, before, strict=True):
        assert views.around(out).tobytes() == untouched.tobytes()


def total(results: Any) -> Any:
    """One number of all results that have derivatives."""
    followed = [x for x in results_of(results) if x.dtype.is_inexact]
    return sum(hg.sum(hg.real(x * hg.conj(x)) if x.dtype.is_complex else x * x) for x in followed)


@pytest.mark.sampled(16)
@pytest.mark.parametrize(("operation", "number", "kind"), cases([o for o in TAKING if WIDE & {*o.dtypes}]))
def test_derivatives_and_batches(operation: Operation, number: int, kind: str, executor: hg.Executor) -> None:
    _, sample = sample_of(operation, executor, number, WIDE)
    given = views.placed(lambda x: views.seen(executor, x, kind), sample.operands)
    copies = views.copied(executor, given)
    followed = tuple(k for k, x in enumerate(given) if isinstance(x, hg.Tensor) and x.dtype.is_inexact)

    def call(*operands: Any) -> Any:
        return operation(*operands, **sample.attributes)

    def backward(*operands: Any) -> Any:
        return hg.grad(lambda *x: total(call(*x)), followed)(*operands)

    def forward(*operands: Any) -> Any:
        def of(*chosen: Any) -> Any:
            rest = iter(chosen)
            return call(*(next(rest) if k in followed else x for k, x in enumerate(operands)))

        chosen = [operands[k] for k in followed]
        return hg.jvp(of, chosen, [x[...] for x in chosen])

    def batched(first: Any, *operands: Any) -> Any:
        twice = first.unsqueeze(first.ndim).expand(*first.shape, 2)
        return hg.vmap(lambda x: call(x, *operands), in_axes=first.ndim)(twice)

    for function in (backward, forward) if followed else ():
        views.same(*(views.on_host(outcome(function, *x)) for x in (given, copies)), rtol=1e-3)
    if isinstance(given[0], hg.Tensor):
        views.same(*(views.on_host(outcome(batched, *x)) for x in (given, copies)), rtol=1e-3)
