"""Random shapes, strides, dtypes and operators: tensors do what NumPy's arrays do, on every backend."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

import hologram as hg
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from tests.needs import has, needs
from tests.test_random_programs import BOUNDED

SHAPES = nps.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
EXACT = tuple(d for d in dtypes.COMPUTED if d.name not in ("bf16",))


def numbers(shape: tuple[int, ...], dtype: DType, seed: int) -> np.ndarray:
    """Small whole numbers, which every dtype holds and sums of which are exact."""
    rng = np.random.default_rng(seed)
    low = 0 if dtype.kind in ("uint", "bool") else -3
    return rng.integers(low, 2 if dtype.kind == "bool" else 4, shape).astype(dtype.numpy)


# Views.


@st.composite
def view_steps(draw: st.DrawFn, shape: tuple[int, ...]) -> Callable[[Any], Any]:
    """One view of an array of that shape, for arrays and tensors alike."""
    ndim = len(shape)
    kinds = ["unsqueeze", "reshape", "expand", "squeeze"]
    if ndim:
        kinds += ["permute", "slice", "slice", "index"]
    kind = draw(st.sampled_from(kinds))
    if kind == "permute":
        axes = tuple(draw(st.permutations(range(ndim))))
        return lambda x: x.permute(axes) if isinstance(x, hg.Tensor) else x.transpose(axes)
    if kind == "slice":
        steps = st.sampled_from([None, 1, 2, 3, -1, -2])
        cut = st.builds(slice, st.none() | st.integers(-6, 6), st.none() | st.integers(-6, 6), steps)
        key = tuple(draw(cut) for _ in range(draw(st.integers(1, ndim))))
        return lambda x: x[key]
    if kind == "index":
        axis = draw(st.integers(0, ndim - 1))
        assume(shape[axis])
        place = draw(st.integers(-shape[axis], shape[axis] - 1))
        tail = (Ellipsis,) if draw(st.booleans()) else ()
        extra = (None,) if draw(st.booleans()) else ()
        return lambda x: x[(*(slice(None),) * axis, place, *extra, *tail)]
    if kind == "unsqueeze":
        axis = draw(st.integers(-ndim - 1, ndim))
        return lambda x: x.unsqueeze(axis) if isinstance(x, hg.Tensor) else np.expand_dims(x, axis)
    if kind == "squeeze":
        return lambda x: x.squeeze()
    if kind == "expand":
        wide = tuple(draw(st.integers(0, 3)) if n == 1 else n for n in shape)
        wide = (*((draw(st.integers(1, 2)),) if ndim < 5 else ()), *wide)
        return lambda x: x.expand(wide) if isinstance(x, hg.Tensor) else np.broadcast_to(x, wide)
    size = int(np.prod(shape))
    order = draw(st.permutations([n for n in range(1, size + 1) if size % n == 0])) if size else [0]
    first = order[0]
    split = (first, size // first) if first else (0, 3)
    return lambda x: x.reshape(split)


@BOUNDED
@given(data=st.data())
def test_chains_of_views(data: st.DataObject, executor: Any) -> None:
    dtype = data.draw(st.sampled_from([d for d in EXACT if has(executor, d)]))
    want: Any = numbers(data.draw(SHAPES), dtype, data.draw(st.integers(0, 99)))
    got = executor.tensor(want)
    for _ in range(data.draw(st.integers(1, 5))):
        step = data.draw(view_steps(want.shape))
        want, got = step(want), step(got)
        assert got.shape == want.shape
    np.testing.assert_array_equal(got.to_numpy(), want)
    np.testing.assert_array_equal(got.clone().to_numpy(), want)
    np.testing.assert_array_equal(np.from_dlpack(got), want)
    if want.size and want.dtype != bool:
        np.testing.assert_array_equal((got + got).to_numpy(), want + want)
        axis = data.draw(st.sampled_from([None, *range(want.ndim)]))
        np.testing.assert_array_equal(hg.max(got, axis=axis).to_numpy(), want.max(axis=axis))
        np.testing.assert_array_equal(
            hg.sum(got, axis=axis, dtype=got.dtype).to_numpy(), want.sum(axis=axis, dtype=want.dtype)
        )


@BOUNDED
@given(data=st.data())
def test_assignment_to_views(data: st.DataObject, executor: Any) -> None:
    dtype = data.draw(st.sampled_from([d for d in EXACT if has(executor, d)]))
    whole = numbers(data.draw(nps.array_shapes(min_dims=1, max_dims=3, max_side=6)), dtype, 1)
    tensor = executor.tensor(whole)
    part, view = whole, tensor
    for _ in range(data.draw(st.integers(0, 2))):
        key = tuple(
            slice(None, None, data.draw(st.sampled_from([1, 2, -1, -2])))
            if data.draw(st.booleans())
            else slice(data.draw(st.integers(0, n)), None)
            for n in part.shape
        )
        part, view = part[key], view[key]
    value = numbers(part.shape[1:], dtype, 2)
    part[...] = value
    view[...] = executor.tensor(value) if data.draw(st.booleans()) else value
    np.testing.assert_array_equal(tensor.to_numpy(), whole)


# Overlap: a result lands right wherever the operands lie.


@BOUNDED
@given(data=st.data())
def test_outputs_over_inputs(data: st.DataObject, executor: Any) -> None:
    n = data.draw(st.integers(1, 70))
    a, b, c = (data.draw(st.integers(0, 30)) for _ in range(3))
    sign = data.draw(st.sampled_from([1, -1]))
    memory = np.arange(110, dtype=np.float32)
    tensor = executor.tensor(memory)
    x, y = memory[a : a + n][::sign].copy(), memory[b : b + n].copy()
    hg.ops.vector_add(executor, tensor[a : a + n][::sign], tensor[b : b + n], tensor[c : c + n])
    memory[c : c + n] = x + y
    np.testing.assert_array_equal(tensor.to_numpy(), memory)
    x = memory[a : a + n].copy()
    tensor[c : c + n] = tensor[a : a + n]
    memory[c : c + n] = x
    np.testing.assert_array_equal(tensor.to_numpy(), memory)


# Operators.

ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
BITS = (operator.and_, operator.or_, operator.xor)
IN_PLACE = {
    operator.add: operator.iadd, operator.sub: operator.isub, operator.mul: operator.imul,
    operator.and_: operator.iand, operator.or_: operator.ior, operator.xor: operator.ixor,
}  # fmt: skip


@st.composite
def operations(draw: st.DrawFn) -> tuple[Any, DType, np.ndarray, Any]:
    """An operator with a left array and a right operand: an array that broadcasts, or a number."""
    dtype = draw(st.sampled_from(EXACT))
    choices: list[Any] = [*COMPARISONS]
    if dtype.kind != "bool":
        choices += ARITHMETIC
    if not dtype.is_float:
        choices += BITS
    apply = draw(st.sampled_from(choices))
    shapes = draw(nps.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=5)).input_shapes
    left = numbers(shapes[0], dtype, 3)
    if draw(st.booleans()):
        right: Any = numbers(shapes[1], dtype, 4)
        if apply in (operator.floordiv, operator.mod):
            right[right == 0] = 1
        return apply, dtype, left, right
    if dtype.kind == "bool":
        return apply, dtype, left, draw(st.booleans())
    return apply, dtype, left, draw(st.integers(1, 3))


@BOUNDED
@given(case=operations(), form=st.sampled_from(["tensor", "array", "reflected", "in place"]))
def test_operators(case: tuple[Any, DType, np.ndarray, Any], form: str, executor: Any) -> None:
    apply, dtype, left, right = case
    assume(has(executor, dtype))
    x = executor.tensor(left)
    if form == "tensor" and isinstance(right, np.ndarray):
        got, want = apply(x, executor.tensor(right)), apply(left, right)
    elif form == "reflected":
        divides = apply in (operator.floordiv, operator.mod)
        left = np.where(left == 0, left.dtype.type(1), left) if divides else left
        x = executor.tensor(left)
        got, want = apply(right, x), apply(right, left)
    elif (
        form == "in place"
        and apply in IN_PLACE
        and np.broadcast_shapes(left.shape, np.shape(right)) == left.shape
    ):
        got, want = IN_PLACE[apply](x, right), apply(left, right)
        assert got is x
    else:
        got, want = apply(x, right), apply(left, right)
    assert isinstance(got, hg.Tensor)
    assert got.dtype is dtypes.dtype(want.dtype)
    np.testing.assert_array_equal(got.to_numpy(), want)


# Promotion.


@pytest.mark.parametrize("left", dtypes.COMPUTED, ids=repr)
def test_promotion_is_the_array_apis(left: DType, executor: Any) -> None:
    needs(executor, left)
    for right in (d for d in dtypes.COMPUTED if has(executor, d)):
        x, y = executor.tensor(np.ones(2, left.numpy)), executor.tensor(np.ones(2, right.numpy))
        try:
            wanted = dtypes.promote(left, right)
        except hg.UnsupportedDType:
            with pytest.raises(hg.UnsupportedDType, match="convert one"):
                x + y
            continue
        assert wanted is dtypes.promote(right, left)
        if left.kind == right.kind or {left.kind, right.kind} == {"int", "uint"}:
            if "bf16" not in (left.name, right.name):
                assert wanted.numpy == np.promote_types(left.numpy, right.numpy)
        elif "float" in (left.kind, right.kind):
            assert wanted is (left if left.is_float else right)
        assert hg.maximum(x, y).dtype is wanted
        assert (x == y).to_numpy().all()
        assert hg.maximum(x, y).to_numpy().astype(np.float64).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("dtype", "number", "wanted"),
    [
        ("u8", 3, "u8"), ("i8", True, "i8"), ("i32", 2.0, "f32"), ("f16", 2.0, "f16"), ("bf16", 3, "bf16"),
        ("f64", 2.0, "f64"), ("bool", 3, "i64"), ("bool", 0.5, "f32"), ("bool", True, "bool"), ("i64", 1, "i64"),
    ],
)  # fmt: skip
def test_numbers_take_the_tensors_dtype(dtype: str, number: Any, wanted: str, executor: Any) -> None:
    needs(executor, dtype)
    x = executor.tensor(np.ones(3, dtypes.dtype(dtype).numpy))
    for got in (hg.maximum(x, number), hg.maximum(number, x)):
        assert got.dtype.name == wanted
        assert got.to_numpy().astype(np.float64).tolist() == [float(max(1, number))] * 3


def test_zeros_keep_their_signs(executor: Any) -> None:
    """0.0 and -0.0 are equal as keys of a cache, and are not as numbers."""
    x = executor.ones((3,))
    for zero in (0.0, -0.0, 0.0):
        assert (x / zero).tolist() == [np.copysign(np.inf, zero)] * 3
        assert np.signbit((x * zero).to_numpy()).tolist() == [np.copysign(1.0, zero) < 0] * 3
        out = executor.allocate(3)
        hg.ops.vector_div(executor, x, zero, out)
        assert out.to_numpy().tolist() == [np.copysign(np.inf, zero)] * 3
        assert np.signbit(hg.pad(x, padding=((1, 0),), value=zero).to_numpy()[0]) == np.signbit(zero)
        text = f"""program atlas_zero rank 1 reduced 0
buffer out : f32 write
%0 = coordinate 0 : index
%1 = constant {zero} : f32
store out %0, %1
"""
        executor.run(text, {"out": out}, lanes=3)
        assert np.signbit(out.to_numpy()).tolist() == [np.signbit(zero)] * 3
