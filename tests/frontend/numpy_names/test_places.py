"""Arguments by place mean what they mean to NumPy, in every function and method that NumPy has too."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.opset.forms.numpys import ALSO, theirs

HOLOGRAM: Any = hg
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
# Called by the kind of what stands there: the side of a search, the order of differences.
BY_KIND = {"diff", "searchsorted", "einsum"}


def _pairs() -> list[tuple[str, Any, Any]]:
    spaces = ((hg, np), (hg.linalg, np.linalg), (hg.fft, np.fft))
    found = [
        (f"{b.__name__}.{name}", getattr(a, name), getattr(b, name))
        for a, b in spaces
        for name in dir(a)
        if not name.startswith("_") and callable(getattr(b, name, None))
    ]
    hg.zeros(1).sum()  # methods are found when one is asked for
    for name in dir(hg.Tensor):
        if not name.startswith("_") and callable(getattr(np.ndarray, name, None)):
            found.append((f"ndarray.{name}", getattr(hg.Tensor, name), getattr(np.ndarray, name)))
    return [
        (name, a, b) for name, a, b in found if not isinstance(b, type) and name.split(".")[-1] not in BY_KIND
    ]


PAIRS = _pairs()


def _by_place(function: Any) -> list[inspect.Parameter]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p for p in inspect.signature(function).parameters.values() if p.kind in kinds]


@pytest.mark.parametrize(("name", "ours", "numpys"), PAIRS, ids=[name for name, *_ in PAIRS])
def test_no_place_means_something_else(name: str, ours: Any, numpys: Any) -> None:
    if isinstance(numpys, np.ufunc):
        known = theirs(numpys.__name__)
    else:
        try:
            known = {p.name: p.default for p in _by_place(numpys)}
        except ValueError:
            pytest.skip("NumPy does not say what it takes")
    own = _by_place(ours)
    for place, (called, default) in enumerate((known or {}).items()):
        if default is not inspect.Parameter.empty and place < len(own):
            assert own[place].name in (called, ALSO.get(called)), f"{name}: place {place}"


def _flagged() -> list[tuple[str, Any, int]]:
    """Functions that keep axes if they are told to, with the places where a flag would be a dtype or an output."""
    found = []
    for name, ours, numpys in PAIRS:
        own = _by_place(ours)
        if not isinstance(numpys, np.ufunc) and "keepdims" in inspect.signature(ours).parameters:
            found += [(name, ours, k) for k, p in enumerate(own) if p.name in ("dtype", "out")]
    return found


FLAGGED = _flagged()


@pytest.mark.parametrize(("name", "ours", "place"), FLAGGED, ids=[f"{n}-{k}" for n, _, k in FLAGGED])
def test_a_flag_at_another_place(executor: hg.Executor, name: str, ours: Any, place: int) -> None:
    given = {
        "axis": 0,
        "q": 0.5,
        "x": executor.tensor(X),
        "a": executor.tensor(X),
        "self": executor.tensor(X),
    }
    args = [given.get(p.name, p.default) for p in _by_place(ours)[:place]]
    with pytest.raises(TypeError, match=r"got True; (write keepdims=True|by name it takes keepdims)"):
        ours(*args, True)


NAMED: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("tile", lambda n, x: n.tile(A=x, reps=2)),
    ("sum", lambda n, x: n.sum(a=x)),
    ("isin", lambda n, x: n.isin(element=x, test_elements=x[0])),
    ("searchsorted", lambda n, x: n.searchsorted(a=x[0, 0], v=x)),
    ("take", lambda n, x: n.take(a=x, indices=n.asarray([0]), axis=0)),
    ("flip", lambda n, x: n.flip(m=x)),
    ("stack", lambda n, x: n.stack(arrays=[x, x])),
    ("broadcast_to", lambda n, x: n.broadcast_to(array=x, shape=(2, 2, 3, 4))),
    ("tensordot", lambda n, x: n.tensordot(a=x, b=x[0].T, axes=1)),
    ("clip", lambda n, x: n.clip(a=x, a_min=1, a_max=2)),
]


@pytest.mark.parametrize(("name", "call"), NAMED, ids=[name for name, _ in NAMED])
def test_operands_by_numpys_names(executor: hg.Executor, name: str, call: Callable[[Any, Any], Any]) -> None:
    with hg.use_executor(executor):
        np.testing.assert_allclose(np.asarray(call(hg, executor.tensor(X))), call(np, X), rtol=1e-6)


CALLS: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("sum", lambda n, x: n.sum(x, 1, np.float32)),
    ("sum of a method", lambda n, x: x.sum(1, None, None, True)),
    ("mean", lambda n, x: n.mean(x, (0, 1), np.float32, None, True)),
    ("prod", lambda n, x: n.prod(x[:, :2, :2], 1, np.float32, None, False, 2.0)),
    ("max", lambda n, x: n.max(x, 1, None, True)),
    ("any", lambda n, x: n.any(x, 2, None, True)),
    ("std", lambda n, x: n.std(x, 0, None, None, 1, True)),
    ("sort", lambda n, x: n.sort(x, 0, "stable")),
    ("argsort", lambda n, x: n.argsort(x, 0, "stable")),
    ("reshape", lambda n, x: n.reshape(x, (4, 6), "F")),
    ("isin", lambda n, x: n.isin(x, x[0], True, True)),
    ("take", lambda n, x: n.take(x, n.asarray([3, 1]))),
    ("take", lambda n, x: n.take(x, n.asarray([3, -1]), 2, None, "wrap")),
    ("diff", lambda n, x: n.diff(x, 2, 1)),
    ("diff", lambda n, x: n.diff(x, 1, 2, 0.0, 1.0)),
    ("searchsorted", lambda n, x: n.searchsorted(x[0, 0], 1.0, "right")),
    ("median", lambda n, x: n.median(x, 1, None, False, True)),
    ("nansum", lambda n, x: n.nansum(x, 1, np.float32, None, True)),
    ("nanvar", lambda n, x: n.nanvar(x, 1, None, None, 1)),
    ("nanmax", lambda n, x: n.nanmax(x, 1, None, True)),
    ("quantile", lambda n, x: n.quantile(x, 0.5, 1, None, False, "lower", True)),
    ("partition", lambda n, x: n.sort(n.partition(x, 1, -1, "introselect", None))),
    ("unravel_index", lambda n, x: n.stack(n.unravel_index(n.asarray([5, 23]), (2, 3, 4), "F"))),
    (
        "ravel_multi_index",
        lambda n, x: n.ravel_multi_index((n.asarray([1, 0]), n.asarray([2, 1])), (2, 3), "raise", "F"),
    ),
    ("ravel A", lambda n, x: n.ravel(x[0].T, "A")),
    ("ravel K", lambda n, x: n.ravel(x.swapaxes(0, 1), "K")),
    ("ptp", lambda n, x: n.ptp(x, 1, None, True)),
    ("choose", lambda n, x: n.choose(n.asarray([0, 3]), [x[0, 0, :2], x[1, 0, :2]], None, "wrap")),
    ("zeros", lambda n, x: n.zeros((2, 3), np.int32)),
    ("full_like", lambda n, x: n.full_like(x, 2, np.int32)),
    ("asarray", lambda n, x: n.asarray([1, 2], np.float32)),
    ("qr", lambda n, x: n.abs(n.linalg.qr(x[0], "r"))),
    ("svd", lambda n, x: n.round(n.linalg.svd(x[0], False, False), 3)),
    ("matrix_rank", lambda n, x: n.linalg.matrix_rank(x[0], 100.0)),
    ("transpose", lambda n, x: x.transpose(2, 0, 1)),
    ("transpose", lambda n, x: x.transpose((1, 0, 2))),
    ("transpose", lambda n, x: x.transpose()),
    ("transpose", lambda n, x: x[0].transpose(1, 0)),
    ("T", lambda n, x: x.T),
    ("T", lambda n, x: x[0, 0].T),
]


@pytest.mark.parametrize(("name", "call"), CALLS, ids=[f"{k}-{name}" for k, (name, _) in enumerate(CALLS)])
def test_calls_by_place(executor: hg.Executor, name: str, call: Callable[[Any, Any], Any]) -> None:
    x = executor.tensor(X)
    with hg.use_executor(executor):
        got, wanted = call(hg, x), call(np, X)
        np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=2e-6, atol=1e-3)
        assert got.shape == np.shape(wanted)
        if name not in ("asarray", "zeros", "full_like"):
            traced = hg.jit(lambda x: call(hg, x))(x)
            np.testing.assert_allclose(np.asarray(traced), np.asarray(wanted), rtol=2e-6, atol=1e-3)


def test_what_is_written_by_place(executor: hg.Executor) -> None:
    x, out = executor.tensor(X), executor.zeros((2, 4))
    assert hg.sum(x, 1, None, out) is out
    np.testing.assert_array_equal(out.to_numpy(), X.sum(1))
    assert hg.add(out, 1.0, out) is out
    np.testing.assert_array_equal(out.to_numpy(), X.sum(1) + 1)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: HOLOGRAM.sum(x, 1, True), "sum: NumPy's dtype .* got True; write keepdims=True"),
        (lambda x: HOLOGRAM.max(x, 1, True), "max: NumPy's out .* got True; write keepdims=True"),
        (lambda x: x.std(1, 1), "std: NumPy's dtype .* got 1; write correction=1"),
        (lambda x: HOLOGRAM.nanvar(x, 1, 1), "var: dtype must be a dtype, got 1; write correction=1"),
        (lambda x: HOLOGRAM.cbrt(x, True), "cbrt: out must be a tensor or an array, got True"),
        (lambda x: HOLOGRAM.cbrt(x, where=x > 0), "cbrt: `where` needs an `out`"),
        (lambda x: HOLOGRAM.partition(x, 1, kind="stable"), "kind must be 'introselect', got 'stable'"),
        (lambda x: x.argpartition(1, kind="q"), "kind must be 'introselect', got 'q'"),
        (lambda x: HOLOGRAM.partition(x, 1, -1, "introselect", "f"), "no fields to sort by"),
        (lambda x: HOLOGRAM.exp(x, True), "exp: NumPy's out .* got True"),
        (
            lambda x: HOLOGRAM.sort(x, 0, None, "name"),
            "no argument 'order'.*by name it takes descending, stable",
        ),
        (lambda x: HOLOGRAM.broadcast_to(x, x.shape, True), "no argument 'subok'"),
        (
            lambda x: HOLOGRAM.argmax(x, 1, None, True),
            "at most 3 arguments by place, got 4; by name it takes keepdims",
        ),
        (lambda x: HOLOGRAM.diff(x, 2, n=1), "each once"),
        (lambda x: HOLOGRAM.searchsorted(x[0, 0], x, "left", None, 3), "each once"),
        (lambda x: x[0].transpose(0, 1), "leave it as it is in NumPy and exchange them in PyTorch"),
    ],
)
def test_what_is_refused_by_place(executor: hg.Executor, call: Callable[[Any], Any], says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        call(executor.tensor(X))
