"""Python's own meaning of its words holds in kernels: on every backend, and as Python."""

# pyright: reportInvalidTypeForm=false, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import hologram as hg
from tests.kernels.test_ways_out import same
from tests.needs import needs

X = np.array([0, 1, 2, -3, 0], np.int32)


@hg.func
def counted(tally, x):
    hg.atomic_add(tally, 0, 1)
    return x


@hg.kernel
def deciding(x: hg.Array[hg.i32], out: hg.Array[hg.i32, 2], tally: hg.Array[hg.i32]):
    i = hg.index()
    out[i, 0] = x[i] or 5
    out[i, 1] = x[i] and x[i] * 2
    out[i, 2] = i > 1 and x[i]
    out[i, 3] = x[i] or counted(tally, 7)
    out[i, 4] = (x[i] and 0) or 3
    if x[i] and (i < 3 or x[i] < 0):
        out[i, 5] = 1
    if 0 < x[i] < counted(tally, 2):
        out[i, 5] += 10


def test_and_and_or_have_the_value_that_decides(executor: hg.Executor) -> None:
    _, out, tally = same(deciding, executor, 5, X, np.zeros((5, 6), np.int32), np.zeros(1, np.int32))
    want = [[int(x) or 5, int(x and x * 2), int(i > 1 and x), int(x) or 7, 3] for i, x in enumerate(X)]
    assert out[:, :5].tolist() == want
    assert out[:, 5].tolist() == [0, 11, 1, 1, 0]
    assert tally.tolist() == [4]


@hg.kernel
def last_round(x: hg.Array[hg.i32], out: hg.Array[hg.i32, 2]):
    i = hg.index()
    k = 77
    for k in range(x[i]):
        if k * k > 50:
            break
    out[i, 0] = k
    for k in range(10, x[i], -3):
        out[i, 1] += k
    out[i, 1] += 1000 * k


def test_what_counted_a_loop_is_there_behind_it(executor: hg.Executor) -> None:
    x = np.array([0, 1, 5, 30, -4], np.int32)
    _, out = same(last_round, executor, 5, x, np.zeros((5, 2), np.int32))
    assert out[:, 0].tolist() == [77, 0, 4, 8, 77]


@hg.kernel
def own_in_each_round(out: hg.Array[hg.i32, 2]):
    i = hg.index()
    for k in hg.static(range(3)):
        own = hg.local(2, hg.i32)
        own[0] += 1 + i
        out[i, k] = own[0]


def test_local_arrays_begin_as_zeros_in_rounds_that_are_written_out(executor: hg.Executor) -> None:
    (out,) = same(own_in_each_round, executor, 2, np.zeros((2, 3), np.int32))
    assert out.tolist() == [[1, 1, 1], [2, 2, 2]]


@hg.kernel
def divided(x: hg.Array[hg.f32], y: hg.Array[hg.f32], down: hg.Array[hg.f32], left: hg.Array[hg.f32]):
    i = hg.index()
    down[i] = x[i] // y[i]
    left[i] = x[i] % y[i]


