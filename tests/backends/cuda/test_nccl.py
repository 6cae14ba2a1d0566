"""NCCL on tensors of the device: needs a CUDA card, and PyTorch with NCCL.

    pytest -q -rs tests/backends/cuda/test_nccl.py

One process is a whole group here, so that one card is enough. What NCCL copies (a gathering of one part is a copy on
its stream) shows whether it waits for us and we for it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
dist: Any = torch.distributed
if not (dist.is_available() and dist.is_nccl_available() and torch.cuda.is_available()):
    pytest.skip("needs a CUDA card and PyTorch with NCCL", allow_module_level=True)

import hologram as hg  # noqa: E402
from hologram.backends.cuda.device import CudaDevice  # noqa: E402
from hologram_torch.device.devices import devices  # noqa: E402
from hologram_torch.distributed import cards  # noqa: E402
from hologram_torch.tensors.memory import hologram_tensor  # noqa: E402

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
DTYPES = (*FLOATS, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool, torch.complex64)
SOME = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64)
NAMES = ("hologram", "cpu:gloo,cuda:nccl", "nccl")
ROWS = 6000  # of the products that the card is busy with


def card() -> int:
    """The number of the first device of the backend cuda."""
    try:
        hg.Executor(backend="cuda").close()
    except hg.BackendUnavailable as error:
        pytest.skip(f"needs the backend cuda: {error}")
    return next(k for k, place in enumerate(devices.places) if place.backend == "cuda")


@pytest.fixture(scope="module", params=NAMES)
def device(request: Any, tmp_path_factory: Any) -> Iterator[Any]:
    """The device, in a group of this process alone, with NCCL."""
    number, before = card(), devices.current
    devices.current = number
    meeting = tmp_path_factory.mktemp("group") / "meeting"
    dist.init_process_group(request.param, init_method=f"file://{meeting}", rank=0, world_size=1)
    yield torch.device("hologram", number)
    dist.destroy_process_group()
    devices.current = before


def values(dtype: Any, *shape: int) -> Any:
    return torch.randint(0, 2, shape) > 0 if dtype is torch.bool else (torch.randn(shape) * 9).to(dtype)


def all_to_all(given: Any) -> Any:
    dist.all_to_all(parts := [torch.zeros_like(given)], [given])
    return parts[0]


def reduced(given: Any) -> Any:
    dist.reduce(x := given.clone(), 0)
    return x


def all_reduced(given: Any) -> Any:
    dist.all_reduce(x := given.clone())
    return x


def later(given: Any) -> Any:
    work = dist.all_reduce(x := given.clone(), async_op=True)
    assert work.get_future().wait()[0].device == x.device
    work.wait()
    return x


def broadcast(given: Any) -> Any:
    dist.broadcast(x := given.clone(), 0)
    return x


def gathered(given: Any) -> Any:
    dist.all_gather(parts := [torch.zeros_like(given)], given)
    return parts[0]


def gathered_whole(given: Any) -> Any:
    dist.all_gather_into_tensor(out := torch.zeros_like(given, memory_format=torch.contiguous_format), given)
    return out


def gathered_later(given: Any) -> Any:
    out = torch.zeros_like(given, memory_format=torch.contiguous_format)
    dist.all_gather_into_tensor(out, given, async_op=True).wait()
    return out


def gathered_at_one(given: Any) -> Any:
    dist.gather(given, parts := [torch.zeros_like(given)], 0)
    return parts[0]


def scattered(given: Any) -> Any:
    dist.scatter(out := torch.zeros_like(given), [given], 0)
    return out


def reduce_scattered(given: Any) -> Any:
    dist.reduce_scatter(out := torch.zeros_like(given), [given])
    return out


def reduce_scattered_whole(given: Any) -> Any:
    out = torch.zeros_like(given, memory_format=torch.contiguous_format)
    dist.reduce_scatter_tensor(out, given.contiguous())
    return out


def functional(given: Any) -> Any:
    import torch.distributed._functional_collectives as functional_

    first = functional_.all_reduce(given, "sum", dist.group.WORLD)
    (second,) = functional_.all_reduce_coalesced([given], "sum", dist.group.WORLD)
    assert torch.equal(first.cpu(), second.cpu())
    return first + 0 if given.dtype != torch.bool else first.clone()


COLLECTIVES = (
    all_to_all, all_reduced, reduced, later, broadcast, gathered, gathered_whole, gathered_later, gathered_at_one,
    scattered, reduce_scattered, reduce_scattered_whole, functional,
)  # fmt: skip
VIEWS: tuple[Callable[[Any], Any], ...] = (
    lambda x: x,
    lambda x: x.t(),
    lambda x: x[::2, 1:],
    lambda x: x[3, 2],
    lambda x: x[:0],
)
# Whose copies at one process are NCCL's.
COPYING = (gathered_whole, gathered_later, gathered, reduce_scattered_whole, all_to_all)


def test_the_group_has_nccl(device: Any) -> None:
    assert dist.group.WORLD._get_backend(torch.device("cuda")).name() == "nccl"  # noqa: SLF001  PyTorch tells it nowhere else
    assert cards.reached(dist.group.WORLD, [torch.ones(2, device=device)])


@pytest.mark.parametrize("collective", COLLECTIVES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", SOME, ids=str)
def test_collectives_of_one_process_give_what_it_gave(
    device: Any, collective: Callable[..., Any], dtype: Any
) -> None:
    whole = values(dtype, 33, 7)
    for view in VIEWS:
        found = collective(view(whole.to(device)))
        assert found.device == device
        torch.testing.assert_close(found.cpu(), view(whole), rtol=0, atol=0)


def test_means_and_maxima(device: Any) -> None:
    for op in (dist.ReduceOp.AVG, dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT):
        dist.all_reduce(x := torch.arange(5.0, device=device), op=op)
        assert x.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_nccl_is_given_the_memory_itself(device: Any, dtype: Any) -> None:
    whole = values(dtype, 12, 8).to(device)
    for x in (whole, whole[3:], whole[5]):
        own = hologram_tensor(x)
        theirs, copy = cards.lent(x)
        assert copy is None
        assert theirs.device == torch.device("cuda", own.executor.device.dlpack_device[1])
        assert theirs.data_ptr() == own.buffer.ptr + own.offset * own.dtype.itemsize
        theirs = torch.view_as_complex(theirs) if dtype.is_complex else theirs
        devices.executor(device.index).synchronize()
        torch.testing.assert_close(theirs.cpu(), x.cpu())


def test_no_byte_passes_the_host_or_another_memory(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = torch.randn(1 << 20, device=device), torch.zeros(1 << 20, device=device)
    before = torch.cuda.memory_allocated()
    with monkeypatch.context() as patch:
        for way in ("read", "write", "copy", "fetch"):
            patch.delattr(CudaDevice, way)
        dist.all_reduce(x)
        dist.all_gather_into_tensor(out, x)
        dist.all_gather_into_tensor(out, x, async_op=True).wait()
        assert torch.cuda.memory_allocated() == before
    assert torch.equal(out.cpu(), x.cpu())


def ordered(device: Any, collective: Callable[..., Any]) -> tuple[bool, float]:
    """Whether a collective sees what is computed before it and is seen after it; and the host's part of the time."""
    a = torch.full((ROWS, ROWS), 1.0 / ROWS, device=device)
    x = torch.zeros(1 << 20, device=device)
    collective(x)  # NCCL connects
    (a @ a).sum().item()
    start = time.perf_counter()
    y = a
    for _ in range(40):
        y = a @ y
    x += y[0, 0] * ROWS  # 1, behind all that
    out = collective(x)
    result = out + 1
    x.fill_(7.0)  # behind what reads it
    asked = time.perf_counter() - start
    del out
    other = [torch.full((1 << 20,), 9.0, device=device) for _ in range(4)]  # where `out` was, perhaps
    found = result.cpu()
    spent = time.perf_counter() - start
    del other
    return bool(torch.allclose(found, torch.full_like(found, 2.0), rtol=1e-3)), asked / spent


