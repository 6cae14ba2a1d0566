"""The short way of calls, in compiled code and in Python: what it must never do, and that it is gone."""

from __future__ import annotations

import gc
import math
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")
import hologram as hg  # noqa: E402
import hologram_torch.computing  # noqa: E402, F401
from hologram.foundation.bounded_caches import FIFOCache  # noqa: E402
from hologram.foundation.errors import HologramError, OutOfMemory  # noqa: E402
from hologram.runtime.launches.launcher import Structure  # noqa: E402
from hologram_torch.kernels.registry import KERNELS  # noqa: E402
from hologram_torch.kernels.short import entries, learnt  # noqa: E402
from hologram_torch.kernels.short import quick as module  # noqa: E402
from hologram_torch.tensors.memory import payload, torch_tensor  # noqa: E402

Quick = Callable[..., Callable[..., Any]]
KNOWN = 4  # calls after which a structure is known


@pytest.fixture(params=["compiled", "python"])
def quick(request: Any, monkeypatch: Any) -> Quick:
    """Gives an operator's kernel a short way of its own."""
    if request.param == "compiled" and not entries.compiled:
        pytest.skip("there is no compiled code here")
    monkeypatch.setattr(module, "compiled", request.param == "compiled")
    return lambda name, operands=2: module.quick(KERNELS[name], operands)


def _pair(*shape: int, dtype: Any = None) -> tuple[Any, Any]:
    host = torch.randn(shape).to(dtype or torch.float32)
    return host, host.to("hologram")


def _same(found: Any, expected: Any) -> None:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    torch.testing.assert_close(found.cpu(), expected, equal_nan=True)


def test_known_structures_go_the_short_way(quick: Quick, long_ways: list[str]) -> None:
    add, (x, a), (y, b) = quick("add.Tensor"), _pair(3, 4), _pair(3, 4)
    for _ in range(KNOWN):
        add(a, b)
    long_ways.clear()
    _same(add(a, b), x + y)
    _same(add(b, a), x + y)
    assert not long_ways


def test_compiled_code_asks_python_nothing(monkeypatch: Any) -> None:
    if not entries.compiled:
        pytest.skip("there is no compiled code here")
    taken: list[Any] = []
    take = module.take
    monkeypatch.setattr(module, "take", lambda *given: (taken.append(given), take(*given))[1])
    (x, a), (y, b) = _pair(5, 7), _pair(7)
    calls = [
        lambda p, q: p + q,
        lambda p, q: torch.add(p, q, alpha=3),
        lambda p, q: p * 0.5,
        lambda p, q: p.max(-1)[1],
        lambda p, q: p.to(torch.float64),
        lambda p, q: torch.cat([p[1:], p], 0),
        lambda p, q: p.clone().add_(q),
        lambda p, q: torch.softmax(p, -1),
        lambda p, q: torch.index_select(p, 0, torch.ones(2, dtype=torch.int64, device=p.device).cumsum(0)),
        lambda p, q: p.clone().index_copy_(0, torch.ones(1, dtype=torch.int64, device=p.device), q[None]),
        lambda p, q: p.clone().index_add_(0, torch.ones(1, dtype=torch.int64, device=p.device), q[None]),
        lambda p, q: torch.nn.functional.scaled_dot_product_attention(*[p[None, None].contiguous()] * 3),
        lambda p, q: torch.zeros(3, 2, device=p.device),
    ]
    for call in calls:
        for _ in range(KNOWN):
            call(a, b)
        found: Any = None
        for _ in range(3):  # a call may find no block of memory that waits, and then asks for one
            taken.clear()
            found = call(a, b)
            if not taken:
                break
        assert not taken
        _same(found, call(x, y))


def test_numbers_stay_what_they_are(quick: Quick) -> None:
    numbers = [True, False, 1, 0, 2, -3, 1.0, 0.0, -0.0, 0.5, math.nan, math.inf, -math.inf, 1e-45, 3e38]
    for dtype in (torch.float32, torch.int32, torch.bool):
        mul, div = quick("mul.Tensor"), quick("div.Tensor")
        x, a = _pair(2, 3, dtype=dtype)
        for _ in range(KNOWN):
            for number in numbers:
                _same(mul(a, number), x * number)
                expected = x / number
                found = div(a, number)
                _same(found, expected)
                assert found.cpu().signbit().equal(expected.signbit()) or bool(expected.isnan().any())


