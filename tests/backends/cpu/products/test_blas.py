"""Matrix products on the pool's threads: every form, what BLAS is told, and its own number of threads."""

from __future__ import annotations

import ctypes
import functools
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from numpy.typing import DTypeLike

from hologram.backends.cpu.image import prepared
from hologram.backends.cpu.kernel import Host
from hologram.backends.cpu.products import blas
from hologram.backends.cpu.products import cut as cutting
from hologram.backends.cpu.products.blas import Library, loaded_library
from hologram.backends.cpu.products.cut import Cut, Product, cut, product_pieces
from hologram.backends.cpu.products.tiles import ProductTile
from hologram.backends.cpu.workers import Pool, shared_pool
from hologram.compiled.machine_code.engine import shared_engine
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.machine.kernel import Binding, Launch
from hologram.machine.layout import Layout
from hologram.machine.plan import Target
from hologram.opset.matmul import linear
from tests.backends.cpu.llvm.launching import device, place

LIBRARY = loaded_library()
pytestmark = pytest.mark.skipif(
    LIBRARY is None, reason="NumPy's BLAS here is not an OpenBLAS with threads of its own"
)
THREADS = 3


@functools.cache
def pool() -> Pool:
    return shared_pool(shared_engine, THREADS)


HOST = Host(shared_engine, pool, THREADS)
FLOATS = [np.float32, np.float64]


def library() -> Library:
    assert LIBRARY is not None
    return LIBRARY


def threads_of_blas(number: int | None = None) -> int:
    """BLAS's own number of threads, after setting it."""
    if number is not None:
        ctypes.CFUNCTYPE(None, ctypes.c_int)(library().addresses["openblas_set_num_threads"])(number)
    return ctypes.CFUNCTYPE(ctypes.c_int)(library().addresses["openblas_get_num_threads"])()


@contextmanager
def blas_at(number: int) -> Iterator[None]:
    before = threads_of_blas()
    threads_of_blas(number)
    try:
        yield
    finally:
        threads_of_blas(before)


def numbers(shape: tuple[int, ...], dtype: DTypeLike, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def lying(array: np.ndarray, how: str) -> np.ndarray:
    """A (batch, rows, columns) array with its values elsewhere in memory."""
    batch, rows, columns = array.shape
    if how == "columns":
        return array.transpose(0, 2, 1).copy().transpose(0, 2, 1)
    if how == "padded":
        wide = np.full((batch, rows + 3, columns + 5), np.nan, array.dtype)
        wide[:, 1 : rows + 1, 2 : columns + 2] = array
        return wide[:, 1 : rows + 1, 2 : columns + 2]
    if how == "rows of a batch":
        return array.transpose(1, 0, 2).copy().transpose(1, 0, 2)
    return array.copy()


def launched(a: np.ndarray, b: np.ndarray, out: np.ndarray, host: Host = HOST) -> Launch:
    pieces = product_pieces(Product.of(a, b, out), host)
    assert pieces is not None
    launch = prepared(pieces, host.pool(), host.engine())
    return lambda: launch([x.ctypes.data for x in (a, b, out)])


def check(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """The product over a poisoned output, within a few roundings of the float64 result."""
    launch = launched(a, b, out)
    wide = [x.astype(np.float64) for x in (a, b)]
    expected = np.matmul(*wide)
    bound = np.matmul(*(abs(x) for x in wide)) * np.finfo(out.dtype).eps * 16
    for _ in range(2):
        out[...] = np.nan
        launch()
        assert (abs(out - expected) <= bound).all()


SIZES = [
    (1, 1, 1, 1), (1, 3, 1, 5), (1, 8, 8, 8), (1, 130, 70, 90), (1, 40, 300, 700), (1, 700, 300, 40),
    (1, 1, 600, 900), (1, 900, 600, 1), (1, 1, 5000, 1), (2, 200, 100, 150), (5, 64, 64, 64), (100, 4, 5, 6),
    (700, 16, 16, 16), (3, 1, 40, 50), (3, 50, 40, 1),
]  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_sizes(sizes: tuple[int, int, int, int], dtype: type) -> None:
    batch, m, k, n = sizes
    check(numbers((batch, m, k), dtype), numbers((batch, k, n), dtype, 1), np.empty((batch, m, n), dtype))


@pytest.mark.parametrize("out", ["rows", "columns", "padded", "rows of a batch"])
@pytest.mark.parametrize("right", ["rows", "columns", "padded"])
@pytest.mark.parametrize("left", ["rows", "columns", "padded", "rows of a batch"])
@pytest.mark.parametrize(
    "sizes", [(2, 70, 65, 130), (2, 130, 65, 70), (1, 90, 50, 1), (1, 1, 50, 90)], ids=str
)
def test_layouts(sizes: tuple[int, int, int, int], left: str, right: str, out: str) -> None:
    batch, m, k, n = sizes
    a, b = numbers((batch, m, k), np.float32), numbers((batch, k, n), np.float32, 1)
    check(lying(a, left), lying(b, right), lying(np.zeros((batch, m, n), np.float32), out))


def test_a_matrix_for_the_whole_batch() -> None:
    a = np.broadcast_to(numbers((1, 60, 50), np.float32), (4, 60, 50))
    check(a, numbers((4, 50, 70), np.float32, 1), np.empty((4, 60, 70), np.float32))


def test_nothing_around_the_output_is_written() -> None:
    a, b = numbers((1, 200, 90), np.float32), numbers((1, 90, 300), np.float32)
    around = np.full((1, 202, 304), np.float32(7))
    launched(a, b, around[:, 1:-1, 2:-2])()
    around[:, 1:-1, 2:-2] = 7
    assert (around == 7).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("sizes", [(150, 80, 90), (150, 80, 1)])
def test_what_is_not_finite_reaches_its_row_alone(value: float, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    a, b = np.ones((1, m, k), np.float32), np.ones((1, k, n), np.float32)
    a[0, 3, 4] = value
    out = np.full((1, m, n), np.nan, np.float32)
    launched(a, b, out)()
    np.testing.assert_array_equal(out[0, 3], value)
    np.testing.assert_array_equal(np.delete(out[0], 3, 0), k)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.zeros((1, 4, 0), np.float32), np.zeros((1, 0, 5), np.float32)),
        (np.zeros((1, 0, 4), np.float32), np.zeros((1, 4, 5), np.float32)),
        (np.zeros((1, 4, 4), np.float16), np.zeros((1, 4, 4), np.float16)),
        (np.zeros((1, 4, 8), np.float32)[:, :, ::2], np.zeros((1, 4, 4), np.float32)),
        (np.zeros((1, 4, 4), np.float32), np.zeros((1, 4, 1), np.float32)[:, ::-1]),
    ],
    ids=["k = 0", "m = 0", "f16", "strided", "backwards"],
)
def test_what_blas_cannot_do_is_refused(a: np.ndarray, b: np.ndarray) -> None:
    out = np.zeros((1, a.shape[1], b.shape[2]), a.dtype)
    assert product_pieces(Product.of(a, b, out), HOST) is None