@pytest.mark.parametrize("collective", COPYING, ids=lambda f: f.__name__)
def test_collectives_stand_in_the_order_of_the_queue(device: Any, collective: Callable[..., Any]) -> None:
    ordered(device, collective)  # which compiles
    right, share = ordered(device, collective)
    assert right
    assert share < 0.5, f"the host waited: {share:.2f} of the time"


def test_an_order_that_is_missing_shows(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where NCCL follows another stream than ours, it copies what is not there yet."""
    beside = torch.cuda.Stream()
    monkeypatch.setattr(cards, "NCCL", replace(cards.NCCL, turn=lambda tensors: torch.cuda.stream(beside)))
    assert not ordered(device, gathered_whole)[0]


def test_gradients_of_data_parallel(device: Any) -> None:
    torch.manual_seed(0)
    own = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 8)).to(device)
    alone = [p.detach().clone().requires_grad_() for p in own.parameters()]
    x = torch.randn(32, 64, device=device)
    trained = torch.nn.parallel.DistributedDataParallel(own, bucket_cap_mb=0.01)
    trained(x).square().sum().backward()
    names = [name for name, _ in own.named_parameters()]
    torch.func.functional_call(own, dict(zip(names, alone, strict=True)), x).square().sum().backward()
    for p, q in zip(own.parameters(), alone, strict=True):
        torch.testing.assert_close(p.grad.cpu(), q.grad.cpu())


def two(rank: int, folder: str) -> None:
    """Two processes on one card: NCCL refuses that, so they use gloo and say why."""
    import hologram_torch  # noqa: F401

    devices.current = card()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        dist.init_process_group("hologram", init_method=f"file://{folder}/two", rank=rank, world_size=2)
    assert "ranks 0 and 1 are on one card" in " ".join(str(w.message) for w in said)
    dist.all_reduce(x := torch.full((4,), rank + 1.0, device=f"hologram:{devices.current}"))
    assert x.tolist() == [3.0] * 4
    dist.destroy_process_group()


def test_two_processes_on_one_card_use_gloo(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(two, args=(str(tmp_path),), nprocs=2)
