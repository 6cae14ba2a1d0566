"""What the generators write, held exactly: tests/golden/<program>.<language>, renewed by `pytest --update-golden`."""

from __future__ import annotations

from pathlib import Path

import pytest

from hologram.atlas.program import Program
from hologram.atlas.text import format_program, parse_program
from hologram.backends.cpu.kernel import Host, ProgramKernel
from hologram.backends.cuda.dialect import cuda
from hologram.backends.metal.dialect import msl
from hologram.backends.webgpu.wgsl.dialect import wgsl
from hologram.compiler.dialect import Dialect
from hologram.compiler.pipeline import lower
from hologram.compiler.source.codegen import generate
from hologram.foundation import dtypes
from hologram.machine.limits import Limits
from tests.golden.programs import PROGRAMS

FOLDER = Path(__file__).parents[2] / "golden"
LIMITS = Limits(frozenset(dtypes.ALL), 2**40, 2**40, 32, 65535, 256, 32768, 32, False, 64, False)
DIALECTS: dict[str, Dialect] = {d.suffix: d for d in (wgsl(), cuda(), msl())}
# LLVM's text depends on the launch: which loops, and which positions are proven to lie inside.
GRIDS = {"softmax_f32": (8, 1024), "column_sum_f32": (64, 100), "reverse_f32": (256,)}


class Width:
    """All that the text asks of an LLVM engine."""

    vector_bits = 256


def llvm(program: Program, grid: tuple[int, ...]) -> str:
    kernel = ProgramKernel(program, Host(Width, _no_pool, 1))  # type: ignore[arg-type,return-value]
    return kernel.source(grid, [3] * len(program.scalars))


def _no_pool() -> None:
    raise AssertionError("one thread needs no pool")


def written(name: str, suffix: str) -> str:
    program = PROGRAMS[name]
    if suffix == "atlas":
        return format_program(program)
    if suffix == "ll":
        return llvm(program, GRIDS.get(name, (1000,)))
    return generate(lower(program, DIALECTS[suffix]), DIALECTS[suffix], LIMITS).text


@pytest.mark.parametrize("suffix", ["atlas", "ll", *DIALECTS])
@pytest.mark.parametrize("name", PROGRAMS)
def test_text_is_as_recorded(name: str, suffix: str, request: pytest.FixtureRequest):
    file = FOLDER / f"{name}.{suffix}"
    text = written(name, suffix).rstrip("\n") + "\n"
    if request.config.getoption("--update-golden"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), (
        f"{file.name} differs; if that is meant: pytest --update-golden"
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_recorded_programs_parse_back(name: str):
    text = (FOLDER / f"{name}.atlas").read_text(encoding="utf-8")
    assert format_program(parse_program(text)) == format_program(PROGRAMS[name])


def test_no_golden_file_is_left_over():
    suffixes = {"atlas", "ll", *DIALECTS}
    expected = {f"{name}.{suffix}" for name in PROGRAMS for suffix in suffixes}
    assert {f.name for f in FOLDER.iterdir() if f.suffix[1:] in suffixes} == expected
