"""What the compiler's tests share: the limits of an imagined adapter, and a real one judged by the evaluator."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from hologram.atlas.evaluate import evaluate
from hologram.atlas.program import Program
from hologram.backends import webgpu as backend
from hologram.backends.webgpu.device import WebGPUDevice
from hologram.foundation import dtypes
from hologram.machine.kernel import Binding
from hologram.machine.limits import Limits


@pytest.fixture
def limits() -> Limits:
    """A software adapter's."""
    return Limits(
        dtypes=frozenset(dtypes.ALL),
        max_buffer_bytes=2**30,
        max_binding_bytes=2**27,
        max_bindings=8,
        max_workgroups=65535,
        max_workgroup_threads=1024,
        shared_bytes=32768,
        subgroup=8,
        unified_memory=True,
        parallelism=2,
        software=True,
        shortfalls=("loops",),
    )


@pytest.fixture(scope="session")
def webgpu() -> Iterator[WebGPUDevice]:
    """An adapter that WGSL really runs on."""
    found = backend.probe()
    if not found.available:
        pytest.skip(f"{found.reason}: {found.remedy}")
    device = backend.open_device(0)
    yield device
    device.close()


Run = Callable[..., None]


@pytest.fixture
def agrees(webgpu: WebGPUDevice) -> Run:
    """Runs a program on the adapter and in the evaluator, and compares every buffer."""

    def run(
        program: Program,
        arrays: list[np.ndarray],
        scalars: tuple = (),
        grid: tuple = (),
        rtol: float = 0,
        atol: float = 0,
    ) -> None:
        memories = [webgpu.allocate(max(a.nbytes, 4)) for a in arrays]
        for memory, a in zip(memories, arrays, strict=True):
            webgpu.write(memory, 0, memoryview(a.view(np.uint8)))
        bindings = [Binding(m, 0, a.nbytes) for m, a in zip(memories, arrays, strict=True)]
        webgpu.compile(program).bind(bindings, scalars, grid)()
        names = [s.name for s in program.scalars]
        want = {b.name: a.copy() for b, a in zip(program.buffers, arrays, strict=True)}
        evaluate(program, want, dict(zip(names, scalars, strict=True)), grid)
        for b, memory, a in zip(program.buffers, memories, arrays, strict=True):
            got = np.empty(a.nbytes, np.uint8)
            webgpu.read(memory, 0, memoryview(got))
            webgpu.release(memory)
            _compare(b.name, got.view(a.dtype), want[b.name], rtol, atol)

    return run


def _compare(name: str, got: np.ndarray, want: np.ndarray, rtol: float, atol: float) -> None:
    if got.dtype.kind not in "biu":
        got, want = got.astype(np.float64), want.astype(np.float64)  # exact; NumPy knows no NaN of bfloat16
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=name)
