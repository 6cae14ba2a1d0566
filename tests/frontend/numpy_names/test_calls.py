"""One call each of most functions that bear NumPy's names, and what both refuse."""

import numpy as np
import pytest

import hologram as hg
from tests.accuracy import flushed
from tests.frontend.numpy_names.alike import CUBE, FLAT, TABLE, WHOLE, alike

GRID = np.array([1, 5, 3])
CALLS = [
    *((n, (FLAT,)) for n in ("cbrt", "degrees", "radians", "fabs", "sinc", "modf", "spacing", "unwrap")),
    *((n, (np.array([1, np.inf, -np.inf, np.nan], np.float32),)) for n in ("isposinf", "isneginf", "cbrt")),
    *((n, (np.array([1, 2j, 0], np.complex64),)) for n in ("isreal", "iscomplex", "conjugate")),
    ("bitwise_count", (np.array([0, 7, -128, 127], np.int8),)),
    ("bitwise_count", (np.array([2**63, 2**64 - 1], np.uint64),)),
    ("heaviside", (np.array([-1, 0, 2, np.nan], np.float32), 0.5)),
    ("logaddexp2", (FLAT, FLAT[::-1].copy())),
    ("float_power", (np.array([2, 4], np.int32), -1)),
    ("ldexp", (FLAT, np.arange(40, dtype=np.int32) - 20)),
    ("ldexp", (np.array([1e-38], np.float32), np.array([250], np.int32))),
    ("ldexp", (np.array([0, 1, -1e-44, np.inf], np.float32), np.array([60000, 400, 277, -9], np.int32))),
    ("ldexp", (np.array([0.0015, 1.5, 3e38, 7e-42], np.float32), np.array([-135, -149, -270, -2], np.int32))),
    ("polyval", (FLAT[:4], TABLE)),
    ("vecmat", (CUBE[0, 0, :3], CUBE)),
    ("matvec", (CUBE, CUBE[0, 0])),
    ("indices", ((2, 3),)),
    ("tril_indices", (4, 1, 3)),
    ("triu_indices", (4, -1)),
    ("diag_indices", (3,)),
    ("unravel_index", (GRID, (2, 3))),
    ("ravel_multi_index", ((GRID % 2, GRID % 3), (2, 3))),
    ("ix_", (GRID, np.array([True, False, True]))),
    ("lexsort", ((WHOLE[0], WHOLE[1]),)),
    ("compress", (np.array([True, False, True, True]), TABLE, 0)),
    ("extract", (TABLE > 0, TABLE)),
    ("select", ([TABLE > 1, TABLE > 0], [TABLE, -TABLE])),
    ("choose", (np.array([0, 1, 0]), [GRID, -GRID])),
    ("choose", (np.array([0, 5, -3]), [GRID, -GRID], None, "wrap")),
    ("choose", (np.array([True, False, True]), [GRID, -GRID])),
    ("choose", (1, [TABLE, -TABLE])),
    ("choose", (np.array([0, 5, -3]), [GRID, -GRID], None, "clip")),
    ("piecewise", (FLAT, [FLAT < 0, FLAT > 1], [np.negative, 7, np.square])),
    ("piecewise", (TABLE, [TABLE < 0], [3])),
    ("piecewise", (FLAT, np.stack([FLAT < 0, FLAT < 1]), [3, 4, np.sin])),
    ("digitize", (np.array([5, 7, 0], np.uint64), np.array([6, 6, 2, 1, 0], np.uint64), True)),
    ("gradient", (TABLE, None, (-1, 0))),
    ("nanvar", (np.array([[1, np.nan, 3], [2, 4, 5]], np.float32), 0, None, 2)),
    ("nanstd", (np.array([[1, np.nan, 3], [2, 4, 5]], np.float32), 0, None, 1)),
    ("append", (TABLE, TABLE[:1], 0)),
    ("delete", (TABLE, [0, -1], 1)),
    ("delete", (FLAT, slice(None, None, 3))),
    ("insert", (FLAT, [2, 5], [1.0, 2.0])),
    ("insert", (TABLE, 1, FLAT[:4], 1)),
    ("resize", (GRID, (2, 4))),
    ("trim_zeros", (np.array([0, 0, 1, 0, 2, 0]),)),
    ("rollaxis", (CUBE, 2)),
    ("dsplit", (CUBE, 2)),
    ("block", ([[TABLE, TABLE], [TABLE * 2, TABLE]],)),
    ("vander", (GRID, 4)),
    ("vander", (GRID, 0)),
    ("vander", (np.array([100, -7], np.int8), 4)),
    ("vander", (np.array([np.inf, 0], np.float32), 3)),
    ("setxor1d", (GRID, np.array([5, 7]))),
    ("array_equiv", (TABLE[:1], TABLE[0])),
    ("sort", (TABLE, None)),
    ("argsort", (TABLE, 0, "stable")),
    ("where", (TABLE > 0,)),
    ("squeeze", (CUBE[:1],)),
    ("cross", (CUBE[0], CUBE[1], 0, 0, 0)),
    ("average", (TABLE, 1, FLAT[:9], True)),
    ("diff", (FLAT, 1, -1, 0, 1)),
    ("ravel", (TABLE, "F")),
    ("full", ((2, 3), GRID)),
]


@pytest.mark.parametrize(("name", "args"), CALLS, ids=[f"{n}-{k}" for k, (n, _) in enumerate(CALLS)])
def test_calls(executor, name, args):
    settings = {}
    if name == "diff":  # operands come before attributes here
        args, settings = args[:1], {"n": 1, "prepend": 0, "append": 1}
    if name in ("sort", "argsort"):
        args, settings = args[:1], {"axis": args[1]} | ({"kind": args[2]} if len(args) > 2 else {})
    if name in ("gradient", "nanvar", "nanstd"):
        args, settings = args[:1], {"axis": args[-1]} if name == "gradient" else {"axis": 0, "ddof": args[-1]}
    if name == "choose" and len(args) > 2:
        args, settings = args[:2], {"mode": args[3]}
    if name == "unwrap":
        args = (args[0] * 5,)
    if not executor.limits.keeps("denormals"):
        args = flushed(args)
    alike(executor, name, *args, rtol=1e-5, **settings)


def test_what_numpy_refuses(executor):
    x = executor.tensor(TABLE)
    for refused in (
        lambda names, x: names.compress([True] * 5, x, axis=0),
        lambda names, x: names.vsplit(x[0], 3),
        lambda names, x: names.sum(x, axis=2),
    ):
        with pytest.raises(Exception) as theirs:
            refused(np, TABLE)
        with pytest.raises(theirs.type):
            refused(hg, x)
    assert hg.compress([True, False, True, True, False], x, axis=0).shape == (3, 9)
