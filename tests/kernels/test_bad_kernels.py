"""What is no kernel is refused before anything runs, at the line that is marked by `# <-` and the words there."""

# pyright: reportInvalidTypeForm=false, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false
# pyright: reportPossiblyUnboundVariable=false, reportUnboundVariable=false, reportUndefinedVariable=false, reportUnusedExpression=false
# ruff: noqa: B007, C416, F821, F841, RUF059

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hologram as hg

KNOWN = [1, 2]
HELD = SimpleNamespace(numbers=[1, 2], text="ab", nothing=None)
BAD: list[Any] = []


def bad(function: Any) -> Any:
    """A kernel that must be refused."""
    BAD.append(function)
    return function


@bad
def comprehension(a: hg.Array[hg.f32]):
    a[0] = sum([x for x in (1, 2)])  # <- ListComp.* has no meaning in a kernel


@bad
def with_statement(a: hg.Array[hg.f32]):
    with open("x"):  # <- With.* has no meaning
        a[0] = 1.0


@bad
def untyped(a: hg.Array[hg.f32], n):  # <- n needs an annotation
    a[0] = n


@bad
def odd_annotation(a: hg.Array[hg.f32], n: list):  # <- must be a dtype or hg.Array.*got list
    a[0] = 1.0


@bad
def defaults(a: hg.Array[hg.f32], n: hg.f32 = 1.0):  # <- without defaults
    a[0] = n


@bad
def of_an_attribute(a: hg.Array[hg.f32]):
    a[0] = HELD.numbers[1]  # <- HELD.numbers is a list, which may change


@bad
def no_element(a: hg.Array[hg.f32]):
    a[0] = HELD.text[5]  # <- HELD.text\[5\]: string index out of range


@bad
def no_number_of_nothing(a: hg.Array[hg.f32]):
    a[0] = HELD.nothing["x"]  # <- not subscriptable


@bad
def root_of_a_negative_constant(a: hg.Array[hg.f32]):
    a[0] = (-8.0) ** 0.5  # <- -8.0 \*\* 0.5: it is a complex number


@bad
def known_too_late(a: hg.Array[hg.f32]):
    for k in hg.static(range(hg.index())):  # <- known_too_late: it must be known when the kernel is compiled
        a[k] = 1.0


@bad
def much_of_its_own(a: hg.Array[hg.f32]):
    own = hg.local((100, 100), hg.f32)
    more = hg.local(7000, hg.f32)  # <- a lane has 65536 bytes of local arrays, and this makes 68000
    a[0] = own[0, 0] + more[0]


@bad
def other_dtype(a: hg.Array[hg.i32]):
    a[0] = 1.5  # <- 1.5 is no i32: convert it, hg.i32\(1.5\)


@bad
def float_to_integer(a: hg.Array[hg.i32], x: hg.f32):
    a[hg.index()] = x  # <- f32 is not converted to i32 by itself


@bad
def branches(a: hg.Array[hg.f32], n: hg.i32):
    if n > 0:  # <- x is f32 on one way and i32 on the other
        x = a[0]
    else:
        x = n
    a[0] = x


@bad
def unset(a: hg.Array[hg.f32], n: hg.i32):
    if n > 0:
        x = 1.0
    a[0] = x  # <- x may be unset here: not every way through line \d+ assigns it


@bad
def unset_behind_a_loop(a: hg.Array[hg.f32], n: hg.i32):
    for k in range(n):
        x = 1.0
    a[0] = x  # <- x may be unset here: the loop of line \d+ may have no round


@bad
def used_early(a: hg.Array[hg.f32]):
    a[0] = x  # <- x is used before it is assigned
    x = 1.0


@bad
def loop_changes(a: hg.Array[hg.f32], n: hg.i32):
    x = n
    for k in range(3):  # <- x is i32 before the loop and f32 after a round
        x = x + a[k]
    a[0] = x


@bad
def unknown(a: hg.Array[hg.f32]):
    a[0] = nowhere  # <- nowhere is not defined


@bad
def mutable(a: hg.Array[hg.f32]):
    a[0] = KNOWN[0]  # <- KNOWN is a list, which may change


@hg.func
def around(n):
    return around(n - 1) if n > 0 else 0  # <<- no recursion: around calls around


@bad
def recursion(a: hg.Array[hg.i32], n: hg.i32):
    a[0] = around(n)


@bad
def by_zero(a: hg.Array[hg.i32]):
    a[0] = a[1] // 0  # <- a division by zero: i32 // 0


@bad
def rank(a: hg.Array[hg.f32, 2]):
    a[hg.index()] = 1.0  # <- a has 2 axes, got an index of 1


@bad
def names(a: hg.Array[hg.f32]):
    i, j = hg.index()  # <- a tuple or vector is needed, got i32


@bad
def below_zero(a: hg.Array[hg.f32]):
    a[-1] = 1.0  # <- index -1 of a is outside of axis 0: indices count from 0


@bad
def float_index(a: hg.Array[hg.f32]):
    a[0.5] = 1.0  # <- an index of a must be an integer, got 0.5


@bad
def slices(a: hg.Array[hg.f32]):
    a[0] = a[1:2]  # <- slices have no meaning


