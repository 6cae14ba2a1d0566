"""Hand-written kernels are compiled as they stand, with their names declared ahead."""

from __future__ import annotations

import pytest

from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import maximum
from hologram.atlas.program import Access, Program
from hologram.backends.webgpu.wgsl.dialect import wgsl
from hologram.compiler.source import shader
from hologram.foundation.dtypes import bf16, f16, f32, i64, u32
from hologram.foundation.errors import CompileError, ProgramError, UnsupportedDType
from hologram.machine.plan import Tile, reading, told, writing

FILE = "// scale: c = epilogue(a); one thread an element.\nstruct Params { n: u32, scale: f32 }\n"


@pytest.fixture(autouse=True)
def file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shader, "source", {"wgsl/scale.wgsl": FILE}.__getitem__)


def tile(epilogue: Program | None = None, **changes) -> Tile:
    facts = {
        "stem": "scale",
        "buffers": (*reading(f32, "a"), *writing(f32, "c"), *reading(f32, "bias")),
        "scalars": (*told(u32, "n"), *told(f32, "scale")),
        "types": (("T", f32), ("ACC", f32)),
        "constants": (("TILE_M", 64), ("SLOPE", 0.5), ("SHIFT", -1), ("FLAG", True)),
        "epilogue": epilogue,
    }
    return Tile(**(facts | changes))


def epilogue(body, buffers=("bias",)) -> Program:
    b = Builder("then", rank=2)
    value = b.buffer("value", f32, Access.READ)
    extra = [b.buffer(name, f32, Access.READ) for name in buffers]
    result = b.buffer("result", f32, Access.WRITE)
    row, column = b.coordinate(0), b.coordinate(1)
    position = row * b.extent(1) + column
    out: Value = body(b, b.load(value, position), extra, row, column)
    b.store(result, position, out)
    return b.build()


def bias_relu(b, value, extra, row, column):
    return maximum(value + b.load(extra[0], column), 0.0)


def test_names_are_declared_on_the_first_line():
    text = shader.load(tile(), wgsl()).text
    first, *rest = text.split("\n")
    assert first == (
        "alias T = f32; alias ACC = f32; const TILE_M: u32 = 64u; const SLOPE: f32 = 0.5f; const SHIFT: i32 = -1i; "
        "const FLAG: bool = true; const WORKGROUP_X: u32 = 64u; const WORKGROUP_Y: u32 = 1u; "
        "const WORKGROUP_Z: u32 = 1u; const PARAMS: u32 = 3u; // scale: c = epilogue(a); one thread an element."
    )
    assert rest[0] == FILE.split("\n")[1]


def test_directives_come_first():
    text = shader.load(tile(types=(("T", f16), ("ACC", f32))), wgsl()).text
    assert text.startswith("enable f16; alias T = f16;")


def test_without_accumulator_there_is_no_epilogue():
    assert "fn epilogue" not in shader.load(tile(types=(("T", f32),)), wgsl()).text


def test_epilogue_reads_a_bias():
    text = shader.load(tile(epilogue(bias_relu)), wgsl()).text
    body = text.partition("fn epilogue(value: ACC, row: u32, column: u32) -> ACC {\n")[2]
    assert "@group(0) @binding(2) var<storage, read_write> bias: array<f32>;" in text
    assert body.splitlines()[0] == "    let i1 = column;"
    assert "= bias[i1];" in body
    assert "extent" not in text


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"epilogue": epilogue(lambda b, v, *_: v * b.scalar("s", f32))}, "use nothing but"),
        ({"epilogue": epilogue(bias_relu, buffers=("other",))}, "not other"),
        ({"epilogue": epilogue(bias_relu), "types": (("T", f32),)}, "must declare the type ACC"),
        ({"epilogue": epilogue(bias_relu), "types": (("ACC", f16),)}, "load and store f16"),
        ({"scalars": told(i64, "n")}, "must be f32, i32, u32 or index"),
    ],
)
def test_bad_tiles_are_refused(changes, rule):
    with pytest.raises(ProgramError, match=rule):
        shader.load(tile(**changes), wgsl())


def test_missing_types_are_refused():
    with pytest.raises(UnsupportedDType, match="bf16"):
        shader.load(tile(types=(("T", bf16),)), wgsl())
    with pytest.raises(UnsupportedDType, match="f16"):
        shader.load(tile(types=(("T", f16),)), wgsl(), missing=frozenset({f16}))


def test_parameters_are_packed_in_order():
    loaded = shader.load(tile(), wgsl())
    assert loaded.pack((7, 1.0)) == b"\x07\0\0\0\0\0\x80\x3f"
    with pytest.raises(ProgramError, match="n, scale"):
        loaded.pack((7,))
    with pytest.raises(ProgramError, match="32 bits"):
        loaded.pack((2**32, 1.0))


def test_an_unknown_stem_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.undo()
    with pytest.raises(CompileError, match="shaders/wgsl/nothing"):
        shader.load(tile(stem="nothing"), wgsl())
