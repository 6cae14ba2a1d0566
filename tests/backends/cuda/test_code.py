"""Code of a CUDA device: what NVRTC and the driver say to it, where it is kept, and who waits for it."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from hologram.backends.cuda import compiler
from hologram.backends.cuda.compiler import NVRTC
from hologram.backends.cuda.device import CudaDevice
from hologram.foundation import store
from hologram.foundation.errors import BackendUnavailable, CompileError
from hologram.machine.kernel import Binding
from tests.backends.cuda.test_launch import SIZE, VALUES, increment
from tests.backends.emulated import cuda as emulated
from tests.golden.programs import PROGRAMS


def test_code_is_kept_on_disk(device: CudaDevice, upload, whole) -> None:
    memory = upload(VALUES)
    program = increment("kept")
    kept = store.shared()
    counts = []
    for _ in range(2):
        device.forget_kernels()
        device.compile(program).bind(whole(memory), (1.0,), (SIZE,))
        found = kept.stats(compiler.KIND)
        counts.append((found.compiled, found.hits))
    assert counts[1] == (counts[0][0], counts[0][1] + 1)


def test_damaged_code_is_compiled_again(device: CudaDevice, upload, download, whole) -> None:
    memory = upload(VALUES)
    made: Any = device.compile(increment("damaged"))
    launch: Any = made.bind(whole(memory), (1.0,), (SIZE,))
    (code,) = made.codes.values()
    key = store.key(device.kernel_context.compiler.identity, code.source.text)
    store.shared().put(compiler.KIND, key, b"nonsense")
    before = store.shared().stats(compiler.KIND).corrupt
    device.forget_kernels()
    launch = device.compile(increment("damaged")).bind(whole(memory), (1.0,), (SIZE,))
    assert store.shared().stats(compiler.KIND).corrupt == before + 1
    launch()
    np.testing.assert_array_equal(download(memory, VALUES), VALUES + 1)


def test_code_that_the_driver_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """PTX of an NVRTC newer than the driver, as it may come for a GPU newer than NVRTC."""
    device = emulated.open_device(0)
    driver = emulated.library().driver
    status = driver.CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION
    monkeypatch.setattr(driver, "cuLibraryLoadData", lambda *arguments: (status, None))
    memory = device.allocate(64)
    with pytest.raises(CompileError, match=r"refuses the code.*UNSUPPORTED_PTX_VERSION") as error:
        device.compile(increment("refused")).bind([Binding(memory, 0, 64)], (1.0,), (16,))
    assert "atlas_refused" in error.value.source
    device.release(memory)
    device.close()


def test_nvrtc_says_what_it_dislikes() -> None:
    with pytest.raises(CompileError, match="nonsense") as error:
        NVRTC(90).compile("broken", 'extern "C" __global__ void broken() { nonsense; }')
    assert "broken.cu(1)" in error.value.log


@pytest.mark.parametrize("architecture", [75, 80, 86, 89, 90, 100, 120])
def test_nvrtc_compiles_for_every_architecture(architecture: int) -> None:
    program = PROGRAMS["silu_f16"]
    device = emulated.open_device(0)
    text = device.compile(program).source((1024,))
    device.close()
    assert NVRTC(architecture).compile("kernel", text)[:4] == b"\x7fELF"


def test_a_newer_architecture_gets_ptx() -> None:
    made = NVRTC(999)
    assert not made.native
    assert b".target sm_" in made.compile("empty", 'extern "C" __global__ void empty() {}')


def test_an_older_architecture_is_refused() -> None:
    with pytest.raises(BackendUnavailable, match=r"compute capability 7\.5 and newer, this GPU has 5\.0"):
        NVRTC(50)


def test_others_compute_while_a_kernel_is_compiled(
    device: CudaDevice, upload, download, whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, asked, go = upload(VALUES), threading.Event(), threading.Event()
    add = device.compile(increment()).bind(whole(memory), (1.0,), (SIZE,))
    compile_ = type(device.kernel_context.compiler).compile

    def slow(*arguments: Any) -> bytes:
        asked.set()
        assert go.wait(60)
        return compile_(*arguments)

    monkeypatch.setattr(type(device.kernel_context.compiler), "compile", slow)
    made: list[Any] = []
    thread = threading.Thread(
        target=lambda: made.append(device.compile(increment("late")).bind(whole(memory), (2.0,), (SIZE,)))
    )
    thread.start()
    try:
        assert asked.wait(60)
        add()
        np.testing.assert_array_equal(download(memory, VALUES), VALUES + 1)
        assert not made
    finally:
        go.set()
        thread.join()
    made[0]()
    np.testing.assert_array_equal(download(memory, VALUES), VALUES + 3)
