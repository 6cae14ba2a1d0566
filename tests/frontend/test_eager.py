"""What eager calls remember between them gives what they gave at first, and refuses what they refused."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.machine.layout import Layout

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_equal_layouts_are_one_object() -> None:
    layout = Layout(hg.f32, (3, 4), (4, 1), 2)
    assert layout is Layout(hg.f32, (3, 4), (4, 1), 2)
    assert layout is pickle.loads(pickle.dumps(layout))
    assert layout is not Layout(hg.i32, (3, 4), (4, 1), 2)
    with pytest.raises(AttributeError):
        layout.offset = 3  # type: ignore[misc]


def test_threads_that_make_one_layout_get_one() -> None:
    found: list[list[Layout]] = []
    barrier = threading.Barrier(4)

    def make() -> None:
        barrier.wait()
        found.append([Layout(hg.f32, (n, 5), (5, 1), 7) for n in range(1, 400)])

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for same in zip(*found, strict=True):
        assert len(set(map(id, same))) == 1


@pytest.mark.parametrize("wrong", [1.0, (0, 1.0), slice(1.0, None)], ids=repr)
def test_an_index_is_refused_though_its_equal_was_taken(executor: hg.Executor, wrong: Any) -> None:
    x = executor.tensor(X)
    for _ in range(2):
        np.testing.assert_array_equal(x[1].to_numpy(), X[1])
        np.testing.assert_array_equal(x[0, 1].to_numpy(), X[0, 1])
        np.testing.assert_array_equal(x[1:].to_numpy(), X[1:])
        np.testing.assert_array_equal(x[True].to_numpy(), X[True])  # no position, but a mask
        np.testing.assert_array_equal(x[0, True].to_numpy(), X[0, True])
        with pytest.raises(TypeError):
            _ = x[wrong]


def test_sizes_are_refused_though_their_equals_were_taken(executor: hg.Executor) -> None:
    x = executor.tensor(X)
    strange: Any = x
    for _ in range(2):
        assert x.reshape(1, 12).shape == executor.empty((1, 12)).shape == (1, 12)
        for call in (
            lambda: strange.reshape(True, 12),
            lambda: strange.reshape([1.0, 12]),
            lambda: strange.transpose(0, True),
        ):
            with pytest.raises(TypeError):
                call()
        shapes: Any = ((True, 12), (1.0, 12), [1, "12"])
        for shape in shapes:
            with pytest.raises(TypeError, match="sizes must be integers"):
                executor.empty(shape)
        with pytest.raises(hg.ShapeError, match="must not be negative"):
            executor.empty((1, -12))


def test_numbers_of_two_types_are_two_signatures(executor: hg.Executor) -> None:
    x = executor.tensor(np.array([3, 4], np.int32))
    for _ in range(2):
        assert (x + 1).dtype is (x + True).dtype is hg.i32
        assert (x + 1.0).dtype is hg.f32
        zero = executor.tensor(np.float32(1.0))
        assert (zero / 0.0).item() == np.inf
        assert (zero / -0.0).item() == -np.inf


def test_arrays_beside_tensors_count_as_they_are_at_each_call(executor: hg.Executor) -> None:
    x, beside = executor.tensor(X), np.ones_like(X)
    for k in range(3):
        beside[...] = k
        np.testing.assert_array_equal((x + beside).to_numpy(), X + k)
        np.testing.assert_array_equal(hg.add(x, beside.tolist()).to_numpy(), X + k)
        np.testing.assert_array_equal(hg.add(x, executor.tensor(beside).buffer).to_numpy(), X + k)


def test_results_kept_alive_are_apart(executor: hg.Executor) -> None:
    x = executor.tensor(X)
    results = [x + 1 for _ in range(20)]
    assert len({r.buffer.block for r in results}) == 20
    for result in results:
        np.testing.assert_array_equal(result.to_numpy(), X + 1)


def test_what_was_freed_is_refused_by_calls_that_are_known(executor: hg.Executor) -> None:
    x, y = executor.tensor(X), executor.tensor(X)
    for _ in range(3):
        _ = x + y
        x += y
    y.buffer.free()
    for call in (lambda: x + y, lambda: x.__iadd__(y), lambda: x.__setitem__(slice(None), y)):
        with pytest.raises(hg.BufferFreed):
            call()


def test_another_executor_is_refused_by_calls_that_are_known(executor: hg.Executor) -> None:
    x, y = executor.tensor(X), executor.tensor(X)
    doubled = hg.jit(lambda a, b: a + b)
    _ = x + y, doubled(x, y)
    with hg.Executor(executor.backend) as other:
        z = other.tensor(X)
        for call in (lambda: x + z, lambda: x.__iadd__(z), lambda: doubled(x, z)):
            with pytest.raises(hg.ShapeError, match="belong to"):
                call()


@pytest.mark.parametrize(
    "other", [lambda x: x, lambda x: x[::-1], lambda x: x[0], lambda x: 2, lambda x: X, lambda x: x[1:2]],
    ids=["itself", "reversed", "a row", "a number", "an array", "a part"],
)  # fmt: skip
def test_an_operator_in_place_reads_before_it_writes(executor: hg.Executor, other: Any) -> None:
    for _ in range(2):
        x, wanted = executor.tensor(X), X.copy()
        before = x
        beside = other(x)
        x *= beside
        wanted = wanted * (beside if isinstance(beside, (int, np.ndarray)) else np.asarray(other(X)))
        assert x is before
        np.testing.assert_array_equal(x.to_numpy(), wanted)


def test_an_operator_in_place_keeps_the_dtype_and_the_shape(executor: hg.Executor) -> None:
    half = executor.tensor(X, hg.f16)
    half += executor.tensor(X)
    np.testing.assert_array_equal(half.to_numpy(), (2 * X).astype(np.float16))
    x = executor.tensor(X)
    with pytest.raises(hg.ShapeError):
        x[0] += x
    whole = executor.tensor(np.arange(3, dtype=np.int32))
    with pytest.raises(hg.UnsupportedDType, match="keeps i32"):
        whole += 0.5
    part = executor.tensor(X)
    view = part[:, 1]
    view -= 1
    wanted = X.copy()
    wanted[:, 1] -= 1
    np.testing.assert_array_equal(part.to_numpy(), wanted)


def test_a_number_is_written_to_a_part(executor: hg.Executor) -> None:
    for dtype, value in (
        (hg.f32, 2.5),
        (hg.f32, -0.0),
        (hg.f32, np.nan),
        (hg.i32, 7),
        (hg.u8, 9),
        (hg.f16, 1),
    ):
        array = np.arange(12).astype(dtype.numpy).reshape(3, 4)
        x = executor.tensor(array)
        for where in (np.s_[1:3, ::2], np.s_[0], np.s_[:, -1], np.s_[3:]):
            array[where], x[where] = value, value
            np.testing.assert_array_equal(x.to_numpy(), array)
            np.testing.assert_array_equal(np.signbit(x.to_numpy()), np.signbit(array))
    with pytest.raises(hg.UnsupportedDType):
        executor.zeros((3,), hg.u8)[1:] = 300
    with pytest.raises(hg.UnsupportedDType):
        executor.zeros((3,), hg.i32)[1:] = 1.5


def test_methods_are_there_before_and_after_the_first_operation(executor: hg.Executor) -> None:
    x = executor.tensor(X)
    assert x.sum().item() == X.sum()
    assert "__getattr__" not in vars(hg.Tensor)
    assert {"sum", "exp", "reshape"} <= set(dir(x))
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'summ'"):
        _ = x.summ


@pytest.mark.parametrize("wrong", [True, 1.0])
def test_an_attribute_is_refused_though_its_equal_was_taken(executor: hg.Executor, wrong: Any) -> None:
    x = executor.tensor(X.reshape(3, 4))
    for operation in (hg.sum, hg.cumsum, hg.max):
        operation(x, axis=1)
        with pytest.raises(TypeError):
            operation(x, axis=wrong)
