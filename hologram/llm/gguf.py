"""GGUF: the file format of language models, read by mapping it into memory.

The format is ggml's (versions 2 and 3, little-endian): a header, metadata as typed keys, descriptions of tensors, and
their bytes at aligned offsets. Nothing is taken on trust: every count and size is held against the bytes that are
there before memory is taken for it.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hologram.foundation.dtypes import DType, bf16, f16, f32
from hologram.foundation.errors import FormatError
from hologram.foundation.frozen import frozen
from hologram.opset.packed.gguf import KINDS

MAGIC, VERSIONS = b"GGUF", (2, 3)
# Of metadata, by the number that stands for it.
SCALARS = dict(enumerate(("<B", "<b", "<H", "<h", "<I", "<i", "<f"))) | {10: "<Q", 11: "<q", 12: "<d"}
FLAG, STRING, ARRAY = 7, 8, 9
# Of tensors: the kinds that are read, by the number that stands for each.
PLAIN: dict[str, DType] = {"F32": f32, "F16": f16, "BF16": bf16}
NUMBERS = {0: "F32", 1: "F16", 30: "BF16"} | {kind.number: name for name, kind in KINDS.items()}
AXES, ALIGNMENT = 4, 32
NEEDED: Any = object()  # stands for the default of what must be there
LEAST_KEY, LEAST_TENSOR = 8 + 4 + 1, 8 + 4 + 4 + 8  # bytes that one takes in the file


@frozen
class Described:
    """A tensor of a file: its kind, its shape with the innermost axis last, and where its bytes are."""

    kind: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


class GGUF:
    """A model's file: `metadata` by key, `tensors` by name.

    Raises FormatError where the file is cut short, contradicts itself, or holds what is not known.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.stat().st_size:
            raise FormatError(self.path, "header", 0, "a GGUF file is needed, got an empty one")
        with self.path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.bytes = np.frombuffer(self._map, np.uint8)
        self.metadata: dict[str, Any] = {}
        self.places: dict[str, int] = {}  # of keys, in the file
        reader = _Reader(self.path, memoryview(self.bytes))
        tensors, keys = _header(reader)
        for _ in range(keys):
            key = reader.text("a key")
            self.places[key] = reader.at
            if key in self.metadata:
                raise reader.wrong(key, "a key may stand once, this one stands twice")
            self.metadata[key] = reader.value(key)
        self.tensors = self._described(reader, tensors)

    def _described(self, reader: _Reader, count: int) -> dict[str, Described]:
        """What the tensors are, once it is known where their bytes begin."""
        alignment = self.metadata.get("general.alignment", ALIGNMENT)
        if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20 or alignment & (alignment - 1):
            raise self.wrong("general.alignment", f"it must be a power of two, got {alignment!r}")
        found = dict(_tensor(reader) for _ in range(count))
        if len(found) < count:
            raise reader.wrong("tensors", "names must differ, one stands twice")
        first, size = -(-reader.at // alignment) * alignment, self.bytes.size
        for name, (tensor, at) in found.items():
            end = first + tensor.offset + tensor.nbytes
            if tensor.offset % alignment or end > size:
                text = f"{tensor.nbytes} bytes must lie within {size} at a multiple of {alignment}, they end at {end}"
                raise FormatError(self.path, f"tensor {name!r}", at, text)
        return {n: Described(t.kind, t.shape, first + t.offset, t.nbytes) for n, (t, _) in found.items()}

    def data(self, name: str) -> np.ndarray:
        """The bytes of a tensor as they lie in the file: no memory is taken."""
        tensor = self.tensors[name]
        return self.bytes[tensor.offset : tensor.offset + tensor.nbytes]

    def put_aside(self) -> None:
        """Has what was read so far take no memory, where the system can be told; it is read anew when needed.

        Nor does what was made of it and let go of since, which glibc keeps.
        """
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
        if trim is not None:
            trim(0)

    def wrong(self, key: str, text: str) -> FormatError:
        """An error about a key of the metadata."""
        return FormatError(self.path, key, self.places.get(key, 0), text)

    def get(self, key: str, kind: type, default: Any = NEEDED, least: float = -math.inf) -> Any:
        """A key's value, which must be of the kind and at least so much; the default where it is not there."""
        if key not in self.metadata and default is not NEEDED:
            return default
        value = self.metadata.get(key)
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind or (isinstance(value, float) and not math.isfinite(value)):
            got = "nothing" if value is None else repr(value)[:60]
            raise self.wrong(key, f"{kind.__name__} is needed, got {got}")
        if isinstance(value, (int, float)) and value < least:
            raise self.wrong(key, f"it must be at least {least}, got {value}")
        return value

    def take(self, key: str, kind: type, default: Any = NEEDED) -> Any:
        """As `get`, of what takes memory and is needed once: it is not kept."""
        value = self.get(key, kind, default)
        self.metadata.pop(key, None)
        return value


class _Reader:
    """Takes values from the bytes of a file, one behind the other."""

    def __init__(self, path: Path, view: memoryview) -> None:
        self.path, self.view, self.at = path, view, 0

    def wrong(self, field: str, text: str, at: int | None = None) -> FormatError:
        return FormatError(self.path, field, self.at if at is None else at, text)

    def take(self, size: int, field: str) -> memoryview:
        """The next bytes."""
        left = len(self.view) - self.at
        if size > left:
            raise self.wrong(field, f"{size} bytes are needed, the file has {left} left")
        self.at += size
        return self.view[self.at - size : self.at]

    def number(self, form: str, field: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form), field))[0]

    def count(self, least: int, field: str) -> int:
        """How many things follow of at least so many bytes each."""
        at, count = self.at, self.number("<Q", field)
        if count * least > len(self.view) - self.at:
            left = len(self.view) - self.at
            raise self.wrong(
                field, f"{count} things of {least} bytes are promised, the file has {left} left", at
            )
        return count

    def text(self, field: str) -> str:
        at = self.at
        raw = bytes(self.take(self.number("<Q", field), field))
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise self.wrong(field, f"it must be UTF-8: {error.reason}", at) from error

    def value(self, key: str) -> Any:
        """A value of the metadata, behind the number of its type."""
        at = self.at
        return self._of(self.number("<I", key), key, at)()

    def _of(self, kind: int, key: str, at: int) -> Callable[[], Any]:
        if kind in SCALARS:
            return lambda: self.number(SCALARS[kind], key)
        if kind == FLAG:
            return lambda: self.number("<B", key) != 0
        if kind == STRING:
            return lambda: self.text(key)
        if kind == ARRAY:
            return lambda: self.array(key)
        raise self.wrong(key, f"types of values are 0 to 12, got {kind}", at)

    def array(self, key: str) -> Any:
        """A list of strings or bools, or an array of numbers."""
        at, kind = self.at, self.number("<I", key)
        if kind in SCALARS:
            dtype = np.dtype(SCALARS[kind])
            count = self.count(dtype.itemsize, key)
            return np.frombuffer(self.take(count * dtype.itemsize, key), dtype).copy()
        if kind == ARRAY:
            raise self.wrong(key, "arrays of arrays are not known", at)
        one = self._of(kind, key, at)
        return [one() for _ in range(self.count(8 if kind == STRING else 1, key))]


