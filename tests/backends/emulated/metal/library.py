"""MTLLibrary and MTLComputePipelineState: MSL compiled by clang, as C++ against the emulation's headers."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from typing import Any

from tests.backends.emulated.metal.objects import Error, Misuse, Size, require
from tests.shaders import emulator

COMPILE_FAILURE = 3  # MTLLibraryErrorCompileFailure
SAFE, FAST = 0, 2  # MTLMathMode; the second is the default
FAST_FUNCTIONS = 0  # MTLMathFloatingPointFunctionsFast, the default
MOST_THREADS = 1024
MOST_ARGUMENTS = 64
SIMD_WIDTH = 32  # the emulation's
# Of a kernel: its name and its arguments, as the text has them.
_KERNEL = re.compile(r"^kernel void (\w+)\((.*?)\) \{", re.MULTILINE | re.DOTALL)
_INDEX = re.compile(r"\[\[buffer\(([^)]*)\)\]\]")
# Structs that hold pointers, and the arguments of such a type.
_INDIRECT = re.compile(r"^struct (\w+) \{\n    device const", re.MULTILINE)
_COOPERATIVE = re.compile(r"threadgroup_barrier|simd_")


class Function:
    """MTLFunction."""

    def __init__(self, library: Library, name: str, arguments: str) -> None:
        self.library, self.name = library, name
        self.indices = _INDEX.findall(arguments)  # C++ expressions
        structs = "|".join(_INDIRECT.findall(library.text)) or "$."
        self.indirect = [bool(re.search(rf"\b({structs})&", a)) for a in arguments.split("[[buffer(")[:-1]]


class Library:
    """MTLLibrary."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.functions = {n: Function(self, n, a) for n, a in _KERNEL.findall(text)}

    def newFunctionWithName_(self, name: str) -> Function | None:
        return self.functions.get(name)


def compile_library(text: str, options: Any) -> tuple[Library | None, Error | None]:
    """What newLibraryWithSource gives: clang's own complaints where it does not compile."""
    require(options is not None, "newLibraryWithSource: without options fast-math is on")
    values = options.values
    both = values.get("FastMathEnabled") is False  # the mode and the functions; deprecated since macOS 15
    require(both or values.get("MathMode", FAST) == SAFE, "newLibraryWithSource: fast-math is on")
    precise = values.get("MathFloatingPointFunctions", FAST_FUNCTIONS) != FAST_FUNCTIONS
    require(both or precise, "newLibraryWithSource: the functions of floats are the fast ones")
    library = Library(text)
    try:
        emulator.check_address_spaces(text)
        for function in library.functions.values():
            _loaded(function)
        if not library.functions:
            emulator.library(text, "metal")
    except emulator.CompilationError as error:
        return None, Error(COMPILE_FAILURE, str(error))
    return library, None


def _loaded(function: Function) -> ctypes.CDLL:
    """The kernel with what calls it; clang's work is kept from run to run."""
    text, cooperative = function.library.text, bool(_COOPERATIVE.search(function.library.text))
    indices = ", ".join(f"static_cast<int>({i})" for i in function.indices) or "-1"
    launcher = [
        "#include <metal_launch.h>",
        f"EMULATED_KERNEL({function.name}, {str(cooperative).lower()})",
        f'extern "C" const int emulated_indices[] = {{{indices}}};',
    ]
    return ctypes.CDLL(str(emulator.library("\n".join([text, *launcher]), "metal", quick=not cooperative)))


class Pipeline:
    """MTLComputePipelineState."""

    def __init__(self, descriptor: Any) -> None:
        function: Function = descriptor.values["ComputeFunction"]
        self.name = function.name
        self.most_threads = descriptor.values.get("MaxTotalThreadsPerThreadgroup", MOST_THREADS)
        self._library = _loaded(function)
        self.shared_bytes: int = self._library.emulated_shared_bytes()
        sizes = (ctypes.c_int * MOST_ARGUMENTS)()
        self._count = self._library.emulated_arguments(sizes)
        bound = len(function.indices)
        indices = (ctypes.c_int * max(bound, 1)).in_dll(self._library, "emulated_indices")
        # By index: the size of a struct, or minus the alignment of what a pointer leads to.
        self.arguments: dict[int, int] = {indices[k]: sizes[k] for k in range(bound)}
        self._order = tuple(indices[k] for k in range(bound))
        self.indirect = tuple(
            index for index, holds in zip(self._order, function.indirect, strict=True) if holds
        )

    def maxTotalThreadsPerThreadgroup(self) -> int:
        return self.most_threads

    def threadExecutionWidth(self) -> int:
        return SIMD_WIDTH

    def run(self, addresses: Mapping[int, int], groups: Size, threads: Size) -> None:
        values = [addresses[k] for k in self._order]
        values += [0] * (self._count - len(values))
        given = (ctypes.c_void_p * max(len(values), 1))(*values)
        sizes = [(ctypes.c_uint * 3)(*size) for size in (groups, threads)]
        if self._library.emulated_launch(given, *sizes):
            raise Misuse(f"{self.name}: some threads ended, others of their workgroup wait at a barrier")
