"""The element types: what is known of each, and how they combine."""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hologram.foundation.errors import UnsupportedDType
from hologram.foundation.frozen import frozen

# DLDataTypeCode, by NumPy's name of a dtype or by its kind.
_DLPACK = {"int": 0, "uint": 1, "float": 2, "bfloat16": 4, "complex": 5, "bool": 6} | {
    "float8_e3m4": 7, "float8_e4m3": 8, "float8_e4m3fn": 10, "float8_e5m2": 12,
}  # fmt: skip


class Kind(str):
    """A kind of dtypes: its word here, "float", and NumPy's letter for it, "f", which it is as text; it equals both."""

    __slots__ = ("word",)

    def __new__(cls, word: str) -> Kind:
        made = super().__new__(cls, _LETTERS.get(word, word))
        made.word = word
        return made

    def __eq__(self, other: object) -> bool:
        return self.word == other or str.__eq__(self, other) is True

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:  # of the word, by which tables here are kept
        return hash(self.word)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Kind, (self.word,))


_LETTERS = {"bool": "b", "uint": "u", "int": "i", "float": "f", "complex": "c"}


@frozen(eq=False)
class DType:
    """An element type. There is one object of each. All that differs from dtype to dtype is asked of it.

    The fields say what it is; the rest follows from them. It equals whatever names it: `x.dtype == np.float32`, as
    NumPy's dtypes do. Its hash is that of NumPy's dtype, where NumPy itself has it; like theirs, not that of its names.
    """

    name: str
    kind: str  # "float", "int", "uint", "bool", "complex", or "index"; made a Kind
    bits: int
    numpy_name: str
    mantissa: int = 0  # of floats: the bits of the fraction, as stored
    computes: bool = True  # False: it is stored, moved and converted, and has no arithmetic
    finite: bool = (
        False  # a float without infinities: what is too large becomes the largest, and all ones is its NaN
    )

    def __post_init__(self) -> None:
        vars(self)["kind"] = Kind(self.kind)
        own = self.is_foreign or self.kind == "index"
        vars(self)["_hash"] = object.__hash__(self) if own else hash(self.numpy)

    if TYPE_CHECKING:
        _hash: ClassVar[int]

        # A conversion in kernels (hologram.kernels), which read it and do not call it.
        def __call__(self, number: Any) -> Any: ...

    @cached_property
    def itemsize(self) -> int:
        """Bytes of one element in memory; a bool takes one, as in NumPy."""
        return max(self.bits, 8) // 8

    @cached_property
    def numpy(self) -> np.dtype:
        """The NumPy dtype."""
        if self.is_foreign:
            import ml_dtypes

            return np.dtype(getattr(ml_dtypes, self.numpy_name))
        return np.dtype(self.numpy_name)

    @cached_property
    def is_foreign(self) -> bool:
        """Whether NumPy has it from ml_dtypes, which is imported on first use. NumPy then moves its `unsigned`."""
        return not hasattr(np, self.numpy_name)

    @cached_property
    def dlpack(self) -> int:
        """The DLDataTypeCode of DLPack."""
        return _DLPACK.get(self.numpy_name) or _DLPACK[self.kind]

    @cached_property
    def is_float(self) -> bool:
        return self.kind == "float"

    @cached_property
    def is_complex(self) -> bool:
        """Whether its elements are a real and an imaginary part, side by side in memory; each is a `part`."""
        return self.kind == "complex"

    @cached_property
    def is_inexact(self) -> bool:
        """Whether its elements are rounded numbers, which have derivatives."""
        return self.is_float or self.is_complex

    @cached_property
    def part(self) -> DType:
        """The dtype of the real and of the imaginary part: of a complex dtype a float, else the dtype itself."""
        return _BY_NAME[f"f{self.bits // 2}"] if self.is_complex else self

    @cached_property
    def complex(self) -> DType:
        """The complex dtype whose parts hold its numbers: of f64 c128, of others c64."""
        return self if self.is_complex else c128 if self is f64 else c64

    @cached_property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @cached_property
    def is_signed(self) -> bool:
        """Whether it has numbers below 0."""
        return self.kind in ("int", "float", "index", "complex")

    @cached_property
    def python(self) -> type[Number]:
        """The type of Python's numbers that are its elements: `d.python(0)` is its zero."""
        return {"float": float, "bool": bool, "complex": complex}.get(self.kind, int)

    @cached_property
    def lowest(self) -> Any:
        """What no element is below: a negative infinity, a whole number, or False."""
        return -math.inf if self.is_float else self.python(-1 << self.bits - 1 if self.is_signed else 0)

    @cached_property
    def highest(self) -> Any:
        """What no element is above."""
        return math.inf if self.is_float else self.python((1 << self.bits - self.is_signed) - 1)

    @cached_property
    def wide(self) -> DType:
        """The dtype of 32 bits that holds all its numbers; what a language without arithmetic on it computes in."""
        stem = {"float": "f", "int": "i", "uint": "u"}.get(self.kind)
        return _BY_NAME[f"{stem}32"] if stem and self.bits < 32 else self

    @cached_property
    def computed(self) -> DType:
        """What expressions on it are computed in, by every device: f32 for narrower floats."""
        return self.wide if self.is_float and self.computes else self

    @cached_property
    def unsigned(self) -> DType:
        """The unsigned integer of its size, which holds its bits."""
        return _BY_NAME[f"u{8 * self.itemsize}"]

    @cached_property
    def signed(self) -> DType:
        """The signed integer of its size."""
        return _BY_NAME[f"i{8 * self.itemsize}"]

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's, which finds it here: `np.empty(3, dtype=x.dtype)`."""
        return self.numpy

    # Of floats: a sign, an exponent and a fraction, as IEEE 754 has them.

    @cached_property
    def digits(self) -> int:
        """Binary digits of a number, the one before the point included; of others all that they have."""
        return self.mantissa + 1 if self.is_float else self.bits - (self.kind == "int")

    @cached_property
    def bias(self) -> int:
        """What is added to exponents, and the largest exponent where the code above it is infinity's."""
        return (1 << self.bits - self.mantissa - 2) - 1

    @cached_property
    def least_exponent(self) -> int:
        """Of the numbers with all digits."""
        return 1 - self.bias

    @cached_property
    def infinity(self) -> int:
        """The code above that of the largest number, where there is an infinity."""
        return (2 * self.bias + 1) << self.mantissa

    @cached_property
    def nan(self) -> int:
        """The code of a NaN: all bits but the sign's."""
        return (1 << self.bits - 1) - 1

    @cached_property
    def largest(self) -> float:
        """The largest finite number."""
        return math.ldexp(2.0 - 2.0 ** (self.finite - self.mantissa), self.bias + self.finite)

    @cached_property
    def smallest(self) -> float:
        """The smallest number above 0, denormal."""
        return math.ldexp(1.0, self.least_exponent - self.mantissa)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is DType:
            return False
        if (
            not isinstance(other, (str, type, np.dtype)) and type(other).__name__ != "dtype"
        ):  # torch.dtype and its like
            return NotImplemented
        try:
            return dtype(other) is self
        except UnsupportedDType:
            return False

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return (named, (self.name,))


