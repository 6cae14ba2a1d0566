"""What operations launch on the card is CUDA C++ to NVIDIA's own compiler: compiled only, the emulated tests run it."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("cuda.bindings", reason="cuda-python has no wheels for this platform")

import hologram as hg
from hologram.backends import registry
from hologram.backends.cuda.compiler import NVRTC
from hologram.foundation.errors import CompileError
from tests import test_ops
from tests.backends import emulated
from tests.backends.emulated import cuda as machine
from tests.backends.emulated.cuda import kernel_calls

pytestmark = pytest.mark.sampled(2)

ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)
EVERY = int(
    os.environ.get("EVERY", "16")
)  # of the tests of operations: all of them take a quarter of an hour


class Loaded:
    """A kernel that nobody runs."""

    sizes = pointers = ()
    most_threads, shared_bytes, most_dynamic_bytes = 1024, 0, None

    def __init__(self, code: bytes) -> None:
        self.entry = code.decode()


class Compiler:
    """NVRTC, for an architecture by the text; so the same for every run."""

    identity = f"NVRTC in process {os.getpid()}"  # another's kernels would not be compiled here

    def __init__(self) -> None:
        self.each = [NVRTC(a) for a in ARCHITECTURES]
        self.count = 0

    def compile(self, entry: str, text: str) -> bytes:
        newer = "multiply_add(" in text and "__nv_bfloat16" in text  # Turing's matrix units know no bf16
        among = self.each[1:] if newer else self.each
        chosen = among[zlib.crc32(text.encode()) % len(among)]
        assert chosen.compile(entry, text)[:4] == b"\x7fELF"
        self.count += 1
        return entry.encode()


@pytest.fixture(name="card", scope="module")
def _card() -> Iterator[tuple[hg.Executor, Compiler]]:
    """An executor that launches nothing, and what compiles for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(emulated.SITE))
        patch.setattr(kernel_calls, "Kernel", Loaded)
        patch.setattr(kernel_calls.KernelCalls, "cuLaunchKernel", lambda *_: kernel_calls.OK)
        patch.setattr(test_ops, "check", lambda *_: None)
        registry.forget()
        with hg.Executor(backend=machine.NAME) as executor:
            opened: Any = executor.device
            compiler = Compiler()
            opened.kernel_context = replace(opened.kernel_context, compiler=compiler)
            yield executor, compiler
    registry.forget()


@pytest.mark.parametrize(("operation", "dtype"), test_ops.CASES[5::EVERY])
def test_nvrtc_compiles_what_an_operation_launches(
    operation: Any, dtype: Any, card: tuple[hg.Executor, Compiler]
) -> None:
    test_ops.test_operation(operation, dtype, card[0])


def test_what_is_no_kernel_fails(card: tuple[hg.Executor, Compiler]) -> None:
    executor, compiler = card
    executor.zeros((3,)).sum()
    assert compiler.count > 0
    for one in compiler.each:
        with pytest.raises(CompileError, match="undefined"):
            one.compile("wrong", 'extern "C" __global__ void wrong(float* x) { x[0] = undefined; }')
