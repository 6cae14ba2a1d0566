"""A CUDA device for each test: the emulated one, and the machine's own where it has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="cuda-python has no wheels for this platform")

from hologram.backends import cuda
from hologram.backends.cuda.device import CudaDevice
from hologram.backends.cuda.memory import Memory
from hologram.machine.kernel import Binding
from tests.backends.emulated import cuda as emulated


@pytest.fixture(params=["emulated", "card"])
def device(request: pytest.FixtureRequest) -> Iterator[CudaDevice]:
    """A device that is closed after the test, which the emulated one takes for a look at what was left behind."""
    opened: Any
    if request.param == "emulated":
        opened = emulated.open_device(0)
    else:
        found = cuda.probe()
        if not found.available:
            pytest.skip(f"{found.reason}: {found.remedy}")
        opened = cuda.open_device(0)
    yield opened
    opened.close()


@pytest.fixture
def upload(device: CudaDevice) -> Callable[[np.ndarray], Memory]:
    """Puts an array into new memory."""

    def upload(array: np.ndarray) -> Memory:
        memory = device.allocate(array.nbytes)
        device.write(memory, 0, memoryview(np.ascontiguousarray(array)).cast("B"))
        return memory

    return upload


@pytest.fixture
def download(device: CudaDevice) -> Callable[[Memory, np.ndarray], np.ndarray]:
    """The bytes of a memory as an array like the given one."""

    def download(memory: Memory, like: np.ndarray) -> np.ndarray:
        out = np.empty_like(like)
        device.read(memory, 0, memoryview(out).cast("B"))
        return out

    return download


@pytest.fixture
def whole() -> Callable[..., list[Binding]]:
    """Bindings of memories from end to end."""
    return lambda *memories: [Binding(m, 0, m.nbytes) for m in memories]
