"""The short way after memory is freed, in threads and forks, after errors, with full caches; and nothing leaks."""

from __future__ import annotations

import gc
import os
import sys
import threading
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
import hologram_torch.computing  # noqa: E402, F401
from hologram.foundation.bounded_caches import FIFOCache  # noqa: E402
from hologram.foundation.errors import HologramError, OutOfMemory  # noqa: E402
from hologram.runtime.launches.launcher import Structure  # noqa: E402
from hologram_torch.kernels.short import learnt  # noqa: E402
from hologram_torch.kernels.short import quick as module  # noqa: E402
from hologram_torch.tensors.memory import payload  # noqa: E402
from tests.torch.kernels.short.calls import KNOWN, Quick, pair, same  # noqa: E402


def test_a_freed_buffer_is_refused_each_time(quick: Quick) -> None:
    add, (x, a), (_, b) = quick("add.Tensor"), pair(6), pair(6)
    for _ in range(KNOWN):
        add(a, b)
    payload(b).free()
    others = [torch.zeros(6, device="hologram") for _ in range(3)]  # may lie where it lay
    for _ in range(KNOWN):
        with pytest.raises(RuntimeError, match="freed"):
            add(a, b)
        with pytest.raises(RuntimeError, match="freed"):
            add(b, a)
    same(add(a, others[0]), x)


def test_a_resized_storage_is_refused_until_it_is_back(quick: Quick) -> None:
    add, (x, a), (_, b) = quick("add.Tensor"), pair(6), pair(6)
    for _ in range(KNOWN):
        add(a, b)
    storage = b.untyped_storage()
    nbytes = storage.nbytes()
    storage.resize_(0)
    for _ in range(KNOWN):
        with pytest.raises(RuntimeError):
            add(a, b)
    storage.resize_(nbytes)
    b.zero_()
    for _ in range(KNOWN):
        same(add(a, b), x)


def test_threads_use_one_recipe_at_once(quick: Quick) -> None:
    mul, failed = quick("mul.Tensor"), []
    made = [(k, *pair(257)) for k in range(4)]

    def work(k: int, x: Any, a: Any) -> None:
        for _ in range(150):
            if not mul(a, float(k)).cpu().equal(x * float(k)):
                failed.append(k)

    threads = [threading.Thread(target=work, args=each) for each in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_a_thread_of_known_calls_alone_goes_backward() -> None:
    w = torch.ones(5, device="hologram", requires_grad=True)
    grads: list[Any] = []

    def work() -> None:
        (w * 3.0).sum().backward()
        grads.append(w.grad)
        w.grad = None

    for _ in range(KNOWN):
        work()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert [g.cpu().tolist() for g in grads] == [[3.0] * 5] * (KNOWN + 1)


@pytest.mark.parametrize("error", [OutOfMemory, KeyError])
def test_an_error_in_the_middle_leaves_nothing(
    quick: Quick, monkeypatch: Any, error: type[Exception]
) -> None:
    add, (x, a) = quick("add.Tensor"), pair(6)
    found: list[Structure] = []
    original = learnt.joined
    monkeypatch.setattr(learnt, "joined", lambda *given: _noted(found, original(*given)))
    for _ in range(KNOWN):
        add(a, a)
    (structure,) = found

    def fails(arguments: list[Any]) -> None:
        raise error("odd")

    gc.collect()
    before = sys.getrefcount(a), torch.hologram.memory_stats()["allocated"]
    launch, structure.launch = structure.launch, fails
    for _ in range(50):
        with pytest.raises(RuntimeError if issubclass(error, HologramError) else KeyError):
            add(a, a)
    structure.launch = launch
    gc.collect()
    assert (sys.getrefcount(a), torch.hologram.memory_stats()["allocated"]) == before
    same(add(a, a), x + x)


def _noted(found: list[Structure], joined: Any) -> Any:
    found.append(joined.structure)
    return joined


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_refused(quick: Quick) -> None:
    add, (_, a) = quick("add.Tensor"), pair(6)
    for _ in range(KNOWN):
        add(a, a)
    child = os.fork()
    if not child:
        try:
            add(a, a)
        except RuntimeError as error:
            os._exit(0 if "fork" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_overfilled_caches_lose_their_oldest(quick: Quick, monkeypatch: Any, long_ways: list[str]) -> None:
    caches: list[FIFOCache[Any, Any]] = []

    def noted(most: int) -> FIFOCache[Any, Any]:
        caches.append(FIFOCache(8))
        return caches[-1]

    monkeypatch.setattr(module, "FIFOCache", noted)
    add, (x, a) = quick("add.Tensor"), pair(30)
    for n in range(1, 30):
        x, a = pair(n)
        for _ in range(KNOWN):
            same(add(a, a), x + x)
        for _ in range(KNOWN):
            same(add(a, n + 0.5), x + (n + 0.5))
    used = [cache for cache in caches if cache]  # all but compiled code's, where there is none
    assert len(used) == (3 if module.compiled else 2)
    assert all(len(cache) <= 8 for cache in used)  # classes are fewer
    assert len([cache for cache in used if len(cache) == 8]) == len(used) - 1
    long_ways.clear()
    add(a, a)
    assert not long_ways
    first = pair(1)[1]
    add(first, first)
    assert long_ways == ["add.Tensor"]


def test_nothing_leaks(quick: Quick) -> None:
    add, over, top = quick("add.Tensor"), quick("mul_.Tensor"), quick("max.dim", -1)
    _, a = pair(4, 4)
    number = float("1.25")

    def calls(count: int) -> None:
        for _ in range(count):
            add(a, a[1], alpha=2)
            add(a, number)
            over(a, number)
            top(a, -1, False)

    calls(KNOWN)
    watched = [a, number, payload(a), payload(a).block, payload(a).executor, torch.float32, payload(a).kind]
    gc.collect()
    before = [sys.getrefcount(x) for x in watched], torch.hologram.memory_stats()["count"]
    objects = len(gc.get_objects())
    calls(10_000 // 4)
    gc.collect()
    assert ([sys.getrefcount(x) for x in watched], torch.hologram.memory_stats()["count"]) == before
    assert len(gc.get_objects()) - objects < 50  # what others left may go meanwhile
