"""Tensors in files: NumPy's npy and npz, and safetensors (https://huggingface.co/docs/safetensors)."""

from __future__ import annotations

import contextlib
import json
import math
import os
import zipfile
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from hologram.foundation import dtypes, lazy
from hologram.foundation.errors import FormatError, UnsupportedDType
from hologram.frontend.array_api.creation import asarray
from hologram.frontend.default import executor_of
from hologram.frontend.tensor import Tensor

if TYPE_CHECKING:
    from hologram.frontend.saved import program as programs
else:
    programs = lazy.module("hologram.frontend.saved.program")

# What safetensors calls dtypes.
KINDS = {
    "F64": "f64", "F32": "f32", "F16": "f16", "BF16": "bf16", "I64": "i64", "I32": "i32", "I16": "i16", "I8": "i8",
    "U64": "u64", "U32": "u32", "U16": "u16", "U8": "u8", "BOOL": "bool", "F8_E4M3": "f8e4m3fn", "F8_E5M2": "f8e5m2",
    "C64": "c64",
}  # fmt: skip
MAGIC = (b"\x93NUMPY", b"PK\x03\x04", b"PK\x05\x06")  # of an array, of a zip file of some, of an empty one
MOST = 100 << 20  # bytes of a header, as the format has it


def save(file: Any, arr: Any) -> None:
    """Writes a tensor to a file of NumPy's (.npy), or a dict of some to .npz or .safetensors, as the name ends.

    An open file, and a name without one of these endings, gets .npy for a tensor and .npz for a dict.
    """
    ending = _ending(file)
    if ending == ".safetensors":
        if not isinstance(arr, Mapping):
            raise TypeError(f"save: a dict of tensors is needed for .safetensors, got {type(arr).__name__}")
        _write_safetensors(file, {name: _host(x) for name, x in arr.items()})
    elif isinstance(arr, Mapping):
        np.savez(file, allow_pickle=False, **{name: _host(x) for name, x in arr.items()})
    elif ending == ".npz":
        np.savez(file, allow_pickle=False, arr_0=_host(arr))
    else:
        np.save(file, _host(arr), allow_pickle=False)


def savez(file: Any, *args: Any, **kwds: Any) -> None:
    """Writes tensors to a file .npz, by their names, or as arr_0, arr_1, ..."""
    named = {f"arr_{k}": _host(x) for k, x in enumerate(args)}
    np.savez(file, allow_pickle=False, **named, **{name: _host(x) for name, x in kwds.items()})


def load(file: Any, *, device: Any = None) -> Any:
    """The tensor of a file .npy, or a dict of those of a file .npz or .safetensors, on the default device or another.

    Of a file .holo the program in it, which is called like the function that `hg.save_program` was given. Raises
    FormatError for a file that is of no such format, is cut off or lies. Nothing is unpickled.
    """
    executor = executor_of(device)
    if _ending(file) == ".holo":
        return programs.SavedProgram(file, executor)
    if _ending(file) == ".safetensors":
        return {name: executor.tensor(x) for name, x in _read_safetensors(file).items()}
    loaded = _read_numpys(file)
    if isinstance(loaded, np.ndarray):
        return executor.tensor(loaded)
    return {name: executor.tensor(x) for name, x in loaded.items()}


def _ending(file: Any) -> str:
    return os.path.splitext(os.fspath(file))[1].lower() if isinstance(file, (str, os.PathLike)) else ""


def _host(x: Any) -> np.ndarray:
    return x.to_numpy() if isinstance(x, Tensor) else asarray(x).to_numpy()


def _read_numpys(file: Any) -> np.ndarray | dict[str, np.ndarray]:
    with contextlib.nullcontext(file) if hasattr(file, "read") else open(file, "rb") as source:
        begin = source.read(max(map(len, MAGIC)))
        source.seek(-len(begin), os.SEEK_CUR)
        if not begin.startswith(MAGIC):
            raise FormatError(
                file,
                "magic",
                0,
                f"a file .npy or .npz begins with {MAGIC[0]} or {MAGIC[1]}, this one with {begin}",
            )
        try:
            loaded = np.load(source, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded
            found = {name: loaded[name] for name in loaded.files}
        except (EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
            raise FormatError(file, "what follows the magic", len(begin), str(error)) from error
    strange = [name for name, x in found.items() if not isinstance(x, np.ndarray)]
    if strange:
        raise FormatError(file, strange[0], 0, "a file .npz has files .npy alone")
    return found


def _write_safetensors(file: Any, arrays: Mapping[str, np.ndarray]) -> None:
    names = {ours: theirs for theirs, ours in KINDS.items()}
    header: dict[str, Any] = {}
    place = 0
    for name, x in arrays.items():
        kind = dtypes.dtype(x.dtype)
        if kind.name not in names:
            raise UnsupportedDType(f"save: safetensors has no {kind}, which {name!r} is: save it as npz")
        header[name] = {
            "dtype": names[kind.name],
            "shape": list(x.shape),
            "data_offsets": [place, place + x.nbytes],
        }
        place += x.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(file, "wb") as out:
        out.write(len(text).to_bytes(8, "little"))
        out.write(text)
        for x in arrays.values():
            out.write(np.ascontiguousarray(x).tobytes())


def _read_safetensors(file: Any) -> dict[str, np.ndarray]:
    size = os.path.getsize(file)
    with open(file, "rb") as source:
        length = int.from_bytes(source.read(8), "little")
        if size < 8 or length > min(size - 8, MOST):
            raise FormatError(file, "the header's length", 0, f"{length} bytes in a file of {size}")
        try:
            header = json.loads(source.read(length))
        except ValueError as error:
            raise FormatError(file, "the header", 8, str(error)) from error
        if not isinstance(header, dict):
            raise FormatError(file, "the header", 8, "it is no object")
        found = {}
        for name, entry in header.items():
            if name != "__metadata__":
                found[name] = _entry(file, source, name, entry, 8 + length, size)
    return found


def _entry(file: Any, source: Any, name: str, entry: Any, begin: int, size: int) -> np.ndarray:
    try:
        kind, shape = dtypes.dtype(KINDS[entry["dtype"]]), tuple(int(n) for n in entry["shape"])
        first, last = (int(n) for n in entry["data_offsets"])
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(file, name, 8, f"dtype, shape and two offsets are needed, got {entry!r}") from error
    wanted = math.prod(shape) * kind.itemsize
    if min(shape, default=0) < 0 or first < 0 or last - first != wanted or begin + last > size:
        raise FormatError(
            file, name, begin + first, f"{wanted} bytes of {kind} {shape} do not lie in [{first}, {last})"
        )
    source.seek(begin + first)
    return np.frombuffer(source.read(wanted), kind.numpy).reshape(shape)