def named(name: str) -> DType:
    """The dtype whose short name that is, `index` included; raises KeyError."""
    return index if name == index.name else _BY_NAME[name]


Number = bool | int | float  # what Python has for an element of any that is real

f32 = DType("f32", "float", 32, "float32", 23)
f16 = DType("f16", "float", 16, "float16", 10)
bf16 = DType("bf16", "float", 16, "bfloat16", 7)
f64 = DType("f64", "float", 64, "float64", 52)
i8 = DType("i8", "int", 8, "int8")
i16 = DType("i16", "int", 16, "int16")
i32 = DType("i32", "int", 32, "int32")
i64 = DType("i64", "int", 64, "int64")
u8 = DType("u8", "uint", 8, "uint8")
u16 = DType("u16", "uint", 16, "uint16")
u32 = DType("u32", "uint", 32, "uint32")
u64 = DType("u64", "uint", 64, "uint64")
bool_ = DType("bool", "bool", 1, "bool")
f8e4m3fn = DType("f8e4m3fn", "float", 8, "float8_e4m3fn", 3, computes=False, finite=True)
f8e5m2 = DType("f8e5m2", "float", 8, "float8_e5m2", 2, computes=False)
c64 = DType("c64", "complex", 64, "complex64")
c128 = DType("c128", "complex", 128, "complex128")