def test_a_matrix_times_its_transpose_is_left_to_numpy() -> None:
    """It has a call that does half the work."""
    a = numbers((1, 20, 30), np.float32)
    product = Product.of(a, a.transpose(0, 2, 1), np.empty((1, 20, 20), np.float32))
    assert product_pieces(product, HOST) is None


def test_integers_of_32_bits() -> None:
    """A BLAS that has them is refused what they cannot count."""
    found = blas.routines(shared_engine(), library(), np.dtype(np.float32))
    assert found is not None
    narrow = blas.Routines(found.code, found.gate, found.gemm, found.gemv, 2**31 - 1)
    a = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (1, 1, 2**31), (0, 0, 0))
    assert cutting.matrices(cutting.Plane.of(a)) is None
    row = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (1, 2, 4), (0, 2**33, 4))
    product = Product.of(row, np.zeros((1, 4, 3), np.float32), np.zeros((1, 2, 3), np.float32))
    assert cutting.call_of(product, narrow) is None
    assert cutting.call_of(product, found) is not None or library().integer_bits == 32


def test_a_blas_with_integers_of_32_bits_compiles() -> None:
    narrow = Library(library().addresses, 32, 256, None)
    for dtype in FLOATS:
        found = blas.routines(shared_engine(), narrow, np.dtype(dtype))
        assert found is not None
        assert found.largest == 2**31 - 1


def test_another_blas_is_not_taken_for_openblas() -> None:
    assert blas.described(library().owner, "nobodys_{}") is None


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 17, 500])
@pytest.mark.parametrize("m", [1, 7, 64, 1000])
@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("each_ns", [10.0, 1e5, 1e8])
def test_a_cut_covers_every_row_once(batch: int, m: int, threads: int, each_ns: float) -> None:
    found = cut(batch, m, each_ns, threads)
    assert found.total == batch * found.strips
    assert 0 < found.slice <= found.total
    assert (found.strips - 1) * found.height < m <= found.strips * found.height


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((4, 1000, 1e9, 1), Cut(1000, 1, 4, 4)),  # one thread
        ((1, 64, 5500.0, 2), Cut(64, 1, 1, 1)),  # too short to share
        ((1, 1024, 1.4e6, 2), Cut(512, 2, 2, 1)),  # one strip a thread
        ((1, 2048, 2e7, 2), Cut(512, 4, 4, 1)),  # two of many rows
        ((8, 256, 9e4, 2), Cut(256, 1, 8, 1)),  # whole matrices
        ((3, 256, 3e5, 2), Cut(128, 2, 6, 1)),  # a batch that the threads do not divide
        ((1, 128, 44_000.0, 64), Cut(16, 8, 8, 1)),  # threads enough for strips that would be too short
    ],
)
def test_cuts(given: tuple[int, int, float, int], expected: Cut) -> None:
    assert cut(*given) == expected


@pytest.mark.parametrize("threads", [1, 2])
def test_the_users_number_of_threads_is_restored(threads: int) -> None:
    a, b = numbers((1, 300, 300), np.float32), numbers((1, 300, 300), np.float32, 1)
    launch = launched(a, b, np.empty((1, 300, 300), np.float32))
    with blas_at(threads):
        launch()
        assert threads_of_blas() == threads


