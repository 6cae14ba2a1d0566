"""Products with the packed weights of experts, against float64: eager and traced, few pairs and many."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg
from hologram.opset.packed.gguf import KINDS
from tests.packed.test_products import DTYPES, packed_of, random


def sent(executor, shape, experts, dtype="int32", seed=5):
    """Experts by number, and the same in NumPy."""
    chosen = np.random.default_rng(seed).integers(0, experts, shape).astype(dtype)
    return executor.tensor(chosen), chosen


def wanted_of(x, chosen, weights, experts):
    """x (..., columns) by the experts of `chosen` (...), and what bounds errors: see test_products.close."""
    rows = weights.reshape(experts, -1, weights.shape[1])
    x = np.broadcast_to(x, (*chosen.shape, x.shape[-1]))
    largest = np.abs(x).max(-1, keepdims=True, initial=0)
    return np.einsum("...k,...rk->...r", x, rows[chosen]), largest * np.abs(rows).sum(-1)[chosen]


def close(found, wanted, bound, dtype="float32"):
    found = found.astype(hg.float32).to_numpy()
    assert found.shape == wanted.shape
    assert (np.abs(found - wanted) <= DTYPES[dtype] * bound).all()


@pytest.mark.parametrize(
    "kind", [*KINDS, "int8", "int4g32", "uint4g32", "uint8g64", "i8", "f8e4m3", "int4g20"]
)
def test_every_format(kind, executor):
    packed, weights = packed_of(kind, 4 * 5, 256, executor)
    x, exact = random(executor, 3, 1, 256)
    chosen, numbers = sent(executor, (3, 2), 4)
    close(packed.experts(x, chosen, 4), *wanted_of(exact, numbers, weights, 4))


@pytest.mark.parametrize("n", [1, 17, 100])
@pytest.mark.parametrize(("experts", "used"), [(4, 1), (4, 2), (60, 8)])
@pytest.mark.parametrize("integers", ["int32", "int64"])
def test_every_number_of_pairs(n, experts, used, integers, executor):
    packed, weights = packed_of("Q4_1", experts * 7, 64, executor)
    chosen, numbers = sent(executor, (n, used), experts, integers)
    x, exact = random(executor, n, 1, 64)  # a row for all its experts
    close(packed.experts(x, chosen, experts), *wanted_of(exact, numbers, weights, experts))
    x, exact = random(executor, n, used, 64)  # a row for each
    close(packed.experts(x, chosen, experts), *wanted_of(exact, numbers, weights, experts))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gated", [False, True])
def test_every_dtype_with_gates_and_activation(dtype, gated, executor):
    packed, weights = packed_of("Q8_0", 3 * 10, 96, executor)
    x, exact = random(executor, 9, 1, 96, dtype=dtype)
    chosen, numbers = sent(executor, (9, 2), 3)
    (gates, bound), *others = (wanted_of(exact, numbers, w, 3) for w in np.split(weights, 1 + gated))
    wanted = gates / (1 + np.exp(-gates))
    for opened, of_opened in others:
        wanted, bound = (
            wanted * opened,
            (1 + bound) * np.abs(opened) + (1 + of_opened) * np.abs(gates) + bound,
        )
    bound = 2 * (bound + np.abs(wanted))
    found = packed.experts(x, chosen, 3, activation="silu", gated=gated)
    assert found.dtype is x.dtype
    close(found, wanted, bound, dtype)
    traced = hg.jit(lambda x, c, p: p.experts(x, c, 3, activation="silu", gated=gated) * 2.0)(
        x, chosen, packed
    )
    close(traced, 2 * wanted, 2 * bound, dtype)


def test_pairs_that_name_no_expert_are_zeros(executor):
    packed, weights = packed_of("Q4_0", 4 * 3, 64, executor)
    x, exact = random(executor, 6, 64)
    for numbers in ([4, -1, 0, -5, 2, 2], [7, 4, -9, 100, -5, 2**31 - 1]):
        found = packed.experts(x, executor.tensor(np.array(numbers, np.int32)), 4)
        inside = np.array([-4 <= e < 4 for e in numbers])
        wanted, bound = wanted_of(exact, np.array(numbers) % 4, weights, 4)
        close(found, wanted * inside[:, None], bound)
        assert not found.to_numpy()[~inside].any()


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 2), (0,), (0, 2), (3, 0), (1, 1)])
def test_any_axes(shape, executor):
    packed, weights = packed_of("Q5_0", 4 * 3, 64, executor)
    chosen, numbers = sent(executor, shape, 4)
    x, exact = random(executor, *shape, 64)
    close(packed.experts(x, chosen, 4), *wanted_of(exact, numbers, weights, 4))
    one, exact = random(executor, *[1] * len(shape), 64)
    close(packed.experts(one, chosen, 4), *wanted_of(exact, numbers, weights, 4))


def test_strided_and_shifted_operands(executor):
    packed, weights = packed_of("Q4_K", 4 * 6, 256, executor)
    x, exact = random(executor, 256, 9)
    chosen, numbers = sent(executor, (2, 9), 4)
    found = packed.experts(x.permute(1, 0)[2:6].unsqueeze(1), chosen.permute(1, 0)[2:6], 4)
    close(found, *wanted_of(exact.T[2:6, None], numbers.T[2:6], weights, 4))


def test_not_finite_in_one_row_stays_there(executor):
    packed, weights = packed_of("Q4_1", 4 * 5, 64, executor)
    _, exact = random(executor, 3, 64)
    numbers = np.array([1, 1, 3], np.int32)
    broken = exact.astype(np.float32)
    broken[1, 7] = np.nan
    found = packed.experts(executor.tensor(broken), executor.tensor(numbers), 4).to_numpy()
    assert np.isnan(found[1]).all()
    wanted, bound = wanted_of(exact, numbers, weights, 4)
    assert (np.abs(found - wanted) <= DTYPES["float32"] * bound)[[0, 2]].all()


def test_one_launch(executor):
    packed, _ = packed_of("Q4_1", 8 * 6, 64, executor)
    x, chosen = random(executor, 5, 1, 64)[0], sent(executor, (5, 2), 8, "int64")[0]
    function = hg.jit(lambda x, c, p: hg.relu(p.experts(x, c, 8)) * 2.0)
    function(x, chosen, packed)
    with executor.profile() as profile:
        function(x, chosen, packed)
    # The CPU's own product has what follows for a step of the same call.
    assert len(profile.launches) == 1 + executor.limits.own_packed


def test_what_does_not_fit_is_refused(executor):
    packed, _ = packed_of("Q4_0", 12, 64, executor)
    x, chosen = executor.zeros((2, 1, 64)), executor.zeros((2, 3), hg.int32)
    with pytest.raises(hg.ShapeError, match="got 5 experts and 12 rows"):
        packed.experts(x, chosen, 5)
    with pytest.raises(hg.ShapeError, match="got 0 experts"):
        packed.experts(x, chosen, 0)
    with pytest.raises(
        hg.ShapeError, match=r"as many gates and as many rows that they open .* got 4 experts"
    ):
        packed.experts(x, chosen, 4, gated=True)
    with pytest.raises(
        hg.ShapeError, match=r"the axes of chosen \(2, 3\), .* 64 columns .* got shape \(2, 64\)"
    ):
        packed.experts(executor.zeros((2, 64)), chosen, 4)
    with pytest.raises(hg.ShapeError, match=r"got shape \(2, 2, 64\)"):
        packed.experts(executor.zeros((2, 2, 64)), chosen, 4)
    with pytest.raises(hg.UnsupportedDType, match="positions must be integers, got f32"):
        packed.experts(x, executor.zeros((2, 3)), 4)
    with pytest.raises(hg.UnsupportedDType, match="x must be f32, f16 or bf16"):
        packed.experts(executor.zeros((2, 1, 64), hg.int32), chosen, 4)
    with pytest.raises(ValueError, match="activation must be one of"):
        packed.experts(x, chosen, 4, activation="selu")
