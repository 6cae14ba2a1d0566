"""Runs CUDA C++ and MSL on the CPU: clang compiles a kernel's text as C++ against the headers in emulation/.

Threads of a workgroup are fibres, workgroups run one after the other. So it checks what a kernel computes, and that
every thread meets every barrier; not races, nor speed, nor what only Apple's or NVIDIA's compiler refuses.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from hologram.atlas.program import Program
from hologram.compiler.source.codegen import Source
from hologram.limits import Limits

HEADERS = Path(__file__).parent / "emulation"
FLAGS = (
    "-O1",
    "-shared",
    "-fPIC",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-Werror",
    "-Wno-unknown-attributes",
    "-Wno-unknown-pragmas",
    "-Wno-tautological-compare",
    "-Wno-tautological-constant-compare",
    f"-I{HEADERS}",
)
POISON = 0xAB
SURROUNDINGS = 4096  # bytes on each side of a buffer, a multiple of every vector's alignment
# By a source file's suffix: the standard, and what is included ahead, outside of the kernels' namespaces.
LANGUAGES = {
    "metal": ("-std=c++14", ("metal_stdlib",)),
    "cu": ("-std=c++17", ("cuda_runtime.h", "cuda_fp16.h", "cuda_bf16.h")),
}


def compiler() -> str:
    """The newest clang++ here; its absence skips a test, except in CI."""
    for name in ("clang++-19", "clang++-18", "clang++-17", "clang++-16", "clang++"):
        if shutil.which(name):
            return name
    absent = pytest.fail if os.environ.get("CI") else pytest.skip
    absent("clang++ is not installed: apt-get install clang-19")
    raise AssertionError


class Emulation:
    """Kernels compiled into one shared library."""

    def __init__(self, sources: Mapping[str, Source], suffix: str, folder: Path) -> None:
        """`sources` by any names; entry points must differ in CUDA, where they have C linkage."""
        self.sources = dict(sources)
        standard, headers = LANGUAGES[suffix]
        text = [f"#include <{header}>" for header in headers]
        for number, (name, source) in enumerate(self.sources.items()):
            inner = f'#line 1 "{name}.{suffix}"\n{source.text}'
            text += [f"namespace kernel_{number} {{", inner, "}", _launcher(number, source, suffix)]
        file, library = folder / f"kernels.{suffix}.cpp", folder / f"kernels.{suffix}.so"
        file.write_text("\n".join(text))
        command = [compiler(), standard, *FLAGS, str(file), "-o", str(library), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:4000]
        self.library = ctypes.CDLL(str(library))

    def run(
        self,
        name: str,
        program: Program,
        buffers: Mapping[str, np.ndarray],
        scalars: Sequence[int | float | bool],
        grid: Sequence[int],
        limits: Limits,
    ) -> dict[str, np.ndarray]:
        """What the buffers, 1-D arrays by name, hold after a launch, which must have left the rest of memory alone."""
        source = self.sources[name]
        names = [b.name for b in program.buffers]
        rooms = {n: _padded(buffers[n]) for n in names}
        memory = {n: room[SURROUNDINGS:] for n, room in rooms.items()}
        addresses = (ctypes.c_void_p * len(memory))(*(m.ctypes.data for m in memory.values()))
        groups = (ctypes.c_uint * 3)(*source.groups(grid, limits))
        words = ctypes.create_string_buffer(source.pack(scalars, grid, [buffers[n].size for n in names]))
        launch = self.library[f"launch_{list(self.sources).index(name)}"]
        threads = int(np.prod(source.workgroup))
        assert launch(addresses, words, groups, ctypes.c_uint(threads)) == 0, (
            "threads ended, others wait at a barrier"
        )
        for n, room in rooms.items():
            around = np.delete(room, slice(SURROUNDINGS, SURROUNDINGS + buffers[n].nbytes))
            assert (around == POISON).all(), f"{name} wrote outside of {n}"
        return {n: m[: buffers[n].nbytes].view(buffers[n].dtype) for n, m in memory.items()}


def _launcher(number: int, source: Source, suffix: str) -> str:
    arguments = [f"emulation::Pointer{{buffers[{k}]}}" for k in range(len(source.buffers))]
    arguments.append("emulation::Reference{words}")
    if suffix == "metal":
        x, y, z = (f"emulation::place.group[{k}]" for k in range(3))
        arguments += [f"metal::uint3{{{x}, {y}, {z}}}", "emulation::place.index"]
    return (
        f'extern "C" int launch_{number}(void** buffers, void* words, const unsigned* groups, unsigned threads) {{\n'
        f"    return emulation::run(groups, threads, [=] {{ kernel_{number}::{source.entry}"
        f"({', '.join(arguments)}); }});\n}}"
    )


def _padded(array: np.ndarray) -> np.ndarray:
    """The bytes, aligned, between surroundings of poison."""
    size = 2 * SURROUNDINGS + array.nbytes
    room = np.full(size + 64, POISON, np.uint8)
    start = -room.ctypes.data % 64
    memory = room[start : start + size]
    memory[SURROUNDINGS : SURROUNDINGS + array.nbytes] = (
        np.ascontiguousarray(array).view(np.uint8).reshape(-1)
    )
    return memory