def test_numbers_beyond_are_refused_each_time() -> None:
    x, a = _pair(3, dtype=torch.int8)
    for _ in range(KNOWN):
        for number in (2**70, -(2**70), 2**63, np.float64(2.5), np.int32(3)):
            try:
                expected = x * number
            except (RuntimeError, OverflowError):
                with pytest.raises((RuntimeError, OverflowError)):
                    _ = a * number
            else:
                _same(a * number, expected)
        h, b = _pair(3, dtype=torch.float16)
        _same(b * 1.5, h * 1.5)
        with pytest.raises(RuntimeError):
            b.fill_(1e30)


def test_names_and_their_values_are_part_of_a_structure(quick: Quick) -> None:
    add, (x, a), (y, b) = quick("add.Tensor"), _pair(4), _pair(4)
    for _ in range(KNOWN):
        for alpha in (1, 2, -1, 2.0, 0.5):
            _same(add(a, b, alpha=alpha), torch.add(x, y, alpha=alpha))


def test_a_freed_buffer_is_refused_each_time(quick: Quick) -> None:
    add, (x, a), (_, b) = quick("add.Tensor"), _pair(6), _pair(6)
    for _ in range(KNOWN):
        add(a, b)
    payload(b).free()
    others = [torch.zeros(6, device="hologram") for _ in range(3)]  # may lie where it lay
    for _ in range(KNOWN):
        with pytest.raises(RuntimeError, match="freed"):
            add(a, b)
        with pytest.raises(RuntimeError, match="freed"):
            add(b, a)
    _same(add(a, others[0]), x)


def test_a_resized_storage_is_refused_until_it_is_back(quick: Quick) -> None:
    add, (x, a), (_, b) = quick("add.Tensor"), _pair(6), _pair(6)
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
        _same(add(a, b), x)


def test_other_executors_are_others(quick: Quick) -> None:
    add, (x, a) = quick("add.Tensor"), _pair(6)
    other = hg.Executor(payload(a).executor.backend)
    mine = torch_tensor(other.tensor(x.numpy()))
    for _ in range(KNOWN):
        _same(add(a, a), x + x)
        found = add(mine, mine)
        assert payload(found).executor is other
        assert np.array_equal(payload(found).to_numpy(), (x + x).numpy())
    for _ in range(KNOWN):
        with pytest.raises((RuntimeError, ValueError)):
            add(a, mine)
    other.close()
    for _ in range(KNOWN):
        with pytest.raises(RuntimeError):
            add(mine, mine)
        _same(add(a, a), x + x)


def test_operands_in_one_memory(quick: Quick) -> None:
    add, over = quick("add.Tensor"), quick("add_.Tensor")
    x, a = _pair(12)
    y, b = _pair(12)
    for _ in range(KNOWN):
        _same(add(a[1:], b[:-1]), x[1:] + y[:-1])
        _same(add(a[1:], a[:-1]), x[1:] + x[:-1])
        p, q = x.clone(), a.clone()
        _same(over(q[1:], b[:-1]), p[1:].add_(y[:-1]))
        _same(over(q, q), p.add_(p))
        _same(over(q[6:], q[:6]), p[6:].add_(p[:6]))
        with pytest.raises(RuntimeError, match="single memory"):
            over(q[1:], q[:-1])
        with pytest.raises(RuntimeError, match="single memory"):
            over(q[:1].expand(4), b[:4])
        _same(q, p)


def test_views_of_every_kind(quick: Quick) -> None:
    add, (x, a) = quick("add.Tensor"), _pair(6, 8)
    views: list[Callable[[Any], Any]] = [
        lambda t: t,
        lambda t: t.t(),
        lambda t: t[:, ::2],
        lambda t: t[5],
        lambda t: t[6:],  # past nothing: no elements, at the memory's end
        lambda t: t[:, 8:],
        lambda t: t[2, 3],
        lambda t: t[:1].expand(6, 8),
        lambda t: t.view(torch.int32),
        lambda t: t.view(torch.int16)[1:],
        lambda t: t.as_strided((3, 3), (1, 2), 7),
    ]
    for _ in range(KNOWN):
        for view in views:
            _same(add(view(a), view(a)), view(x) + view(x))
            _same(add(view(a), 1), view(x) + 1)
            found, expected = view(a).clone(), view(x).clone()
            assert found.stride() == expected.stride() or not expected.numel()
            _same(found, expected)


