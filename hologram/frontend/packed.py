"""hg.Packed: a matrix of weights that stays in the few bits it came in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hologram.foundation import dtypes
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.tensor import Tensor
from hologram.opset.matmul import ACTIVATIONS
from hologram.opset.movement import concat
from hologram.opset.packed import gguf
from hologram.opset.packed.formats import FORMATS, PLANES, Format, floats8, integers, named
from hologram.opset.packed.reading import matrix_of, packed_linear, packed_rows, packed_weights


class Packed:
    """A matrix (rows, columns) in a packed format, as planes on a device.

    `hg.linear(x, packed, bias)` multiplies by it, `hg.embedding(index, packed)` gives rows of it, `dequantize` all of
    it. Each reads the planes as they are, on every backend. Functions of `hg.jit` close over it or take it as an
    argument, like a tensor.
    """

    __slots__ = ("format", "planes", "shape")
    __apply_first__ = True  # what it is an operand of, it answers for, whatever tensors stand beside it

    def __init__(self, format: Format, planes: Mapping[str, Tensor]) -> None:
        """Planes as `format.planes` says; raises ShapeError or UnsupportedDType for others."""
        self.format = format
        self.planes = {name: planes[name] for name in PLANES if name in planes}
        self.shape = matrix_of("Packed", format, self._operands())

    @classmethod
    def from_gguf(cls, data: Any, kind: str, shape: Sequence[int], *, device: Any = None) -> Packed:
        """A matrix of `shape` (rows, columns) from the blocks of a GGUF file, bytes of such a kind ("Q4_K", ...)."""
        if len(shape) != 2:
            raise ShapeError(f"Packed.from_gguf: a matrix has rows and columns, got shape {tuple(shape)}")
        rows, columns = shape
        return cls._held(FORMATS.get(kind), gguf.planes_of(kind, np.asarray(data), rows, columns), device)

    @classmethod
    def from_codes(
        cls, codes: Any, scale: Any, minimum: Any = None, *, bits: int = 8, group: int, device: Any = None
    ) -> Packed:
        """int2, int4 or int8 codes with a scale for each `group` columns: scale * code, or with a minimum added.

        Codes (rows, columns) without minima are signed, with minima unsigned. Zero points of AWQ, GPTQ and torchao are
        minima: -scale * zero. Scales and minima (rows, columns / group) are f16 or f32.
        """
        scales = dtypes.dtype(np.asarray(scale).dtype)
        if scales not in (dtypes.f16, dtypes.f32):
            raise UnsupportedDType(f"Packed.from_codes: scales must be f16 or f32, got {scales}")
        format = integers(bits, group, symmetric=minimum is None, scales=scales)
        given = _matrix("from_codes", codes)
        low, high = (-format.zero, (1 << bits) - 1 - format.zero)
        if given.size and (given.min() < low or given.max() > high):
            raise ValueError(f"Packed.from_codes: codes of {bits} bits must lie in [{low}, {high}]")
        unsigned = (given.astype(np.int64) + format.zero).astype(np.uint8)
        format.planes(*given.shape)
        minima = None if minimum is None else np.asarray(minimum)
        return cls._held(format, format.packed(unsigned, np.asarray(scale), minima), device)

    @classmethod
    def from_float8(cls, codes: Any, scale: Any, *, group: int, device: Any = None) -> Packed:
        """float8 codes (rows, columns), e4m3fn or e5m2, with an f32 scale for each `group` columns."""
        given = _matrix("from_float8", codes)
        format = floats8(dtypes.dtype(given.dtype), group)
        format.planes(*given.shape)
        return cls._held(format, format.packed(given, np.asarray(scale)), device)

    @classmethod
    def quantize(
        cls, weights: Any, *, bits: int = 8, group: int = 32, symmetric: bool = True, device: Any = None
    ) -> Packed:
        """A matrix of floats rounded to nearest: each group's largest magnitude, or its range, takes all codes."""
        array = _matrix("quantize", weights).astype(np.float32)
        if array.shape[1] % group:
            raise ShapeError(f"Packed.quantize: columns must be groups of {group}, got {array.shape}")
        if not np.isfinite(array).all():
            raise ValueError("Packed.quantize: weights must be finite")
        parts = array.reshape(array.shape[0], -1, group)
        if symmetric:
            most = (1 << bits - 1) - 1
            scale = (np.abs(parts).max(-1) / most).astype(np.float32)
            low, high, minimum = -most, most, None
        else:
            minimum = parts.min(-1)
            scale = ((parts.max(-1) - minimum) / ((1 << bits) - 1)).astype(np.float32)
            low, high = 0, (1 << bits) - 1
        shifted = parts if minimum is None else parts - minimum[..., None]
        ratio = np.divide(shifted, scale[..., None], out=np.zeros_like(parts), where=scale[..., None] > 0)
        codes = np.clip(np.rint(ratio), low, high).astype(np.int64).reshape(array.shape)
        return cls.from_codes(codes, scale, minimum, bits=bits, group=group, device=device)

    @classmethod
    def _held(cls, format: Format | None, planes: Mapping[str, np.ndarray], device: Any) -> Packed:
        assert format is not None
        return cls(format, {name: asarray(plane, device=device) for name, plane in planes.items()})

    @classmethod
    def concatenate(cls, matrices: Sequence[Packed]) -> Packed:
        """The rows of all of them as one matrix; raises ShapeError where formats or columns differ."""
        first = matrices[0]
        if any(m.format != first.format or m.shape[1] != first.shape[1] for m in matrices):
            kinds = ", ".join(f"{m.format.name} {m.shape}" for m in matrices)
            raise ShapeError(f"Packed.concatenate: formats and columns must agree, got {kinds}")
        joined = {name: concat([m.planes[name] for m in matrices]) for name in first.planes}
        return cls(first.format, joined)

    def linear(self, x: Tensor, bias: Tensor | None = None, *, activation: str = "none") -> Tensor:
        """activation(x (..., columns) times the transpose + bias (rows)), as (..., rows) in x's dtype.

        Added up in f32. On the CPU up to 16 rows of x are rounded first, to 16 bits, 32 columns by one scale.
        """
        product = packed_linear(x, *self._operands(), format=self.format)
        if activation not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise ValueError(f"Packed.linear: activation must be one of {known}, got {activation!r}")
        return ACTIVATIONS[activation](product if bias is None else product + bias)

    def take(self, rows: Tensor, dtype: Any = "f32") -> Tensor:
        """The rows that integers (...) name, as (..., columns); out of range: zeros."""
        return packed_rows(rows, *self._operands(), format=self.format, dtype=dtypes.dtype(dtype).name)

    def dequantize(self, dtype: Any = "f32") -> Tensor:
        """The whole matrix, computed in f32."""
        return packed_weights(*self._operands(), format=self.format, dtype=dtypes.dtype(dtype).name)

    @property
    def executor(self) -> Any:
        """The Executor that it belongs to."""
        return self.planes["codes"].executor

    @property
    def nbytes(self) -> int:
        """Bytes of all planes."""
        return sum(plane.nbytes for plane in self.planes.values())

    def _operands(self) -> tuple[Tensor | None, ...]:
        return tuple(map(self.planes.get, PLANES))

    def __apply__(self, operation: Any, operands: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """Operations that take packed weights; see hologram.opset.forms.operation."""
        taken = _TAKEN.get(operation.name)
        if taken is None or operands[1] is not self:
            raise UnsupportedDType(
                f"{operation.name}: packed weights are the second operand of linear and embedding; "
                "dequantize() gives a tensor"
            )
        return taken(*operands, **attributes)

    # As an argument its planes are tensors, and its format is part of what a trace depends on.

    def __branches__(self) -> dict[str, Any]:
        return {"format": self.format.name, **self.planes}

    @classmethod
    def __assembled__(cls, branches: Mapping[str, Any]) -> Packed:
        return cls(named(branches["format"]), {n: x for n, x in branches.items() if n in PLANES})

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"Packed({rows} x {columns}, {self.format.name}, {self.nbytes:,} bytes)"


def _matrix(who: str, given: Any) -> np.ndarray:
    array = given.to_numpy() if isinstance(given, Tensor) else np.asarray(given)
    if array.ndim != 2:
        raise ShapeError(f"Packed.{who}: a matrix (rows, columns) is needed, got shape {array.shape}")
    return array


_TAKEN: dict[str, Callable[..., Tensor]] = {
    "linear": lambda x, packed, bias, activation: packed.linear(x, bias, activation=activation),
    "embedding": lambda index, packed: packed.take(index),
}
