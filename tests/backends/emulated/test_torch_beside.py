"""Tensors of PyTorch's own on the card that `hologram` computes on: copied there, not by way of the host."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="cuda-python has no wheels for this platform")
pytest.importorskip("torch")

import torch

import hologram as hg
from hologram.backends.cuda.device import CudaDevice
from hologram_torch import utils
from hologram_torch.aten import memory
from hologram_torch.device.devices import devices
from hologram_torch.tensors.memory import hologram_tensor, torch_tensor
from tests.backends.emulated import cuda as machine

DATA = np.arange(12, dtype=np.float32).reshape(3, 4)


class Theirs:
    """What of a CUDA tensor is asked for, over memory of another executor on the card."""

    device = SimpleNamespace(type="cuda")
    dtype = None

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def detach(self) -> Theirs:
        return self

    resolve_conj = resolve_neg = contiguous = detach

    def __dlpack__(self, **arguments: Any) -> Any:
        return self.tensor.__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


@pytest.mark.usefixtures("installed")
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")  # memory that comes back late
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_tensor_of_the_same_card_is_copied_there(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with hg.Executor(backend=machine.NAME) as theirs, hg.Executor(backend=machine.NAME) as ours:
        source: Any = Theirs(theirs.tensor(DATA).permute((1, 0)))
        target = ours.tensor(np.zeros((4, 3), dtype))
        with monkeypatch.context() as patch:
            for way in ("read", "write"):
                patch.delattr(CudaDevice, way)  # no byte passes the host
            patch.setattr(memory, "is_ours", lambda tensor: False)  # which only tensors are asked
            patch.setattr(torch.cuda, "current_stream", lambda device: theirs.device.queue_handle)
            memory.copy_into(target, source)
        source.tensor += 1000  # on its own stream, and done before ours is looked at
        theirs.synchronize()
        np.testing.assert_array_equal(target.to_numpy(), DATA.T.astype(dtype))


@pytest.mark.usefixtures("installed")
def test_a_buffer_is_the_tensor_and_nothing_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with hg.Executor(backend=machine.NAME) as theirs, hg.Executor(backend=machine.NAME) as ours:
        lent = Theirs(theirs.tensor(np.arange(1000, dtype=np.float32))[1:])  # not at a multiple of 16 bytes
        monkeypatch.setattr(utils, "validate_tensor_compatible", lambda tensor: None)
        monkeypatch.setattr(utils, "dtype_of", lambda dtype: hg.f32)
        monkeypatch.setattr(utils, "is_ours", lambda tensor: False)
        buffer = utils.tensor_to_buffer(ours, lent)  # pyright: ignore[reportArgumentType]
        np.testing.assert_array_equal(buffer.to_numpy(), np.arange(1, 1000, dtype=np.float32))


@pytest.mark.usefixtures("installed")
def test_tensors_go_from_card_to_card_past_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        hg.Executor(backend=machine.NAME) as first,
        hg.Executor(backend=machine.NAME, device=1) as second,
    ):
        for number, executor in enumerate((first, second)):
            monkeypatch.setitem(devices._numbers, executor, number)  # noqa: SLF001  an emulated card is none of PyTorch's devices
        source = torch_tensor(first.tensor(DATA) * 2)
        whole, half, part = (torch_tensor(second.zeros((3, 4), d)) for d in ("f32", "f16", "f32"))
        with monkeypatch.context() as patch:
            for way in ("read", "write"):
                patch.delattr(CudaDevice, way)
            whole.copy_(source)
            half.copy_(source)
            part[1:].copy_(source[0])
        source.fill_(7)
        for found, wanted in (
            (whole, DATA * 2),
            (half, DATA * 2),
            (part[1:], DATA[:1] * 2 + np.zeros((2, 1))),
        ):
            np.testing.assert_array_equal(hologram_tensor(found).to_numpy(), wanted)