def test_large_memory_at_any_place(quick: Quick) -> None:
    add, (x, a) = quick("add.Tensor"), _pair((1 << 18) + 64)
    for _ in range(KNOWN):
        for first in range(0, 20, 3):
            _same(add(a[first:], 1.5), x[first:] + 1.5)


def test_more_than_compiled_code_takes(quick: Quick) -> None:
    cat, (x, a) = quick("cat", -1), _pair(1, 1, 1, 1, 1, 1, 2)
    for count in (1, 2, 12, 16, 17, 40):
        for _ in range(KNOWN):
            _same(cat([a] * count, 3), torch.cat([x] * count, 3))
    y, b = _pair(*[1] * 20, 3)
    add = quick("add.Tensor")
    for _ in range(KNOWN):
        _same(add(b, b), y + y)


def test_parameters_and_classes_of_tensors(quick: Quick) -> None:
    class Own(torch.Tensor):
        pass

    add, (x, a) = quick("add.Tensor"), _pair(3)
    for _ in range(KNOWN):
        for one in (a, torch.nn.Parameter(a), a.as_subclass(Own), torch.nn.Parameter(a, requires_grad=False)):
            with torch.no_grad():
                _same(torch.Tensor.cpu(add(one, a)).as_subclass(torch.Tensor), x + x)
                assert type(one + a) is (Own if type(one) is Own else torch.Tensor)


def test_the_default_dtype_is_part_of_a_structure(quick: Quick) -> None:
    div, a = quick("div.Tensor"), torch.arange(1, 5, device="hologram")
    for _ in range(KNOWN):
        assert div(a, a).dtype == torch.float32
        torch.set_default_dtype(torch.float64)
        try:
            assert div(a, a).dtype == torch.float64
        finally:
            torch.set_default_dtype(torch.float32)


def test_threads_use_one_recipe_at_once(quick: Quick) -> None:
    mul, failed = quick("mul.Tensor"), []
    made = [(k, *_pair(257)) for k in range(4)]

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
    add, (x, a) = quick("add.Tensor"), _pair(6)
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
    _same(add(a, a), x + x)


def _noted(found: list[Structure], joined: Any) -> Any:
    found.append(joined.structure)
    return joined


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_refused(quick: Quick) -> None:
    add, (_, a) = quick("add.Tensor"), _pair(6)
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
    add, (x, a) = quick("add.Tensor"), _pair(30)
    for n in range(1, 30):
        x, a = _pair(n)
        for _ in range(KNOWN):
            _same(add(a, a), x + x)
        for _ in range(KNOWN):
            _same(add(a, n + 0.5), x + (n + 0.5))
    assert caches
    assert all(len(cache) <= 8 for cache in caches)  # classes are fewer
    assert len([cache for cache in caches if len(cache) == 8]) == len(caches) - 1
    long_ways.clear()
    add(a, a)
    assert not long_ways
    first = _pair(1)[1]
    add(first, first)
    assert long_ways == ["add.Tensor"]


def test_nothing_leaks(quick: Quick) -> None:
    add, over, top = quick("add.Tensor"), quick("mul_.Tensor"), quick("max.dim", -1)
    _, a = _pair(4, 4)
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
    assert abs(len(gc.get_objects()) - objects) < 50


def test_what_is_drawn_is_drawn_anew() -> None:
    x = torch.ones(1000, device="hologram")
    masks = {tuple(torch.nn.functional.dropout(x, 0.5).cpu().tolist()) for _ in range(6)}
    drawn = {tuple(torch.empty(100, device="hologram").uniform_().cpu().tolist()) for _ in range(6)}
    assert len(masks) == len(drawn) == 6


def test_elements_that_are_read_are_read_anew() -> None:
    for k in range(6):
        x = torch.tensor([float(j == k) for j in range(8)])
        a = x.to("hologram")
        _same(torch.nonzero(a), torch.nonzero(x))
        _same(a[a > 0], x[x > 0])
        _same(torch.repeat_interleave(a.to(torch.int64)), torch.repeat_interleave(x.to(torch.int64)))
        assert a.argmax().item() == k


