"""What programs and hand-written kernels answer alike, and steps that name them."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import hologram
from hologram.atlas.builder import Builder
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Launchable, Program, ScalarParameter
from hologram.foundation.dtypes import f16, f32, u32
from hologram.machine.plan import Step, Tile, reading, told, writing

# Where a program is compiled and a hand-written kernel loaded, or a user's argument is told from another.
APART = {
    "backends/cpu/device.py",
    "backends/cuda/device.py",
    "backends/webgpu/kernel.py",
    "compiler/checking.py",
    "compiler/fusion/bundle.py",
    "compiler/passes.py",
    "compiler/scheduling/split.py",
    "compiler/source/generator.py",
    "compiler/source/report.py",
    "frontend/executor.py",
    "frontend/jit/explain.py",
    "frontend/saved/operations.py",
    "machine/plan.py",
}


def program(name: str = "atlas_epilogue_bias") -> Program:
    b = Builder(name, rank=2)
    place = b.position(Opcode.LANE)
    value, bias = (b.buffer(n, f32, Access.READ) for n in ("value", "bias"))
    total = b.load(value, place) + b.load(bias, b.coordinate(1))
    b.store(b.buffer("result", f32, Access.WRITE), place, total)
    return b.build()


def tile(**changes: Any) -> Tile:
    facts = {
        "stem": "scale",
        "buffers": (*reading(f16, "a"), *writing(f32, "out"), *reading(f32, "bias")),
        "scalars": told(u32, "n", "m"),
        "types": (("T", f16), ("ACC", f32)),
        "epilogue": program(),
        "shared_bytes": 64,
    }
    return Tile(**(facts | changes))


@pytest.mark.parametrize("kernel", [program(), tile(), tile(types=(), epilogue=None)], ids=str)
def test_both_answer_the_same_questions(kernel: Launchable) -> None:
    for question in get_type_hints(Launchable, vars(hologram.atlas.program)):  # type: ignore[attr-defined]
        assert hasattr(kernel, question), question
    assert kernel.name.startswith("atlas_")
    assert kernel.lengths([8] * len(kernel.buffers)) == [8 // b.dtype.itemsize for b in kernel.buffers]
    assert all(isinstance(s, ScalarParameter) for s in kernel.scalars)
    again = pickle.loads(pickle.dumps(kernel))
    assert again == kernel
    assert hash(again) == hash(kernel)


def test_what_a_program_answers() -> None:
    one = program()
    assert (one.stem, one.epilogue, one.program, one.label) == ("", None, one, one.name)
    assert (one.read_by_epilogue, one.accumulates, one.maps, one.shared_bytes) == ([], False, (), 0)


def test_what_a_tile_answers() -> None:
    one = tile()
    assert (one.name, one.label) == ("atlas_scale", "atlas_scale_epilogue_bias")
    assert (one.program, one.read_by_epilogue, one.reduced) == (program(), [2], 0)
    assert one.accumulates
    assert not tile(types=(), epilogue=None).accumulates
    assert str(one).startswith("buffers a: f16 (read), out: f32 (write), bias: f32 (read)\nscalars n: u32")


def test_the_program_of_a_step() -> None:
    assert Step(program(), (0, 1, 2), (), (2, 3)).program == program()
    with pytest.raises(AssertionError, match="atlas_scale is written by hand"):
        _ = Step(tile(), (0, 1, 2), (4, 4), (1, 1, 1)).program


def test_nobody_else_tells_them_apart() -> None:
    """A kernel is asked for what it is: only those who compile or load it ask which kind it is."""
    root = Path(hologram.__file__).parent
    found = set()
    for path in root.rglob("*.py"):
        if "benchmark" in path.parts:  # whose programs are others
            continue
        calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
        asked = [n.args[1] for n in calls if getattr(n.func, "id", "") == "isinstance"]
        names = {n.id for kinds in asked for n in ast.walk(kinds) if isinstance(n, ast.Name)}
        if names & {"Program", "Tile"}:
            found.add(path.relative_to(root).as_posix())
    assert found == APART
