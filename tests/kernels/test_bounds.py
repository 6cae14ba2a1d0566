"""HOLOGRAM_BOUNDS=1: indices and assertions are checked on the device, and kernels print."""

# pyright: reportInvalidTypeForm=false, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hologram as hg


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLOGRAM_BOUNDS", "1")


@hg.kernel
def blurred(x: hg.Array[hg.f32, 2], out: hg.Array[hg.f32, 2], reach: hg.i32):
    i, j = hg.index()
    left = x[i, j - reach] if j >= reach else 0.0
    if j > 0 and x[i, j - 1] >= 0.0:
        left += 1.0
    out[i, j] = left + x[i, j + reach - 1]


@hg.kernel
def scattered(at: hg.Array[hg.i32], out: hg.Array[hg.f32]):
    own = hg.local(2, hg.f32)
    own[1] = 3.0
    out[at[hg.index()]] = own[1]


@hg.kernel(workgroup=(2, 2))
def tiles(x: hg.Array[hg.f32, 2], shift: hg.i32):
    i, j = hg.index()
    own = hg.shared((2, 2), hg.f32)
    own[hg.thread_index(0), hg.thread_index(1) + shift] = x[i, j]
    x[i, j] = own[hg.thread_index(0), hg.thread_index(1)] * 2.0


def test_what_is_inside_runs(executor: hg.Executor) -> None:
    x = np.random.default_rng(0).random((3, 5), np.float32)
    out = executor.zeros(x.shape)
    blurred[x.shape](executor.tensor(x), out, 1)
    want = x + np.pad(x, ((0, 0), (1, 0)))[:, :-1] + (np.arange(5) > 0)
    assert np.allclose(out.to_numpy(), want)
    there = executor.tensor(x)
    tiles[x.shape](there, 0)
    assert np.array_equal(there.to_numpy(), 2 * x)


def test_the_first_index_outside_is_told(executor: hg.Executor) -> None:
    x = executor.zeros((1, 5))
    line = blurred.function.__code__.co_firstlineno + 6
    with pytest.raises(hg.BoundsError, match=rf":{line}:\d+: blurred: x\[0, 5\] .* at index \(0, 4\)"):
        blurred[1, 5](x, executor.zeros((1, 5)), 2)
    with pytest.raises(hg.BoundsError, match=r"out\[-3\] is outside of the array, at index \(2,\)"):
        scattered[4](executor.tensor(np.array([0, 1, -3, 2], np.int32)), executor.zeros(3))
    with pytest.raises(hg.BoundsError, match=r"hg.shared\(...\)\[\d, 2\] is outside"):
        tiles[3, 3](executor.zeros((3, 3)), 1)


@hg.kernel
def parts(at: hg.Array[hg.i32], out: hg.Array[hg.f32]):
    i = hg.index()
    v = hg.vec3(1.0, 2.0, 3.0)
    m = hg.mat2(1.0, 2.0, 3.0, 4.0)
    out[i] = v[at[i]]
    v[at[i]] = 5.0
    m[0, at[i] - 1] = 6.0
    out[i] += v.z + m[at[i] - 1, 0]


def test_parts_of_vectors_outside_are_told(executor: hg.Executor) -> None:
    out = executor.zeros(2)
    parts[2](executor.tensor(np.array([1, 2], np.int32)), out)
    assert out.to_numpy().tolist() == [2 + 3 + 6, 3 + 5 + 3]
    with pytest.raises(hg.BoundsError, match=r"v\[3\] is outside of the vector, at index \(1,\)"):
        parts[2](executor.tensor(np.array([1, 3], np.int32)), out)
    with pytest.raises(hg.BoundsError, match=r"\[-1\] is outside of the vector, at index \(0,\)"):
        parts[2](executor.tensor(np.array([0, 1], np.int32)), out)


@hg.kernel
def talking(x: hg.Array[hg.f32], n: hg.Array[hg.u8], wide: hg.Array[hg.u32]):
    i = hg.index()
    if x[i] > 0.5:
        print("above", x[i], n[i] + 1, end="!\n")
        for k in range(i):
            print(f"{i}: {k:03d} {x[i] * 2.0:.2f}", wide[i], x[i] > 2.0, sep="|")
    if i == 3:
        print(hg.vec2(x[i], 1.5), "last", 7)
        print(x[i] + hg.f32(0.1), hg.vec2(x[i] + hg.f32(0.1)), f"{x[i] + hg.f32(0.1)} {'word'!r}")


