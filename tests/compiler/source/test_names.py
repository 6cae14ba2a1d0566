"""Buffers and scalars whose names a language of C's family has another use for."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest

from hologram.atlas import functions as atlas
from hologram.atlas.builder import Builder
from hologram.atlas.program import Access, Program
from hologram.backends.cuda import reference as usual
from hologram.backends.cuda.compiler import NVRTC
from hologram.backends.cuda.dialect import cuda
from hologram.backends.metal.dialect import msl
from hologram.compiler.dialect import Dialect
from hologram.compiler.pipeline import lower
from hologram.compiler.source.codegen import generate
from hologram.foundation import dtypes
from tests.shaders import emulator

TOGETHER = 40  # names in one kernel
# What a parameter may be called, that the compilers themselves would not take.
NAMES = [
    "nullptr",
    "bitor",
    "compl",
    "typeid",
    "noexcept",
    "static_cast",
    "wchar_t",
    "thread_local",
    "try",
    "INFINITY",
]
COMPILERS: dict[str, tuple[Dialect, Callable[[str], object]]] = {
    "CUDA": (cuda(), lambda text: NVRTC(90).compile("names", text)),
    "MSL": (msl(), lambda text: emulator.library(text, "metal")),
}


def program(names: Sequence[str]) -> Program:
    """Adds buffers up with functions, conversions and vectors between; two names differ by what sets others apart."""
    b = Builder("atlas_names")
    buffers = [b.buffer(name, dtypes.f32, Access.READ) for name in names]
    out, i = b.buffer("out", dtypes.f32, Access.WRITE), b.coordinate(0)
    total = b.scalar("float", dtypes.f32) + b.scalar("float_", dtypes.f32)
    for buffer in buffers:
        total = total + atlas.exp(b.load(buffer, i))
    whole = total.to(dtypes.i32) / total.to(dtypes.i64).to(dtypes.i32)
    b.store(out, i, atlas.sqrt(total) + whole.to(dtypes.f32))
    return b.build()


@pytest.mark.parametrize("language", COMPILERS)
def test_names_of_the_language(language: str) -> None:
    dialect, compile_ = COMPILERS[language]
    taken = {w for w in dialect.reserved if re.fullmatch(r"[A-Za-z](_?[A-Za-z0-9])*", w)} - {"float"}
    words = sorted(taken | set(NAMES))
    for first in range(0, len(words), TOGETHER):
        made = program(words[first : first + TOGETHER])
        compile_(generate(lower(made, dialect), dialect, usual.LIMITS).text)
