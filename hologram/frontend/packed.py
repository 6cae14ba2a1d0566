"""Packed: weights that stay in blocks of codes and scales, and the operations that take them as they lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hologram.foundation import dtypes
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.frontend.default import executor_of
from hologram.frontend.tensor import Tensor
from hologram.opset.indexing import embedding
from hologram.opset.matmul import linear
from hologram.opset.movement import concat
from hologram.opset.packed.checkpoints import planes_of_awq, planes_of_gptq
from hologram.opset.packed.experts import packed_experts
from hologram.opset.packed.formats import Format, format_of
from hologram.opset.packed.gguf import planes_of_gguf
from hologram.opset.packed.linear import packed_linear
from hologram.opset.packed.quantizing import quantized
from hologram.opset.packed.weights import PLANES, packed_numbers, packed_rows
from hologram.opset.sort import argsort
from hologram.opset.take import take


class Packed:
    """A matrix of weights (rows, columns) = (out features, in features) that is kept packed.

    It is a few tensors, `planes`, and a format that says what they mean. Where columns lie in another order than
    theirs, `order` (columns) says which each is, and x is put into it ahead of a product. Products read it as it lies:
    `hg.linear(x, packed, bias)` is x @ packed.T + bias, for x of f32, f16 or bf16 with any leading axes, added up in
    f32. `hg.embedding(index, packed)` and `packed.take(index)` give rows as floats, `packed.dequantize()` all of them.
    Functions of `hg.jit` take it as an argument or close over it, like a tensor.
    """

    __slots__ = ("__weakref__", "columns", "format", "order", "planes")
    __apply_first__ = True  # what it is an operand of, it answers for, whatever tensors stand beside it

    def __init__(
        self, format: Format, columns: int, planes: Mapping[str, Tensor], order: Tensor | None = None
    ) -> None:
        self.format = format
        self.columns = columns
        self.planes = dict(planes)
        self.order = order

    def __reduce__(self) -> tuple[Any, ...]:
        return Packed, (self.format, self.columns, self.planes, self.order)

    # How it is made.

    @classmethod
    def from_gguf(cls, data: Any, kind: str, shape: tuple[int, int], executor: Any = None) -> Packed:
        """Of a GGUF tensor's bytes (uint8), its kind ("Q4_K", ...), and its shape (rows, columns).

        GGUF itself names axes from the innermost: shape is its dimensions in reverse. Raises UnsupportedDType for
        a kind that is none, ShapeError where the bytes are not those of the shape.
        """
        rows, columns = (int(n) for n in shape)
        planes = planes_of_gguf(np.asarray(data), kind, (rows, columns))
        return cls.from_planes(planes, kind, (rows, columns), executor)

    @classmethod
    def from_awq(cls, qweight: Any, qzeros: Any, scales: Any, executor: Any = None) -> Packed:
        """Of an AWQ checkpoint's linear: qweight (in, out / 8), qzeros (groups, out / 8) of i32, scales (groups, out).

        Raises ShapeError or UnsupportedDType for what they cannot be.
        """
        return cls.from_planes(*planes_of_awq(qweight, qzeros, scales), executor)

    @classmethod
    def from_gptq(
        cls,
        qweight: Any,
        qzeros: Any,
        scales: Any,
        g_idx: Any = None,
        *,
        bits: int = 4,
        version: int = 1,
        executor: Any = None,
    ) -> Packed:
        """Of a GPTQ checkpoint's linear: qweight (in bits / 32, out), qzeros (groups, out bits / 32), and scales
        (groups, out).

        Words are of i32. `version` 1 keeps zero points less 1, 2 as they are. `g_idx` (in) has the group of each row,
        in any order (`desc_act`). Raises ShapeError for shapes that do not agree, or groups of several sizes.
        """
        planes, format, shape, order = planes_of_gptq(qweight, qzeros, scales, g_idx, bits, version)
        packed = cls.from_planes(planes, format, shape, executor)
        packed.order = None if order is None else packed.executor.tensor(order)
        return packed

    @classmethod
    def quantize(cls, weights: Any, format: str, executor: Any = None) -> Packed:
        """Of an array (rows, columns), rounded to a format.

        "int8" and "int4" are symmetric, "uint8" and "uint4" have zero points, "f8e4m3" and "f8e5m2" are floats. Each
        has a scale for each row; with a number behind, "int4g32", for each so many neighbours of a row.
        """
        array = np.asarray(weights, np.float32)
        return cls.from_planes(quantized(array, format_of(format)), format, array.shape, executor)

    @classmethod
    def from_planes(
        cls, planes: Mapping[str, Any], format: str, shape: Sequence[int], executor: Any = None
    ) -> Packed:
        """Of its planes, arrays or tensors; see hologram/opset/packed/formats.py for how codes lie in them.

        Raises ShapeError or UnsupportedDType where a plane is not what the format asks for.
        """
        known = format_of(format)
        rows, columns = (int(n) for n in shape)
        wanted = known.planes(rows, columns)
        if set(planes) != set(wanted):
            raise ShapeError(f"packed: {format} has the planes {', '.join(wanted)}, got {', '.join(planes)}")
        given = next((p.executor for p in planes.values() if isinstance(p, Tensor)), None)
        home = executor_of(executor if executor is not None else given)
        made = {
            n: p if isinstance(p, Tensor) else home.tensor(np.asarray(p, wanted[n][0].numpy))
            for n, p in planes.items()
        }
        for name, (dtype, size) in wanted.items():
            if made[name].dtype is not dtype or made[name].shape != size:
                raise ShapeError(
                    f"packed: {name} of {format} {rows} x {columns} must be {dtype} of shape {size}, "
                    f"got {made[name].dtype} of shape {made[name].shape}"
                )
        return cls(known, columns, made)

    @staticmethod
    def concatenate(parts: Sequence[Packed]) -> Packed:
        """Matrices of one format, as many columns and no order of these, joined by rows: their products become one."""
        if not parts:
            raise ShapeError("packed: there must be something to concatenate, got nothing")
        first = parts[0]
        for other in parts[1:]:
            if other.format != first.format or other.columns != first.columns:
                raise ShapeError(
                    f"packed: one format and as many columns are needed, got {first} and {other}"
                )
        if len(parts) > 1 and any(part.order is not None for part in parts):
            raise ShapeError("packed: columns must be in their own order, got some that activations order")
        planes = {n: concat([p.planes[n] for p in parts], axis=0) for n in first.planes}
        return Packed(first.format, first.columns, planes, first.order)

    # What it is.

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns: out features, in features."""
        return (self.planes["codes"].shape[0], self.columns)

    @property
    def ndim(self) -> int:
        return 2

    @property
    def nbytes(self) -> int:
        """Of all planes, and of the order of columns."""
        own = [*self.planes.values(), *([] if self.order is None else [self.order])]
        return sum(tensor.nbytes for tensor in own)

    @property
    def executor(self) -> Any:
        """The Executor that it belongs to."""
        return self.planes["codes"].executor

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"Packed({self.format.name}, {rows} x {columns})"

    def to_device(self, device: Any, /) -> Packed:
        """On an executor, or that of a device: itself if it is there, else a copy; see Tensor.to_device."""
        executor = executor_of(device)
        if executor is self.executor:
            return self
        order = None if self.order is None else self.order.to_device(executor)
        planes = {name: plane.to_device(executor) for name, plane in self.planes.items()}
        return Packed(self.format, self.columns, planes, order)

    to = to_device

    # What is computed of it.

    def dequantize(self, dtype: Any = dtypes.f32) -> Tensor:
        """All weights (rows, columns): of f32 as the format defines them, rounded to other dtypes."""
        return self._in_place(packed_numbers(*self._planes(), **self._settings(dtype)))

    def take(self, index: Any, dtype: Any = dtypes.f32) -> Tensor:
        """The rows that index (...) names, as (..., columns); negative: from the end; out of range: zeros."""
        return self._in_place(packed_rows(index, *self._planes(), **self._settings(dtype)))

    def linear(self, x: Any, bias: Any = None, *, activation: str = "none", gated: bool = False) -> Tensor:
        """activation(x @ self.T + bias), for x (..., columns) of f32, f16 or bf16, in its dtype.

        Where it is `gated`, the first half of the rows are gates of the second, which then give half as many columns:
        activation(x @ gates.T) * (x @ others.T), without a bias (Shazeer 2020).
        """
        settings = {"format": self.format.name, "columns": self.columns}
        x = self._ordered("linear", x)
        return packed_linear(x, *self._planes(), bias, **settings, activation=activation, gated=gated)

    def experts(
        self, x: Any, chosen: Any, experts: int, *, activation: str = "none", gated: bool = False
    ) -> Tensor:
        """activation(x @ E.T) by rows, where E are the rows of these weights that belong to the row's own expert.

        These are `experts` matrices one below the other, or where they are `gated`, the gates of all experts, then
        what these open, as in `linear`. `chosen` (...) are integers, experts by number (negative: from the end; out of
        range: zeros); x (..., columns) has the same axes, or 1 for those along which its rows are used again. The
        result is (..., rows). A mixture's token goes to its experts as x (n, 1, columns), chosen (n, used).
        """
        settings = {"format": self.format.name, "columns": self.columns, "experts": experts}
        x = self._ordered("experts", x)
        return packed_experts(x, chosen, *self._planes(), **settings, activation=activation, gated=gated)

    def _ordered(self, who: str, x: Any) -> Any:
        """x (..., columns) as columns lie."""
        if self.order is None:
            return x
        if not x.ndim or x.shape[-1] != self.columns:
            raise ShapeError(f"{who}: x (..., {self.columns}) is needed beside {self}, got {x.shape}")
        return take(x, self.order, axis=-1)

    def _in_place(self, rows: Tensor) -> Tensor:
        """Rows (..., columns) as they lie, each column in its place."""
        return rows if self.order is None else take(rows, argsort(self.order), axis=-1)

    def _planes(self) -> tuple[Tensor | None, ...]:
        return tuple(self.planes.get(name) for name in PLANES)

    def _settings(self, dtype: Any) -> dict[str, Any]:
        return {"format": self.format.name, "columns": self.columns, "dtype": dtypes.dtype(dtype).name}

    def __apply__(self, operation: Any, operands: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """Operations that take packed weights; see hologram.opset.forms.operation."""
        taken = TAKEN.get(operation)
        if taken is None or operands[1] is not self:
            raise UnsupportedDType(
                f"{operation.name}: packed weights are the second operand of linear and embedding; "
                "dequantize() gives a tensor"
            )
        return taken(*operands, **attributes)

    # As an argument: its planes are tensors, and the rest is part of what a trace depends on.

    def __branches__(self) -> dict[str, Any]:
        order = {} if self.order is None else {"order": self.order}
        return {"format": self.format.name, "columns": str(self.columns), **order, **self.planes}

    @classmethod
    def __assembled__(cls, branches: Mapping[str, Any]) -> Packed:
        planes = {n: x for n, x in branches.items() if n in PLANES}
        return cls(format_of(branches["format"]), int(branches["columns"]), planes, branches.get("order"))


TAKEN: dict[Any, Callable[..., Tensor]] = {
    linear: lambda x, packed, bias, activation: packed.linear(x, bias, activation=activation),
    embedding: lambda index, packed: packed.take(index),
}
