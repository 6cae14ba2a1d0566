"""What operations launch on the emulated card is CUDA C++ to NVIDIA's own compiler too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("cuda.bindings", reason="cuda-python has no wheels for this platform")

import hologram as hg
from hologram.backends import registry
from hologram.backends.cuda.compiler import NVRTC
from tests import test_ops
from tests.backends import emulated
from tests.backends.emulated import cuda as machine
from tests.backends.emulated.cuda.kernels import Clang

ARCHITECTURES = (75, 90, 120)
EVERY = 96  # of the tests of operations: with all of them it would take an hour


class Both(Clang):
    """Clang's code, of text that NVRTC compiles as well, for one architecture after the other."""

    def __init__(self) -> None:
        super().__init__(90)
        self.identity = (
            f"clang and NVRTC in process {os.getpid()}"  # another's kernels would not be compiled here
        )
        self.compilers = [NVRTC(a) for a in ARCHITECTURES]
        self.count = 0

    def compile(self, entry: str, text: str) -> bytes:
        assert self.compilers[self.count % len(ARCHITECTURES)].compile(entry, text)[:4] == b"\x7fELF"
        self.count += 1
        return super().compile(entry, text)


@pytest.fixture(name="both", scope="module")
def _both() -> Iterator[tuple[hg.Executor, Both]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(emulated.SITE))
        registry.forget()
        with hg.Executor(backend=machine.NAME) as executor:
            opened: Any = executor.device
            compiler = Both()
            opened.facilities = replace(opened.facilities, compiler=compiler)
            yield executor, compiler
    registry.forget()


@pytest.mark.parametrize(("operation", "dtype"), test_ops.CASES[5::EVERY])
def test_nvrtc_compiles_what_an_operation_launches(
    operation: Any, dtype: Any, both: tuple[hg.Executor, Both]
) -> None:
    executor, compiler = both
    before = compiler.count
    test_ops.test_operation(operation, dtype, executor)
    assert compiler.count > before
