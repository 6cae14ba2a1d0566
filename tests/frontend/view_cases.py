"""Calls of public functions that are no declared operations: by name, with arrays that tests make views of.

What follows a comma in a name tells a further case of a function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

import hologram as hg

DRAWN = np.random.default_rng(3)
FLAT = DRAWN.standard_normal(6).astype(np.float32)
TABLE = DRAWN.standard_normal((3, 5)).astype(np.float32)
OTHER = DRAWN.standard_normal((3, 5)).astype(np.float32)
CUBE = DRAWN.standard_normal((2, 3, 4)).astype(np.float32)
POSITIVE = np.abs(TABLE) + np.float32(0.5)
HOLES = np.where(TABLE > 1, np.float32(np.nan), TABLE)
WHOLE = DRAWN.integers(0, 9, (3, 5)).astype(np.int32)
WORDS = DRAWN.integers(0, 9, 6).astype(np.int32)
ORDERED = np.sort(FLAT)
COMPLEX = (DRAWN.standard_normal((3, 4)) + 1j * DRAWN.standard_normal((3, 4))).astype(np.complex64)
MASK = TABLE > 0
PICKED = np.array([2, 0, 1, 2], np.int32)
SEGMENTS = np.array([0, 2, 0, 1, 1, 2], np.int32)
SQUARE = (DRAWN.standard_normal((4, 4)) / 4 + 2 * np.eye(4)[::-1]).astype(np.float32)
DEFINITE = (SQUARE @ SQUARE.T + np.eye(4)).astype(np.float32)
TALL = DRAWN.standard_normal((5, 3)).astype(np.float32)
SIDES = DRAWN.standard_normal((4, 2)).astype(np.float32)
TWO = np.array(2.0, np.float32)
ONE = np.array(1, np.int32)
YES = np.array(True)
KEY = np.array([[1, 2], [3, 4], [5, 6]], np.uint64)[1]


@dataclass(frozen=True)
class Given:
    """Arguments of a call; `function` is what is called where it is not what the case is named after.

    It may write to its first argument, which then is its result.
    """

    arguments: tuple[Any, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    function: Callable[..., Any] | None = None
    writes: bool = False


def given(*arguments: Any, **settings: Any) -> Given:
    return Given(arguments, settings)


def by(function: Callable[..., Any], *arguments: Any) -> Given:
    return Given(arguments, {}, function)


def function_of(name: str) -> Callable[..., Any]:
    """What is public under a name with dots."""
    return reduce(getattr, name.partition(",")[0].split("."), hg)


def writing(call: Callable[..., Any], *arguments: Any) -> Given:
    """What a call makes of its first argument."""

    def run(x: Any, *rest: Any) -> Any:
        call(x, *rest)
        return x

    return Given(arguments, {}, run, writes=True)


ELEMENTWISE = {
    "allclose": given(TABLE, TABLE),
    "bitwise_count": given(WHOLE),
    "cbrt": given(TABLE),
    "deg2rad": given(TABLE),
    "degrees": given(TABLE),
    "divmod": given(WHOLE, WHOLE + 1),
    "fabs": given(TABLE),
    "rint": given(TABLE),
    "float_power": given(POSITIVE, TABLE),
    "frexp": given(TABLE),
    "heaviside": given(TABLE, OTHER),
    "imag": given(COMPLEX),
    "isclose": given(TABLE, OTHER, 0.5),
    "iscomplex": given(COMPLEX),
    "isneginf": given(TABLE),
    "isposinf": given(TABLE),
    "isreal": given(COMPLEX),
    "ldexp": given(TABLE, WHOLE),
    "logaddexp2": given(TABLE, OTHER),
    "modf": given(TABLE),
    "nan_to_num": given(HOLES),
    "polyval": given(FLAT, TABLE),
    "rad2deg": given(TABLE),
    "radians": given(TABLE),
    "real": given(COMPLEX),
    "real_if_close": given(COMPLEX),
    "sinc": given(TABLE),
    "spacing": given(TABLE),
    "unwrap": given(TABLE),
}

SHAPES = {
    "append": given(TABLE, OTHER[:1], axis=0),
    "array_split": given(TABLE, 2, axis=1),
    "atleast_1d": given(TWO, FLAT),
    "atleast_2d": given(FLAT),
    "atleast_3d": given(TABLE),
    "block": given([[TABLE, OTHER], [OTHER, TABLE]]),
    "broadcast_arrays": given(TABLE, OTHER[0]),
    "column_stack": given([FLAT, FLAT * 2]),
    "delete": given(TABLE, [1, 3], axis=1),
    "diag": given(FLAT),
    "diag, of a matrix": given(SQUARE, 1),
    "diagflat": given(FLAT),
    "diagonal": given(CUBE, 1, 1, 2),
    "dsplit": given(CUBE, 2),
    "dstack": given([TABLE, OTHER]),
    "dynamic_slice": given(TABLE, (ONE, ONE), (2, 3)),
    "dynamic_update_slice": given(TABLE, OTHER[:2, :3], (ONE, ONE)),
    "ediff1d": given(FLAT, FLAT[:2]),
    "fliplr": given(TABLE),
    "flipud": given(TABLE),
    "hsplit": given(TABLE, [1, 3]),
    "hstack": given([TABLE, OTHER]),
    "insert": given(TABLE, 1, OTHER[:, 0], axis=1),
    "ix_": given(PICKED, PICKED[:2]),
    "meshgrid": given(FLAT, ORDERED),
    "pad": given(TABLE, 2, "reflect"),
    "ravel": given(TABLE),
    "resize": given(TABLE, (4, 6)),
    "rollaxis": given(CUBE, 2),
    "rot90": given(TABLE),
    "split": given(TABLE, [1, 2]),
    "swapaxes": given(CUBE, 0, 2),
    "trim_zeros": given(np.array([0, 0, 1, 2, 0, 3, 0], np.float32)),
    "unstack": given(CUBE, axis=1),
    "vander": given(FLAT, 3),
    "vsplit": given(TABLE, [1]),
    "vstack": given([TABLE, OTHER]),
}

POSITIONS = {
    "argpartition": by(lambda x: hg.take_along_axis(x, hg.argpartition(x, 2), -1)[:, 2], TABLE),
    "argwhere": given(MASK),
    "choose": given(WHOLE % 3, [TABLE, OTHER, OTHER * 2]),
    "compress": given(MASK[:, 0], TABLE, axis=0),
    "digitize": given(TABLE, ORDERED),
    "extract": given(MASK, TABLE),
    "flatnonzero": given(MASK),
    "lexsort": given([WORDS, FLAT]),
    "nanargmax": given(HOLES, axis=1),
    "nanargmin": given(HOLES, axis=1),
    "nonzero": given(WHOLE),
    "partition": by(lambda x: hg.partition(x, 2)[:, 2], TABLE),
    "piecewise": given(TABLE, [MASK], [lambda x: x * 2, lambda x: -x]),
    "put_along_axis": writing(
        lambda x, at, v: hg.put_along_axis(x, at, v, 1), TABLE, WHOLE[:, :1] % 5, OTHER[:, :1]
    ),
    "ravel_multi_index": given((PICKED, PICKED), (3, 3)),
    "scatter_mean": given(FLAT, PICKED, ORDERED[:4], dim=0),
    "select": given([MASK, TABLE > 1], [TABLE, OTHER]),
    "unravel_index": given(WHOLE, (3, 4)),
}

SETS = {
    "array_equal": given(TABLE, TABLE),
    "array_equiv": given(TABLE, TABLE),
    "intersect1d": given(WORDS, WHOLE),
    "setdiff1d": given(WORDS, PICKED),
    "setxor1d": given(WORDS, PICKED),
    "union1d": given(WORDS, PICKED),
    "unique": given(WHOLE, return_index=True, return_inverse=True, return_counts=True),
    "unique, of rows": given(WHOLE % 2, axis=0),
    "unique_all": given(WHOLE),
    "unique_counts": given(WHOLE),
    "unique_inverse": given(WHOLE),
    "unique_values": given(WHOLE),
}

STATISTICS = {
    "apply_along_axis": given(lambda row: hg.sum(row * row), 1, TABLE),
    "average": given(TABLE, 1, POSITIVE),
    "bincount": given(WORDS, FLAT),
    "convolve": given(FLAT, ORDERED[:3]),
    "convolve, by fft": given(FLAT, ORDERED[:3], method="fft"),
    "corrcoef": given(TABLE, OTHER),
    "correlate": given(FLAT, ORDERED[:3], "same"),
    "cov": given(TABLE, OTHER),
    "gradient": given(TABLE),
    "gradient, at places": given(FLAT, ORDERED),
    "histogram": given(TABLE, ORDERED, weights=POSITIVE),
    "histogram2d": given(FLAT, ORDERED, 3),
    "histogram_bin_edges": given(TABLE),
    "histogramdd": given(TALL, 2),
    "interp": given(TABLE, ORDERED, FLAT),
    "median": given(TABLE, 1),
    "nancumprod": given(HOLES, 1),
    "nancumsum": given(HOLES, 1),
    "nanmax": given(HOLES, 1),
    "nanmean": given(HOLES, 1),
    "nanmedian": given(HOLES, 1),
    "nanmin": given(HOLES, 1),
    "nanpercentile": given(HOLES, 30.0, 1),
    "nanprod": given(HOLES, 1),
    "nanquantile": given(HOLES, 0.3, 1),
    "nanstd": given(HOLES, 1),
    "nansum": given(HOLES, 1),
    "nanvar": given(HOLES, 1),
    "percentile": given(TABLE, np.array([10.0, 50.0], np.float32), 1),
    "ptp": given(TABLE, 1),
    "quantile": given(TABLE, np.array([0.1, 0.5], np.float32), 1),
    "segment_max": given(FLAT, SEGMENTS, 3),
    "segment_mean": given(FLAT, SEGMENTS, 3),
    "segment_min": given(FLAT, SEGMENTS, 3),
    "segment_prod": given(FLAT, SEGMENTS, 3),
    "segment_sum": given(FLAT, SEGMENTS),
    "trace": given(CUBE),
    "trapezoid": given(TABLE, OTHER),
}

PRODUCTS = {
    "cross": given(TALL, TALL[::-1].copy()),
    "inner": given(TABLE, OTHER),
    "kron": given(TABLE, SQUARE),
    "matvec": given(TABLE, TABLE[0]),
    "outer": given(FLAT, ORDERED),
    "vdot": given(COMPLEX, COMPLEX),
    "vecmat": given(TABLE[:, 0], TABLE),
}

MADE = {
    "array": given(TABLE),
    "asarray": given(TABLE, dtype="f16"),
    "astype": given(TABLE, "i32"),
    "empty_like": by(lambda x: hg.empty_like(x).shape, TABLE),
    "from_dlpack": given(TABLE),
    "full": given((2,), TWO),
    "full_like": given(TABLE, 3),
    "geomspace": given(POSITIVE[0], POSITIVE[1], 4),
    "iscomplexobj": given(COMPLEX),
    "isrealobj": given(COMPLEX),
    "linspace": given(FLAT, ORDERED, 4),
    "logspace": given(FLAT, ORDERED, 4),
    "may_share_memory": given(TABLE, OTHER),
    "ones_like": given(TABLE),
    "result_type": given(TABLE, WHOLE),
    "zeros_like": given(TABLE),
}

LINALG = {
    "linalg.cholesky": given(DEFINITE),
    "linalg.cholesky_solve": given(np.linalg.cholesky(DEFINITE), SIDES),
    "linalg.cond": given(SQUARE),
    "linalg.cross": given(TALL, TALL[::-1].copy()),
    "linalg.det": given(SQUARE),
    "linalg.diagonal": given(CUBE),
    "linalg.eig": by(lambda x: hg.linalg.eig(x).eigenvalues, DEFINITE),
    "linalg.eigh": by(lambda x: hg.linalg.eigh(x).eigenvalues, DEFINITE),
    "linalg.eigvals": given(DEFINITE),
    "linalg.eigvalsh": given(DEFINITE),
    "linalg.expm": given(SQUARE),
    "linalg.inv": given(SQUARE),
    "linalg.lstsq": by(lambda a, b: hg.linalg.lstsq(a, b).x, TALL, TALL[:, :1] + 1),
    "linalg.lu_factor": given(SQUARE),
    "linalg.matmul": given(TABLE, TALL),
    "linalg.matrix_norm": given(TABLE),
    "linalg.matrix_power": given(SQUARE, 3),
    "linalg.matrix_rank": given(SQUARE),
    "linalg.matrix_transpose": given(CUBE),
    "linalg.multi_dot": given([TABLE, TALL, TABLE]),
    "linalg.norm": given(TABLE, axis=1),
    "linalg.outer": given(FLAT, ORDERED),
    "linalg.pinv": given(TALL),
    "linalg.qr": by(lambda x: hg.linalg.qr(x).R, TALL),
    "linalg.slogdet": given(SQUARE),
    "linalg.solve": given(SQUARE, SIDES),
    "linalg.solve_triangular": given(DEFINITE, SIDES),
    "linalg.svd": by(lambda x: hg.linalg.svd(x).S, TALL),
    "linalg.svdvals": given(TALL),
    "linalg.tensordot": given(CUBE, CUBE, axes=((0, 1), (0, 1))),
    "linalg.tensorinv": given(SQUARE.reshape(2, 2, 4), ind=2),
    "linalg.tensorsolve": given(SQUARE.reshape(2, 2, 4), SIDES[:, 0].reshape(2, 2)),
    "linalg.trace": given(CUBE),
    "linalg.vecdot": given(TABLE, OTHER),
    "linalg.vector_norm": given(TABLE, axis=1),
}

FFT = {
    "fft.fft": given(COMPLEX),
    "fft.fft2": given(COMPLEX),
    "fft.fftn": given(COMPLEX),
    "fft.fftshift": given(TABLE),
    "fft.hfft": given(COMPLEX),
    "fft.ifft": given(COMPLEX, axis=0),
    "fft.ifft2": given(COMPLEX),
    "fft.ifftn": given(COMPLEX),
    "fft.ifftshift": given(TABLE),
    "fft.ihfft": given(TABLE),
    "fft.irfft": given(COMPLEX),
    "fft.irfft2": given(COMPLEX),
    "fft.irfftn": given(COMPLEX),
    "fft.rfft": given(TABLE),
    "fft.rfft, of eight": given(np.tile(FLAT, 4).reshape(3, 8)),
    "fft.rfft2": given(TABLE),
    "fft.rfftn": given(TABLE, axes=(0,)),
}

RANDOM = {
    "random.bernoulli": given(KEY, POSITIVE / 4),
    "random.beta": given(KEY, POSITIVE, POSITIVE),
    "random.binomial": given(KEY, WHOLE + 1, POSITIVE / 4),
    "random.bits": given(KEY, (5,)),
    "random.categorical": given(KEY, TABLE),
    "random.cauchy": given(KEY, (5,)),
    "random.choice": given(KEY, TABLE, (2,), p=np.array([0.2, 0.3, 0.5], np.float32)),
    "random.dirichlet": given(KEY, POSITIVE),
    "random.exponential": given(KEY, (5,)),
    "random.fold_in": given(KEY, ONE),
    "random.gamma": given(KEY, POSITIVE),
    "random.gumbel": given(KEY, (5,)),
    "random.key": given(ONE),
    "random.laplace": given(KEY, (5,)),
    "random.logistic": given(KEY, (5,)),
    "random.normal": given(KEY, (5,)),
    "random.permutation": given(KEY, TABLE, 1, True),
    "random.poisson": given(KEY, POSITIVE),
    "random.rademacher": given(KEY, (5,)),
    "random.randint": given(KEY, (3, 5), WHOLE, WHOLE + 7),
    "random.split": given(KEY, 3),
    "random.truncated_normal": given(KEY, TABLE, TABLE + 1),
    "random.uniform": given(KEY, (3, 5), minval=TABLE, maxval=TABLE + 1),
}

CASES: dict[str, Given] = {
    **ELEMENTWISE, **SHAPES, **POSITIONS, **SETS, **STATISTICS, **PRODUCTS, **MADE, **LINALG, **FFT, **RANDOM,
}  # fmt: skip
