"""What NumPy and the array API ask of a tensor, and methods that NumPy's arrays have under other names."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from hologram.foundation import dtypes, lazy
from hologram.foundation.display import called_by_name
from hologram.foundation.errors import UnsupportedDType
from hologram.machine.arguments import memory_order, without_fields

if TYPE_CHECKING:
    from hologram.frontend import updates
    from hologram.frontend.array_api import numpy_functions
else:  # not needed to compute
    updates = lazy.module("hologram.frontend.updates")
    numpy_functions = lazy.module("hologram.frontend.array_api.numpy_functions")

ARRAY_API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


@called_by_name
class ArrayProtocol:
    """The methods of Tensor by which NumPy's functions, and libraries of the array API, find hologram's."""

    __slots__ = ()
    __array_priority__ = 1000

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The module `hologram`, which has the array API's functions."""
        if api_version not in (None, *ARRAY_API_VERSIONS):
            raise ValueError(
                f"the array API's versions are {', '.join(ARRAY_API_VERSIONS)}, got {api_version!r}"
            )
        return sys.modules["hologram"]  # which stands above

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **settings: Any) -> Any:
        return numpy_functions.of_ufunc(self, ufunc, method, *inputs, **settings)

    def __array_function__(
        self, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        return numpy_functions.of_function(function, args, kwargs)

    # By NumPy's and JAX's names.

    @property
    def at(self) -> updates.Updates:
        """`x.at[index].set(value)`, and `add, multiply, min, max, ...`: copies with that part changed."""
        return updates.Updates(self)

    def copy(self: Any) -> Any:
        """A contiguous copy: clone()."""
        return self.clone()

    def ravel(self: Any, order: str | None = "C") -> Any:
        """The elements along one axis, row by row or in another order: a view where that can be; see hg.ravel."""
        return self.reshape(self.size) if order == "C" else self.__array_namespace__().ravel(self, order)

    def flatten(self: Any, order: str | None = "C") -> Any:
        """A copy of the elements along one axis; see ravel."""
        return self.ravel(order).clone()

    def sort(
        self: Any, axis: int = -1, kind: Any = None, order: Any = None, *, descending: bool = False,
        stable: bool | None = None,
    ) -> None:  # fmt: skip
        """Puts the elements in order along an axis, in place, as NumPy's method does; hg.sort gives a copy.

        There is one `kind`, which is stable.
        """
        without_fields("sort", order)
        if axis is None:
            raise TypeError(
                "sort: axis must be an integer in place, got None; hg.sort(x, None) sorts the flat copy"
            )
        self[...] = self.__array_namespace__().sort(self, axis=axis, kind=kind, descending=descending)

    def partition(self: Any, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
        """Puts the elements in order along an axis, in place; see hg.partition."""
        self[...] = self.__array_namespace__().partition(self, kth, axis, kind, order)

    def argpartition(
        self: Any, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None
    ) -> Any:
        """The positions (i64) that partition puts elements at."""
        return self.__array_namespace__().argpartition(self, kth, axis, kind, order)

    def fill(self: Any, value: bool | int | float) -> None:
        """Every element becomes a number."""
        self[...] = value

    def conjugate(self: Any) -> Any:
        """Complex conjugates; of real numbers a copy."""
        return self.conj()

    def nonzero(self) -> Any:
        """The positions (i64) of the elements that are not 0, a tensor for each axis; waits."""
        return self.__array_namespace__().nonzero(self)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        """The diagonals along the last axis, a view."""
        return self.__array_namespace__().diagonal(self, offset, axis1, axis2)

    def trace(
        self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
    ) -> Any:
        """The sums of diagonals."""
        return self.__array_namespace__().trace(self, offset, axis1, axis2, dtype, out)

    def compress(self, condition: Any, axis: int | None = None, out: Any = None) -> Any:
        """The slices along an axis where a vector of bools says so; waits."""
        return self.__array_namespace__().compress(condition, self, axis, out)

    def choose(self, choices: Any, out: Any = None, mode: str = "raise") -> Any:
        """The elements of those `choices` that it numbers, the nearest where there is none; see hg.choose."""
        return self.__array_namespace__().choose(self, choices, out, mode)

    def tobytes(self: Any, order: str | None = "C") -> bytes:
        """The bytes of the elements, row by row ("C"), by columns ("F"), or ("A") by columns where they lie so; waits.

        "K" is "C", as in NumPy.
        """
        by_columns = self._by_columns(memory_order(order, "tobytes", "CFAK"))
        return self.to_numpy().tobytes("F" if by_columns else "C")

    def __round__(self: Any, digits: int | None = None) -> Any:
        """`round(x)` of a tensor without axes is an integer of Python's, `round(x, 2)` a tensor."""
        if digits is None and self.ndim:
            raise TypeError(
                f"round: a tensor without axes is needed, got shape {self.shape}; hg.round(x) rounds each"
            )
        return round(self.item()) if digits is None else self.round(digits)

    @property
    def itemsize(self: Any) -> int:
        """The bytes of an element."""
        return self.dtype.itemsize

    def view(self: Any, dtype: Any) -> Any:
        """The same elements as of another dtype: complex numbers as twice as many parts along the last axis, or back.

        A view where the elements lie side by side. Raises UnsupportedDType for other dtypes.
        """
        wanted = dtypes.dtype(dtype)
        if wanted is self.dtype:
            return self[...]
        names, shape = self.__array_namespace__(), self.shape
        if shape and self.dtype.is_complex and wanted is self.dtype.part:
            return names.view_as_real(self).reshape((*shape[:-1], 2 * shape[-1]))
        if shape and wanted.is_complex and wanted.part is self.dtype and shape[-1] % 2 == 0:
            return names.view_as_complex(self.reshape((*shape[:-1], shape[-1] // 2, 2)))
        raise UnsupportedDType(f"view: {self.dtype} of shape {shape} cannot be seen as {wanted}")
