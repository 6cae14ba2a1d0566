"""What an executor is handed: operands, outputs and kernels' parameters, checked once, before anything is planned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hologram.atlas.program import Access, Launchable
from hologram.foundation.dtypes import DType, Number
from hologram.foundation.errors import BufferFreed, ShapeError, UnsupportedDType
from hologram.machine.layout import Layout
from hologram.runtime.launches.validation import fitted
from hologram.runtime.memory.allocation import Allocation
from hologram.runtime.memory.buffer import Buffer
from hologram.runtime.memory.view import View, overlaps, whole

if TYPE_CHECKING:
    from hologram.opset.forms.operation import Operation

Operand = Buffer | View | Number | None


def checked(
    executor: Allocation, operation: Operation, operands: Sequence[Operand], outputs: Sequence[Buffer | View]
) -> tuple[list[Any], list[View]]:
    """Operands and outputs of an out-parameter form, buffers as views; refuses what cannot be one."""
    executor.check_open()
    names = operation.operand_names(len(operands))
    views = [_operand(executor, operation, n, o) for n, o in zip(names, operands, strict=True)]
    if operands and not any(isinstance(v, (View, tuple)) for v in views):
        raise TypeError(f"{operation.name}: at least one operand must be a Buffer or Tensor")
    targets = [target(executor, operation.name, o) for o in outputs]
    if any(overlaps(a, b) for k, a in enumerate(targets) for b in targets[:k]):
        raise ShapeError(f"{operation.name}: outputs must not share memory")
    return views, targets


def _operand(executor: Allocation, operation: Operation, name: str, operand: Any) -> Any:
    """A checked operand of an out-parameter form: a View, a number, or None where that is allowed."""
    if isinstance(operand, np.generic):
        operand = operand.item()
    if isinstance(operand, (bool, int, float)) or (operand is None and name in operation.optional):
        return operand
    if operation.composite and isinstance(operand, (tuple, list)):
        return tuple(_operand(executor, operation, f"{name}[{k}]", o) for k, o in enumerate(operand))
    return view(executor, f"{operation.name}, {name}", operand)


def view(executor: Allocation, who: str, operand: Any) -> View:
    """A buffer as a view, after the checks that every use needs."""
    if isinstance(operand, Buffer):
        operand = whole(operand)
    if not isinstance(operand, View):
        raise TypeError(f"{who}: a Buffer, Tensor or number is needed, got {_kind(operand)}")
    if operand.executor is not executor:
        raise ShapeError(
            f"{who}: operands must belong to {executor}, got one of {operand.executor}; "
            "x.to_device(y.executor) copies it there"
        )
    if operand.buffer.block is None:
        executor.check_open()
        raise BufferFreed(f"{who}: the buffer of shape {operand.buffer.shape} was freed")
    low, high = operand.layout.span
    if low < 0 or high > operand.buffer.size:
        raise ShapeError(
            f"{who}: a layout reaches [{low}, {high}) of a buffer of {operand.buffer.size} elements"
        )
    return operand


def target(executor: Allocation, who: str, output: Any) -> View:
    """An output as a view; refuses one whose elements share memory."""
    if not isinstance(output, (Buffer, View)):
        raise TypeError(f"{who}: an output must be a Buffer or Tensor, got {_kind(output)}")
    viewed = view(executor, who, output)
    if not viewed.layout.is_writable:
        raise ShapeError(f"{who}: an output cannot be of an expanded view, whose elements share memory")
    return viewed


def check_dtype(executor: Allocation, operation: Operation, dtype: DType) -> None:
    """Raises UnsupportedDType for what the device lacks, or the operation would have to compute with and cannot."""
    executor.supported(dtype, operation.name)
    if dtype.is_complex and not operation.takes_complex:
        raise UnsupportedDType(f"{operation.name}: it has no meaning for complex numbers, got {dtype}")
    if not dtype.computes and dtype not in operation.dtypes:
        raise UnsupportedDType(
            f"{operation.name}: {dtype} is for storage and conversion and has no arithmetic: convert it first, as "
            "x.astype('f32')"
        )


def check_dtypes(executor: Allocation, operation: Operation, operands: Sequence[Any]) -> None:
    """`check_dtype` of every view."""
    for operand in operands:
        if isinstance(operand, View):
            check_dtype(executor, operation, operand.dtype)


def _kind(given: Any) -> str:
    return "None" if given is None else type(given).__name__


def of_kernel(
    executor: Allocation,
    kernel: Launchable,
    buffers: Sequence[Buffer | View],
    scalars: Sequence[Number],
    traced: Callable[[Any, bool], View] | None = None,
) -> tuple[list[View], tuple[Number, ...]]:
    """The checked buffers, as views, and scalars of a launch; raises ShapeError, UnsupportedDType, BufferFreed.

    Buffers of a trace have no memory to check: they are what `traced` makes of them, told whether they are written.
    """
    name = kernel.name
    if len(kernel.buffers) != len(buffers) or len(kernel.scalars) != len(scalars):
        raise ShapeError(
            f"{name}: takes {len(kernel.buffers)} buffers and {len(kernel.scalars)} scalars, "
            f"got {len(buffers)} and {len(scalars)}"
        )
    values = tuple(
        fitted(x, s.dtype, f"{name}, scalar {s.name}") for s, x in zip(kernel.scalars, scalars, strict=True)
    )
    views = []
    for parameter, buffer in zip(kernel.buffers, buffers, strict=True):
        who = f"{name}, buffer {parameter.name}"
        if not isinstance(buffer, (Buffer, View)):
            raise TypeError(
                f"{name}: buffer {parameter.name} must be a Buffer or Tensor, got {type(buffer).__name__}"
            )
        if traced is not None:
            viewed = traced(buffer, parameter.access is not Access.READ)
        else:
            checking = view if parameter.access is Access.READ else target
            viewed = checking(executor, who, buffer)
        if viewed.dtype is not parameter.dtype:
            raise UnsupportedDType(
                f"{name}: buffer {parameter.name} must be {parameter.dtype}, got {viewed.dtype}"
            )
        views.append(viewed)
    return views, values


def check_apart(kernel: Launchable, views: Sequence[View]) -> None:
    """Raises ShapeError where the kernel writes elements that it also sees at another place of another view.

    Lanes run in any order, so it would depend on that what is read. The same elements in the same order are one buffer.
    """
    written = {v.key for v, b in zip(views, kernel.buffers, strict=True) if b.access is not Access.READ}
    for k, a in enumerate(views):
        for b in views[:k]:
            if written & {a.key, b.key} and overlaps(a, b) and _flat(a) != _flat(b):
                raise ShapeError(
                    f"{kernel.name}: what is written may share memory only with the same elements, got strides "
                    f"{a.layout.strides} of shape {a.shape} from {a.layout.offset} on beside {b.layout.strides} of "
                    f"shape {b.shape} from {b.layout.offset} on"
                )


def _flat(view: View) -> Layout:
    """The elements of a view in a row, where they lie so: reshaped, they are the same."""
    return view.layout.reshape((-1,)) or view.layout
