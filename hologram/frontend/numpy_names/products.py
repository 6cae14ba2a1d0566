"""Products by NumPy's rules, and comparisons of whole arrays."""

from __future__ import annotations

from typing import Any

from hologram.foundation.errors import ShapeError
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.inside import Inside
from hologram.frontend.linear_algebra import products
from hologram.frontend.numpy_names.operands import beside, written
from hologram.frontend.numpy_names.shapes import ravel
from hologram.frontend.tensor import Tensor
from hologram.machine.arguments import number
from hologram.machine.axes import broadcast
from hologram.opset import arrange, contraction, logic, matmul
from hologram.opset.complex_numbers import conjugated
from hologram.runtime.memory.view import overlaps


def outer(a: Any, b: Any, out: Any = None) -> Tensor:
    """The products of each element of one with each of another, both flat."""
    x, y = beside(a, b)
    return written(ravel(x)[:, None] * ravel(y)[None, :], out, "outer")


def inner(a: Any, b: Any) -> Tensor:
    """Sums of products over the last axes."""
    x, y = beside(a, b)
    if not (x.ndim and y.ndim):
        return x * y
    return contraction.tensordot(x, y, axes=((x.ndim - 1,), (y.ndim - 1,)))


def vdot(a: Any, b: Any) -> Tensor:
    """The sum of products of the elements in order, whatever the shapes; the first's are conjugated."""
    x, y = beside(a, b)
    return matmul.matmul(ravel(conjugated(x)), ravel(y))


def kron(a: Any, b: Any) -> Tensor:
    """Kronecker's product: each element of the first times all of the second."""
    return products.kron(a, b)


def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Tensor:
    """The vector products along an axis of size 3, by default the last; see hg.linalg.cross.

    The axis of the first, of the second and of the result, unless `axis` is that of all.
    """
    if axis is not None:
        return products.cross(a, b, axis=axis)
    x, y = beside(a, b)
    if (axisa, axisb, axisc) == (-1, -1, -1):
        return products.cross(x, y, axis=-1)
    x, y = (
        arrange.moveaxis(x, source=axisa, destination=-1),
        arrange.moveaxis(y, source=axisb, destination=-1),
    )
    return arrange.moveaxis(products.cross(x, y, axis=-1), source=-1, destination=axisc)


def matvec(x1: Any, x2: Any, out: Any = None) -> Tensor:
    """Products of matrices (..., m, n) with vectors (..., n)."""
    x, y = beside(x1, x2)
    vector = x.ndim == 2 and y.ndim == 1
    found = matmul.matvec(x, y) if vector else matmul.matmul(x, y[..., None])[..., 0]
    return written(found, out, "matvec")


def vecmat(x1: Any, x2: Any, out: Any = None) -> Tensor:
    """Products of vectors (..., m), conjugated, with matrices (..., m, n)."""
    x, y = beside(x1, x2)
    return written(matmul.matmul(conjugated(x)[..., None, :], y)[..., 0, :], out, "vecmat")


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Whether |a - b| <= atol + rtol |b|; infinities are close to themselves."""
    x, y = beside(a, b)
    rtol, atol = number(rtol, "isclose: rtol"), number(atol, "isclose: atol")
    if not (x.dtype.is_inexact or y.dtype.is_inexact):
        x, y = x.astype("f32"), y.astype("f32")
    finite = logic.isfinite(y) if y.dtype.is_inexact else logic.equal(y, y)
    near = logic.logical_and(logic.less_equal((x - y).abs(), atol + rtol * y.abs()), finite)
    close = logic.where(finite, near, logic.equal(x, y))
    if not equal_nan:
        return close
    return logic.logical_or(close, logic.logical_and(logic.not_equal(x, x), logic.not_equal(y, y)))


def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether isclose holds for all elements; waits."""
    return bool(isclose(a, b, rtol, atol, equal_nan).all().item())


def array_equiv(a1: Any, a2: Any) -> bool:
    """Whether the elements are equal where the shapes broadcast, and they do; waits."""
    x, y = beside(a1, a2)
    try:
        broadcast([x.shape, y.shape], "array_equiv")
    except ShapeError:
        return False
    return bool(logic.equal(x, y).all().item())


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Whether both have one shape and equal elements; waits."""
    x, y = beside(a1, a2)
    if x.shape != y.shape:
        return False
    same = logic.equal(x, y)
    if equal_nan:
        same = logic.logical_or(same, logic.logical_and(logic.not_equal(x, x), logic.not_equal(y, y)))
    return bool(same.all().item())


def may_share_memory(a: Any, b: Any, max_work: int | None = None) -> bool:
    """Whether the ranges of memory that two arrays lie in meet, or in a trace, whether both are views of one tensor.

    `max_work` is NumPy's, and means nothing here.
    """
    if isinstance(a, Inside) or isinstance(b, Inside):
        return isinstance(a, Tensor) and isinstance(b, Tensor) and a.buffer is b.buffer
    executor = next((x.executor for x in (a, b) if isinstance(x, Tensor)), None)
    try:
        x, y = (asarray(x, device=None if isinstance(x, Tensor) else executor, copy=False) for x in (a, b))
    except ValueError:  # the device reads no memory of the host
        return False
    return x.executor is y.executor and overlaps(x, y)
