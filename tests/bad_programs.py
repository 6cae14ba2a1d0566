"""Arrays and programs that must be refused; see tests/bad_calls.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from hologram.foundation import dtypes
from hologram.foundation.errors import CompileError, InteropError, ProgramError, ShapeError, UnsupportedDType
from hologram.machine.plan import Tile, reading, writing
from tests.bad_calls import ADD, Bad, Bench

ARRAYS = [
    Bad("too few", lambda b: b.x.from_numpy(np.zeros(7, np.float32)), ShapeError, "holds 8 elements.*got 7"),
    Bad("too many", lambda b: b.x.from_numpy(np.zeros((3, 3), np.float32)), ShapeError, "got 9"),
    Bad("empty", lambda b: b.x.from_numpy(np.zeros(0, np.float32)), ShapeError, "got 0"),
    Bad(
        "into empty",
        lambda b: b.buffer(0).from_numpy(np.zeros(1, np.float32)),
        ShapeError,
        "holds 0 elements",
    ),
    Bad("None", lambda b: b.x.from_numpy(None), UnsupportedDType, "float32, got object"),
    Bad("strings", lambda b: b.x.from_numpy(["a"] * 8), UnsupportedDType, "float32"),
    Bad("ragged", lambda b: b.x.from_numpy([[1], [2, 3]]), InteropError, "cannot be read"),
    Bad(
        "masked",
        lambda b: b.x.from_numpy(np.ma.masked_array(np.zeros(8, np.float32))),
        InteropError,
        "filled",
    ),
    Bad("bytes", lambda b: b.x.from_bytes(b"12"), ShapeError, "holds 32 bytes, got 2"),
    Bad("bytes of str", lambda b: b.x.from_bytes("12"), TypeError, "bytes are needed, got str"),
    Bad("fill", lambda b: b.i.fill(0.5), UnsupportedDType, "cannot hold 0.5"),
    Bad("fill str", lambda b: b.x.fill("a"), UnsupportedDType, "cannot hold 'a'"),
    Bad("fill None", lambda b: b.i.fill(None), UnsupportedDType, "cannot hold None"),
    Bad(
        "fill float with None",
        lambda b: b.x.fill(None),
        UnsupportedDType,
        "f32 cannot hold None: None is no number",
    ),
    Bad("fill text", lambda b: b.x.fill("1.5"), UnsupportedDType, "f32 cannot hold '1.5'"),
    Bad("fill array", lambda b: b.x.fill([1, 2]), UnsupportedDType, "cannot hold"),
    Bad("dlpack of nothing", lambda b: b.ex.from_dlpack(object()), UnsupportedDType, "dtype must be one of"),
    Bad(
        "dlpack of text",
        lambda b: b.ex.from_dlpack(np.zeros(3, "U2")),
        UnsupportedDType,
        "U2",
    ),
    Bad("dlpack to another device", lambda b: b.x.__dlpack__(dl_device=(10, 0)), InteropError, "asked for"),
    Bad("array as f64 without a copy", lambda b: b.x.__array__(np.float64, copy=False), InteropError, "copy"),
    Bad("pickle", lambda b: __import__("pickle").dumps(b.x), TypeError, "pickle its to_numpy"),
    Bad("pickle a buffer", lambda b: __import__("pickle").dumps(b.x), TypeError, "pickle its to_numpy"),
]

BROKEN_TILE, LACKING_TILE = (
    Tile(stem, (*reading(dtypes.f32, "a"), *writing(dtypes.f32, "out")), ())
    for stem in ("no_such_shader", "matmul")
)


def launch(b: Bench, tile: Tile) -> Any:
    return b.ex.launch(tile, [b.x, b.x], (), (1, 1, 1))


PROGRAMS = [
    Bad("not text", lambda b: b.run("hello"), ProgramError, "line 1"),
    Bad("empty", lambda b: b.run(""), ProgramError, "line 1|program"),
    Bad("None", lambda b: b.ex.run(None, {}, lanes=1), TypeError, "Program"),
    Bad("bytes", lambda b: b.ex.run(ADD.encode(), {}, lanes=1), TypeError, "Program"),
    Bad("unknown opcode", lambda b: b.run(ADD.replace("= add", "= plus")), ProgramError, "line 8.*plus"),
    Bad(
        "unknown dtype",
        lambda b: b.run(ADD.replace("buffer x : f32", "buffer x : c32")),
        ProgramError,
        "line 2.*c32",
    ),
    Bad(
        "does not verify",
        lambda b: b.run(ADD.replace("add %1, %2", "add %1, %0")),
        ProgramError,
        "line 8: add",
    ),
    Bad("undefined value", lambda b: b.run(ADD.replace("%1, %2", "%1, %7")), ProgramError, "line 8"),
    Bad("missing buffer", lambda b: b.run(out=None), ShapeError, "buffers must be x, out, got x"),
    Bad("unknown buffer", lambda b: b.run(y=b.x), ShapeError, "buffers must be x, out, got x, out, y"),
    Bad(
        "buffers in a list",
        lambda b: b.ex.run(ADD, [b.x, b.x], lanes=8, s=1.0),
        TypeError,
        "buffers must be a mapping",
    ),
    Bad("missing scalar", lambda b: b.run(scalars={}), ShapeError, "scalars must be s, got none"),
    Bad(
        "unknown scalar",
        lambda b: b.run(scalars={"s": 1.0, "q": 2}),
        ShapeError,
        "scalars must be s, got s, q",
    ),
    Bad("scalar array", lambda b: b.run(scalars={"s": np.zeros(3)}), TypeError, "scalar s must be a number"),
    Bad("scalar str", lambda b: b.run(scalars={"s": "1"}), TypeError, "scalar s must be a number"),
    Bad("scalar None", lambda b: b.run(scalars={"s": None}), TypeError, "scalar s must be a number"),
    Bad(
        "scalar too large",
        lambda b: b.run(
            ADD.replace("f32", "u8"), x=b.buffer(8, "u8"), out=b.buffer(8, "u8"), scalars={"s": 300}
        ),
        UnsupportedDType,
        "scalar s",
    ),
    Bad(
        "float for an integer",
        lambda b: b.run(ADD.replace("f32", "i32"), x=b.i, out=b.i, scalars={"s": 1.5}),
        UnsupportedDType,
        "scalar s",
    ),
    Bad(
        "lanes too many axes",
        lambda b: b.run(lanes=(2, 4)),
        ShapeError,
        r"grid has 1 axes, got lanes=\(2, 4\)",
    ),
    Bad("lanes negative", lambda b: b.run(lanes=-1), ShapeError, "lanes.*negative"),
    Bad("lanes float", lambda b: b.run(lanes=8.0), TypeError, "lanes.*integers"),
    Bad("lanes None", lambda b: b.run(lanes=None), TypeError, "lanes.*integers"),
    Bad(
        "buffer is an array",
        lambda b: b.run(x=np.zeros(8, np.float32)),
        TypeError,
        "buffer x must be a Buffer or Tensor, got ndarray",
    ),
    Bad(
        "buffer is a number",
        lambda b: b.run(x=1.0),
        TypeError,
        "buffer x must be a Buffer or Tensor, got float",
    ),
    Bad(
        "output is None",
        lambda b: b.ex.run(ADD, {"x": b.x, "out": None}, lanes=8, s=1.0),
        TypeError,
        "buffer out must be a Buffer or Tensor, got None",
    ),
    Bad("tile without a shader", lambda b: launch(b, BROKEN_TILE), CompileError, "no_such_shader"),
    Bad("tile without a buffer", lambda b: launch(b, LACKING_TILE), CompileError, "atlas_matmul"),
    Bad("launch: too few buffers", lambda b: b.ex.launch(BROKEN_TILE, [b.x]), ShapeError, "takes 2 buffers"),
    Bad("launch: not a kernel", lambda b: b.ex.launch("add", [b.x]), TypeError, "Program or Tile"),
    Bad(
        "launch: wrong dtype",
        lambda b: b.ex.launch(BROKEN_TILE, [b.i, b.x]),
        UnsupportedDType,
        "buffer a must be f32",
    ),
]
