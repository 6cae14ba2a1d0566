"""Tensor: a strided view of a buffer, with the operators and methods of the Python array API.

Methods are derived from the operations' declarations; this file holds what is about views.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

import numpy as np

from hologram import opset
from hologram.foundation import dtypes, lazy
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import InteropError, ShapeError
from hologram.frontend.array_protocol import ArrayProtocol
from hologram.frontend.complex_numbers import Parts, castable, with_complex
from hologram.frontend.methods import Methods
from hologram.frontend.operators import Operators
from hologram.frontend.values import host_values
from hologram.machine.layout import Layout, hashable, indexed
from hologram.opset.forms.default import Default, without_numbers
from hologram.runtime.dispatch import Dispatch
from hologram.runtime.engine import Engine
from hologram.runtime.interchange import dlpack
from hologram.runtime.launches import checks
from hologram.runtime.launches.recording import Recording
from hologram.runtime.launches.validation import sizes
from hologram.runtime.memory.buffer import Buffer
from hologram.runtime.memory.view import View

if TYPE_CHECKING:
    from hologram.frontend import elsewhere, indexing, representation
    from hologram.opset.forms.operation import Operation
else:  # not needed to compute
    elsewhere = lazy.module("hologram.frontend.elsewhere")
    indexing = lazy.module("hologram.frontend.indexing")
    representation = lazy.module("hologram.frontend.representation")

_tracers = Dispatch.tracers
recordings = Recording.open
_NUMBERS = frozenset({bool, int, float})
_COMMON = frozenset({0, 1})  # numbers worth a launch of their own where launches are told none
EXACT = 1 << 53  # up to which integers are floats as well, that f32 has room for


class Tensor(View, ArrayProtocol, Operators, Parts, Methods):
    """An n-dimensional array on a device: a Layout (dtype, shape, strides, offset) over a Buffer.

    Views (`reshape, permute, transpose, select, narrow, slice, expand, squeeze, unsqueeze, view_1d`, indexing with
    integers, slices, None and ...) share the buffer; indexing with arrays copies, as in NumPy. Operators broadcast and
    promote dtypes; a Python number takes the tensor's dtype unless its kind is higher.
    """

    __slots__ = ("__weakref__",)

    @property
    def executor(self) -> Any:
        """The Executor that it belongs to."""
        return self.buffer.executor

    @property
    def nbytes(self) -> int:
        return self.layout.size * self.dtype.itemsize

    @property
    def device(self) -> str:
        """The backend's name and device number, e.g. "webgpu:0"."""
        info = self.executor.device.info
        return f"{info.backend}:{info.index}"

    def is_contiguous(self) -> bool:
        return self.layout.is_contiguous

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __repr__(self) -> str:
        return representation.text(self, self.device, lambda layout: self._view(layout).to_numpy())

    # Views.

    def _view(self, layout: Layout) -> Tensor:
        return Tensor(self.buffer, layout)

    def __getitem__(self, index: Any) -> Tensor:
        items = hashable(index)
        return indexing.read(self, index) if items is None else self._through(indexed, *items)

    def __setitem__(self, index: Any, value: Any) -> None:
        if not self.layout.is_writable:
            raise ShapeError(
                f"an expanded view is read-only, and so is each part of it, for elements share memory: got strides "
                f"{self.strides} of shape {self.shape}; clone() gives a tensor of its own"
            )
        items, engine = hashable(index), self.executor
        if items is None:
            value = value if isinstance(value, Tensor) else constant(engine, value, self.dtype)
            return indexing.write(self, index, value)
        if not isinstance(value, Tensor):
            value = source(engine, value, self.dtype)
        return engine.copy(value, self._through(indexed, *items))

    def __contains__(self, value: Any) -> bool:
        """Whether any element equals the value, which is broadcast, as in NumPy."""
        if isinstance(value, (list, tuple)):
            value = constant(self.executor, value)
        equal: Any = self == value
        return bool(equal.any()) if isinstance(equal, Tensor) else bool(equal)

    def __iter__(self) -> Any:
        return (self[k] for k in range(len(self)))

    # Copies and conversions.

    def contiguous(self) -> Tensor:
        """The tensor itself if it is contiguous, else a contiguous copy."""
        return self if self.layout.is_contiguous else self.clone()

    def clone(self) -> Tensor:
        """A contiguous copy."""
        copy = opset.OPERATIONS["copy"]
        return self.__apply__(copy, (self,), copy.attributes)

    def astype(self, dtype: Any, *, copy: bool = True) -> Tensor:
        """Converted element by element; the tensor itself if it has the dtype and `copy` is false."""
        wanted = castable(self.dtype, dtype)
        if wanted is self.dtype and not copy:
            return self
        dtype = self.executor.supported(wanted)
        return self.__apply__(opset.OPERATIONS["cast"], (self,), {"dtype": dtype.name})

    def to_device(self, device: Any, /, *, stream: None = None) -> Tensor:
        """On an executor, or that of a device ("webgpu:0"): the tensor itself if it is there, else a contiguous copy.

        The dtype stays: UnsupportedDType where the device lacks it. TypeError for what names no device; see astype.
        """
        if stream is not None:
            raise TypeError(f"to_device: everything stands in one queue, got stream={stream!r}")
        executor = Default.executor(device)
        return self if executor is self.executor else elsewhere.moved(self, executor)

    def to(self, device: Any, /) -> Tensor:
        """to_device(device)."""
        return self.to_device(device)

    def to_numpy(self, *, copy: bool = True, out: np.ndarray | None = None) -> np.ndarray:
        """The elements as a NumPy array; `copy=False` gives a view or raises InteropError.

        `out`, of the tensor's shape and dtype, is what is copied into and given back; see Buffer.to_numpy.
        """
        if out is not None:
            return self._into(out, copy)
        if copy and self.layout.is_contiguous and self.offset == 0 and self.size == self.buffer.size:
            return self.buffer.to_numpy().reshape(self.shape)
        checks.view(self.executor, "to_numpy", self)
        if not copy:
            return dlpack.strided(self.buffer.to_numpy(copy=False), self.shape, self.strides, self.offset)
        array = self.buffer.part(self.shape, self.strides, self.offset)
        return self.clone().to_numpy() if array is None else array

    def _into(self, out: np.ndarray, copy: bool) -> np.ndarray:
        dlpack.require_target(out, self.shape, self.dtype, copy)
        whole = self.layout.is_contiguous and self.offset == 0 and self.size == self.buffer.size
        if whole and out.flags.c_contiguous:
            self.buffer.to_numpy(out=out.reshape(self.buffer.shape))
        else:
            out[...] = self.to_numpy()
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.to_numpy(copy=copy is not False)
        if dtype is None or np.dtype(dtype) == array.dtype:
            return array
        if copy is False:
            raise InteropError(f"a {self.dtype} tensor cannot be seen as {np.dtype(dtype)} without a copy")
        return array.astype(dtype)

    def item(self, *position: Any) -> Any:
        """The only element as a Python number, or the one at a position: counted flat, or by axis."""
        return (indexing.element(self, position) if position else self)._item()

    def _item(self) -> Any:
        if self.size != 1:
            raise ShapeError(f"item: a tensor of one element is needed, got shape {self.shape}")
        return self.to_numpy().reshape(()).item()

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and not self.ndim else super().__format__(spec)

    def tolist(self) -> Any:
        return self.to_numpy().tolist()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        if not self.dtype.is_integer:
            raise TypeError(f"only an integer tensor can be an index, got {self.dtype}")
        return int(self.item())

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule, strides and offset included; see Buffer.__dlpack__."""
        return dlpack.export(
            self.buffer, self.shape, self.strides, self.offset, stream, max_version, dl_device, copy
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.executor.device.dlpack_device

    def __copy__(self) -> Tensor:
        """A tensor of its own, contiguous, as NumPy's copies are; so is a deep copy."""
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return self.clone()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by its elements, through the host; unpickled on the default executor."""
        return (unpickled, (self.to_numpy(),))

    def __getattr__(self, name: str) -> Any:
        """The operations' methods, before the first one is used."""
        if not name.startswith("_"):
            _complete()
        return object.__getattribute__(self, name)

    def __dir__(self) -> list[str]:
        _complete()
        return sorted(super().__dir__())

    def __apply__(self, operation: Operation, operands: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        engine: Any = self.buffer.executor
        if _tracers:
            return apply(engine, operation, operands, attributes)
        return evaluated(engine, operation, operands, attributes)


def unpickled(array: np.ndarray) -> Tensor:
    """A tensor that was pickled, on the default executor."""
    return Default.executor(None).tensor(array)


def as_tensor(buffer: Buffer) -> Tensor:
    """The whole buffer as a tensor."""
    return Tensor(buffer, buffer.kind.layout)


# What makes tensors, each a request that a trace may record instead.


def empty(engine: Engine, shape: int | Sequence[int], dtype: Any = dtypes.f32) -> Tensor:
    """A tensor with undefined contents."""
    given, element = sizes(shape, "empty"), engine.supported(dtype)
    if _tracers:
        return engine.dispatch(make_empty, "empty", engine, given, element)
    return make_empty(engine, given, element)


def make_empty(engine: Engine, shape: tuple[int, ...], dtype: DType) -> Tensor:
    kind = engine.kind(shape, dtype)
    return Tensor(Buffer(engine, engine.block(kind), kind), kind.layout)


def full(
    engine: Engine,
    shape: int | Sequence[int],
    value: complex,
    dtype: Any = dtypes.f32,
    who: str = "full",
) -> Tensor:
    """A tensor filled with a number; `who` makes it, for errors."""
    return engine.dispatch(make_full, who, engine, sizes(shape, who), value, engine.supported(dtype, who))


def make_full(engine: Engine, shape: tuple[int, ...], value: complex, dtype: DType) -> Tensor:
    tensor = make_empty(engine, shape, dtype)
    if recordings:  # a launch is repeated, a number of the host's is not
        fill = opset.OPERATIONS["fill"]
        engine._compute(fill, (), (tensor,), fill.attributes | {"value": value})
    else:
        tensor.buffer.fill(value)
    return tensor


def constant(engine: Engine, array: Any, dtype: Any = None) -> Tensor:
    """A tensor with the elements of an array, or of anything NumPy makes one from."""
    if isinstance(array, Tensor):
        array = array.to_numpy()
    values = host_values(array, dtype)
    if _tracers and isinstance(
        array, np.ndarray
    ):  # which may hold something else when what is traced is called
        return engine.dispatch(make_constant, "tensor", engine, values, (array, dtype))
    return engine.dispatch(make_constant, "tensor", engine, values)


def source(engine: Engine, value: Any, dtype: DType) -> Any:
    """What elements of a dtype are copied from: a number itself where a launch is told it, or is its own."""
    if type(value) in _NUMBERS and not _tracers:
        if -EXACT <= value <= EXACT and dtype in engine.bound.told:
            return float(value)
        if value in _COMMON or recordings:
            return value
    return constant(engine, value, dtype)


def make_constant(engine: Engine, values: np.ndarray, source: Any = None) -> Tensor:
    tensor = make_empty(engine, values.shape, engine.supported(values.dtype))
    tensor.buffer.from_numpy(values)
    return tensor


def apply(
    engine: Engine, operation: Operation, operands: Sequence[Any], attributes: Mapping[str, Any]
) -> Any:
    """New tensors with an operation's results."""
    return engine.dispatch(evaluated, operation.name, engine, operation, operands, attributes)


def evaluated(
    engine: Engine, operation: Operation, operands: Sequence[Any], attributes: Mapping[str, Any]
) -> Any:
    results = engine._evaluate(operation, operands, attributes)
    while results is None:
        _complete()
        operands = operands_of(engine, operation, operands)
        if not operation.here(engine.limits, operands):
            return elsewhere.on_host(engine, operation, operands, attributes)
        engine._infer_signature(operation, operands, attributes)
        results = engine._evaluate(operation, operands, attributes)
    if len(results) == 1:
        return Tensor(results[0], results[0].kind.layout)
    return tuple(map(as_tensor, results))


def operands_of(engine: Engine, operation: Operation, operands: Sequence[Any]) -> list[Any]:
    """Operands with arrays, buffers and complex numbers made tensors, NumPy's numbers Python's; refuses all others."""
    checked: list[Any] = []
    operands = with_complex(operands, lambda values: constant(engine, values))
    for name, operand in zip(operation.operand_names(len(operands)), operands, strict=True):
        if isinstance(operand, Buffer):
            operand = as_tensor(operand)
        elif isinstance(operand, np.generic):
            operand = operand.item()
        elif isinstance(operand, (np.ndarray, list, tuple)):
            operand = constant(engine, operand)
        check_operand(operation, name, operand, View)
        checked.append(operand)
    return checked if operation.takes_numbers else without_numbers(engine, checked)


def check_operand(operation: Operation, name: str, operand: Any, kind: type) -> None:
    """Refuses what is neither a tensor of a kind, nor a number, nor None where that may be."""
    if not isinstance(operand, (kind, bool, int, float)) and not (
        operand is None and name in operation.optional
    ):
        given = "None" if operand is None else type(operand).__name__
        if hasattr(operand, "__dlpack__"):
            given = f"{type(operand).__module__}.{given}; hg.asarray(x) makes a Tensor of it"
        raise TypeError(f"{operation.name}: {name} must be a Tensor or a number, got {given}")


def _complete() -> None:
    """Gives Tensor the operations' methods and takes `__getattr__` from it, with which each attribute costs double."""
    if "__getattr__" in vars(Tensor):
        for name, operation in opset.OPERATIONS.items():
            if operation.methods and name not in _OWN:
                setattr(Tensor, name, _method(operation))
        with suppress(AttributeError):  # another thread was quicker
            del Tensor.__getattr__


_OWN = frozenset(dir(Tensor))  # what no operation replaces


def _method(operation: Operation) -> Any:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        return operation(self, *args, **kwargs)

    method.__doc__ = operation.function.__doc__  # the operation's own text is made when it is asked for
    return update_wrapper(method, operation, assigned=("__name__", "__qualname__"), updated=())
