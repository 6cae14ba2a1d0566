"""The file `.holo`: a head, lines of JSON that say what is in it, and weights, all little-endian.

    at 0   magic, 8 bytes        at 16  bytes of the lines      at 32  bytes of the weights
    at 8   version, u32          at 24  where weights begin     at 40  SHA-256 of the first 40 bytes and the lines
    at 12  number of lines, u32                                 at 72  the lines

Weights begin at a multiple of 4,096 bytes and each of them at a multiple of 256, so that a range of the file can be
mapped, or fetched, by itself; its line has its SHA-256. What lies between is zeros. Nothing is taken on trust: sizes
are held against the bytes that are there before anything is read, and nothing in a file is code.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hologram.foundation.dtypes import DType
from hologram.foundation.errors import FormatError, HologramError
from hologram.foundation.frozen import frozen

MAGIC, VERSION = b"\x89HOLO\r\n\x1a", 1
HEAD = struct.Struct("<8sIIQQQ")
LINES_AT = HEAD.size + hashlib.sha256().digest_size
PAGE, ALIGNMENT = 4096, 256
# What reading a line may raise that is wrong in itself: any value may stand where another is needed.
WRONG = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def aligned(place: int, to: int) -> int:
    """The next multiple."""
    return -(-place // to) * to


class Writing:
    """A file in the making: lines, and weights, those of the same bytes once."""

    def __init__(self) -> None:
        self.lines: list[Any] = []
        self._weights: list[np.ndarray] = []
        self._known: dict[tuple[str, str], int] = {}
        self._end = 0

    def add(self, kind: str, **content: Any) -> int:
        """Adds a line; gives its number."""
        self.lines.append({"is": kind, **content})
        return len(self.lines) - 1

    def weight(self, dtype: DType, values: np.ndarray) -> int:
        """Adds weights, an array of one axis; gives the number of their line."""
        raw = np.ascontiguousarray(values).view(np.uint8)
        digest = hashlib.sha256(raw).hexdigest()  # type: ignore[arg-type]
        known = self._known.get((dtype.name, digest))
        if known is not None:
            return known
        at = aligned(self._end, ALIGNMENT)
        self._weights += [np.zeros(at - self._end, np.uint8), raw]
        self._end = at + raw.size
        line = self.add("weight", dtype=dtype.name, size=int(values.size), at=at, sha256=digest)
        self._known[dtype.name, digest] = line
        return line

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the file; one that was there is replaced when the new one is whole."""
        text = b"".join(
            json.dumps(line, allow_nan=False, separators=(",", ":")).encode() + b"\n" for line in self.lines
        )
        begin = aligned(LINES_AT + len(text), PAGE)
        head = HEAD.pack(MAGIC, VERSION, len(self.lines), len(text), begin, self._end)
        target = Path(path)
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=target.name, delete=False) as out:
            try:
                out.write(head + sealed(head, text) + text)
                out.write(bytes(begin - LINES_AT - len(text)))
                for part in self._weights:
                    out.write(part)  # type: ignore[arg-type]
                out.close()
                os.chmod(out.name, 0o666 & ~_umask())
                os.replace(out.name, target)
            except BaseException:
                os.unlink(out.name)
                raise


def sealed(head: bytes, text: bytes) -> bytes:
    """The checksum of a head and the lines."""
    return hashlib.sha256(head + text).digest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


