"""Products with packed weights: against float64, eager and traced, few rows and many."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg
from hologram.opset.packed.formats import format_of
from hologram.opset.packed.gguf import KINDS
from hologram.opset.packed.repacking import planes_of
from tests.packed.blocks import blocks, reference

pytestmark = pytest.mark.sampled(3)

DTYPES = {"float32": 2.0**-15, "float16": 2.0**-9, "bfloat16": 2.0**-6}


def packed_of(kind: str, rows: int, columns: int, executor, seed: int = 0):
    """A packed matrix, and its weights in float64."""
    rng = np.random.default_rng(seed)
    if kind in KINDS:
        data = blocks(rng, kind, rows, columns)
        made = hg.Packed.from_gguf(data, kind, (rows, columns), executor)
        return made, reference(data, kind, (rows, columns)).astype(np.float64)
    made = hg.Packed.quantize(rng.normal(0, 1, (rows, columns)), kind, executor)
    return made, made.dequantize().to_numpy().astype(np.float64)


def random(executor, *shape, dtype="float32", seed=1):
    """A tensor, and its elements in float64."""
    made = executor.tensor(np.random.default_rng(seed).normal(0, 1, shape).astype(np.float32))
    made = made.astype(getattr(hg, dtype))
    return made, made.astype(hg.float32).to_numpy().astype(np.float64)


def close(found, x, weights, added=0.0, dtype="float32"):
    """Whether results are x @ weights.T + added, but for a part of the magnitudes.

    The CPU rounds x to 16 bits, 32 neighbours at a time: the largest of each row bounds all errors.
    """
    wanted = x @ weights.T + added
    largest = np.abs(x).max(-1, keepdims=True, initial=0)
    bound = DTYPES[dtype] * (largest * np.abs(weights).sum(1) + np.abs(added))
    found = found.astype(hg.float32).to_numpy()
    assert found.shape == wanted.shape
    assert (np.abs(found - wanted) <= bound).all(), np.nanmax(np.abs(found - wanted) / bound)


@pytest.mark.parametrize(
    "kind", [*KINDS, "int8", "int4g32", "uint4g32", "uint8g64", "i8", "f8e4m3", "f8e5m2g32"]
)
@pytest.mark.parametrize("rows", [1, 3, 20])
def test_every_format(kind, rows, executor):
    packed, weights = packed_of(kind, 37, 512, executor)
    x, exact = random(executor, rows, 512)
    close(hg.linear(x, packed), exact, weights)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 7, 16, 40])
@pytest.mark.parametrize("kind", ["Q4_1", "Q8_0", "Q6_K"])
def test_every_dtype_with_bias(kind, rows, dtype, executor):
    packed, weights = packed_of(kind, 33, 256, executor)
    x, exact = random(executor, rows, 256, dtype=dtype)
    bias, added = random(executor, 33, dtype=dtype, seed=2)
    found = hg.linear(x, packed, bias)
    assert found.dtype.name == x.dtype.name
    close(found, exact, weights, added, dtype)


@pytest.mark.parametrize("shape", [(64,), (1, 64), (2, 3, 64), (2, 1, 9, 64), (0, 64), (3, 0, 64)])
def test_leading_axes(shape, executor):
    packed, weights = packed_of("Q4_0", 5, 64, executor)
    x, exact = random(executor, *shape)
    close(hg.linear(x, packed), exact, weights)


@pytest.mark.parametrize("kind", ["int8", "uint4g20", "int4g16", "f8e4m3"])
@pytest.mark.parametrize("columns", [1, 31, 33, 77, 100])
def test_columns_that_fill_no_words(kind, columns, executor):
    packed, weights = packed_of(kind, 6, columns, executor)
    for rows in (2, 30):
        x, exact = random(executor, rows, columns)
        close(hg.linear(x, packed), exact, weights)


@pytest.mark.parametrize("kind", ["int8", "int4g32", "uint4", "uint8g64", "f8e4m3"])
@pytest.mark.parametrize("shape", [(0, 256), (5, 0), (0, 0)])
def test_matrices_without_weights(kind, shape, executor):
    packed = packed_of(kind, shape[0], shape[1], executor)[0]
    assert packed.dequantize().shape == shape
    for rows in (0, 1, 20):
        found = hg.linear(executor.ones((rows, shape[1])), packed)
        assert np.array_equal(found.to_numpy(), np.zeros((rows, shape[0]), np.float32))


def test_strided_and_shifted_operands(executor):
    packed, weights = packed_of("Q5_1", 12, 96, executor)
    x, exact = random(executor, 96, 10)
    close(hg.linear(x.permute(1, 0)[2:5], packed), exact.T[2:5], weights)
    part = hg.Packed.from_planes({n: p[4:9] for n, p in packed.planes.items()}, "Q5_1", (5, 96))
    y, exact = random(executor, 3, 96)
    close(hg.linear(y, part), exact, weights[4:9])


@pytest.mark.parametrize("rows", [1, 6, 33])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_epilogues_fuse_in_a_graph(rows, dtype, executor):
    packed, weights = packed_of("Q4_K", 24, 256, executor)
    x, exact = random(executor, rows, 256, dtype=dtype)
    bias, added = random(executor, 24, dtype=dtype, seed=2)
    gate, gated = random(executor, rows, 24, dtype=dtype, seed=3)

    def layer(x, packed, bias, gate):
        return hg.silu(hg.linear(x, packed, bias)) * gate + gate

    closed = hg.jit(lambda x, bias, gate: layer(x, packed, bias, gate))
    z = exact @ weights.T + added
    wanted = z / (1 + np.exp(-z)) * gated + gated
    behind = 1 + np.abs(exact) @ np.abs(weights).T + np.abs(added)
    for found in (
        layer(x, packed, bias, gate),
        hg.jit(layer)(x, packed, bias, gate),
        closed(x, bias, gate),
    ):
        error = np.abs(found.astype(hg.float32).to_numpy() - wanted)
        assert (error <= DTYPES[dtype] * 4 * behind * (1 + np.abs(gated))).all()


@pytest.mark.parametrize("rows", [1, 6, 33])
@pytest.mark.parametrize("dtype", DTYPES)
def test_bias_and_activation_stay_where_more_follows(rows, dtype, executor):
    packed, weights = packed_of("Q8_0", 9, 64, executor)
    x, exact = random(executor, rows, 64, dtype=dtype)
    bias, gate = (executor.tensor(np.arange(1, 10, dtype=np.float32) * 30).astype(x.dtype) for _ in range(2))
    traced = hg.jit(lambda x, p, b, g: p.linear(x, b, activation="relu") * 2.0 + g)(x, packed, bias, gate)
    added = np.arange(1.0, 10.0) * 30
    y = exact @ weights.T + added
    bound = 4 * DTYPES[dtype] * (np.abs(exact) @ np.abs(weights).T + added)
    assert (np.abs(traced.astype("f32").to_numpy() - 2 * np.maximum(y, 0) - added) <= bound).all()


def test_a_graph_of_it_is_one_launch(executor):
    packed, _ = packed_of("Q4_1", 24, 64, executor)
    x, gate = random(executor, 1, 64)[0], random(executor, 1, 24)[0]
    function = hg.jit(lambda x, packed, gate: hg.relu(hg.linear(x, packed)) * gate)
    function(x, packed, gate)
    with executor.profile() as profile:
        function(x, packed, gate)
    # The CPU's own product has its epilogue for a step of the same call.
    assert len(profile.launches) == 1 + executor.limits.own_packed


@pytest.mark.parametrize(("kind", "few"), [("f8e4m3", 0), ("int4g8", 3)])
def test_weights_become_floats_once_for_more_than_a_few_rows(kind, few, executor):
    """Without code of its own for a format a device reads weights anew for each of a few rows, on a CPU for fewer."""
    packed, weights = packed_of(kind, 24, 64, executor)
    few = few if executor.limits.own_packed else 8
    for rows in (1, few, few + 1, 20):
        x, exact = random(executor, rows, 64)
        with executor.profile() as profile:
            found = hg.linear(x, packed)
        close(found, exact, weights)
        names = [launch.subject.kernel for launch in profile.launches]
        assert any("numbers" in name for name in names) == (rows > few), names
        assert not any("epilogue" in name for name in names), names  # there is nothing behind the product


def test_an_argument_of_another_format_is_traced_anew(executor):
    function = hg.jit(lambda x, packed: hg.linear(x, packed))
    x, exact = random(executor, 2, 96)
    for kind in ("Q4_0", "IQ4_NL", "int8", "Q4_0"):
        packed, weights = packed_of(kind, 7, 96, executor)
        close(function(x, packed), exact, weights)


def test_rows_are_gathered_packed(executor):
    packed, weights = packed_of("Q6_K", 11, 256, executor)
    index = executor.tensor(np.array([[3, 10], [-1, 11]], np.int32))
    wanted = np.stack([weights[[3, 10]], np.stack([weights[10], np.zeros(256)])])
    assert np.array_equal(hg.embedding(index, packed).to_numpy(), wanted.astype(np.float32))
    assert np.array_equal(
        (hg.jit(lambda i, p: hg.embedding(i, p))(index, packed) * 2.0).to_numpy(),
        2 * wanted.astype(np.float32),
    )
    assert packed.take(index, hg.float16).dtype is hg.float16
    with pytest.raises(hg.UnsupportedDType, match="positions must be integers"):
        packed.take(executor.tensor([1.0]))


def test_joined_by_rows(executor):
    parts = [packed_of("Q4_K", rows, 256, executor, seed) for seed, rows in enumerate((3, 5, 1))]
    joined = hg.Packed.concatenate([p for p, _ in parts])
    assert joined.shape == (9, 256)
    assert joined.nbytes == sum(p.nbytes for p, _ in parts)
    x, exact = random(executor, 4, 256)
    close(hg.linear(x, joined), exact, np.concatenate([w for _, w in parts]))
    with pytest.raises(hg.ShapeError, match="one format and as many columns"):
        hg.Packed.concatenate([joined, packed_of("Q5_K", 2, 256, executor)[0]])


def test_gradient_of_the_activations(executor):
    packed, weights = packed_of("Q8_0", 9, 64, executor)
    x, exact = random(executor, 3, 64)
    bias, added = random(executor, 9, seed=2)
    found = hg.grad(lambda x, b: hg.sum(hg.linear(x, packed, b, activation="tanh") ** 2.0), argnums=(0, 1))(
        x, bias
    )
    y = np.tanh(exact @ weights.T + added)
    before = 2 * y * (1 - y * y)
    for one, wanted in zip(found, (before @ weights, before.sum(0)), strict=True):
        assert np.abs(one.to_numpy() - wanted).max() < 1e-3 * np.abs(wanted).max()


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("rows", [1, 7, 40])
def test_gates_and_what_they_open_are_one_product(rows, dtype, executor):
    packed, weights = packed_of("Q4_1", 10, 96, executor)
    x, exact = random(executor, rows, 96)
    exact = x.astype(dtype).to_numpy().astype(np.float64)
    y = exact @ weights.T
    gates = y[:, :5] / (1 + np.exp(-y[:, :5]))
    found = packed.linear(x.astype(dtype), activation="silu", gated=True)
    assert found.shape == (rows, 5)
    jitted = hg.jit(lambda x, p: p.linear(x, activation="silu", gated=True) * 2.0)(x.astype(dtype), packed)
    bound = (2e-3 if dtype == "f16" else 1e-4) * np.abs(gates * y[:, 5:]).max()
    np.testing.assert_allclose(found.astype("f32").to_numpy(), gates * y[:, 5:], atol=bound)
    np.testing.assert_allclose(jitted.astype("f32").to_numpy(), 2 * gates * y[:, 5:], atol=2 * bound)
    plain = packed.linear(x.astype(dtype), gated=True)
    np.testing.assert_allclose(plain.astype("f32").to_numpy(), y[:, :5] * y[:, 5:], atol=4 * bound)


def test_gradient_through_gates(executor):
    packed, weights = packed_of("Q8_0", 6, 64, executor)
    x, exact = random(executor, 3, 64)
    found = hg.grad(lambda x: hg.sum(packed.linear(x, activation="tanh", gated=True)))(x)
    y = exact @ weights.T
    gates, opened = np.tanh(y[:, :3]), y[:, 3:]
    wanted = ((1 - gates**2) * opened) @ weights[:3] + gates @ weights[3:]
    assert np.abs(found.to_numpy() - wanted).max() < 1e-3 * np.abs(wanted).max()


def test_what_does_not_fit_is_refused(executor):
    packed, _ = packed_of("Q4_0", 5, 64, executor)
    with pytest.raises(hg.ShapeError, match=r"x \(\.\.\., 64\) is needed beside .*, got \(2, 32\)"):
        hg.linear(executor.zeros((2, 32)), packed)
    with pytest.raises(hg.ShapeError, match="bias must have shape"):
        hg.linear(executor.zeros((2, 64)), packed, executor.zeros(4))
    with pytest.raises(hg.UnsupportedDType, match="x must be f32, f16 or bf16"):
        hg.linear(executor.zeros((2, 64), hg.int32), packed)
    with pytest.raises(hg.UnsupportedDType, match=r"matmul: packed weights are the second operand of linear"):
        hg.matmul(executor.zeros((2, 64)), packed)  # type: ignore[arg-type]
    with pytest.raises(hg.ShapeError, match="must be even and go without a bias, got 5 rows"):
        packed.linear(executor.zeros((2, 64)), gated=True)
    with pytest.raises(ValueError, match="activation must be one of"):
        hg.linear(executor.zeros((2, 64)), packed, activation="selu")


@pytest.mark.parametrize("scale", ["", "f16", "bf16"])
@pytest.mark.parametrize("rows", [1, 20])
def test_minima_beside_a_centre(rows, scale, executor):
    rng = np.random.default_rng(7)
    format = f"int4m{scale}g64"
    codes, pairs = rng.integers(0, 16, (37, 256), dtype=np.uint8), rng.normal(0, 1, (37, 4, 2))
    pairs = pairs.astype(format_of(format).scale.numpy)
    packed = hg.Packed.from_planes(planes_of(format_of(format), codes, pairs), format, (37, 256), executor)
    each = pairs.astype(np.float64).repeat(64, axis=1)
    weights = (codes.astype(np.float64) - 8) * each[..., 0] - each[..., 1]
    assert np.allclose(packed.dequantize().to_numpy(), weights, rtol=1e-6, atol=1e-6)
    x, exact = random(executor, rows, 256)
    close(hg.linear(x, packed), exact, weights)
