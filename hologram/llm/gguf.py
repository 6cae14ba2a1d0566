"""GGUF files: what they say of a model, and its tensors where they lie.

The format, versions 2 and 3: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. A file is believed in nothing:
every size, count and offset is held to the file's own size before memory is taken for it.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from hologram.foundation.dtypes import DType, bf16, f16, f32, f64
from hologram.foundation.errors import FormatError
from hologram.foundation.frozen import frozen
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.packed import Packed
from hologram.frontend.tensor import Tensor
from hologram.opset.packed.gguf import KINDS as BLOCKS

MAGIC, VERSIONS = b"GGUF", (2, 3)
NUMBERS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    10: "Q",
    11: "q",
    12: "d",
}  # a value's type
BOOL, STRING, ARRAY = 7, 8, 9
MOST_AXES = 4
FLOATS: Mapping[str, DType] = {"F32": f32, "F16": f16, "BF16": bf16, "F64": f64}
KINDS = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K",
    13: "Q5_K", 14: "Q6_K", 20: "IQ4_NL", 28: "F64", 30: "BF16", 39: "MXFP4",
}  # fmt: skip


@frozen
class Entry:
    """A tensor of a file: its axes from the outermost, as NumPy's, and where its bytes are."""

    name: str
    kind: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


class GgufFile:
    """A GGUF file, mapped into memory: `metadata` by key, `tensors` by name.

    Raises FormatError, which names the file, the field and its place, for one that is none, is cut off, or lies.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with self.path.open("rb") as file:
            if not self.path.stat().st_size:
                raise FormatError(f"{self.path}: magic at 0: the file is empty")
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            reader = _Reader(self.path, self._bytes)
            self.metadata, self.tensors = reader.contents()
        except BaseException:
            self._bytes.close()
            raise

    def bytes_of(self, name: str) -> np.ndarray:
        """A tensor's bytes (nbytes,), where they lie in the file; raises KeyError for a name it has not."""
        entry = self.tensors[name]
        return np.frombuffer(self._bytes, np.uint8, entry.nbytes, entry.offset)

    def tensor(self, name: str, *, device: Any = None) -> Tensor | Packed:
        """A tensor on a device: matrices of packed kinds stay packed, floats keep their dtype."""
        entry = self.tensors[name]
        data = self.bytes_of(name)
        if entry.kind in FLOATS:
            return asarray(data.view(FLOATS[entry.kind].numpy).reshape(entry.shape), device=device)
        rows = math.prod(entry.shape[:-1])
        return Packed.from_gguf(data, entry.kind, (rows, entry.shape[-1]), executor=device)


