"""Orders of long rows and many: stable, NaN last, zeros of either sign as they were, in every dtype and both ways."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg
from hologram.backends.cpu.memory import Memory
from hologram.backends.cpu.sorting.kernel import OrderKernel
from hologram.foundation.dtypes import COMPUTED, DType, dtype, f32, index, u32, u64
from hologram.machine.kernel import Binding
from hologram.machine.plan import ORDER, Tile, reading, told, writing
from hologram.opset.sort import orders
from tests.needs import needs

SHORT = [(40, n) for n in (17, 33, 128, 129, 256, 257)]
SHAPES = [*SHORT, (17,), (1000,), (100_001,), (3, 20_000), (300, 100), (2, 9000), (0,), (5, 0)]


def _rows(kind: DType, shape: tuple[int, ...]) -> np.ndarray:
    x = (np.random.default_rng(2).standard_normal(shape) * 100).astype(kind.numpy)
    if kind.is_float:
        for start, step, value in (
            (0, 7, np.nan),
            (0, 5, -0.0),
            (0, 11, 0.0),
            (3, 50, np.inf),
            (4, 50, -np.inf),
        ):
            x.reshape(-1)[start::step] = value
    return x


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", [d for d in COMPUTED if d.name != "bf16"], ids=str)
def test_orders_of_rows(kind: DType, shape: tuple[int, ...], descending: bool, executor: hg.Executor) -> None:
    needs(executor, kind)
    x = _rows(kind, shape)
    want = orders(x, -1, descending) if x.size else np.zeros(shape, np.int64)
    t = executor.tensor(x)
    np.testing.assert_array_equal(hg.argsort(t, descending=descending).to_numpy(), want)
    found = hg.sort(t, descending=descending).to_numpy()
    values = np.take_along_axis(x, want, -1)
    np.testing.assert_array_equal(found, values)
    if kind.is_float and kind.bits > 16:
        known = ~np.isnan(values)
        np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(values[known]))


SPREADS = {
    "equal": lambda g, n: np.full(n, 7),
    "two": lambda g, n: np.arange(n) % 2,
    "few": lambda g, n: g.integers(0, 1000, n),
    "one far": lambda g, n: np.where(np.arange(n) == 9, 1 << 30, g.integers(0, 1000, n)),
    "dense": lambda g, n: 5_000_000 - np.arange(n),
    "steep": lambda g, n: np.exp2(g.uniform(0, 30, n)),
    "across": lambda g, n: g.integers(-40_000, 40_000, n) * 7,
    "bits": lambda g, n: g.integers(0, 256, (n, 8), np.uint8).view(np.int64)[:, 0],
}


@pytest.mark.parametrize("n", [600, 3000, 70_001])
@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("kind", ["f32", "f64", "i32", "i64", "u64"])
def test_keys_of_any_spread(kind: str, spread: str, n: int, executor: hg.Executor) -> None:
    """Long rows are dealt by the bits in which their keys differ, again and again where these are few or far apart."""
    needs(executor, kind)
    x = SPREADS[spread](np.random.default_rng(5), n)
    numpy = dtype(kind).numpy
    x = x.astype(np.int64).astype(f"u{numpy.itemsize}").view(numpy) if spread == "bits" else x.astype(numpy)
    found = hg.sort(executor.tensor(np.stack([x, x[::-1]]))).to_numpy()
    np.testing.assert_array_equal(found, np.stack([np.sort(x)] * 2))


def test_rows_that_lie_across_memory(executor: hg.Executor) -> None:
    x = _rows(dtype(np.float32), (300, 100))
    t = executor.tensor(x)
    np.testing.assert_array_equal(hg.sort(t.T[::-1, 3:]).to_numpy(), np.sort(x.T[::-1, 3:]))
    np.testing.assert_array_equal(hg.sort(t, axis=0).to_numpy(), np.sort(x, axis=0))


def test_values_without_a_compiler() -> None:
    x = np.array([[1.0, -0.0, 3.0, 0.0, np.nan], [-0.0, 0.0, -0.0, np.inf, -1.0]], np.float32)
    for descending in (False, True):
        out = np.zeros_like(x)
        buffers = (*reading(f32, "keys"), *writing(f32, "order"), *writing(u32, "spare"))
        scalars = (*told(index, "rows", "n", "first_bit", "last_bit"), *told(u64, "zero", "other_zero"))
        tile = Tile(ORDER, buffers, scalars, constants=(("POSITIONS", False), ("DESCENDING", descending)))
        arrays = (x, out, np.zeros(20, np.uint32))
        memories = [Memory(a.reshape(-1).view(np.uint8), a.ctypes.data, a.nbytes) for a in arrays]
        bindings = [Binding(m, 0, m.nbytes) for m in memories]
        OrderKernel(tile, None).bind(bindings, (2, 5, 0, 32, 0, 1), (2, 1, 1))()
        want = np.take_along_axis(x, orders(x, -1, descending), -1)
        np.testing.assert_array_equal(out, want)
        np.testing.assert_array_equal(np.signbit(out), np.signbit(want))


@pytest.mark.parametrize("positions", [True, False])
def test_orders_without_a_compiler(positions: bool) -> None:
    keys = np.array([[9, 6, 5, 6, 5], [5, 6, 1, 1, 6]], np.uint32)
    out = np.zeros((2, 5), np.uint32)
    buffers = (*reading(u32, "keys"), *writing(u32, "order", "spare"))
    scalars = (*told(index, "rows", "n", "first_bit", "last_bit"), *told(u64, "zero", "other_zero"))
    tile = Tile(ORDER, buffers, scalars, constants=(("POSITIONS", positions),))
    arrays = (keys, out, np.zeros(20, np.uint32))
    memories = [Memory(a.reshape(-1).view(np.uint8), a.ctypes.data, a.nbytes) for a in arrays]
    zeros = (0, 0) if positions else (5, 6)
    OrderKernel(tile, None).bind(
        [Binding(m, 0, m.nbytes) for m in memories], (2, 5, 0, 32, *zeros), (2, 1, 1)
    )()
    if positions:
        assert out.tolist() == [[2, 4, 1, 3, 0], [2, 3, 0, 1, 4]]
    else:
        assert out.tolist() == [[6, 5, 6, 5, 9], [1, 1, 5, 6, 6]]
