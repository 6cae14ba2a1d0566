"""Every hand-written file agrees with the tiles that name it: entry point, bindings in order, members of Params."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hologram.backends.cuda import reference as cuda
from hologram.backends.metal import reference as metal
from hologram.backends.webgpu import reference as webgpu
from hologram.foundation import dtypes
from hologram.machine.layout import Layout
from hologram.machine.plan import Target, Tile
from hologram.opset import OPERATIONS
from hologram.opset.forms.composite import Composite
from hologram.opset.neural.attention_gradient import attention_gradient
from tests.devices import limits

SHADERS = Path(__file__).parents[2] / "shaders"
WGSL_TYPES = {dtypes.f32: "f32", dtypes.i32: "i32", dtypes.u32: "u32", dtypes.index: "u32"}


def tiles(*adapters: dict[str, Any]) -> dict[str, Tile]:
    """One tile for each stem, out of the operations' samples on such adapters, and a large product."""
    found: dict[str, Tile] = {}
    halves = any(changes.get("matrix_dtypes") for changes in adapters)
    gradients = any(changes.get("matrix_attention") and changes.get("copies_ahead") for changes in adapters)
    for operation in (*OPERATIONS.values(), *((attention_gradient,) if gradients else ())):
        if isinstance(operation, Composite):
            continue
        half = halves and dtypes.f16 in operation.dtypes
        kinds = (dtypes.f16, operation.dtypes[0]) if half else operation.dtypes[:1]
        calls = [
            (s.operands, s.attributes) for d in kinds for s in operation.samples(np.random.default_rng(0), d)
        ]
        if operation.name == "matmul":
            calls += [((np.empty((256, 256), d.numpy),) * 2, {}) for d in kinds]
        for operands, attributes in calls:
            bound, given = operation.bind(operands, attributes)
            inputs = [
                Layout.contiguous(dtypes.dtype(o.dtype), o.shape) if isinstance(o, np.ndarray) else o
                for o in bound
            ]
            for changes in adapters:
                adapter = limits(**changes)
                plan = operation.plan(inputs, operation.infer(inputs, given), given, Target(adapter))
                planned = {s.kernel.stem: s.kernel for s in plan.steps if isinstance(s.kernel, Tile)}
                assert set(planned) <= {stem for _, stems in adapter.promised for stem in stems}
                found |= planned
    return found


TILES = tiles({"software": False}, {"software": True}, {"software": True, "subgroup": 8})
# Kernels for matrix units are there in the languages that a backend says so of.
MATRIX = {
    "software": False,
    "copies_ahead": True,
    "matrix_attention": True,
    "matrix_dtypes": frozenset({dtypes.f16}),
    "subgroup": 32,
    "shared_bytes": 48 << 10,
}
BULK = MATRIX | {"bulk_bytes": 227 << 10, "parallelism": 1}
UNIT_TILES = {stem: tile for stem, tile in tiles(MATRIX, BULK).items() if stem not in TILES}
USUAL = {"wgsl": webgpu.LIMITS, "cuda": cuda.LIMITS, "msl": metal.LIMITS}


@pytest.mark.parametrize(("folder", "suffix"), [("wgsl", "wgsl"), ("cuda", "cu"), ("msl", "metal")])
def test_every_file_has_a_tile_and_every_tile_a_file(folder: str, suffix: str):
    own = USUAL[folder]
    names = ("matrix_dtypes", "subgroup", "shared_bytes", "matrix_attention", "copies_ahead")
    asked = {"software": False} | {name: getattr(own, name) for name in names}
    bulk = asked | {name: BULK[name] for name in ("bulk_bytes", "parallelism") if own.copies_ahead}
    further = set(tiles(asked, bulk)) - set(TILES)
    assert {f.stem for f in (SHADERS / folder).glob(f"*.{suffix}")} == set(TILES) | further


@pytest.mark.parametrize("stem", TILES)
def test_a_file_agrees_with_its_tile(stem: str):
    tile, text = TILES[stem], (SHADERS / "wgsl" / f"{stem}.wgsl").read_text(encoding="utf-8")
    assert text.startswith(f"// {stem}: "), "the first line, a comment, says what is computed"
    members = re.search(r"struct Params \{(.*?)\}", text, re.DOTALL)
    assert members, "the file declares struct Params"
    declared = re.findall(r"(\w+): (\w+)", members[1])
    assert declared == [(s.name, WGSL_TYPES[s.dtype]) for s in tile.scalars]
    bindings = re.findall(r"@binding\((\w+)\) var<([\w, ]+)> (\w+):", text)
    assert bindings[-1] == ("PARAMS", "uniform", "params")
    own = [(str(k), "storage, read_write", b.name) for k, b in enumerate(tile.buffers)]
    assert bindings[:-1] == own[: len(bindings) - 1]
    assert f"fn {tile.name}(" in text


C_TYPES = {
    "cu": {dtypes.f32: "float", dtypes.i32: "int", dtypes.u32: "unsigned", dtypes.index: "unsigned"},
    "metal": {dtypes.f32: "float", dtypes.i32: "int", dtypes.u32: "uint", dtypes.index: "uint"},
}
PARAMETERS = {
    "cu": r"(?:(?:const )?[\w ]+?\*|const __grid_constant__ TensorMap) (\w+)",
    "metal": r"device (?:const )?[\w ]+?\* (\w+) \[\[buffer\((\d+)\)\]\]",
}


@pytest.mark.parametrize(("folder", "suffix"), [("cuda", "cu"), ("msl", "metal")])
@pytest.mark.parametrize("stem", TILES)
def test_a_kernel_is_one_in_three_languages(stem: str, folder: str, suffix: str):
    tile, text = TILES[stem], (SHADERS / folder / f"{stem}.{suffix}").read_text(encoding="utf-8")
    wgsl = (SHADERS / "wgsl" / f"{stem}.wgsl").read_text(encoding="utf-8")
    assert text.split("\n", 1)[0] == wgsl.split("\n", 1)[0], "the first line is the same in all languages"
    check_declarations(tile, text, suffix)


@pytest.mark.parametrize("stem", UNIT_TILES)
def test_a_kernel_for_matrix_units_agrees_with_its_tile(stem: str):
    text = (SHADERS / "cuda" / f"{stem}.cu").read_text(encoding="utf-8")
    assert text.startswith(f"// {stem}: "), "the first line, a comment, says what is computed"
    shared = [SHADERS / "cuda" / name for name in re.findall(r'#include "(.+)"', text)]
    text += "".join(file.read_text(encoding="utf-8") for file in shared)  # kernels may have Params in common
    check_declarations(UNIT_TILES[stem], text, "cu")


def check_declarations(tile: Tile, text: str, suffix: str) -> None:
    """The members of Params, and the buffers in order."""
    members = re.search(r"struct Params \{(.*?)\};", text, re.DOTALL)
    assert members, "the file declares struct Params"
    declared = [
        (name.strip(), kind)
        for kind, names in re.findall(r"(\w+) ([^;]+);", members[1])
        for name in names.split(",")
    ]
    assert declared == [(s.name, C_TYPES[suffix][s.dtype]) for s in tile.scalars]
    parameters = re.search(rf"\b{tile.name}\((.*?)\) \{{", text, re.DOTALL)
    assert parameters, f"the file has the kernel {tile.name}"
    found = re.findall(PARAMETERS[suffix], parameters[1])
    names = [f if isinstance(f, str) else f[0] for f in found]
    assert names == [b.name for b in tile.buffers][: len(names)]
    if suffix == "metal":
        assert [int(place) for _, place in found] == list(range(len(found)))