class _Reader:
    """Reads a file from its beginning on."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path, self.data, self.size, self.at = path, data, len(data), 0

    def wrong(self, field: str, what: str, at: int | None = None) -> FormatError:
        return FormatError(f"{self.path}: {field} at {self.at if at is None else at}: {what}")

    def contents(self) -> tuple[Mapping[str, Any], Mapping[str, Entry]]:
        if self.data[:4] != MAGIC:
            raise self.wrong("magic", f"must be {MAGIC!r}, got {self.data[:4]!r}")
        self.at = 4
        version = self.number("I", "version")
        if version not in VERSIONS:
            raise self.wrong("version", f"must be one of {VERSIONS}, got {version}", 4)
        tensors = self.count("number of tensors", 24)
        pairs = self.count("number of metadata", 13)
        metadata: dict[str, Any] = {}
        for _ in range(pairs):
            key, at = self.string("metadata key"), self.at
            if key in metadata:
                raise self.wrong(key, "stands twice", at)
            metadata[key] = self.value(key, self.number("I", f"type of {key}"))
        found = [self.entry() for _ in range(tensors)]
        return MappingProxyType(metadata), MappingProxyType(self.placed(found, metadata))

    def number(self, code: str, field: str) -> Any:
        size = struct.calcsize(code)
        if self.size - self.at < size:
            raise self.wrong(field, f"{size} bytes are needed, and the file ends after {self.size - self.at}")
        (value,) = struct.unpack_from(f"<{code}", self.data, self.at)
        self.at += size
        return value

    def count(self, field: str, least: int) -> int:
        """How many of something follow, each of at least so many bytes."""
        value, left = self.number("Q", field), self.size - self.at
        if value * least > left:
            raise self.wrong(field, f"{value} need {value * least} bytes, and {left} are left", self.at - 8)
        return value

    def string(self, field: str) -> str:
        size, at = self.count(f"length of {field}", 1), self.at
        self.at += size
        try:
            return self.data[at : self.at].decode()
        except UnicodeDecodeError as error:
            raise self.wrong(field, f"is not UTF-8: {error.reason}", at + error.start) from None

    def value(self, key: str, kind: int) -> Any:
        if kind in NUMBERS:
            return self.number(NUMBERS[kind], key)
        if kind == BOOL:
            value = self.number("B", key)
            if value > 1:
                raise self.wrong(key, f"a bool must be 0 or 1, got {value}", self.at - 1)
            return bool(value)
        if kind == STRING:
            return self.string(key)
        if kind != ARRAY:
            raise self.wrong(key, f"unknown type {kind}", self.at - 4)
        return self.array(key)

    def array(self, key: str) -> list[Any]:
        kind, at = self.number("I", f"element type of {key}"), self.at - 4
        if kind == STRING:
            return [self.string(key) for _ in range(self.count(f"length of {key}", 8))]
        if kind not in NUMBERS and kind != BOOL:
            raise self.wrong(key, f"arrays hold numbers, bools or strings, got type {kind}", at)
        code = NUMBERS.get(kind, "B")
        size = self.count(f"length of {key}", struct.calcsize(code))
        values = np.frombuffer(self.data, np.dtype(f"<{code}"), size, self.at).tolist()
        self.at += size * struct.calcsize(code)
        return [bool(x) for x in values] if kind == BOOL else values

    def entry(self) -> Entry:
        """A tensor, its offset counted from where the data begins."""
        name = self.string("tensor name")
        axes, at = self.number("I", f"axes of {name}"), self.at - 4
        if axes > MOST_AXES:
            raise self.wrong(f"axes of {name}", f"must be at most {MOST_AXES}, got {axes}", at)
        shape = tuple(self.number("Q", f"shape of {name}") for _ in range(axes))[::-1]
        kind, at = self.number("I", f"kind of {name}"), self.at - 4
        if kind not in KINDS:
            raise self.wrong(f"kind of {name}", f"must be one of {', '.join(KINDS.values())}, got {kind}", at)
        nbytes = self.nbytes(name, KINDS[kind], shape, at)
        return Entry(name, KINDS[kind], shape, self.number("Q", f"offset of {name}"), nbytes)

    def nbytes(self, name: str, kind: str, shape: tuple[int, ...], at: int) -> int:
        if kind in FLOATS:
            columns, size = 1, FLOATS[kind].itemsize
        else:
            columns, size = BLOCKS[kind].size, BLOCKS[kind].nbytes
        if not all(shape) or not shape or shape[-1] % columns:
            raise self.wrong(f"shape of {name}", f"rows of {kind} are blocks of {columns}, got {shape}", at)
        nbytes = math.prod(shape) // columns * size
        if nbytes > self.size:
            raise self.wrong(f"shape of {name}", f"{shape} of {kind} are more bytes than the file has", at)
        return nbytes

    def placed(self, found: list[Entry], metadata: Mapping[str, Any]) -> dict[str, Entry]:
        """The tensors by name, with offsets in the file."""
        alignment = metadata.get("general.alignment", 32)
        if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1) or alignment > 1 << 20:
            raise self.wrong("general.alignment", f"must be a power of two, got {alignment!r}")
        start = -(-self.at // alignment) * alignment
        placed: dict[str, Entry] = {}
        for entry in found:
            field = f"offset of {entry.name}"
            if entry.name in placed:
                raise self.wrong(f"tensor {entry.name}", "stands twice")
            if entry.offset % alignment:
                raise self.wrong(field, f"must be a multiple of {alignment}, got {entry.offset}")
            if start + entry.offset + entry.nbytes > self.size:
                left = self.size - start
                raise self.wrong(
                    field, f"{entry.offset} and {entry.nbytes} bytes go beyond the {left} of the data"
                )
            placed[entry.name] = Entry(
                entry.name, entry.kind, entry.shape, start + entry.offset, entry.nbytes
            )
        return placed
