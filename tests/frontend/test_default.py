"""The default executor, and the functions that make tensors on it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation import dtypes
from hologram.frontend.default import Process
from tests.needs import needs


@pytest.fixture
def default(executor: hg.Executor) -> Iterator[hg.Executor]:
    """The executor as the default of this thread."""
    with hg.use_executor(executor):
        yield executor


@pytest.fixture
def process() -> Iterator[None]:
    """Leaves no default of the process behind."""
    hg.set_default_executor(None)
    yield
    hg.default_executor().close()
    hg.set_default_executor(None)


MAKERS: dict[str, tuple[Any, Any]] = {
    "asarray": (lambda: hg.asarray([[1.5, 2.0]]), np.array([[1.5, 2.0]], np.float32)),
    "zeros": (lambda: hg.zeros((2, 3)), np.zeros((2, 3), np.float32)),
    "ones": (lambda: hg.ones(3, dtype="i8"), np.ones(3, np.int8)),
    "full of integers": (lambda: hg.full((), 7), np.array(7, np.int64)),
    "full of floats": (lambda: hg.full(2, 0.5), np.full(2, 0.5, np.float32)),
    "full of truth": (lambda: hg.full(2, True), np.full(2, True)),
    "full of NumPy's": (lambda: hg.full(2, np.float64(0.1)), np.full(2, 0.1)),
    "arange": (lambda: hg.arange(5), np.arange(5)),
    "arange by steps": (lambda: hg.arange(9, 2, -3, dtype="i16"), np.arange(9, 2, -3).astype(np.int16)),
    "arange of floats": (lambda: hg.arange(0, 1, 0.25), np.arange(0, 1, 0.25).astype(np.float32)),
    "arange of unsigned": (lambda: hg.arange(20, 3, -4, dtype="u8"), np.arange(20, 3, -4).astype(np.uint8)),
    "linspace": (lambda: hg.linspace(0, 1, 5), np.linspace(0, 1, 5, dtype=np.float32)),
    "eye": (lambda: hg.eye(2, 3, k=1, dtype="bool"), np.eye(2, 3, 1, bool)),
    "tril": (lambda: hg.tril(np.ones((3, 3), np.int16)), np.tril(np.ones((3, 3), np.int16))),
    "an operation": (lambda: hg.add(np.arange(3), np.arange(3)), np.arange(0, 6, 2)),
    "an operation on lists": (lambda: hg.exp([0.0]), np.ones(1, np.float32)),
    "a composite": (lambda: hg.stack([np.arange(2), np.arange(2, 4)]), np.array([[0, 1], [2, 3]])),
    "a concatenation": (lambda: hg.concat([np.arange(2), np.arange(1)]), np.array([0, 1, 0])),
    "from_dlpack": (lambda: hg.from_dlpack(np.arange(3)), np.arange(3)),
}


@pytest.mark.parametrize("name", MAKERS)
def test_what_names_no_executor_runs_on_the_default(name: str, default: hg.Executor) -> None:
    make, want = MAKERS[name]
    needs(default, want.dtype)
    made = make()
    assert made.executor is default
    np.testing.assert_array_equal(made.to_numpy(), want, strict=True)


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "from_dlpack"])
def test_in_a_trace_the_default_is_the_executor_that_it_is_for(name: str, executor: hg.Executor) -> None:
    make, want = MAKERS[name]
    needs(executor, want.dtype)
    jitted = hg.jit(lambda x: (make(), hg.default_executor() is executor, x))
    x = executor.zeros(1)
    for _ in range(2):
        made, same, _ = jitted(x)
        assert made.executor is executor
        assert same
        np.testing.assert_array_equal(made.to_numpy(), want, strict=True)


def test_a_jitted_function_of_arrays_alone_runs_on_the_default(default: hg.Executor) -> None:
    found = hg.jit(lambda x, y: x + y)(np.arange(3), np.arange(3))
    assert found.executor is default
    assert found.tolist() == [0, 2, 4]


def test_random_numbers_name_no_executor_either(default: hg.Executor) -> None:
    made, given = hg.random_uniform((5,), seed=3), hg.random_uniform(default, (5,), seed=3)
    assert made.executor is given.executor is default
    np.testing.assert_array_equal(made.to_numpy(), given.to_numpy())
    assert hg.random_normal((2, 3), device=default).shape == (2, 3)


def test_what_is_like_another(executor: hg.Executor) -> None:
    x = executor.tensor(np.arange(6, dtype=np.int16).reshape(2, 3)).T
    for made, value in ((hg.zeros_like(x), 0), (hg.ones_like(x), 1), (hg.full_like(x, 7), 7)):
        assert made.executor is executor
        np.testing.assert_array_equal(made.to_numpy(), np.full((3, 2), value, np.int16), strict=True)
    assert (hg.empty_like(x).shape, hg.empty_like(x, dtype="f16").dtype) == ((3, 2), dtypes.f16)
    np.testing.assert_array_equal(hg.jit(lambda t: hg.ones_like(t) + t)(x).to_numpy(), x.to_numpy() + 1)


def test_asarray_copies_where_it_is_told_or_must(default: hg.Executor) -> None:
    x = default.tensor(np.arange(3, dtype=np.float32))
    assert hg.asarray(x) is x
    assert hg.asarray(x, device=default.backend, dtype="f32") is x
    copied = hg.asarray(x, copy=True)
    copied += 1
    assert x.tolist() == [0, 1, 2]
    assert hg.asarray(x, dtype="i32").dtype is dtypes.i32
    assert hg.asarray(x.buffer).buffer is x.buffer
    for impossible in (lambda: hg.asarray(x, dtype="i32", copy=False), lambda: hg.asarray([1.0], copy=False)):
        with pytest.raises(ValueError, match="asarray: "):
            impossible()
    array = np.arange(3, dtype=np.float32)
    if default.backend == "cpu":
        hg.asarray(array, copy=False)[0] = 7
        default.synchronize()
        assert array[0] == 7
    else:
        with pytest.raises(ValueError, match="copy=False"):
            hg.asarray(array, copy=False)


def test_devices_are_named_as_tensors_name_them(executor: hg.Executor) -> None:
    with hg.use_executor(executor):
        name = hg.zeros(1).device
        assert hg.zeros(1, device=name).executor is hg.ones(1, device=executor.backend).executor is executor
    x = hg.zeros(2, device=name)
    assert hg.zeros(2, device=name).executor is x.executor  # one, opened at the first use
    there = executor.tensor([1.0, 2.0]).to_device(x.device)
    assert (there.device, there.tolist()) == (name, [1.0, 2.0])
    assert there.to_device(x.executor) is there
    with pytest.raises(TypeError, match="device must be an Executor or a name"):
        hg.zeros(2, device=3)
    with pytest.raises(hg.HologramError, match="nowhere"):
        hg.zeros(2, device="nowhere:0")


def test_contexts_nest_and_are_each_threads_own(executor: hg.Executor, process: None) -> None:
    inner, seen = hg.Executor(executor.backend), []
    with hg.use_executor(executor) as used:
        assert used is hg.default_executor() is executor
        with inner, hg.use_executor(inner):
            assert hg.zeros(1).executor is inner
        assert hg.default_executor() is executor
        thread = threading.Thread(target=lambda: seen.append(hg.default_executor()))
        thread.start()
        thread.join()
    assert seen == [hg.default_executor()]
    assert seen[0] is not executor


def test_the_processs_default_is_opened_once_set_and_replaced(backend: str, process: None) -> None:
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(hg.default_executor())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    try:
        mine = hg.Executor(backend)
    except hg.BackendUnavailable as error:
        pytest.skip(str(error))
    hg.set_default_executor(mine)
    assert hg.zeros(1).executor is mine
    mine.close()
    again = hg.default_executor()
    assert again is not mine
    assert (again.backend, again.device.info.index) == (mine.backend, mine.device.info.index)
    with pytest.raises(TypeError, match="set_default_executor: an Executor is needed, got str"):
        hg.set_default_executor("cpu")  # type: ignore[arg-type]


def test_the_default_is_the_executor_that_a_name_opened(backend: str) -> None:
    try:
        chosen = hg.Executor()
    except hg.BackendUnavailable as error:
        pytest.skip(str(error))
    name = f"{chosen.backend}:{chosen.device.info.index}"
    chosen.close()
    for first, second in (("named", "default"), ("default", "named")):
        process = Process()
        ways = {"named": lambda p=process: p.on(name), "default": process.current}
        opened = ways[first]()
        assert opened is ways[second]()
        process.default = None
        assert process.current() is opened
        opened.close()
        again = ways[first]()
        assert again.usable
        assert again is ways[second]() is not opened
        again.close()


def test_a_closed_default_is_opened_again_with_its_settings(executor: hg.Executor) -> None:
    process, index = Process(), executor.device.info.index
    try:
        mine = hg.Executor(executor.backend, index, matmul_precision="high", reproducible=True)
    except hg.BackendUnavailable as error:
        pytest.skip(str(error))
    process.default = mine
    assert process.on(executor.backend) is mine  # and not kept as one that the process opened
    assert not process.opened
    mine.close()
    with process.current() as again:
        assert (again.matmul_precision, again.reproducible) == ("high", True)


def test_the_environment_names_the_default(executor: hg.Executor) -> None:
    said = subprocess.run(
        [sys.executable, "-c", "import hologram as hg; print(hg.zeros(1).executor.backend)"],
        env={**os.environ, "HOLOGRAM_BACKEND": executor.backend}, capture_output=True,
        text=True, check=True, timeout=120,
    )  # fmt: skip
    assert said.stdout.split() == [executor.backend]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_opens_its_own() -> None:
    program = (
        "import os, hologram as hg\n"
        "x = hg.arange(3)\n"
        "if os.fork() == 0:\n"
        "    print(hg.sum(hg.arange(4)).item(), flush=True)\n"
        "    os._exit(0)\n"
        "print(os.wait()[1], hg.sum(x).item())"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "HOLOGRAM_BACKEND": "cpu"}, capture_output=True,
        text=True, check=True, timeout=120,
    )  # fmt: skip
    assert said.stdout.split() == ["6", "0", "3"]


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: hg.arange(0, 5, 0), ValueError, "arange: step must not be 0"),
        (
            lambda: hg.arange(300, dtype="u8"),
            hg.UnsupportedDType,
            "arange: u8 cannot hold all of 0, ..., 299",
        ),
        (lambda: hg.arange("5"), TypeError, "arange: start must be a number, got str"),
        (lambda: hg.arange(5, dtype="bool"), hg.UnsupportedDType, "arange: dtype must be one of"),
        (lambda: hg.linspace(0, 1, -1), hg.ShapeError, "linspace: num must be at least 0, got -1"),
        (lambda: hg.linspace(0, 1, 5, dtype="f8e5m2"), hg.UnsupportedDType, "linspace: dtype must be one of"),
        (lambda: hg.eye(-1), hg.ShapeError, "eye: sizes must not be negative"),
        (lambda: hg.eye(2.5), TypeError, "eye: n_rows must be an integer, got 2.5"),
    ],
)
def test_bad_arguments_are_refused(
    make: Any, error: type[Exception], match: str, default: hg.Executor
) -> None:
    with pytest.raises(error, match=match):
        make()