def _header(reader: _Reader) -> tuple[int, int]:
    """How many tensors and how many keys there are."""
    magic = bytes(reader.take(4, "magic"))
    if magic != MAGIC:
        raise reader.wrong("magic", f"a GGUF file begins with {MAGIC!r}, this one with {magic!r}", 0)
    version = reader.number("<I", "version")
    if version not in VERSIONS:
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS
        got = f"{version}, which is big-endian" if swapped else version
        raise reader.wrong("version", f"it must be 2 or 3, got {got}", 4)
    return reader.count(LEAST_TENSOR, "tensors"), reader.count(LEAST_KEY, "keys")


def _tensor(reader: _Reader) -> tuple[str, tuple[Described, int]]:
    """A tensor's name, and what it is with the place that says so; its offset counts from where data begins."""
    at = reader.at
    name = reader.text("a tensor's name")
    who = f"tensor {name!r}"
    axes = reader.number("<I", who)
    if not 1 <= axes <= AXES:
        raise reader.wrong(who, f"it must have 1 to {AXES} axes, got {axes}", at)
    shape = tuple(reader.number("<Q", who) for _ in range(axes))[::-1]
    number = reader.number("<I", who)
    kind = NUMBERS.get(number)
    if kind is None:
        known = ", ".join(NUMBERS.values())
        raise reader.wrong(who, f"its kind must be one of {known}, got number {number}", at)
    size, nbytes = (KINDS[kind].size, KINDS[kind].nbytes) if kind in KINDS else (1, PLAIN[kind].itemsize)
    if not all(shape) or shape[-1] % size:
        raise reader.wrong(who, f"rows of {kind} must be whole blocks of {size}, got shape {shape}", at)
    total = math.prod(shape) // size * nbytes
    return name, (Described(kind, shape, reader.number("<Q", who), total), at)
