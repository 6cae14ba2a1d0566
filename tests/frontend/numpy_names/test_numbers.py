"""Functions and operators of numbers, lists and arrays without a tensor, or beside one, as NumPy takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.opset import OPERATIONS
from hologram.opset.forms.operation import Operation

HOLOGRAM: Any = hg
POINTWISE = [o for o in OPERATIONS.values() if o.pointwise and not o.attributes and "complex" != o.name]


@pytest.mark.parametrize("operation", POINTWISE, ids=lambda o: o.name)
def test_numbers_alone_are_tensors_without_axes(operation: Operation) -> None:
    kind: Any = 0.5 if any(d.is_float for d in operation.dtypes) else 3
    numbers = [kind] * len(operation.operands)
    wanted = operation(hg.asarray(numbers[0]), *numbers[1:])
    got = operation(*numbers)
    assert (got.shape, got.dtype) == ((), wanted.dtype)
    np.testing.assert_array_equal(got.to_numpy(), wanted.to_numpy())


CALLS: list[tuple[Callable[[Any], Any], Any]] = [
    (lambda n: n.sqrt(4.0), 2.0),
    (lambda n: n.exp(0), 1.0),
    (lambda n: n.add(1, 2), 3),
    (lambda n: n.add(1, 2.5), 3.5),
    (lambda n: n.maximum(1.0, 2.0), 2.0),
    (lambda n: n.abs(3 + 4j), 5.0),
    (lambda n: n.where(True, 1.0, 2.0), 1.0),
    (lambda n: n.broadcast_to(1.0, (2,)), [1.0, 1.0]),
    (lambda n: n.sum(2.0), 2.0),
    (lambda n: n.isnan(1.0), False),
    (lambda n: n.rint(2.5), 2.0),
    (lambda n: n.searchsorted(n.asarray([1.0, 2.0, 3.0]), 2.5), 2),
    (lambda n: n.searchsorted(n.asarray([1, 2, 3]), 2, "right"), 2),
    (lambda n: n.isin(3, n.asarray([1, 3])), True),
    (lambda n: n.take(n.asarray([5, 6, 7]), 2), 7),
]


@pytest.mark.parametrize(("call", "wanted"), CALLS)
def test_numbers_as_numpy_takes_them(executor: hg.Executor, call: Callable[[Any], Any], wanted: Any) -> None:
    assert np.asarray(call(np)).tolist() == wanted
    with hg.use_executor(executor):
        assert call(hg).tolist() == wanted
        assert hg.jit(lambda x: call(hg) + x * 0)(hg.asarray(1)).tolist() == wanted


@pytest.mark.parametrize("name", ["left_shift", "right_shift"])
def test_bools_shift_as_integers(executor: hg.Executor, name: str) -> None:
    ours, theirs = getattr(hg, name), getattr(np, name)
    bools = np.array([True, False, True, False, True]), np.array([True, True, False, False, True])
    x, y = (executor.tensor(b) for b in bools)
    for got, wanted in (
        (ours(x, y), theirs(*bools)),
        (ours(x, True), theirs(bools[0], True)),
        (ours(x, 1), theirs(bools[0], 1)),
        (hg.jit(ours)(x, y), theirs(*bools)),
    ):
        np.testing.assert_array_equal(got.to_numpy(), wanted, strict=True)


def test_large_integers_are_unsigned(executor: hg.Executor) -> None:
    with hg.use_executor(executor):
        assert hg.add(2**63, 1).tolist() == 2**63 + 1


def test_a_calls_numbers_are_data_of_functions_too(executor: hg.Executor) -> None:
    x, count = executor.tensor([1.0, 2.0, 3.0]), [0]

    def scaled(v: Any, n: Any) -> Any:
        count[0] += 1
        return v * hg.sqrt(n) + hg.minimum(n, 5.0) + hg.searchsorted(v, n)

    f = hg.jit(scaled)
    for n in (4.0, 9.0, 2.25):
        wanted = np.array([1.0, 2.0, 3.0]) * n**0.5 + min(n, 5.0) + np.searchsorted([1.0, 2.0, 3.0], n)
        np.testing.assert_allclose(f(x, n).to_numpy(), wanted, rtol=1e-6)
    assert count == [1]
    rolled = hg.jit(hg.roll)
    for shift in (1, -2, 7):
        assert rolled(x, executor.tensor(shift)).tolist() == np.roll([1.0, 2.0, 3.0], shift).tolist()
    assert hg.roll(x, executor.tensor(-1)).tolist() == [2.0, 3.0, 1.0]


OPERATORS: list[Callable[[Any], Any]] = [
    lambda x: x + [1, 2, 3],
    lambda x: [1.5, 2.0, 3.0] - x,
    lambda x: x * (2, 3, 4),
    lambda x: x == [7, 0, -7],
    lambda x: x < (1, 1, 1),
    lambda x: x @ [1, 2, 3],
    lambda x: divmod(x, 3)[0] * 10 + divmod(x, 3)[1],
    lambda x: divmod(20, x)[0] * 10 + divmod(20, x)[1],
    lambda x: divmod(x, [2, 3, 4])[1],
]


@pytest.mark.parametrize("call", OPERATORS)
def test_operators_with_lists(executor: hg.Executor, call: Callable[[Any], Any]) -> None:
    x = np.array([7, 5, -7])
    got = call(executor.tensor(x))
    np.testing.assert_array_equal(got.to_numpy(), call(x))
    np.testing.assert_array_equal(hg.jit(call)(executor.tensor(x)).to_numpy(), call(x))


def test_operators_that_assign_take_lists(executor: hg.Executor) -> None:
    x = executor.tensor(np.array([7.0, 5.0], np.float32))
    x += [1, 2]
    x *= (2.0, 2.0)
    assert x.tolist() == [16.0, 14.0]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda x: HOLOGRAM.Tensor([1, 2]),
            r"^a Tensor is a view of a buffer; hg.asarray.* makes one of numbers",
        ),
        (lambda x: HOLOGRAM.Tensor(), "^a Tensor is a view of a buffer"),
        (lambda x: x + 300, r"^add, y: u8 cannot hold 300"),
        (lambda x: 300 * x, r"^multiply, x: u8 cannot hold 300"),
        (lambda x: hg.clip(x, -1, 5), r"^clip, min: u8 cannot hold -1"),
        (lambda x: HOLOGRAM.std(x, correction="a"), r"^std, correction must be a number, got str"),
        (lambda x: hg.asarray({1: 2}), "numbers, arrays, or lists of them are needed, got a dict"),
        (lambda x: hg.asarray([[1, 2], [3, None]]), "got None in a list in a list"),
        (lambda x: hg.asarray("text"), "got a str"),
        (lambda x: x + ["a"], "got a str in a list"),
    ],
)
def test_errors_speak_of_the_call(executor: hg.Executor, call: Callable[[Any], Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        call(executor.tensor(np.arange(3, dtype=np.uint8)))