MAKERS: list[Callable[[Any, str], Any]] = [
    lambda x, device: torch.zeros(2, 3, device=device),
    lambda x, device: torch.zeros((), device=device, dtype=torch.bool),
    lambda x, device: torch.ones((2, 0), device=device, dtype=torch.int64),
    lambda x, device: torch.ones(4, device=device, requires_grad=True),
    lambda x, device: torch.full((2,), True, device=device),
    lambda x, device: torch.full((2,), -7, device=device),
    lambda x, device: torch.full((2,), math.nan, device=device),
    lambda x, device: torch.full((2,), -0.0, device=device).reciprocal(),
    lambda x, device: torch.full((2,), 2.7, device=device, dtype=torch.int32),
    lambda x, device: torch.zeros_like(x.t()),
    lambda x, device: torch.zeros_like(x, device="cpu"),
    lambda x, device: torch.ones_like(x, dtype=torch.float64),
    lambda x, device: torch.full_like(x.expand(2, 3, 4), 2**10),
    lambda x, device: torch.ones_like(x[None, None], memory_format=torch.channels_last),
    lambda x, device: x.new_zeros(5),
    lambda x, device: x.new_ones((1, 2), dtype=torch.uint8),
    lambda x, device: x.new_full((2,), 1.5),
    lambda x, device: torch.empty_like(x.t()).zero_(),
    lambda x, device: x.new_empty(3).fill_(2),
    lambda x, device: torch.empty_strided((2, 3), (1, 2), device=device).fill_(4),
]


@pytest.mark.parametrize("make", MAKERS)
def test_what_makes_tensors(make: Callable[[Any, str], Any]) -> None:
    x, a = _pair(3, 4)
    held = []
    for _ in range(KNOWN):
        found, expected = make(a, "hologram"), make(x, "cpu")
        _same(found, expected)
        assert (found.stride(), found.requires_grad) == (expected.stride(), expected.requires_grad)
        held.append(found.detach())
    held[0].fill_(1)  # each in memory of its own
    _same(held[-1], make(x, "cpu").detach())


def test_what_cannot_be_made_is_refused_each_time() -> None:
    for _ in range(KNOWN):
        with pytest.raises(RuntimeError):
            torch.zeros(-1, device="hologram")
        with pytest.raises(RuntimeError):
            torch.full((2,), 1e30, dtype=torch.float16, device="hologram")
        with pytest.raises(RuntimeError):
            torch.full((2,), 300, dtype=torch.int8, device="hologram")
        with pytest.raises(TypeError, match="complex32"):
            torch.full((2,), 1j, dtype=torch.complex32, device="hologram")


def test_the_default_dtype_of_what_is_made() -> None:
    for _ in range(KNOWN):
        assert torch.zeros(2, device="hologram").dtype == torch.float32
        torch.set_default_dtype(torch.float64)
        try:
            assert torch.full((2,), 0.5, device="hologram").dtype == torch.float64
            assert (
                torch.empty(2, device="hologram").dtype
                == torch.zeros(2, device="hologram").dtype
                == torch.float64
            )
        finally:
            torch.set_default_dtype(torch.float32)


def test_makers_open_what_was_closed() -> None:
    for _ in range(KNOWN):
        torch.zeros(3, device="hologram")
    executor = payload(torch.zeros(3, device="hologram")).executor
    executor.close()
    for _ in range(KNOWN):
        found = torch.ones(3, device="hologram") + torch.zeros(3, device="hologram")
        assert found.cpu().tolist() == [1.0] * 3
        assert payload(found).executor is not executor


def test_a_flag_that_is_set_is_told_of_each_time(quick: Quick) -> None:
    copy, (x, a), (y, b) = quick("index_copy_", -1), _pair(5, 3), _pair(2, 3)
    for _ in range(KNOWN):
        for positions in ([0, 4], [3, 1]):
            where = torch.tensor(positions)
            _same(copy(a, 0, where.to("hologram"), b), x.index_copy_(0, where, y))
        with pytest.raises((IndexError, RuntimeError)):
            copy(a.clone(), 0, torch.tensor([0, 5]).to("hologram"), b)