ALL = tuple(d for d in tuple(globals().values()) if isinstance(d, DType))
COMPUTED = tuple(d for d in ALL if d.computes and not d.is_complex)  # the real ones that have an arithmetic
COMPLEX = tuple(d for d in ALL if d.is_complex)
STORED = tuple(d for d in ALL if not d.computes)
FLOATS = tuple(d for d in COMPUTED if d.is_float)
INTEGERS = tuple(d for d in COMPUTED if d.is_integer)
NUMBERS = INTEGERS + FLOATS
INEXACT = FLOATS + COMPLEX
DISCRETE = (*INTEGERS, bool_)

# The type of positions in Atlas programs: coordinates, extents, loop counters. As wide as the device needs (32 bits
# in WGSL, 64 on the CPU); arithmetic on it must not overflow, so compilers may reason about addresses.
index = DType("index", "index", 64, "int64")

_BY_NAME = {d.name: d for d in ALL} | {d.numpy_name: d for d in ALL}
_BY_DLPACK = {(d.dlpack, 8 * d.itemsize): d for d in ALL}
_REFUSED = f"dtype must be one of {' '.join(d.name for d in ALL)} in native byte order, got {{!r}}"


def of_dlpack(code: int, bits: int, lanes: int = 1) -> DType | None:
    """The dtype that DLPack calls so; None where there is none."""
    return _BY_DLPACK.get((code, bits)) if lanes == 1 else None


def dtype(spec: Any) -> DType:
    """The DType named by a DType, a name ("f32", "float32"), a NumPy dtype or scalar type, or a Python type.

    Python's types mean what they do to NumPy: `float` is f64, `int` i64. Only where no dtype is given are floats f32.
    Raises UnsupportedDType for anything else, None and strings included.
    """
    if type(spec) is DType:
        return spec
    try:
        hash(spec)
    except TypeError:
        raise UnsupportedDType(_REFUSED.format(spec)) from None
    return _by_spec(spec)


@lru_cache(maxsize=256)
def _by_spec(spec: Any) -> DType:
    if isinstance(spec, str) and spec in _BY_NAME:
        return _BY_NAME[spec]
    try:
        name = np.dtype(spec).name
    except (TypeError, ValueError):
        name = str(spec).rpartition(".")[2]  # torch.float32 and its like
    resolved = _BY_NAME.get(name)
    # None is float64 to NumPy.
    if resolved is None or spec is None or (isinstance(spec, np.dtype) and not spec.isnative):
        raise UnsupportedDType(_REFUSED.format(spec))
    return resolved


_RANK = {"bool": 0, "uint": 1, "int": 2, "float": 3, "complex": 4}


@lru_cache(maxsize=1024)
def promote(a: DType, b: DType) -> DType:
    """The dtype both operands are converted to.

    Within a kind, and between signed and unsigned integers, as in the Python array API standard; u64 with a signed
    integer is refused, no integer dtype holds both. Between kinds the higher kind wins, as in PyTorch and JAX (i32
    with f16 is f16): a GPU that lacks f64 must not meet it by accident; but f64 with c64 is c128, which holds both.
    Dtypes without arithmetic promote to nothing.
    """
    if a == b:
        return a
    if not (a.computes and b.computes):
        raise UnsupportedDType(f"no dtype is computed in for {a} and {b}: convert one of them first")
    if _RANK[a.kind] < _RANK[b.kind]:
        a, b = b, a
    if a.kind == b.kind:
        if a.bits == b.bits:  # f16 with bf16
            return f32
        return a if a.bits > b.bits else b
    if a.kind == "int" and b.kind == "uint":
        bits = max(a.bits, 2 * b.bits)
        if bits > 64:
            raise UnsupportedDType(f"no integer dtype holds both {a} and {b}: convert one of them first")
        return _BY_NAME[f"i{bits}"]
    return c128 if a.is_complex and b is f64 else a


def weak(d: DType, number: bool | int | float | complex) -> DType:
    """The dtype of a tensor of dtype `d` combined with a Python number: the tensor's, unless its kind is lower."""
    if isinstance(number, bool):
        return d
    if isinstance(number, int):
        return i64 if d is bool_ else d
    if isinstance(number, complex):
        return d.complex
    return d if d.is_inexact else f32
