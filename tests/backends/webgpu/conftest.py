"""A WebGPU device for each test, and the programs and transfers the tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from hologram.backends import webgpu
from hologram.backends.webgpu.device import WebGPUDevice
from hologram.backends.webgpu.memory import Memory
from hologram.machine.kernel import Binding


@pytest.fixture(scope="session")
def index() -> int:
    found = webgpu.probe()
    if not found.available:
        pytest.skip(f"{found.reason}: {found.remedy}")
    return 0


@pytest.fixture(scope="session")
def shared_device(index: int) -> Iterator[WebGPUDevice]:
    device = webgpu.open_device(index)
    yield device
    device.close()


@pytest.fixture(params=["mapped", "staged"])
def device(request: pytest.FixtureRequest, shared_device: WebGPUDevice) -> Iterator[WebGPUDevice]:
    """The device with transfers through mapped buffers, where it has them, and through staging."""
    mappable = shared_device.transfers.mappable
    if request.param == "mapped" and not mappable:
        pytest.skip("the adapter maps no storage buffers")
    shared_device.transfers.mappable = request.param == "mapped"
    yield shared_device
    shared_device.transfers.mappable = mappable


@pytest.fixture
def upload(shared_device: WebGPUDevice) -> Iterator[Callable[[np.ndarray], Memory]]:
    """Puts an array into new memory, which is released after the test."""
    made: list[Memory] = []

    def upload(array: np.ndarray) -> Memory:
        made.append(shared_device.allocate(array.nbytes))
        shared_device.write(made[-1], 0, memoryview(np.ascontiguousarray(array)).cast("B"))
        return made[-1]

    yield upload
    for memory in made:
        shared_device.release(memory)


@pytest.fixture
def download(shared_device: WebGPUDevice) -> Callable[[Memory, np.ndarray], np.ndarray]:
    """The bytes of a memory as an array like the given one."""

    def download(memory: Memory, like: np.ndarray) -> np.ndarray:
        out = np.empty_like(like)
        shared_device.read(memory, 0, memoryview(out).cast("B"))
        return out

    return download


@pytest.fixture
def whole() -> Callable[..., list[Binding]]:
    """Bindings of memories from end to end."""
    return lambda *memories: [Binding(m, 0, m.nbytes) for m in memories]
