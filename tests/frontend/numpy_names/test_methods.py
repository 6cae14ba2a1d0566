"""Methods of arrays do what NumPy's do, in NumPy's forms; functions of single elements write where NumPy's do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg

HOLOGRAM: Any = hg
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
# What NumPy's arrays have and tensors do not; docs/numpy.md says what to write instead.
LACKING = {
    "base", "byteswap", "ctypes", "data", "dump", "dumps", "flags", "flat", "getfield", "put", "resize", "setfield",
    "setflags", "tofile",
}  # fmt: skip
LYING: dict[str, Callable[[Any], Any]] = {
    "as made": lambda x: x,
    "transposed": lambda x: x.T,
    "axes exchanged": lambda x: x.swapaxes(0, 1),
    "each second": lambda x: x[:, ::2],
    "reversed": lambda x: x[::-1],
    "a matrix transposed": lambda x: x[0].T,
}


def test_methods_that_numpy_has_too(executor: hg.Executor) -> None:
    ours = set(dir(executor.tensor(X)))
    # Some say only that they are gone; "tostring" goes with NumPy 2.3.
    theirs = {n for n in dir(X) if not n.startswith("_") and hasattr(X, n)} - {"tostring"}
    assert theirs - ours == LACKING


@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
@pytest.mark.parametrize("lying", LYING)
def test_orders(executor: hg.Executor, lying: str, order: Any) -> None:
    x, array = LYING[lying](executor.tensor(X)), LYING[lying](X)
    for made, wanted in (
        (x.ravel(order), array.ravel(order)),
        (x.flatten(order), array.flatten(order)),
        (HOLOGRAM.ravel(x, order), np.ravel(array, order)),
        (x.ravel(order.lower()), array.ravel(order)),
    ):
        np.testing.assert_array_equal(made.to_numpy(), wanted)
    assert x.tobytes(order) == array.tobytes(order)
    if order != "K":
        wanted = array.reshape((-1, 2), order=order)
        np.testing.assert_array_equal(x.reshape(-1, 2, order=order).to_numpy(), wanted)
        np.testing.assert_array_equal(HOLOGRAM.reshape(x, (-1, 2), order).to_numpy(), wanted)
        traced = hg.jit(lambda x: LYING[lying](x).reshape((-1, 2), order=order))(executor.tensor(X))
        np.testing.assert_array_equal(traced.to_numpy(), wanted)


def _seen(draw: np.random.Generator, x: Any, array: np.ndarray) -> tuple[Any, np.ndarray]:
    """A tensor and an array through the same view, drawn at random."""
    kind = draw.integers(4)
    if kind == 0:
        axes = tuple(draw.permutation(array.ndim).tolist())
        return x.permute(axes), array.transpose(axes)
    if kind == 1:
        steps = draw.choice([1, 1, 2, -1, -2], array.ndim).tolist()
        part = tuple(slice(None, None, step) for step in steps)
        return x[part], array[part]
    if kind == 2:
        place = int(draw.integers(array.ndim + 1))
        return hg.expand_dims(x, axis=place), np.expand_dims(array, place)
    repeated = [int(draw.integers(1, 4)) if size == 1 else size for size in array.shape]
    return hg.broadcast_to(x, (2, *repeated)), np.broadcast_to(array, (2, *repeated))


def test_orders_of_any_views(executor: hg.Executor) -> None:
    draw = np.random.default_rng(5)
    repeated = hg.broadcast_to(executor.tensor(X[0, 0, :3]), (2, 3))
    assert hg.ravel(repeated, "K").tolist() == [0, 1, 2, 0, 1, 2]
    for _ in range(60):
        shape = draw.choice([0, 1, 1, 2, 3], draw.integers(4)).tolist()
        array = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
        x: Any = executor.tensor(array)
        for _ in range(3):
            x, array = _seen(draw, x, array)
        for order in ("A", "K"):
            wanted = array.ravel(order)
            np.testing.assert_array_equal(x.ravel(order).to_numpy(), wanted, f"{x.layout}")
            np.testing.assert_array_equal(x.flatten(order).to_numpy(), wanted, f"{x.layout}")
        assert x.tobytes("A") == array.tobytes("A")


def test_no_order_is_by_rows(executor: hg.Executor) -> None:
    x: Any = executor.tensor(X).T
    for made in (x.ravel(None), x.flatten(None), x.reshape(24, order=None), HOLOGRAM.reshape(x, 24, None)):
        np.testing.assert_array_equal(made.to_numpy(), X.T.ravel())
    assert x.tobytes(None) == X.T.tobytes()
    places = executor.tensor([1, 4])
    orders: tuple[Any, ...] = (None, "f")
    for order in orders:
        wanted = np.unravel_index([1, 4], (2, 3), order)
        assert [p.tolist() for p in hg.unravel_index(places, (2, 3), order)] == [p.tolist() for p in wanted]
        flat = hg.ravel_multi_index((places, places), (5, 6), order=order)
        assert flat.tolist() == np.ravel_multi_index(([1, 4], [1, 4]), (5, 6), order=order).tolist()


def test_unknown_arguments_of_methods(executor: hg.Executor) -> None:
    x: Any = executor.tensor(X)
    for call, name in ((lambda: x.reshape(shape=24), "reshape"), (lambda: x.tobytes(places="C"), "tobytes")):
        with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected keyword argument"):
            call()


def test_orders_have_derivatives(executor: hg.Executor) -> None:
    weights = np.arange(24, dtype=np.float32)
    slope = hg.grad(lambda x: (x.flatten("F") * weights).sum())(executor.tensor(X))
    np.testing.assert_array_equal(slope.to_numpy(), weights.reshape(X.shape, order="F"))


def test_flatten_copies(executor: hg.Executor) -> None:
    x = executor.tensor(X)
    flat = x.flatten()
    flat[0] = 9.0
    assert (x.item(0), flat.item(0)) == (0.0, 9.0)
    assert x.reshape(24, copy=True).buffer is not x.buffer
    with pytest.raises(ValueError, match="needs a copy"):
        x.T.reshape(24, copy=False)
    with pytest.raises(ValueError, match="order must be 'C', 'F' or 'A', got 'Z'"):
        x.reshape(24, order="Z")


def test_single_elements(executor: hg.Executor) -> None:
    x = executor.tensor(X)
    positions: list[Any] = [(3,), (-1,), (1, 2, 1), ((1, 2, 1),), (0, -1, 0)]
    for position in positions:
        assert x.item(*position) == X.item(*position)
        assert x.T.item(*position) == X.T.item(*position)
    assert x[0, 0, 1].item(0) == 1.0
    assert hg.grad(lambda x: x.sum() * hg.stop_gradient(x).item(5))(x).item(0) == 5.0
    with pytest.raises(IndexError, match="position 24 is out of range of 24 elements"):
        x.item(24)
    with pytest.raises(
        hg.ShapeError, match=r"a place for each axis of shape \(2, 3, 4\) is needed, got \(1, 2\)"
    ):
        x.item(1, 2)
    with pytest.raises(hg.TraceError, match="the value of a traced tensor"):
        hg.jit(lambda x: x * x.item(0))(x)


def test_round_of_python(executor: hg.Executor) -> None:
    x = executor.tensor(np.array([1.26, 2.5], np.float32))
    assert abs(float(round(x[0], 1)) - 1.3) < 1e-6
    assert round(x[1]) == 2
    assert isinstance(round(x[1]), int)
    with pytest.raises(TypeError, match="a tensor without axes is needed"):
        round(x)


def test_methods_in_numpys_forms(executor: hg.Executor) -> None:
    x, chosen = executor.tensor(X), executor.tensor(np.array([0, 1]))
    assert x.T.tobytes() == X.T.tobytes()
    assert x.T.tobytes("F") == X.T.tobytes("F")
    np.testing.assert_array_equal(x.compress([True, False], 0).to_numpy(), X.compress([True, False], 0))
    choices = [X[0, 0, :2], X[1, 0, :2]]
    np.testing.assert_array_equal(chosen.choose(choices).to_numpy(), np.array([0, 1]).choose(choices))
    beyond = executor.tensor(np.array([-1, 2]))
    for mode in ("raise", "clip"):  # nobody waits to raise
        wanted = np.array([-1, 2]).choose(choices, mode="clip")
        np.testing.assert_array_equal(beyond.choose(choices, mode=mode).to_numpy(), wanted)
    np.testing.assert_array_equal(x.argsort(kind="stable").to_numpy(), X.argsort(kind="stable"))
    out = executor.zeros((4,))
    assert x.trace(0, 0, 1, None, out) is out
    np.testing.assert_array_equal(out.to_numpy(), X.trace(0, 0, 1))


MASK = np.array([True, False, True, False, True])
A, B = np.array([-2.5, 0.3, 7.0, 0.0, 3.25], np.float32), np.arange(1, 6, dtype=np.float32)
ONE = {
    **dict.fromkeys(("deg2rad", "rad2deg", "radians", "degrees", "fabs", "cbrt", "spacing", "rint"), (A,)),
    **dict.fromkeys(("heaviside", "logaddexp2"), (A, B)),
    "ldexp": (A, np.arange(5, dtype=np.int32)),
    "bitwise_count": (np.arange(5, dtype=np.int32),),
}
TWO = {"divmod": (A, B), "modf": (A,), "frexp": (A,)}


@pytest.mark.parametrize("name", ONE)
def test_outputs_of_elementwise_functions(executor: hg.Executor, name: str) -> None:
    theirs, ours, arrays = getattr(np, name), getattr(hg, name), ONE[name]
    with hg.use_executor(executor):
        for call in (ours, theirs):
            wanted = np.ones(5, theirs(*arrays).dtype)
            out, operands = executor.tensor(wanted), [executor.tensor(x) for x in arrays]
            theirs(*arrays, out=wanted, where=MASK)
            assert call(*operands, out=out, where=MASK) is out
            np.testing.assert_allclose(out.to_numpy(), wanted, rtol=1e-5)
            assert call(*operands, out) is out
            np.testing.assert_allclose(out.to_numpy(), theirs(*arrays), rtol=1e-5)


@pytest.mark.parametrize("name", TWO)
def test_two_outputs(executor: hg.Executor, name: str) -> None:
    theirs, ours, arrays = getattr(np, name), getattr(hg, name), TWO[name]
    operands, wanted = [executor.tensor(x) for x in arrays], theirs(*arrays)
    for call in (lambda a, b: ours(*operands, a, b), lambda a, b: theirs(*operands, out=(a, b))):
        outputs = [executor.zeros(5, x.dtype) for x in wanted]
        call(*outputs)
        for out, right in zip(outputs, wanted, strict=True):
            np.testing.assert_allclose(out.to_numpy(), right, rtol=1e-5)
    with pytest.raises(TypeError, match="outputs come by place or as out=, got both"):
        ours(*operands, outputs[0], out=tuple(outputs))
    for pair in (executor.zeros((2, 5)), list(outputs)):  # as in NumPy
        with pytest.raises(TypeError, match=f"{name}: out must be a tuple of two tensors or arrays, got"):
            ours(*operands, out=pair)
    with pytest.raises(ValueError, match="out must be two"):
        ours(*operands, out=(outputs[0],))