def test_floats_are_divided_downwards_as_numpy_does(executor: hg.Executor) -> None:
    x = np.array([1, -1, 7.5, -7.5, 7.5, 3, -3, np.inf, 3, 6, 5.9999995, 1e30], np.float32)
    y = np.array([0.1, 0.1, 2, 2, -2, np.inf, np.inf, 2, 0, 0.1, 0.1, 0.3], np.float32)
    _, _, down, left = same(divided, executor, x.size, x, y, np.zeros_like(x), np.zeros_like(x))
    with np.errstate(all="ignore"):
        assert np.array_equal(down, x // y, equal_nan=True)
        assert np.array_equal(left, x % y, equal_nan=True)


@hg.kernel
def told(out: hg.Array[hg.f32]):
    i = hg.index()
    print(f"{i} of {out.shape}", out[i], sep=": ", end=";")
    assert i < 100, f"{i} is too large"
    out[i] = 1.0


def test_print_takes_what_pythons_takes(executor: hg.Executor, capsys: pytest.CaptureFixture[str]) -> None:
    (out,) = same(told, executor, 2, np.zeros(2, np.float32))
    assert out.tolist() == [1, 1]
    assert capsys.readouterr().out == "0 of (2,): 0.0;1 of (2,): 0.0;"


@hg.func
def longer(v, *, by=2.0):
    v.x += by
    return v.length()


@hg.kernel
def valued(out: hg.Array[hg.f32, 2]):
    i = hg.index()
    a = hg.vec2(3.0, 4.0)
    b = a
    b.x, b[1] = 0.0, hg.f32(i)
    out[i, 0], out[i, 1] = a.length(), b.length()
    out[i, 2] = longer(a) + a.x


def test_vectors_are_values(executor: hg.Executor) -> None:
    (out,) = same(valued, executor, 2, np.zeros((2, 3), np.float32), atol=1e-6)
    assert np.allclose(out, [[5, i, np.hypot(5, 4) + 3] for i in range(2)])


@hg.kernel
def in_doubles(x: hg.Array[hg.f32], out: hg.Array[hg.f64], whole: hg.Array[hg.i32, 2]):
    i = hg.index()
    total: hg.f64 = 1e-3
    for _ in range(1000):
        total += x[i]
    out[i] = total
    whole[i, 0], whole[i, 1] = int(x[i] * 1e12), round(x[i] / 0.0)


def test_annotated_variables_and_integers_of_floats(executor: hg.Executor) -> None:
    needs(executor, hg.f64)
    x = np.array([0.1, -0.1, 0.0], np.float32)
    _, out, whole = same(in_doubles, executor, 3, x, np.zeros(3), np.zeros((3, 2), np.int32), atol=1e-9)
    assert np.allclose(out, x.astype(np.float64) * 1000 + 1e-3, rtol=0, atol=1e-9)
    ends = np.iinfo(np.int32)
    assert whole.tolist() == [[ends.max, ends.max], [ends.min, ends.min], [0, 0]]


@hg.kernel
def doubled(out: hg.Array[hg.f32], x: hg.Array[hg.f32]):
    i = hg.index()
    out[i] = 2.0 * x[i]


def test_one_array_as_two_arguments_is_one_in_python(executor: hg.Executor) -> None:
    x = executor.tensor(np.arange(5, dtype=np.float32))
    doubled[5](x, x)
    doubled.python[5](x, x)
    assert x.to_numpy().tolist() == [0, 4, 8, 12, 16]


@hg.kernel
def fails(out: hg.Array[hg.f32]):
    v = hg.vec2(1.0)
    v.x = 2.0
    assert v.x < 1.0  # the line that the traceback names


def test_tracebacks_of_the_python_form_name_the_file_and_line() -> None:
    with pytest.raises(AssertionError) as caught:
        fails.python[1](np.zeros(1, np.float32))
    last = caught.traceback[-1]
    assert str(last.path) == __file__
    assert "the line that the traceback names" in str(last.statement)


@hg.kernel
def of_constants(out: hg.Array[hg.f32]):
    own = hg.local(int(7 / 2), hg.f32)
    least = float("inf")
    for k in range(int("3")):
        own[k] = k
        least = min(least, own[k] - float(2))
    out[0], out[1] = least, float("-inf")


def test_numbers_of_constants_are_constants(executor: hg.Executor) -> None:
    (out,) = same(of_constants, executor, 1, np.zeros(2, np.float32))
    assert out.tolist() == [-2, -np.inf]


@hg.kernel
def far_out(out: hg.Array[hg.i32, 2], first: hg.i32, last: hg.i32):
    i = hg.index()
    for k in range(first, last, 4):
        out[i, 0] += 1
        out[i, 1] = k
    for k in range(-first, 1 - last, -7):
        out[i, 2] += 1
        out[i, 3] = k
    for k in range(first + i, last, 1 << 30):
        out[i, 4] = out[i, 4] * 3 + k % 100


def test_ranges_that_end_where_numbers_do(executor: hg.Executor) -> None:
    top = np.iinfo(np.int32).max
    for first, last in ((top - 9, top), (top - 3, top), (5, 5), (7, -3), (-20, 3)):
        (out,) = same(far_out, executor, 2, np.zeros((2, 5), np.int32), first, last)
        assert out[0, 0] == len(range(first, last, 4))


@hg.kernel
def far_apart(out: hg.Array[hg.i32], first: hg.i32, last: hg.i32):
    i = hg.index()
    for k in range(first, last, 1 << 29):
        out[i] = out[i] * 3 + k % 100


def test_ranges_from_end_to_end(executor: hg.Executor) -> None:
    top = np.iinfo(np.int32).max
    same(far_apart, executor, 2, np.zeros(2, np.int32), -top, top)


@dataclass
class Falling:
    height: float
    speed: float

    def after(self, dt):
        self.speed = self.speed + hg.f32(9.81) * dt
        self.height = self.height - self.speed * dt
        return self

    def seconds(self):
        return hg.i32(hg.sqrt(2.0 * self.height / hg.f32(9.81)))


@hg.kernel
def falling(x: hg.Array[hg.f32], out: hg.Array[hg.f32, 2]):
    i = hg.index()
    ball = Falling(x[i], hg.f32(1.0))
    later = ball.after(hg.f32(0.5))
    out[i, 0] = later.height
    out[i, 1] = ball.height
    out[i, 2] = ball.seconds()


def test_methods_of_dataclasses_are_in_their_python_form(executor: hg.Executor) -> None:
    x = np.array([20.0, 45.0, 3.0], np.float32)
    _, out = same(falling, executor, 3, x, np.zeros((3, 3), np.float32))
    assert out[:, 1].tolist() == x.tolist()
    assert out[:, 2].tolist() == [2, 3, 0]


WIDE = hg.i32


@hg.kernel
def of_dtypes(x: hg.Array[hg.f16], out: hg.Array[hg.i32, 2]):
    i = hg.index()
    own = hg.local(2, x.dtype)
    own[0] = x[i]
    out[i, 0] = hg.i32(own[0] + x.dtype(3))
    out[i, 1] = (i - 1) >> (WIDE.bits - 1)


def test_dtypes_have_what_they_have_in_a_kernel(executor: hg.Executor) -> None:
    _, out = same(of_dtypes, executor, 2, np.array([1, 2], np.float16), np.zeros((2, 2), np.int32))
    assert out.tolist() == [[4, -1], [5, 0]]


@hg.kernel
def twice(out: hg.Array[hg.f32], x: hg.Array[hg.f32]):
    i = hg.index()
    out[i] = x[i] * 2.0


def test_what_is_only_read_is_left_alone_as_python() -> None:
    ex = hg.Executor(backend="cpu")
    out = ex.zeros(3)
    twice.python[3](out, hg.broadcast_to(ex.tensor(np.ones(1, np.float32)), (3,)))
    assert out.to_numpy().tolist() == [2, 2, 2]
    row = ex.tensor(np.arange(4, dtype=np.float32))
    twice.python[3](row[1:], row[:3])  # what is read lies over what is written
    assert row.to_numpy().tolist() == [0, 0, 2, 4]


FACTOR = 2.0


@hg.func
def scaled(x):
    return x * FACTOR


def test_kernels_read_what_is_around_a_function_when_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    ex = hg.Executor(backend="cpu")
    made = []
    for factor in (3.0, 5.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)

        @hg.kernel
        def kernel(out: hg.Array[hg.f32]):
            out[hg.index()] = scaled(1.0)

        made.append(kernel)
        for k, one in enumerate(made):  # the first keeps what it was made with
            out = ex.zeros(2)
            one[2](out)
            assert out.to_numpy().tolist() == [(3.0, 5.0)[k]] * 2