def test_launches_side_by_side_and_numpy_among_them() -> None:
    a, b = numbers((1, 160, 200), np.float32), numbers((1, 200, 240), np.float32, 1)
    expected = np.matmul(a[0].astype(np.float64), b[0])

    def work(k: int) -> None:
        out = np.empty((1, 160, 240), np.float32)
        launch = launched(a, b, out)
        for _ in range(60):
            out[...] = np.nan
            if k:
                launch()
            else:
                np.matmul(a, b, out=out)
            np.testing.assert_allclose(out[0], expected, atol=1e-3)

    with blas_at(2):
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(work, range(4)))
        assert threads_of_blas() == 2


def test_after_an_interrupt() -> None:
    """The signal is raised when the launch is over, with BLAS as it was."""
    code = """if True:
        import signal, sys
        sys.path.insert(0, sys.argv[1])
        from tests.backends.cpu.products.test_blas import *
        threads_of_blas(2)
        n = 1500
        launch = launched(np.ones((1, n, n)), np.ones((1, n, n)), np.ones((1, n, n)))
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        def stop(*_):
            raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, stop)
        try:
            while True:
                launch()
        except KeyboardInterrupt:
            print("interrupted", threads_of_blas())
    """
    root = os.path.abspath(os.path.join(__file__, *[os.pardir] * 5))
    done = subprocess.run([sys.executable, "-c", code, root], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["interrupted", "2"], done.stderr


def _in_child(launch: Launch, out: np.ndarray, sender: object) -> None:
    out[...] = np.nan
    launch()
    sender.send((out.sum(), threads_of_blas()))  # type: ignore[attr-defined]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child() -> None:
    out = np.empty((1, 200, 200), np.float32)
    launch = launched(np.ones((1, 200, 100), np.float32), np.ones((1, 100, 200), np.float32), out)
    launch()
    receiver, sender = multiprocessing.Pipe(duplex=False)
    with blas_at(2):
        process = multiprocessing.get_context("fork").Process(target=_in_child, args=(launch, out, sender))
        process.start()
        assert receiver.poll(60), "the child must have finished"
        assert receiver.recv() == (100 * 200 * 200, 2)
        process.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_in_the_middle_of_a_launch() -> None:
    """The child restores the number of threads that the launch it has no thread of would have."""
    small = np.empty((1, 90, 90), np.float32)
    launch = launched(np.ones((1, 90, 90), np.float32), np.ones((1, 90, 90), np.float32), small)
    large = launched(np.ones((1, 2000, 2000)), np.ones((1, 2000, 2000)), np.ones((1, 2000, 2000)))
    receiver, sender = multiprocessing.Pipe(duplex=False)
    with blas_at(2), ThreadPoolExecutor(1) as threads:
        process = multiprocessing.get_context("fork").Process(target=_in_child, args=(launch, small, sender))
        running = threads.submit(large)
        while threads_of_blas() == 2 and not running.done():
            pass
        process.start()
        assert receiver.poll(60), "the child must have finished"
        assert receiver.recv() == (90 * 90 * 90, 2)
        process.join()
        running.result()
        assert threads_of_blas() == 2


EPILOGUES = [(9, 20, 41), (300, 64, 80), (80, 64, 300), (1, 500, 700), (700, 500, 1)]


@pytest.mark.parametrize("pooled", [True, False], ids=["pool", "numpy"])
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f64], ids=str)
@pytest.mark.parametrize("sizes", EPILOGUES, ids=str)
def test_with_an_epilogue(sizes: tuple[int, int, int], dtype: DType, pooled: bool) -> None:
    """In one launch with the product, and after NumPy's product where there is no BLAS of ours."""
    m, k, n = sizes
    x, weight, bias = (numbers(s, dtype.numpy, j) for j, s in enumerate(((m, k), (n, k), (n,))))
    cpu = device()
    layouts = [Layout.contiguous(dtype, v.shape) for v in (x, weight, bias)]
    outputs = linear.infer(layouts, {"activation": "tanh"})
    (step,) = linear.plan(layouts, outputs, {"activation": "tanh"}, Target(cpu.limits)).steps
    memories = [place(cpu, v) for v in (x, weight, bias, np.full((m, n), np.nan, dtype.numpy))]
    bindings = [Binding(memories[j], 0, memories[j].nbytes) for j in step.operands]
    kernel = ProductTile(step.kernel, cpu.compile, HOST if pooled else None)  # type: ignore[arg-type]
    launch = kernel.bind(bindings, step.scalars, step.grid)
    expected = np.tanh(x.astype(np.float64) @ weight.T.astype(np.float64) + bias)
    for _ in range(2):
        memories[3].bytes.fill(0xFF)
        launch()
        ours = memories[3].bytes[: m * n * dtype.itemsize].view(dtype.numpy).reshape(m, n)
        np.testing.assert_allclose(ours, expected, atol=2e-4 if dtype is dtypes.f32 else 1e-12)
