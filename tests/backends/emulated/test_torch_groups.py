"""What an engine of torch.distributed on the card is handed: our memory, and its place in the queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="cuda-python has no wheels for this platform")
torch: Any = pytest.importorskip("torch")
import hologram as hg  # noqa: E402
from hologram.backends.cuda import foreign  # noqa: E402
from hologram_torch.device.devices import devices  # noqa: E402
from hologram_torch.distributed import cards, collectives  # noqa: E402
from hologram_torch.loading import whole  # noqa: E402
from hologram_torch.tensors.memory import torch_tensor  # noqa: E402
from tests.backends.emulated import cuda as machine  # noqa: E402
from tests.backends.emulated.cuda.memory import Misuse  # noqa: E402

dist: Any = torch.distributed
GATHER = torch.ops.c10d._allgather_base_.default
LARGE = np.arange(50_000, dtype=np.float32)


class Work(dist.Work):
    """Has the current stream wait for an event, as NCCL's work does."""

    def __init__(self, wait: Callable[[], None]) -> None:
        super().__init__()
        self._wait = wait

    def wait(self, timeout: Any = None) -> bool:
        self._wait()
        return True


class Engine:
    """As ProcessGroupNCCL gathers one part: a copy on a stream of its own, or on the current one for who waits."""

    def __init__(self, executor: Any) -> None:
        self.default, self._schema, self.name = self, GATHER._schema, GATHER.name
        self.context = executor.device.context
        self.current, self.own = self._stream(), self._stream()  # PyTorch's current stream, and NCCL's
        self.given: list[tuple[int, int]] = []
        self.works: list[Work] = []  # Python's part of each

    def _stream(self) -> int:
        made = int(self.context.call(self.context.driver.cuStreamCreate, 1))
        self.context.own(self.context.driver.cuStreamDestroy, made)
        return made

    def _order(self, first: int, then: int) -> None:
        foreign.order(self.context, first, then)

    def __call__(self, out: Any, part: Any, group: Any, async_op: bool, timeout: int) -> Any:
        self.given.append((out.data_ptr(), part.data_ptr()))
        stream = self.own if async_op else self.current
        if async_op:
            self._order(self.current, self.own)
        copy, nbytes = self.context.driver.cuMemcpyDtoDAsync, out.numel() * out.itemsize
        self.context.call(copy, out.data_ptr(), part.data_ptr(), nbytes, stream)
        self.works.append(Work(lambda: self._order(stream, self.current)))
        return out, self.works[-1].boxed()

    @contextmanager
    def stream(self, handle: int) -> Iterator[None]:
        before, self.current = self.current, handle
        yield
        self.current = before


@pytest.fixture
def card(
    installed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Any, Engine, Any]]:
    """An executor, the engine, and the kernel of a gathering in a group of one process."""
    whole()
    meeting = f"file://{tmp_path}/meeting"
    dist.init_process_group("gloo", init_method=meeting, rank=0, world_size=1)
    try:
        with hg.Executor(backend=machine.NAME) as executor:
            engine = Engine(executor)
            monkeypatch.setitem(devices._numbers, executor, 0)  # noqa: SLF001  an emulated card is none of PyTorch's devices
            monkeypatch.setattr(cards, "reached", lambda group, tensors: True)
            monkeypatch.setattr(cards, "DLPACK_CUDA", 1)  # the card's memory is the host's
            monkeypatch.setattr(torch.cuda, "ExternalStream", lambda handle, device: handle)
            monkeypatch.setattr(torch.cuda, "stream", engine.stream)
            run = collectives.kernel_of(engine, writes=True)
            yield (
                executor,
                engine,
                lambda out, x, later=True: run(out, x, dist.group.WORLD.boxed(), later, -1),
            )
    finally:
        dist.destroy_process_group()


def ordered(executor: Any, gather: Any, *later: bool) -> bool:
    x, out = executor.tensor(LARGE) * 2, executor.zeros(LARGE.shape)
    gather(torch_tensor(out), torch_tensor(x), *later)
    result = out + 1
    x.fill(7)
    return bool((result.to_numpy() == LARGE * 2 + 1).all())


@pytest.mark.parametrize("later", [True, False])
def test_a_collective_stands_in_our_queue_and_the_host_waits_for_nothing(card: Any, later: bool) -> None:
    executor, _, gather = card
    assert ordered(executor, gather, later)
    driver: Any = machine.library().driver
    x, out = executor.tensor(LARGE) * 2, executor.zeros(LARGE.shape)
    with pytest.MonkeyPatch.context() as patch:
        for way in ("cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize"):
            patch.delattr(type(driver), way)
        gather(torch_tensor(out), torch_tensor(x), later)
    np.testing.assert_array_equal(out.to_numpy(), LARGE * 2)


@pytest.mark.parametrize("planted", ["another stream", "no wait"])
def test_a_missing_order_shows(card: Any, planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    executor, engine, gather = card
    if planted == "another stream":
        beside = engine.current
        monkeypatch.setattr(cards, "NCCL", replace(cards.NCCL, turn=lambda tensors: engine.stream(beside)))
    else:
        monkeypatch.setattr(Work, "wait", lambda self, timeout=None: True)
    try:
        right = ordered(executor, gather)
    except Misuse:
        right = False
    assert not right
    engine.context.call(engine.context.driver.cuStreamSynchronize, engine.own)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "u8", "bool_", "complex64"])
def test_it_is_handed_the_memory_of_what_is_contiguous(card: Any, dtype: str) -> None:
    executor, engine, gather = card
    data = np.arange(24).reshape(4, 6) % 5
    x = executor.tensor(data, dtype)
    out = executor.zeros((4, 6), dtype)
    gather(torch_tensor(out[1:]), torch_tensor(x[:3]))
    itemsize = x.dtype.itemsize
    assert engine.given == [(out.buffer.ptr + 6 * itemsize, x.buffer.ptr)]
    np.testing.assert_array_equal(out.to_numpy()[1:], x.to_numpy()[:3])
    gather(torch_tensor(out[:, 1]), torch_tensor(x[:, 2]))
    np.testing.assert_array_equal(out.to_numpy()[:, 1], x.to_numpy()[:, 2])
    if x.dtype.is_complex:
        gather(torch_tensor(out), torch_tensor(x * 1j).conj())
        np.testing.assert_array_equal(out.to_numpy(), (x.to_numpy() * 1j).conj())
