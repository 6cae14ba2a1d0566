"""Tensors in files: what is written is read again, by others too; what is cut off or lies is refused."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation.dtypes import ALL

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_one_tensor(executor: hg.Executor, tmp_path: Path) -> None:
    x = executor.tensor(X)
    for name, write in (("a.npy", hg.save), ("b.npy", np.save)):
        write(tmp_path / name, x.mT)
        np.testing.assert_array_equal(np.load(tmp_path / name), X.T)
        got = hg.load(tmp_path / name, device=executor)
        assert got.executor is executor
        np.testing.assert_array_equal(got.to_numpy(), X.T)
    memory = io.BytesIO()
    hg.save(memory, x)
    memory.seek(0)
    np.testing.assert_array_equal(hg.load(memory).to_numpy(), X)


@pytest.mark.parametrize("ending", ["npz", "safetensors"])
def test_several(executor: hg.Executor, tmp_path: Path, ending: str) -> None:
    tensors = {
        "weight": executor.tensor(X),
        "a/b": executor.tensor(np.zeros((0, 2), np.int64)),
        "s": np.float32(3),
    }
    hg.save(str(tmp_path / f"m.{ending}"), tensors)
    got = hg.load(str(tmp_path / f"m.{ending}"), device=executor)
    assert set(got) == set(tensors)
    for name, x in tensors.items():
        np.testing.assert_array_equal(got[name].to_numpy(), np.asarray(x))


def test_savez(executor: hg.Executor, tmp_path: Path) -> None:
    x = executor.tensor(X)
    for k, write in enumerate((hg.savez, np.savez)):
        write(tmp_path / f"{k}.npz", x, named=x)
        with np.load(tmp_path / f"{k}.npz") as found:
            assert set(found.files) == {"arr_0", "named"}
            np.testing.assert_array_equal(found["named"], X)


def test_every_dtype_in_safetensors(tmp_path: Path) -> None:
    with hg.Executor("cpu") as cpu:
        tensors = {d.name: cpu.tensor(np.array([0, 1, 1])).astype(d) for d in ALL}
        with pytest.raises(hg.UnsupportedDType, match="safetensors has no c128, which 'c128' is"):
            hg.save(tmp_path / "all.safetensors", tensors)
        del tensors["c128"]
        hg.save(tmp_path / "all.safetensors", tensors)
        got = hg.load(tmp_path / "all.safetensors", device=cpu)
        for name, x in tensors.items():
            assert got[name].dtype == x.dtype
            np.testing.assert_array_equal(got[name].to_numpy(), x.to_numpy())


def test_safetensors_are_others(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.numpy")
    with hg.Executor("cpu") as cpu:
        hg.save(tmp_path / "ours.safetensors", {"x": cpu.tensor(X)})
        np.testing.assert_array_equal(library.load_file(tmp_path / "ours.safetensors")["x"], X)
        library.save_file({"x": X}, tmp_path / "theirs.safetensors", metadata={"format": "np"})
        np.testing.assert_array_equal(hg.load(tmp_path / "theirs.safetensors", device=cpu)["x"].to_numpy(), X)


def _file(path: Path, header: Any, data: bytes = b"\0" * 8, length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


@pytest.mark.parametrize(
    ("header", "length"),
    [
        (b"{}", 1 << 60),
        (b"{", None),
        (b"[]", None),
        ({"x": {"dtype": "F32", "shape": [2]}}, None),
        ({"x": {"dtype": "F31", "shape": [2], "data_offsets": [0, 8]}}, None),
        ({"x": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}, None),
        ({"x": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}, None),
        ({"x": {"dtype": "F32", "shape": [-2], "data_offsets": [0, -8]}}, None),
        ({"x": {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}}, None),
    ],
)
def test_lies_are_refused(tmp_path: Path, header: Any, length: int | None) -> None:
    path = _file(tmp_path / "bad.safetensors", header, length=length)
    with pytest.raises(hg.FormatError, match=r"bad\.safetensors"):
        hg.load(path)


def test_refused(tmp_path: Path) -> None:
    (tmp_path / "short.safetensors").write_bytes(b"\1\2")
    with pytest.raises(hg.FormatError):
        hg.load(tmp_path / "short.safetensors")
    with pytest.raises(TypeError, match=r"a dict of tensors is needed for \.safetensors"):
        hg.save(tmp_path / "x.safetensors", X)
    np.save(tmp_path / "object.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(hg.FormatError, match=r"object\.npy: what follows .* Object arrays cannot be loaded"):
        hg.load(tmp_path / "object.npy")


@pytest.mark.parametrize("garbage", [b"", b"no", b"no array at all", pickle.dumps([1.0])], ids=str)
def test_garbage_is_refused(tmp_path: Path, garbage: bytes) -> None:
    (tmp_path / "garbage.npy").write_bytes(garbage)
    for file in (tmp_path / "garbage.npy", str(tmp_path / "garbage.npy"), io.BytesIO(garbage)):
        with pytest.raises(hg.FormatError, match=r"magic at byte 0: a file \.npy or \.npz begins with"):
            hg.load(file)


@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_what_is_cut_off_is_refused(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x.{ending}"
    hg.save(path, X if ending == "npy" else {"x": X})
    whole = path.read_bytes()
    for length in range(6, len(whole), 17):
        path.write_bytes(whole[:length])
        with pytest.raises(hg.FormatError, match=f"x.{ending}: what follows the magic"):
            hg.load(path)


def test_an_open_file_is_read_from_where_it_is(executor: hg.Executor) -> None:
    memory = io.BytesIO()
    for x in (X, X + 1):
        hg.save(memory, executor.tensor(x))
    memory.seek(0)
    for x in (X, X + 1):
        np.testing.assert_array_equal(hg.load(memory, device=executor).to_numpy(), x)


def test_zip_files_hold_arrays_alone(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as file:
        file.writestr("readme", "no array")
    with pytest.raises(hg.FormatError, match=r"readme at byte 0: a file \.npz has files \.npy alone"):
        hg.load(tmp_path / "x.npz")
