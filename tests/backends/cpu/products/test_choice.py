"""Whether our own code multiplies or BLAS: what says so, and that both give the product."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hologram.backends.cpu.products import choice
from hologram.backends.cpu.products.blas import loaded_library
from hologram.backends.cpu.products.cut import Product
from hologram.foundation import dtypes
from hologram.machine.layout import Layout
from hologram.machine.plan import Target
from hologram.opset.matmul import linear, matmul
from tests.backends.cpu.llvm.launching import device
from tests.backends.cpu.products.test_tiles import compute


@pytest.fixture(params=[0, 128, 256, 512, 1024], ids="{} bits".format)
def bits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The vectors of a BLAS, from narrower than any processor's to wider; 0 where there is none to call."""
    library: Any = loaded_library()
    if library is None and request.param:
        pytest.skip("NumPy's BLAS is not an OpenBLAS that can be called here")
    found: Any = replace(library, vector_bits=request.param) if request.param else None  # type: ignore[type-var]
    monkeypatch.setattr(choice, "loaded_library", lambda: found)
    monkeypatch.setattr(sys, "platform", "linux")
    return request.param


def test_accelerate_keeps_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not any(choice.is_own(product(m, 300, 500), device().host) for m in (1, 4, 100))


def product(m: int, n: int, k: int, *, along_k: bool = True, dtype: Any = np.float32) -> Product:
    a, b = np.empty((1, m, k), dtype), np.empty((1, n, k) if along_k else (1, k, n), dtype)
    return Product.of(a, b.transpose(0, 2, 1) if along_k else b, np.empty((1, m, n), dtype))


def test_a_narrow_blas_multiplies_no_large_matrices(bits: int) -> None:
    host = device().host
    narrow = bits < host.engine().vector_bits
    for along_k in (False, True):
        assert choice.is_own(product(100, 90, 80, along_k=along_k), host) is narrow


def test_few_rows_are_dot_products_where_both_lie_along_k(bits: int) -> None:
    host = device().host
    assert choice.is_own(product(4, 300, 500), host)
    assert choice.is_own(product(300, 4, 500), host)
    assert not choice.is_own(product(4, 300, 500, along_k=False), host)
    assert not choice.is_own(product(4, 300, 7), host)
    assert not choice.is_own(product(1, 300, 500), host)


def test_a_matrix_times_its_transpose_is_left_to_numpy(bits: int) -> None:
    a = np.empty((1, 40, 70), np.float32)
    assert not choice.is_own(
        Product.of(a, a.transpose(0, 2, 1), np.empty((1, 40, 40), np.float32)), device().host
    )


@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f64], ids=str)
@pytest.mark.parametrize("shape", [(33, 20, 41), (5, 100, 300), (300, 100, 3), (1, 70, 9)], ids=str)
def test_either_gives_the_product(bits: int, dtype: dtypes.DType, shape: tuple[int, int, int]) -> None:
    """Whole numbers, whose sums are exact in any order; with an epilogue and without."""
    rng = np.random.default_rng(0)
    m, k, n = shape
    x, weight, bias = (rng.integers(-3, 4, s).astype(dtype.numpy) for s in ((m, k), (n, k), (n,)))
    np.testing.assert_array_equal(compute(device(), matmul, [x, weight.T.copy()], dtype, {}), x @ weight.T)
    ours = compute(device(), linear, [x, weight, bias], dtype, {"activation": "relu"})
    np.testing.assert_array_equal(ours, np.maximum(x @ weight.T + bias, 0))


def test_what_explains_says_who_multiplies(bits: int) -> None:
    host = device().host
    a, b = (np.ones(s, np.float32) for s in ((100, 80), (80, 90)))
    known = [Layout.contiguous(dtypes.f32, x.shape) for x in (a, b)]
    plan = matmul.plan(known, matmul.infer(known, {}), {}, Target(device().limits))
    (step,) = plan.steps
    kernel = device().compile(step.kernel)
    own = bits < host.engine().vector_bits
    spans = [(0, a.nbytes), (0, b.nbytes), (0, 100 * 90 * 4)]
    assert kernel.schedule(spans, step.scalars, step.grid) == ("own panels" if own else "BLAS")
    assert ("hologram's own code" in kernel.source(step.grid, step.scalars)) is own
