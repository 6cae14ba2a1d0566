"""What an executor is handed: operands, outputs and kernels' parameters, checked once, before anything is planned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hologram import dtypes
from hologram.atlas.program import Access, Program
from hologram.dtypes import DType
from hologram.errors import BufferFreed, ShapeError, UnsupportedDType
from hologram.frontend.tensor import Tensor
from hologram.plan import Tile
from hologram.runtime.buffer import Buffer
from hologram.runtime.planner import overlaps
from hologram.runtime.validation import exactly, fitted

if TYPE_CHECKING:
    from hologram.frontend.executor import Executor
    from hologram.opset.forms.operation import Operation

Number = bool | int | float
Operand = Buffer | Tensor | Number | None


def tensors(
    executor: Executor, operation: Operation, operands: Sequence[Operand]
) -> tuple[Tensor | Number | None, ...]:
    """Operands with NumPy arrays and buffers made tensors."""
    found: list[Tensor | Number | None] = []
    for name, operand in zip(operation.operand_names(len(operands)), operands, strict=True):
        if isinstance(operand, Buffer):
            operand = executor.as_tensor(operand)
        elif isinstance(operand, np.generic):
            operand = operand.item()
        elif isinstance(operand, (np.ndarray, list, tuple)):
            operand = executor.tensor(operand)
        elif operand is not None and not isinstance(operand, (Tensor, bool, int, float)):
            raise TypeError(
                f"{operation.name}: {name} must be a Tensor or a number, got {type(operand).__name__}"
            )
        if operand is None and name not in operation.optional:
            raise TypeError(f"{operation.name}: {name} must be a Tensor or a number, got None")
        found.append(operand)
    return tuple(found)


def checked(
    executor: Executor, operation: Operation, operands: Sequence[Operand], outputs: Sequence[Buffer | Tensor]
) -> tuple[list[Any], list[Tensor]]:
    """Operands and outputs of an out-parameter form, buffers as tensors; refuses what cannot be one."""
    names = operation.operand_names(len(operands))
    views = [_operand(executor, operation, n, o) for n, o in zip(names, operands, strict=True)]
    if operands and not any(isinstance(v, (Tensor, tuple)) for v in views):
        raise TypeError(f"{operation.name}: at least one operand must be a Buffer or Tensor")
    targets = [target(executor, operation.name, o) for o in outputs]
    if any(overlaps(a, b) for k, a in enumerate(targets) for b in targets[:k]):
        raise ShapeError(f"{operation.name}: outputs must not share memory")
    return views, targets


def _operand(executor: Executor, operation: Operation, name: str, operand: Any) -> Any:
    """A checked operand of an out-parameter form: a Tensor, a number, or None where that is allowed."""
    if isinstance(operand, np.generic):
        operand = operand.item()
    if isinstance(operand, (bool, int, float)) or (operand is None and name in operation.optional):
        return operand
    if operation.composite and isinstance(operand, (tuple, list)):
        return tuple(_operand(executor, operation, f"{name}[{k}]", o) for k, o in enumerate(operand))
    return view(executor, f"{operation.name}, {name}", operand)


def view(executor: Executor, who: str, operand: Any) -> Tensor:
    """A buffer as a tensor, after the checks that every use needs."""
    if isinstance(operand, Buffer):
        operand = executor.as_tensor(operand)
    if not isinstance(operand, Tensor):
        raise TypeError(f"{who}: a Buffer, Tensor or number is needed, got {_kind(operand)}")
    if operand.executor is not executor:
        raise ShapeError(f"{who}: operands must belong to {executor}, got one of {operand.executor}")
    if operand.key is None:
        executor.check_open()
        raise BufferFreed(f"{who}: the buffer of shape {operand.buffer.shape} was freed")
    low, high = operand.layout.span
    if low < 0 or high > operand.buffer.size:
        raise ShapeError(
            f"{who}: a layout reaches [{low}, {high}) of a buffer of {operand.buffer.size} elements"
        )
    return operand


def target(executor: Executor, who: str, output: Any) -> Tensor:
    if not isinstance(output, (Buffer, Tensor)):
        raise TypeError(f"{who}: an output must be a Buffer or Tensor, got {_kind(output)}")
    tensor = view(executor, who, output)
    layout = tensor.layout
    if any(s == 0 and n > 1 for s, n in zip(layout.strides, layout.shape, strict=True)):
        raise ShapeError(f"{who}: an output cannot be an expanded view, whose elements share memory")
    return tensor


def disjoint(executor: Executor, operation: Operation, views: list[Any], targets: list[Tensor]) -> list[Any]:
    """Inputs, copied where they lie in an output's memory and the operation cannot work in place there."""
    return [
        v.clone()
        if isinstance(v, Tensor)
        and any(
            overlaps(v, t) and not (operation.in_place and v.layout == t.layout and v.key == t.key)
            for t in targets
        )
        else v
        for v in views
    ]


