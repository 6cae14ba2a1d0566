"""Indexing with arrays of positions and masks: NumPy's rules, in and outside of a trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from tests.needs import needs

X = np.arange(120).reshape(4, 5, 6)
ROWS, COLUMNS = np.array([3, 0, -1]), np.array([[1], [-2]])
FLAT, PLANE, WHOLE = X[:, 0, 0] % 40 > 0, X[:, :, 0] % 4 == 2, X % 3 == 0
INDICES: dict[str, Any] = {
    "positions": ROWS,
    "a list": [2, 2, 0],
    "an empty list": [],
    "no axes": (slice(1, 3), np.array(2)),
    "narrow positions": (Ellipsis, ROWS.astype(np.int8)),
    "unsigned positions": (Ellipsis, np.array([[0, 5], [4, 4]], np.uint16)),
    "broadcast": (ROWS, COLUMNS),
    "broadcast, narrow": (ROWS.astype(np.int16), COLUMNS.astype(np.int32)),
    "broadcast apart": (ROWS, slice(None, None, -2), COLUMNS),
    "with an integer before": (-2, ROWS),
    "with an integer apart": (1, slice(None), ROWS),
    "with an integer behind": (slice(None), ROWS, 1),
    "with None between": (ROWS, None, ROWS),
    "with an ellipsis": (Ellipsis, ROWS, slice(1, 5, 2)),
    "every axis": (ROWS, ROWS, ROWS),
    "a mask of an axis": FLAT,
    "a mask behind": (slice(None), PLANE[0]),
    "a mask of two axes": PLANE,
    "a mask of two axes behind": (slice(2, None), WHOLE[0]),
    "a mask of all": WHOLE,
    "a mask of nothing": WHOLE & False,
    "a mask beside positions": (FLAT, slice(None), ROWS),
    "a mask without axes": (True, ROWS),
    "no mask": False,
}


def there(executor: hg.Executor, index: Any) -> Any:
    """The index with every array on the device."""
    if isinstance(index, tuple):
        return tuple(there(executor, item) for item in index)
    return executor.tensor(index) if isinstance(index, np.ndarray) else index


def views(executor: hg.Executor, values: np.ndarray) -> list[hg.Tensor]:
    """The values as they lie, and in views with other strides."""
    wide = np.zeros((*values.shape[:-1], 2 * values.shape[-1]), values.dtype)
    wide[..., ::-2] = values
    turned = executor.tensor(values.transpose(2, 0, 1).copy()).permute(1, 2, 0)
    return [executor.tensor(values), executor.tensor(wide)[..., ::-2], turned]


@pytest.mark.parametrize("name", INDICES)
def test_reading(name: str, executor: hg.Executor) -> None:
    index = INDICES[name]
    for x in views(executor, X.astype(np.float32)):
        for given in (index, there(executor, index)):
            np.testing.assert_array_equal(x[given].to_numpy(), X[index].astype(np.float32), strict=True)


@pytest.mark.parametrize("name", INDICES)
def test_assigning(name: str, executor: hg.Executor) -> None:
    index = INDICES[name]
    picked = X[index]
    for value in (7, -np.arange(picked.size).reshape(picked.shape), -np.arange(6) if picked.ndim > 1 else 3):
        places = np.arange(X.size).reshape(X.shape)[index]
        if np.shape(value) and (
            len(np.unique(places)) < places.size or np.shape(value)[-1] != picked.shape[-1]
        ):
            continue  # whichever of the values for one place is written
        want = X.astype(np.float32)
        want[index] = value
        for x in views(executor, X.astype(np.float32)):
            x[there(executor, index)] = value
            np.testing.assert_array_equal(x.to_numpy(), want)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=repr)
def test_every_dtype(dtype: DType, executor: hg.Executor) -> None:
    needs(executor, dtype)
    values = (np.arange(35).reshape(5, 7) % 2).astype(dtype.numpy)
    x, positions = executor.tensor(values), executor.tensor(np.array([4, 0]))
    np.testing.assert_array_equal(x[positions].to_numpy(), values[[4, 0]], strict=True)
    ones = values.astype(bool)
    np.testing.assert_array_equal(x[executor.tensor(ones)].to_numpy(), values[ones], strict=True)
    x[positions, 1:3] = np.zeros((2, 2), dtype.numpy)
    x[executor.tensor(values == 0)] = 1
    values[[4, 0], 1:3] = 0
    values[np.arange(35).reshape(5, 7) % 2 == 0] = 1
    np.testing.assert_array_equal(x.to_numpy(), values)


@pytest.mark.parametrize("name", INDICES)
def test_in_a_trace(name: str, executor: hg.Executor) -> None:
    index = INDICES[name]
    x = executor.tensor(X.astype(np.float32))
    items = index if isinstance(index, tuple) else (index,)
    arrays = [item for item in items if isinstance(item, np.ndarray)]

    def given(passed: Any) -> Any:
        """The index with its arrays as they are passed."""
        rest = iter(passed)
        found = tuple(next(rest) if isinstance(item, np.ndarray) else item for item in items)
        return found if isinstance(index, tuple) else found[0]

    def written(x: hg.Tensor, passed: Any) -> Any:
        y = x * 1
        y[given(passed)] = 7
        return y

    want = X.astype(np.float32)
    want[index] = 7
    reading = hg.jit(lambda x, passed: x[given(passed)])
    np.testing.assert_array_equal(hg.jit(lambda x: x[given(arrays)] + 0)(x).to_numpy(), X[index])  # constants
    np.testing.assert_array_equal(hg.jit(lambda x: written(x, arrays))(x).to_numpy(), want)
    passed = [executor.tensor(a) for a in arrays]
    if not any(a.dtype == bool for a in arrays):
        np.testing.assert_array_equal(reading(x, passed).to_numpy(), X[index])
    else:
        with pytest.raises(hg.TraceError, match=r"how many elements it picks is not known.*hg.where"):
            reading(x, passed)
    if not any(a.dtype == bool for a in arrays) or len(items) == 1:
        np.testing.assert_array_equal(hg.jit(written)(x, passed).to_numpy(), want)


def test_positions_out_of_range(executor: hg.Executor) -> None:
    x = executor.tensor(X)
    for index in ([4], [-5, 0], ([0, 1], [0, 5]), (slice(None), np.array(5)), np.array([2**40])):
        given = (
            tuple(map(np.asarray, index)) if isinstance(index, tuple) and index[0] != slice(None) else index
        )
        for each in (given, there(executor, given if isinstance(given, tuple) else np.asarray(given))):
            with pytest.raises(IndexError, match=r"position|select"):
                x[each]
            with pytest.raises(IndexError, match=r"position|select"):
                x[each] = 1
    np.testing.assert_array_equal(x.to_numpy(), X)
    rows, columns = executor.tensor([0, 9, 2]), executor.tensor([1, 1, -6])

    @hg.jit
    def traced(x: hg.Tensor, rows: hg.Tensor, columns: hg.Tensor) -> Any:
        y = x * 1
        y[rows, columns] = -1
        return x[rows, columns], y

    found, written = traced(x, rows, columns)
    want = X.copy()
    want[0, 1] = -1
    np.testing.assert_array_equal(found.to_numpy(), [X[0, 1], np.zeros(6), np.zeros(6)])
    np.testing.assert_array_equal(written.to_numpy(), want)


def test_assigning_in_place_and_from_itself(executor: hg.Executor) -> None:
    x, want = executor.tensor(X), X.copy()
    positions = executor.tensor([3, 1])
    x[positions] += 1000
    want[[3, 1]] += 1000
    x[positions] = x[:2]
    want[[3, 1]] = want[:2].copy()
    x[[0, 1, 2, 3]] = x[::-1]
    want[[0, 1, 2, 3]] = want[::-1].copy()
    x[x > 900] = executor.tensor(np.float32(2.9))  # converted, as in NumPy
    want[want > 900] = 2
    np.testing.assert_array_equal(x.to_numpy(), want)


@pytest.mark.parametrize(
    ("index", "error", "match"),
    [
        (np.zeros(4, bool)[:3], IndexError, "a mask must have the shape"),
        ((np.zeros((4, 6), bool)), IndexError, "a mask must have the shape"),
        (([0, 1], [0, 1, 2]), IndexError, "must broadcast"),
        (([0], [0], [0], [0]), IndexError, "too many indices"),
        ((Ellipsis, [0], Ellipsis), IndexError, "one ellipsis"),
        (np.array([0.0, 1.0]), TypeError, "integers or bools, got float64"),
        ("a", TypeError, "indexed with integers"),
    ],
)
def test_what_is_no_index(index: Any, error: type[Exception], match: str, executor: hg.Executor) -> None:
    with pytest.raises(error, match=match):
        executor.tensor(X)[index]
    with pytest.raises(error, match=match):
        executor.tensor(X)[index] = 0


def test_values_must_fit(executor: hg.Executor) -> None:
    x = executor.tensor(X)
    with pytest.raises(hg.ShapeError, match="expand"):
        x[[0, 1]] = np.zeros((3, 5, 6))
    with pytest.raises(hg.ShapeError, match="expand"):
        x[x > 5] = np.zeros(7)
    with pytest.raises(hg.UnsupportedDType, match="cannot hold"):
        x[[0, 1]] = 0.5
    with pytest.raises(hg.TraceError, match="closes over"):
        hg.jit(lambda t: x.__setitem__([0, 1], t))(x[0, 0])
