"""Calls in the forms that the standard and NumPy have for them, where they once gave something else."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg


def test_the_second_argument_of_diff_is_its_order(executor: hg.Executor) -> None:
    x = np.array([[1.0, 4, 9, 16], [0, 1, 8, 27]], np.float32)
    tensor = executor.tensor(x)
    np.testing.assert_array_equal(hg.diff(tensor, 2).to_numpy(), np.diff(x, 2))
    np.testing.assert_array_equal(hg.diff(tensor, 1, 0).to_numpy(), np.diff(x, 1, 0))
    np.testing.assert_array_equal(tensor.diff(2).to_numpy(), np.diff(x, 2))
    np.testing.assert_array_equal(hg.diff(tensor, prepend=tensor[:, :1]).to_numpy()[:, 0], [0, 0])


def test_grids_and_broadcast_arrays_are_lists(executor: hg.Executor) -> None:
    x = executor.tensor(np.arange(3))
    assert type(hg.meshgrid(x, x)) is list
    assert type(hg.broadcast_arrays(x, x[:, None])) is list


@pytest.mark.parametrize("num", [1, 2, 3, 10, 49, 100, 1031])
def test_linspace_has_the_same_numbers_with_and_without_its_end(executor: hg.Executor, num: int) -> None:
    for start, stop in ((0.1, 0.7), (-3.3, 12.9), (5.0, -1.7)):
        without = hg.linspace(executor, start, stop, num, endpoint=False).to_numpy()
        np.testing.assert_array_equal(without, hg.linspace(executor, start, stop, num + 1).to_numpy()[:-1])
        np.testing.assert_allclose(
            without, np.linspace(start, stop, num, endpoint=False), rtol=1e-6, atol=1e-6
        )


def test_numpy_makes_arrays_of_a_tensors_dtype() -> None:
    for dtype in (hg.f32, hg.i8, hg.bool, hg.bf16):
        assert np.empty(2, dtype=dtype).dtype == dtype.numpy


def test_a_mask_of_size_0_picks_nothing(executor: hg.Executor) -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    tensor = executor.tensor(x)
    for shape in ((0,), (0, 2), (3, 0)):
        mask = np.zeros(shape, np.bool_)
        assert tensor[mask].shape == tensor[executor.tensor(mask)].shape == x[mask].shape
        tensor[mask] = 9
    np.testing.assert_array_equal(tensor.to_numpy(), x)
    with pytest.raises(IndexError, match="a mask must have the shape"):
        tensor[np.zeros((2, 0), np.bool_)]


def test_vectors_of_different_lengths_have_no_dot_products(executor: hg.Executor) -> None:
    x, y = executor.tensor(np.ones((3, 1), np.float32)), executor.tensor(np.ones((3, 4), np.float32))
    for namespace in (hg, hg.linalg):
        with pytest.raises(hg.ShapeError, match="of one length"):
            namespace.vecdot(x, y)
        assert namespace.vecdot(x, y, axis=-2).tolist() == [3, 3, 3, 3]  # other axes broadcast


def test_the_namespace_names_the_standards_dtypes_alone(executor: hg.Executor) -> None:
    with hg.use_executor(executor):
        info = hg.__array_namespace_info__()
        names = info.dtypes()
        assert {"bool", "int8", "uint64", "float32", "complex64"} <= set(names)
        assert all(getattr(hg, name) is dtype for name, dtype in names.items())
        assert set(info.dtypes(kind="real floating")) <= {"float32", "float64"}
