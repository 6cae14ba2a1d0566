"""Runs CUDA C++ and MSL on the CPU: clang compiles a kernel's text as C++ against the headers in emulation/.

Threads of a workgroup are fibres, workgroups run one after the other. So it checks what a kernel computes, and that
every thread meets every barrier; not speed, nor what only Apple's or NVIDIA's compiler refuses. Which of two threads
runs first changes at every barrier and from workgroup to workgroup, so that most races give wrong results.

What clang made is kept in pytest's own cache folder, by the text of all that went into it.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from hologram.atlas.program import Program
from hologram.compiler.source.codegen import Source
from hologram.machine.limits import Limits

HEADERS = Path(__file__).parent / "emulation"
SPACES = Path(__file__).parent / "address_spaces"
KEPT = Path(__file__).parents[2] / ".pytest_cache" / "emulated"
FLAGS = (
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
ALONE = ("-nostdlib",) if sys.platform == "linux" else ()  # the process that loads it has libc and libm
POISON = 0xAB
SURROUNDINGS = 4096  # bytes on each side of a buffer, a multiple of every vector's alignment
# By a source file's suffix: the standard, and what is included ahead, outside of the kernels' namespaces.
LANGUAGES = {
    "metal": ("-std=c++14", ("metal_stdlib",)),
    "cu": ("-std=c++17", ("cuda_runtime.h", "cuda_fp16.h", "cuda_bf16.h", "bulk_units.h", "cuda_launch.h")),
}


def compiler() -> str:
    """The newest clang++ here; its absence skips a test, except in CI."""
    for name in ("clang++-19", "clang++-18", "clang++-17", "clang++-16", "clang++"):
        if shutil.which(name):
            return name
    absent = pytest.fail if os.environ.get("CI") else pytest.skip
    absent("clang++ is not installed: apt-get install clang-19")
    raise AssertionError


@functools.cache
def _identity() -> str:
    """Of the compiler and the headers."""
    said = subprocess.run([compiler(), "--version"], capture_output=True, text=True, check=True).stdout
    return "\n".join([said, *FLAGS, *(path.read_text() for path in sorted(HEADERS.iterdir()))])


def kept(name: str, command: Sequence[str], text: str) -> Path:
    """What clang makes of a text, made where it is missing; `name` ends as the file's name does."""
    digest = hashlib.sha256("\n".join([_identity(), *command, text]).encode()).hexdigest()
    place = KEPT / f"{digest}{name}"
    if place.exists():
        return place
    KEPT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        dir=KEPT
    ) as folder:  # renamed from there: others see a whole file or none
        made = Path(folder) / place.name
        given = ["-", "-o", str(made)]
        done = subprocess.run(
            [compiler(), *command, *given], input=text, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise CompilationError(done.stderr)
        made.replace(place)
    return place


class CompilationError(Exception):
    """What clang said of a text."""


@functools.cache
def _precompiled(suffix: str, effort: str) -> Path:
    standard, headers = LANGUAGES[suffix]
    text = "\n".join(f"#include <{header}>" for header in headers)
    # By the headers' content, not by when a checkout wrote them.
    timeless = ["-Xclang", "-fno-pch-timestamp"]
    return kept(".pch", [standard, effort, *FLAGS, *timeless, "-x", "c++-header"], text)


def library(text: str, suffix: str, *, quick: bool = False) -> Path:
    """The shared library of kernels and launchers, for the headers of their language; raises CompilationError.

    `quick`: it is compiled in two thirds of the time, and runs several times as long.
    """
    standard, _ = LANGUAGES[suffix]
    effort = "-O0" if quick else "-O1"
    headers = ["-include-pch", str(_precompiled(suffix, effort)), "-x", "c++"]
    return kept(".so", [standard, effort, *FLAGS, *ALONE, "-shared", *headers], text)


def check_address_spaces(text: str) -> None:
    """Raises CompilationError where MSL takes memory of one address space for that of another.

    C++ has no methods of an address space, so the one that an epilogue is loses its own.
    """
    standard, _ = LANGUAGES["metal"]
    plain = text.replace(" const constant {", " const {").replace("constant Epilogue&", "const Epilogue&")
    header = hashlib.sha256((SPACES / "metal_stdlib").read_bytes()).hexdigest()
    command = [standard, "-O0", "-c", "-w", f"-I{SPACES}", "-x", "c++"]
    kept(".o", command, f"// against {header}\n#line 1\n{plain}")


class Emulation:
    """Kernels compiled into one shared library."""

    def __init__(self, sources: Mapping[str, Source], suffix: str) -> None:
        """`sources` by any names; entry points must differ in CUDA, where they have C linkage."""
        self.sources = dict(sources)
        text = []
        for number, (name, source) in enumerate(self.sources.items()):
            inner = f'#line 1 "{name}.{suffix}"\n{source.text}'
            text += [f"namespace kernel_{number} {{", inner, "}", _launcher(number, source, suffix)]
        self.library = ctypes.CDLL(str(library("\n".join(text), suffix)))

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
