"""Files that are cut short, lie or hold what is not known are refused by name and place."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

import hologram as hg
from hologram.llm.architecture import architecture
from hologram.llm.gguf import GGUF, KINDS, NUMBERS, PLAIN
from tests.llm import models


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    models.write(path, models.FAMILIES["packed"])
    return path


def test_what_is_read_is_what_the_package_gguf_reads(model: Path) -> None:
    ours, theirs = GGUF(model), gguf.GGUFReader(model)
    assert list(ours.tensors) == [t.name for t in theirs.tensors]
    for tensor in theirs.tensors:
        found = ours.tensors[tensor.name]
        assert (found.kind, found.shape) == (
            tensor.tensor_type.name,
            tuple(int(n) for n in tensor.shape[::-1]),
        )
        assert np.array_equal(ours.data(tensor.name), tensor.data.reshape(-1).view(np.uint8))
    for key, field in theirs.fields.items():
        if not key.startswith("GGUF."):
            assert np.array_equal(ours.metadata[key], field.contents())


def test_kinds_have_the_format_s_numbers_and_sizes() -> None:
    for number, name in NUMBERS.items():
        kind = gguf.GGMLQuantizationType(number)
        assert kind.name == name
        size = (KINDS[name].size, KINDS[name].nbytes) if name in KINDS else (1, PLAIN[name].itemsize)
        assert gguf.GGML_QUANT_SIZES[kind] == size


def header(tensors: int = 0, keys: int = 0, version: int = 3, magic: bytes = b"GGUF") -> bytes:
    return magic + struct.pack("<IQQ", version, tensors, keys)


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def tensor(*shape: int, kind: int = 0, offset: int = 0) -> bytes:
    return text(b"t") + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


BAD = {
    "empty": (b"", "header", 0),
    "another format": (header(magic=b"GGML"), "magic", 0),
    "version": (header(version=9), "version", 4),
    "big-endian": (header(version=3 << 24), "version", 4),
    "2^63 tensors": (header(tensors=1 << 63), "tensors", 8),
    "2^63 keys": (header(keys=1 << 63), "keys", 16),
    "long key": (header(keys=1) + struct.pack("<Q", 1 << 63) + bytes(20), "a key", 32),
    "key of no text": (header(keys=1) + text(b"\xff\xfe") + bytes(20), "a key", 24),
    "type": (header(keys=1) + text(b"a") + struct.pack("<I", 77), "a", 33),
    "2^62 strings": (header(keys=1) + text(b"a") + struct.pack("<IIQ", 9, 8, 1 << 62), "a", 41),
    "2^62 numbers": (header(keys=1) + text(b"a") + struct.pack("<IIQ", 9, 4, 1 << 62), "a", 41),
    "arrays of arrays": (header(keys=1) + text(b"a") + struct.pack("<IIQ", 9, 9, 1), "a", 37),
    "twice": (header(keys=2) + 2 * (text(b"a") + struct.pack("<IB", 0, 1)), "a", 47),
    "no axes": (header(tensors=1) + tensor(), "tensor 't'", 24),
    "5 axes": (header(tensors=1) + tensor(1, 1, 1, 1, 1), "tensor 't'", 24),
    "2^63 wide": (header(tensors=1) + tensor(1 << 63, 1 << 63), "tensor 't'", 24),
    "kind": (header(tensors=1) + tensor(32, kind=99), "tensor 't'", 24),
    "broken block": (header(tensors=1) + tensor(33, kind=8), "tensor 't'", 24),
    "far away": (header(tensors=1) + tensor(32, offset=1 << 63), "tensor 't'", 24),
    "askew": (header(tensors=1) + tensor(1, offset=3) + bytes(99), "tensor 't'", 24),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_by_name_and_place(tmp_path: Path, name: str) -> None:
    content, field, offset = BAD[name]
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(hg.FormatError) as caught:
        GGUF(path)
    assert (caught.value.file, caught.value.field, caught.value.offset) == (str(path), field, offset)
    assert str(path) in str(caught.value)


@pytest.mark.slow
def test_mutated_files_are_read_or_refused(model: Path, tmp_path: Path) -> None:
    whole, rng = model.read_bytes(), np.random.default_rng(24)
    described = 6000  # bytes with what is not weights
    path, refused = tmp_path / "mutated.gguf", 0
    outside = 0  # errors whose place is none
    extremes = [struct.pack("<Q", n) for n in (1 << 63, (1 << 64) - 1, 1 << 32, 0)]
    for turn in range(10_000):
        content = bytearray(whole[: described + int(rng.integers(4000))] if turn % 3 else whole)
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(described))
            if rng.random() < 0.5:
                content[at] = int(rng.integers(256))
            else:
                content[at : at + 8] = extremes[int(rng.integers(4))]
        path.write_bytes(content if turn % 2 else content[: int(rng.integers(1, len(content) + 1))])
        try:
            found = GGUF(path)
            architecture(found)
        except hg.FormatError as error:
            refused += 1
            outside += not 0 <= error.offset <= path.stat().st_size
        else:
            assert all(len(found.data(n)) == t.nbytes for n, t in found.tensors.items())
    assert refused > 5000
    assert not outside


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "family": ({"general.architecture": "mamba"}, "llama, qwen2"),
    "blocks": ({"llama.block_count": 1 << 31}, "tensors"),
    "no heads": ({"llama.attention.head_count": 0}, "at least 1"),
    "heads": ({"llama.attention.head_count_kv": 3}, "divide"),
    "more heads than features": (
        {
            "llama.attention.head_count": 128,
            "llama.attention.head_count_kv": 128,
            "llama.attention.key_length": None,
            "llama.attention.value_length": None,
            "llama.rope.dimension_count": None,
        },
        "at most the width 64, got 128",
    ),
    "epsilon": ({"llama.attention.layer_norm_rms_epsilon": float("nan")}, "float is needed"),
    "missing": ({"llama.context_length": None}, "nothing"),
    "text for a number": ({"llama.embedding_length": "64"}, "int is needed"),
    "turns": ({"llama.rope.dimension_count": 15}, "even"),
    "positions": ({"llama.rope.scaling.type": "yarn"}, "linear"),
}


@pytest.mark.parametrize("name", WRONG)
def test_metadata_that_cannot_be_is_refused(tmp_path: Path, name: str) -> None:
    metadata, said = WRONG[name]
    path = tmp_path / "wrong.gguf"
    family = models.FAMILIES["llama"]
    if "general.architecture" in metadata:
        family = models.Family(metadata["general.architecture"])
        metadata = {}
    models.write(path, family, **metadata)
    with pytest.raises(hg.FormatError, match=said):
        architecture(GGUF(path))