@bad
def calls(a: hg.Array[hg.f32]):
    a[0] = bad(1.0)  # <- bad cannot be called in a kernel; put @hg.func above it


@bad
def too_many(a: hg.Array[hg.f32]):
    a[0] = np.sqrt(1.0, 2.0)  # <- it takes 1 argument, got 2


@bad
def returns(a: hg.Array[hg.f32]):
    return a[0]  # <- a kernel returns nothing


@bad
def far(a: hg.Array[hg.u8]):
    a[0] = 256  # <- 256 does not fit u8, which goes from 0 to 255


@bad
def step_of_zero(a: hg.Array[hg.f32]):
    for k in range(0, 3, 0):  # <- a step must be known when compiling and not be 0
        a[k] = 1.0


@bad
def over_an_array(a: hg.Array[hg.f32]):
    for x in a:  # <- a loop goes over range\(...\), a tuple or hg.static\(...\), got array of f32 with 1 axes
        x + 1


@bad
def two_kinds(a: hg.Array[hg.f32], n: hg.i32):
    a[0] = a[0] << n  # <- << takes integers, got f32 and i32


@bad
def unsigned_and_signed(a: hg.Array[hg.u64], b: hg.Array[hg.i64]):
    a[0] = a[0] + b[0]  # <- no integer dtype holds both


@bad
def array_as_number(a: hg.Array[hg.f32]):
    a[0] = a + 1  # <- a number is needed, got array of f32


@pytest.mark.parametrize("function", BAD, ids=lambda f: f.__name__)
def test_bad(function: Any) -> None:
    lines = inspect.getsource(inspect.getmodule(function)).splitlines()
    first = function.__code__.co_firstlineno
    marks = [(n, line) for n, line in enumerate(lines, 1) if "# <- " in line and n >= first]
    number, text = marks[0]
    if function is recursion:
        number, text = next(
            (n, line.replace("<<-", "<-")) for n, line in enumerate(lines, 1) if "<<- no" in line
        )
    words = text.split("# <- ")[1].split("  #")[0]
    kernel = hg.kernel(function)
    with pytest.raises(hg.KernelError, match=words) as caught:
        kernel.program(1)
    assert caught.value.line == number
    assert re.match(rf"{re.escape(__file__)}:{number}:{caught.value.column}: ", str(caught.value))
    assert text.strip()[:20] in str(caught.value)


@hg.kernel
def good(a: hg.Array[hg.f32, 2], n: hg.i32):
    i, j = hg.index()
    a[i, j] = n


def test_bad_calls(executor: hg.Executor) -> None:
    a = executor.zeros((3, 4))
    for grid, words in (
        ((0, 3), "at least one point"),
        ((), "at least one"),
        ((2**20, 2**20), r"2\^40"),
        ((-1, 2), "neg"),
    ):
        with pytest.raises(hg.ShapeError, match=words):
            good[grid](a, 1)
    with pytest.raises(hg.UnsupportedDType, match="good, a: the dtype must be f32, got i32"):
        good[3, 4](executor.zeros((3, 4), hg.i32), 1)
    with pytest.raises(hg.ShapeError, match=r"good, a: it must have 2 axes, got shape \(3,\)"):
        good[3, 4](executor.zeros(3), 1)
    with pytest.raises(hg.UnsupportedDType, match=r"cannot hold 0\.5"):
        good[3, 4](a, 0.5)
    with pytest.raises(TypeError, match=r"takes 2 arguments \(a, n\), got 1"):
        good[3, 4](a)
    with pytest.raises(TypeError, match=r"NumPy's: hg\.asarray copies it there"):
        good[3, 4](np.zeros((3, 4), np.float32), 1)
    with pytest.raises(hg.KernelError, match=r"write good\[shape\]"):
        good(a, 1)
    with pytest.raises(hg.TraceError, match="an argument is written to"):
        hg.jit(lambda x: good[3, 4](x, 1))(a)
    a.buffer.free()
    with pytest.raises(hg.BufferFreed):
        good[3, 4](a, 1)


@hg.kernel
def copied(x: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    out[i] = x[i]


def test_too_few_arguments_of_a_launch_that_is_known(executor: hg.Executor) -> None:
    x, out = executor.ones(3), executor.zeros(3)
    copied[3](x, out)
    with pytest.raises(TypeError, match=r"takes 2 arguments \(x, out\), got 1"):
        copied[3](x)


@pytest.mark.parametrize("made", [hg.kernel, hg.func])
def test_what_is_no_function(made: Any) -> None:
    for what in (3, max, int):
        with pytest.raises(hg.KernelError, match="function"):
            made(what)


def test_source_that_cannot_be_read() -> None:
    code = "import hologram as hg\n@hg.kernel\ndef k(a: hg.Array[hg.f32]):\n    a[0] = 1.0\nk.program(1)\n"
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert "KernelError" in said.stderr
    assert "write it into a module, or into a cell of IPython" in said.stderr


def test_words_outside_of_kernels() -> None:
    with pytest.raises(hg.KernelError, match=r"hg.index\(\) is for kernels"):
        hg.index()