class Reading:
    """A file that is mapped into memory. Raises FormatError where it is cut short, changed, or of another version."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.size = self.path.stat().st_size
        if self.size < LINES_AT:
            raise self.wrong("head", 0, f"{LINES_AT} bytes are needed, the file has {self.size}")
        with self.path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._bytes = np.frombuffer(self._map, np.uint8)
        self.lines = self._opened()
        self._end = 0  # of the weights that were checked

    def close(self) -> None:
        """Lets go of the file. It is unmapped when nothing sees its bytes: an error's traceback may."""
        self.lines, self._bytes = [], self._bytes[:0].copy()
        del self._map

    def wrong(self, field: str, at: int, text: str) -> FormatError:
        return FormatError(self.path, field, at, text)

    def _opened(self) -> list[Line]:
        head = bytes(self._bytes[: HEAD.size])
        magic, version, count, size, begin, weights = HEAD.unpack(head)
        if magic != MAGIC:
            raise self.wrong("magic", 0, f"a saved program begins with {MAGIC!r}, this file with {magic!r}")
        if version != VERSION:
            raise self.wrong("version", 8, f"it must be {VERSION}, got {version}: save the program anew")
        if size > self.size - LINES_AT:
            raise self.wrong(
                "lines", 16, f"{size} bytes are promised, the file has {self.size - LINES_AT} left"
            )
        if begin != aligned(LINES_AT + size, PAGE):
            raise self.wrong(
                "weights", 24, f"they must begin at {aligned(LINES_AT + size, PAGE)}, got {begin}"
            )
        if weights != self.size - begin:
            raise self.wrong("weights", 32, f"{weights} bytes are promised, the file has {self.size - begin}")
        text = bytes(self._bytes[LINES_AT : LINES_AT + size])
        if sealed(head, text) != bytes(self._bytes[HEAD.size : LINES_AT]):
            raise self.wrong("checksum", HEAD.size, "it is not that of the lines: the file was changed")
        self._zeros(LINES_AT + size, begin)
        lines = text.split(b"\n")
        if len(lines) != count + 1 or lines[-1]:
            raise self.wrong("lines", 12, f"{count} are promised, the file has {len(lines) - 1}")
        self.begin = begin
        return list(self._read(lines[:-1]))

    def _read(self, lines: Sequence[bytes]) -> Iterator[Line]:
        at = LINES_AT
        for number, raw in enumerate(lines):
            try:
                content = json.loads(raw)
            except (ValueError, RecursionError) as error:
                raise self.wrong(f"line {number}", at, f"it must be JSON: {error}") from error
            if not isinstance(content, dict) or not isinstance(content.get("is"), str):
                raise self.wrong(f"line {number}", at, "it must be an object that says what it `is`")
            yield Line(self, number, at, content)
            at += len(raw) + 1

    def _zeros(self, first: int, last: int) -> None:
        for at in np.flatnonzero(self._bytes[first:last])[:1]:
            raise self.wrong("filling", first + int(at), f"it must be 0, got {self._bytes[first + int(at)]}")

    def weight(self, line: Line, dtype: DType) -> np.ndarray:
        """Weights as they lie in the file, after a look at their checksum. They are asked for in order, each once."""
        size, at = line.count("size"), line.count("at")
        nbytes = size * dtype.itemsize
        if at != aligned(self._end, ALIGNMENT) or self.begin + at + nbytes > self.size:
            raise line.wrong(
                "at", f"{nbytes} bytes at {at} do not follow {self._end} in {self.size - self.begin}"
            )
        self._zeros(self.begin + self._end, self.begin + at)
        self._end = at + nbytes
        raw = self._bytes[self.begin + at : self.begin + self._end]
        if hashlib.sha256(raw).hexdigest() != line.take("sha256", str):  # type: ignore[arg-type]
            raise self.wrong(
                f"weight of line {line.number}", self.begin + at, "its checksum is another: it was changed"
            )
        return raw.view(dtype.numpy)

    def ended(self) -> None:
        """Refuses bytes behind the last weight."""
        if self.begin + self._end != self.size:
            raise self.wrong(
                "weights", 32, f"{self.size - self.begin} bytes are promised, {self._end} are described"
            )


@frozen
class Line:
    """What a line says, by name."""

    file: Reading
    number: int
    at: int
    content: dict[str, Any]

    @property
    def kind(self) -> str:
        return self.content["is"]

    def place(self, field: str) -> tuple[str, int]:
        """What errors call a field, or all of the line, and where that is."""
        return f"line {self.number} ({self.kind[:40]}){', ' if field else ''}{field}", self.at

    def wrong(self, field: str, text: str) -> FormatError:
        return self.file.wrong(*self.place(field), text)

    def take(self, field: str, kind: type | tuple[type, ...]) -> Any:
        """What a field holds, which must be of a kind."""
        value = self.content.get(field)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if type(value) not in kinds:
            names = " or ".join(k.__name__ for k in kinds)
            raise self.wrong(field, f"{names} is needed, got {_briefly(value)}")
        return value

    def count(self, field: str, most: int = 1 << 62) -> int:
        """A number that is at least 0 and at most so large."""
        value = self.take(field, int)
        if not 0 <= value <= most:
            raise self.wrong(field, f"it must be in 0 to {most}, got {_briefly(value)}")
        return value

    def refused(self, error: BaseException) -> FormatError:
        """What went wrong on the way from the line to what it says."""
        if isinstance(error, FormatError):
            return error
        said = str(error) if isinstance(error, (HologramError, *_TOLD)) else type(error).__name__
        return self.wrong("", f"it says what cannot be: {_cut(said)}")


_TOLD = (TypeError, ValueError)


def _briefly(value: Any) -> str:
    return "nothing" if value is None else _cut(repr(value) if not isinstance(value, int) else hex(value))


def _cut(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:300]}..."
