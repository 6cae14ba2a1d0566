"""GGUF files: what the package gguf writes is read, and what lies is refused before memory is taken for it."""

from __future__ import annotations

import resource
import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

import hologram as hg
from hologram.llm.gguf import GgufFile
from tests.packed.blocks import blocks, reference

METADATA: dict[str, Any] = {
    "tokenizer.ggml.tokens": ["<s>", "a", "ü", ""],
    "tokenizer.ggml.scores": [0.5, -1.0, 3.0],
    "llama.block_count": 3,
    "llama.rope.freq_base": 10000.0,
    "llama.flag": True,
    "llama.flags": [True, False],
    "general.name": "toy",
}


def write(path: Path) -> dict[str, np.ndarray]:
    """A small model, and its tensors as f32."""
    writer = gguf.GGUFWriter(str(path), "llama")
    for key, value in METADATA.items():
        if isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, str):
            writer.add_string(key, value)
        else:
            (writer.add_uint32 if isinstance(value, int) else writer.add_float32)(key, value)
    rng = np.random.default_rng(0)
    norm, halves = rng.standard_normal(64, np.float32), rng.standard_normal((3, 64)).astype(np.float16)
    writer.add_tensor("norm", norm)
    writer.add_tensor("halves", halves)
    tensors = {"norm": norm, "halves": halves.astype(np.float32)}
    for kind, columns in (("Q8_0", 64), ("Q4_1", 32), ("Q4_K", 256), ("MXFP4", 32)):
        data = blocks(rng, kind, 5, columns).reshape(5, -1)
        writer.add_tensor(kind, data, raw_dtype=getattr(gguf.GGMLQuantizationType, kind))
        tensors[kind] = reference(data, kind, (5, columns))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tensors


def test_a_file_gives_what_was_written(tmp_path: Path, executor: hg.Executor) -> None:
    tensors = write(tmp_path / "toy.gguf")
    file = GgufFile(tmp_path / "toy.gguf")
    assert {key: file.metadata[key] for key in METADATA} == METADATA
    assert file.metadata["general.architecture"] == "llama"
    assert set(file.tensors) == set(tensors)
    for name, wanted in tensors.items():
        assert file.tensors[name].shape == wanted.shape
        found = file.tensor(name, device=executor)
        numbers = found.dequantize() if isinstance(found, hg.Packed) else found.astype("f32")
        np.testing.assert_array_equal(numbers.to_numpy(), wanted)


def test_what_is_mutated_is_read_or_refused(tmp_path: Path) -> None:
    """10,000 files with bytes changed, cut off, put in, or with 64 bits of lies: no other error, no memory for them."""
    write(tmp_path / "toy.gguf")
    whole = (tmp_path / "toy.gguf").read_bytes()
    header = len(whole) - 5 * (68 + 20 + 144 + 17) - 1000
    rng = np.random.default_rng(2)
    lies = [0, 1, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused: list[str] = []
    path = tmp_path / "mutated.gguf"
    for number in range(10_000):
        data, at = bytearray(whole), int(rng.integers(header))
        if number % 4 == 0:
            data[at] = int(rng.integers(256))
        elif number % 4 == 1:
            data[at : at + 8] = struct.pack("<Q", lies[number // 4 % len(lies)])
        elif number % 4 == 2:
            del data[int(rng.integers(len(data))) :]
        else:
            data[at:at] = rng.bytes(int(rng.integers(1, 9)))
        path.write_bytes(data)
        try:
            file = GgufFile(path)
            for name in file.tensors:
                assert file.bytes_of(name).size == file.tensors[name].nbytes
        except hg.FormatError as error:
            refused.append(str(error))
    assert 3_000 < len(refused) < 10_000
    assert all(message.startswith(f"{path}: ") and " at " in message for message in refused)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


def altered(whole: bytes, old: bytes, new: bytes) -> bytes:
    assert whole.count(old) == 1
    return whole.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"GGUF", b"GGML", r"magic at 0: must be b'GGUF', got b'GGML'"),
        (b"GGUF\x03", b"GGUF\x09", "version at 4: must be one of"),
        (
            b"GGUF\x03\0\0\0\x06",
            b"GGUF\x03\0\0\0\xff\xff\xff\xff\xff\xff\xff\x7f"[:9],
            "number of tensors|type of",
        ),
        (b"general.name\x08", b"general.name\x63", "general.name at .*: unknown type 99"),
        (b"llama.flag\x07\0\0\0\x01", b"llama.flag\x07\0\0\0\x02", "a bool must be 0 or 1, got 2"),
        (
            b"\x04\0\0\0\0\0\0\0norm\x01",
            b"\x04\0\0\0\0\0\0\0norm\x09",
            "axes of norm at .*: must be at most 4, got 9",
        ),
        (b"norm\x01\0\0\0\x40", b"norm\x01\0\0\0\0", "shape of norm"),
    ],
)
def test_lies_are_named(old: bytes, new: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "toy.gguf"
    write(path)
    path.write_bytes(altered(path.read_bytes(), old, new))
    with pytest.raises(hg.FormatError, match=message):
        GgufFile(path)


def test_no_file_and_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        GgufFile(tmp_path / "none.gguf")
    (tmp_path / "empty.gguf").touch()
    with pytest.raises(hg.FormatError, match="the file is empty"):
        GgufFile(tmp_path / "empty.gguf")