@hg.kernel(workgroup=(2, 2))
def blocks(x: hg.Array[hg.i32, 2]):
    i, j = hg.index()
    print(i, j, x[i, j])


def test_prints_come_in_the_order_of_points(
    executor: hg.Executor, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [
        np.array([0.25, 0.75, 3.0, 0.0], np.float32),
        np.array([0, 255, 7, 1], np.uint8),
        np.array([1, 2**32 - 1, 5, 6], np.uint32),
    ]
    cells = np.arange(9, dtype=np.int32).reshape(3, 3)
    talking.python[4](*given)
    blocks.python[3, 3](cells)
    as_python = capsys.readouterr().out.splitlines()
    talking[4](*map(executor.tensor, given))
    blocks[3, 3](executor.tensor(cells))
    found = capsys.readouterr().out.splitlines()
    assert found[:6] == [
        "above 0.75 0!",
        "1: 000 1.50|4294967295|False",
        *found[2:5],
        "vec2(0.0, 1.5) last 7",
    ]
    assert found[6] == "0.1 vec2(0.1, 0.1) 0.10000000149011612 'word'"
    assert found[:7] == as_python[:7]
    assert found[7:] == [
        f"{i} {j} {3 * i + j}" for i in range(3) for j in range(3)
    ]  # Python's go block by block
    assert sorted(found) == sorted(as_python)


@hg.kernel
def endless(x: hg.Array[hg.i32]):
    for _ in range(100):
        print(x[hg.index()])


def test_what_is_printed_has_an_end(executor: hg.Executor, capsys: pytest.CaptureFixture[str]) -> None:
    endless[1000](executor.tensor(np.full(1000, 7, np.int32)))
    found = capsys.readouterr().out.splitlines()
    assert found[-1] == "... and more: a call prints 65536 words at most"
    assert len(found) - 1 == 65536 // 3
    assert set(found[:-1]) == {"7"}


@hg.func
def root(x):
    assert x >= 0.0, "a root is of what is not {negative}"
    return hg.sqrt(x)


@hg.kernel
def rooted(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    out[i] = root(x[i])


@hg.kernel(workgroup=4)
def grouped(x: hg.Array[hg.f32]):
    assert x[hg.index()] != 0.0


def test_assertions(executor: hg.Executor) -> None:
    x = np.array([4.0, 9.0, -1.0, 1.0, np.nan], np.float32)
    out = executor.zeros(5)
    rooted[2](executor.tensor(x), out)
    assert out.to_numpy().tolist() == [2, 3, 0, 0, 0]
    line = root.function.__code__.co_firstlineno + 2
    says = r"assert x >= 0.0 does not hold \(a root is of what is not {negative}\), at index \(2,\)"
    with pytest.raises(hg.AssertionFailed, match=rf":{line}:\d+: root: {says}"):
        rooted[4](executor.tensor(x), out)
    with pytest.raises(AssertionError, match=r"at index \(4,\)"):  # NaN is not at least 0
        rooted[5](executor.tensor(np.where(x < 0, 0, x)), out)
    grouped[5](executor.tensor(x))  # three points of the second workgroup are not there


@hg.kernel
def shared_out(n: hg.Array[hg.i32], by: hg.Array[hg.i32], out: hg.Array[hg.i32]):
    i = hg.index()
    share = n[i] // by[i] if by[i] != 0 else 0
    out[i] = share + n[i] % (by[i] + 1)


def test_divisions_of_integers_by_zero(executor: hg.Executor) -> None:
    n, out = executor.tensor(np.arange(4, dtype=np.int32)), executor.zeros(4, hg.i32)
    shared_out[4](n, executor.tensor(np.array([0, 2, 0, 3], np.int32)), out)
    assert out.to_numpy().tolist() == [0, 1, 0, 4]
    line = shared_out.function.__code__.co_firstlineno + 4
    with pytest.raises(
        hg.DivisionByZero, match=rf":{line}:\d+: shared_out: an integer is .* at index \(2,\)"
    ):
        shared_out[4](n, executor.tensor(np.array([0, 2, -1, 3], np.int32)), out)


@hg.kernel
def of_an_array(x: hg.Array[hg.f32]):
    print(x)


@hg.kernel
def to_a_file(x: hg.Array[hg.f32]):
    print(x[0], file=None)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (of_an_array, "print takes numbers and strings, got array"),
        (to_a_file, "print takes sep and end by name"),
    ],
)
def test_prints_refused(kernel: Any, words: str) -> None:
    with pytest.raises(hg.KernelError, match=words):
        kernel.compiled(1, checked=True)