def check_dtypes(executor: Executor, who: str, operands: Sequence[Any]) -> None:
    for operand in operands:
        if isinstance(operand, Tensor):
            check_dtype(executor, who, operand.dtype)


def check_dtype(executor: Executor, who: str, dtype: DType) -> None:
    if dtype not in executor.limits.dtypes:
        raise UnsupportedDType(f"{who}: {executor.backend} ({executor.device.info.name}) has no {dtype}")


def key(operand: Any) -> Any:
    """What stands for an operand in the key of a launch: numbers with their type, for 1, 1.0 and True are equal."""
    if isinstance(operand, (Buffer, Tensor)):
        return operand.key
    if isinstance(operand, np.generic):
        operand = operand.item()
    if operand is None or isinstance(operand, (bool, int, float)):
        return (type(operand), exactly(operand))
    return None  # what the checks refuse


def _kind(found: Any) -> str:
    return "None" if found is None else type(found).__name__


def parameters(
    kernel: Program | Tile,
) -> tuple[Sequence[tuple[str, DType, str]], Sequence[tuple[str, DType]]]:
    """Buffers (name, dtype, access) and scalars (name, dtype) of a kernel, in order."""
    if isinstance(kernel, Tile):
        return kernel.buffers, kernel.scalars
    return (
        [(b.name, b.dtype, b.access.value) for b in kernel.buffers],
        [(s.name, s.dtype) for s in kernel.scalars],
    )


def of_kernel(
    executor: Executor,
    kernel: Program | Tile,
    buffers: Sequence[Buffer | Tensor],
    scalars: Sequence[Number],
) -> tuple[list[Tensor], tuple[Number, ...]]:
    """The checked buffers, as tensors, and scalars of a launch; raises ShapeError, UnsupportedDType, BufferFreed."""
    name = kernel.name if isinstance(kernel, Program) else kernel.stem
    kinds, numbers = parameters(kernel)
    if len(kinds) != len(buffers) or len(numbers) != len(scalars):
        raise ShapeError(
            f"{name}: takes {len(kinds)} buffers and {len(numbers)} scalars, "
            f"got {len(buffers)} and {len(scalars)}"
        )
    values = tuple(
        fitted(x, dtype, f"{name}, scalar {n}") for (n, dtype), x in zip(numbers, scalars, strict=True)
    )
    tensors = []
    for (parameter, dtype, access), buffer in zip(kinds, buffers, strict=True):
        who = f"{name}, buffer {parameter}"
        if not isinstance(buffer, (Buffer, Tensor)):
            raise TypeError(
                f"{name}: buffer {parameter} must be a Buffer or Tensor, got {type(buffer).__name__}"
            )
        checking = view if access == Access.READ.value else target
        tensor = checking(executor, who, buffer)
        if tensor.dtype != dtype:
            raise UnsupportedDType(f"{name}: buffer {parameter} must be {dtype}, got {tensor.dtype}")
        tensors.append(tensor)
    return tensors, values


def host_values(array: Any, dtype: Any) -> np.ndarray:
    """What a tensor is made from, as an array: Python floats become f32, unless a dtype is wanted."""
    if isinstance(array, Tensor):
        array = array.to_numpy()
    known = isinstance(array, (np.ndarray, np.generic)) or hasattr(array, "__array__")
    try:
        values = np.asarray(array)
    except ValueError as error:
        raise ShapeError(f"tensor: the elements form no array: {error}") from error
    dtypes.dtype(values.dtype)  # refuses what is no number
    if dtype is not None:
        values = values.astype(dtypes.dtype(dtype).numpy, copy=False)
    elif not known and values.dtype == np.float64:
        values = values.astype(np.float32)
    return values
