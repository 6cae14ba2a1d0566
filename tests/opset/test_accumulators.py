"""Sums, counts and means of narrow numbers, and their derivatives: of more than the largest number, against f64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation.dtypes import DType
from hologram.opset import OPERATIONS
from hologram.opset.forms.operation import Operation
from hologram.opset.forms.row import Row
from hologram.opset.running import RunningFold
from hologram.opset.scan import Running

pytestmark = pytest.mark.sampled(4)
MANY = 70_000  # more than f16's largest number, 65,504
TIES = np.ones(MANY)
HALVES = np.repeat([3.0, -3.0], MANY // 2)  # whose sums go to 105,000 and back
NARROW = (hg.f16, hg.bf16)


def folds(operation: Operation) -> bool:
    """Whether it folds one tensor of floats along an axis, to one number or to those so far, and asks for no more."""
    wanted = operation.signature.empty in operation.attributes.values()
    folding = isinstance(operation, (Row, Running, RunningFold)) and not getattr(
        operation, "keeps_shape", False
    )
    return folding and len(operation.operands) == 1 and hg.f16 in operation.dtypes and not wanted


def fold_of(operation: Operation) -> Callable[..., Any]:
    def call(x: hg.Tensor) -> Any:
        found = operation(x, axis=0)
        return found[0] if isinstance(found, tuple) else found

    return call


def _weights(x: hg.Tensor) -> hg.Tensor:
    return x * 0.0 + 2.0


def _ids(x: hg.Tensor) -> hg.Tensor:
    return x.executor.zeros(x.shape, hg.i32)


def _one(x: hg.Tensor) -> hg.Tensor:
    return x.executor.zeros((1,), x.dtype)


FUNCTIONS: dict[str, Callable[[hg.Tensor], Any]] = {
    **{o.name: fold_of(o) for o in OPERATIONS.values() if folds(o)},
    "average": lambda x: hg.average(x, weights=_weights(x)),
    "corrcoef": lambda x: hg.corrcoef(hg.stack([x, -x]) * 100),
    "cov": hg.cov,
    "cov_weighted": lambda x: hg.cov(x, fweights=_ids(x) + 1, aweights=_weights(x)),
    "cross_entropy": lambda x: hg.cross_entropy_loss(hg.stack([x, -x], axis=1), _ids(x)),
    "histogram": lambda x: hg.histogram(x, [-9.0, 9.0], weights=x * x, density=True)[0].astype(x.dtype),
    "mean_where": lambda x: hg.mean(x, where=_ids(x) == 0),
    "median": hg.median,
    "mse_loss": lambda x: hg.mse_loss(x, -x),
    "nanmax": hg.nanmax,
    "nanmean": hg.nanmean,
    "nanmedian": hg.nanmedian,
    "nanstd": hg.nanstd,
    "nanvar": hg.nanvar,
    "norm_inf": lambda x: hg.vector_norm(x, order=float("inf")),
    "norm_1_mean": lambda x: hg.mean(hg.vector_norm(x.reshape(7, -1), order=1.0, axis=0)),
    "scatter_max": lambda x: hg.scatter_reduce(_one(x), _ids(x), x, dim=0, reduce="max"),
    "scatter_mean": lambda x: hg.scatter_mean(_one(x), _ids(x), x, dim=0),
    "scatter_mean_alone": lambda x: hg.scatter_mean(_one(x), _ids(x), x, dim=0, include_self=False),
    "scatter_prod": lambda x: hg.scatter_reduce(_one(x) + 1, _ids(x), x / x, dim=0, reduce="prod"),
    "segment_mean": lambda x: hg.segment_mean(x, _ids(x), 1),
    "segment_max": lambda x: hg.segment_max(x, _ids(x), 1),
    "std_ddof": lambda x: hg.std(x, correction=1),
    "trapezoid": lambda x: hg.trapezoid(x * x, dx=1e-3),
    "var_mean": lambda x: hg.var(x, mean=x[0] * 0),
}  # fmt: skip


@pytest.fixture(scope="module")
def cpu() -> Any:
    with hg.Executor("cpu") as executor:
        yield executor


def agree(got: hg.Tensor, want: hg.Tensor, dtype: DType) -> None:
    """Within a few units in the last place; beyond the largest number both are."""
    assert got.dtype is (dtype if want.dtype.is_float else want.dtype)
    if not got.dtype.is_float:
        np.testing.assert_array_equal(got.to_numpy(), want.to_numpy())
        return
    with np.errstate(over="ignore"):
        expected = want.to_numpy().astype(dtype.numpy).astype(np.float64)
    shown = got.to_numpy().astype(np.float64)
    epsilon = 2.0**-dtype.mantissa
    np.testing.assert_allclose(shown, expected, rtol=8 * epsilon, atol=4 * epsilon * 2.0**-14)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_derivatives(executor: hg.Executor, cpu: hg.Executor, name: str, dtype: DType) -> None:
    function = FUNCTIONS[name]
    for array in (TIES, *(() if "prod" in name else (HALVES,))):
        x, exact = executor.tensor(array, dtype), cpu.tensor(array, hg.f64)
        got, want = function(x), function(exact)
        kind = (
            got.dtype if name.startswith("co") and got.dtype.is_float else dtype
        )  # cov's is f64, as NumPy's
        agree(got, want, kind)
        if not got.dtype.is_float or name in ("histogram",):
            continue
        back, wanted = (hg.vjp(function, t)[1] for t in (x, exact))
        ones = [executor.full(got.shape, 1, got.dtype), cpu.full(want.shape, 1, hg.f64)]
        agree(back(ones[0])[0], wanted(ones[1])[0], dtype)
        agree(hg.jvp(function, (x,), (x,))[1], hg.jvp(function, (exact,), (exact,))[1], kind)
