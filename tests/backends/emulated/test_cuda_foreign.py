"""Memory and streams of other libraries on the emulated card, held by a second executor with its own stream."""

from __future__ import annotations

import copy
import gc
import itertools
import threading
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="cuda-python has no wheels for this platform")

import hologram as hg
from hologram.backends.cuda import foreign
from hologram.backends.cuda.memory import Transfers
from hologram.foundation.errors import InteropError, UnsupportedDType
from tests.backends.emulated import cuda as machine
from tests.backends.emulated.cuda.memory import Misuse

DATA = np.random.default_rng(3).integers(1, 100, (4, 6, 10))

LARGE = np.arange(50_000, dtype=np.float32)  # more than what executors cut up and keep


@pytest.fixture
def pair(installed: None) -> Iterator[tuple[hg.Executor, hg.Executor]]:
    """Two executors of one card: what they leave behind is looked at."""
    with hg.Executor(backend=machine.NAME) as theirs, hg.Executor(backend=machine.NAME) as ours:
        yield theirs, ours
        gc.collect()


def exchanged(theirs: hg.Executor, ours: hg.Executor) -> bool:
    """Whether what is read here is what is computed there, and the other way round, with no wait in between."""
    made = theirs.tensor(DATA.astype(np.float32)) * 2
    seen = ours.from_dlpack(made, copy=False)
    seen += 1
    with theirs.stream(ours.device.queue_handle):
        back = made + 0
    return bool((back.to_numpy() == DATA * 2 + 1).all())


def lent_out(theirs: hg.Executor, ours: hg.Executor) -> bool:
    """Whether memory that came here stays as it is until what was enqueued here is done."""
    made = theirs.tensor(LARGE) * 2
    seen = ours.from_dlpack(made, copy=False)
    result = seen + 1
    del made
    gc.collect()
    theirs.empty_cache()
    theirs.synchronize()
    return bool((result.to_numpy() == LARGE * 2 + 1).all() and (seen + 2).to_numpy()[-1] == LARGE[-1] * 2 + 2)


def test_an_exchange_waits_on_the_card_and_not_on_the_host(pair: Any) -> None:
    driver: Any = machine.library().driver
    pair[0].tensor(DATA.astype(np.float32)).to_numpy()
    waits = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "cuStreamSynchronize", lambda *_: waits.append(1), raising=False)
        made = pair[0].tensor(DATA.astype(np.float32)) * 2
        seen = pair[1].from_dlpack(made, copy=False)
        assert not waits
    assert seen.buffer.ptr == made.buffer.ptr
    assert exchanged(*pair)
    assert lent_out(*pair)


@pytest.mark.parametrize("dropped", ["the capsule", "the buffer, and then the capsule"])
@pytest.mark.parametrize("named", [True, False])
def test_memory_that_others_still_read_is_not_written(pair: Any, dropped: str, named: bool) -> None:
    """A consumer lets go of a tensor when its own work on it is enqueued, not when it is done."""
    driver: Any = machine.library().driver
    executor = pair[0]
    context = executor.device.context
    stream = context.call(driver.cuStreamCreate, 1) if named else 1
    target = executor.allocate(LARGE.size).fill(0.0)
    executor.synchronize()
    made = executor.tensor(LARGE) * 2
    source, nbytes = made.buffer.ptr, LARGE.nbytes
    capsule = made.__dlpack__(stream=int(stream) if named else None)
    if dropped != "the capsule":
        made.buffer.free()
        taken = [executor.tensor(LARGE) for _ in range(4)]
        assert source not in {x.buffer.ptr for x in taken}
    context.call(driver.cuMemcpyDtoDAsync, target.ptr, source, nbytes, stream)
    del made, capsule
    gc.collect()
    others = [x for x in [executor.tensor(LARGE) for _ in range(4)] for x in (x, x - 1)]
    assert source in {x.buffer.ptr for x in others}
    executor.synchronize()
    context.call(driver.cuStreamSynchronize, stream)
    np.testing.assert_array_equal(target.to_numpy(), LARGE * 2)
    if named:
        context.call(driver.cuStreamDestroy, stream)


def test_lenders_get_their_memory_back_without_a_wait(pair: Any) -> None:
    theirs, ours = pair
    driver: Any = machine.library().driver
    queue = driver.handles[ours.device.queue_handle]
    lent, result = [], theirs.tensor(LARGE)
    for _ in range(4):
        made = theirs.tensor(LARGE)
        lent.append(weakref.ref(made.buffer.shared_block()))
        seen = ours.from_dlpack(made, copy=False)
        result = seen + 1
        del made, seen
        gc.collect()
        queue.drain()  # the card gets that far by itself
    assert sum(reference() is not None for reference in lent) <= 2
    np.testing.assert_array_equal(result.to_numpy(), LARGE + 1)


@pytest.mark.parametrize("planted", ["no wait", "follow leads", "given back at once"])
def test_planted_errors_show(pair: Any, planted: str) -> None:
    driver: Any = machine.library().driver
    with pytest.MonkeyPatch.context() as patch:
        if planted == "no wait":
            patch.setattr(driver, "cuStreamWaitEvent", lambda *_: (0,), raising=False)
        elif planted == "follow leads":
            patch.setattr(foreign, "follow", foreign.lead)
        else:
            adopt = Transfers.adopt
            patch.setattr(Transfers, "adopt", lambda t, address, nbytes, _: adopt(t, address, nbytes, None))
        try:
            right = exchanged(*pair) and lent_out(*pair)
        except Misuse:  # the driver's stand-in saw it
            right = False
        assert not right


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i64", "u8", "bool_"])
def test_views_of_every_kind_come_without_a_copy(pair: Any, dtype: str) -> None:
    theirs, ours = pair
    kind = getattr(hg, dtype)
    whole = theirs.tensor(DATA.astype(np.float32)).astype(kind)
    for view in (
        whole,
        whole[1, 2:, 3],
        whole.permute(2, 0, 1),
        whole[2:3, 1],
        whole[0, 0, 0],
        whole[:, :, 1::3],
    ):
        seen = ours.from_dlpack(view, copy=False)
        assert (seen.shape, seen.dtype) == (view.shape, kind)
        np.testing.assert_array_equal(seen.clone().to_numpy(), view.to_numpy())
    assert ours.from_dlpack(whole[:0]).shape == (0, 6, 10)
    copied, expected = ours.from_dlpack(whole, copy=True), whole.to_numpy()
    assert copied.buffer.ptr != whole.buffer.ptr
    whole[:] = 0  # on its own stream, done before ours is looked at
    theirs.synchronize()
    np.testing.assert_array_equal(copied.to_numpy(), expected)


def interface(x: hg.Tensor, **other: Any) -> Any:
    strides = tuple(s * x.dtype.itemsize for s in x.strides)
    address = x.buffer.ptr + x.offset * x.dtype.itemsize
    said = {"version": 3, "shape": x.shape, "typestr": x.dtype.numpy.str, "data": (address, False)}
    return SimpleNamespace(__cuda_array_interface__=said | {"strides": strides} | other, kept=x)


def test_the_array_interface(pair: Any) -> None:
    theirs, ours = pair
    x = (theirs.tensor(DATA.astype(np.int32)) + 1)[1:, ::2]
    seen = ours.from_dlpack(interface(x, stream=theirs.device.queue_handle), copy=False)
    np.testing.assert_array_equal((seen * 2).to_numpy(), (DATA[1:, ::2] + 1) * 2)
    theirs.synchronize()
    locked = (interface(x).__cuda_array_interface__["data"][0], True)
    assert ours.from_dlpack(interface(x, data=locked)).buffer.ptr != x.buffer.ptr
    for wrong, error, says in (
        ({"data": locked}, InteropError, "read-only"),
        ({"mask": x}, InteropError, "mask"),
        ({"typestr": "<c32"}, UnsupportedDType, "complex256"),
        ({"strides": (1, 2, 3)}, InteropError, "whole elements"),
        ({"data": (0x10, False)}, hg.HologramError, "cuPointerGetAttribute"),
        ({"data": (x.buffer.ptr + 1, False)}, InteropError, "aligned"),
    ):
        with pytest.raises(error, match=says):
            ours.from_dlpack(interface(x, **wrong), copy=False)


def test_views_of_one_memory_that_overlap_are_copied_whole(pair: Any) -> None:
    theirs, ours = pair
    whole = theirs.tensor(LARGE)
    for first, last in ((0, 1000), (1000, 0)):
        source, target = (ours.from_dlpack(whole[k : k + 40_000], copy=False) for k in (first, last))
        wanted = whole.to_numpy()
        wanted[last : last + 40_000] = wanted[first : first + 40_000].copy()
        memory = [x.buffer.live_block().memory for x in (source, target)]
        offsets = [x.offset * 4 for x in (source, target)]
        ours.device.copy(memory[0], offsets[0], memory[1], offsets[1], 160_000)
        ours.synchronize()
        np.testing.assert_array_equal(whole.to_numpy(), wanted)


def test_such_a_copy_finds_room_in_what_is_kept_for_later(pair: Any) -> None:
    theirs, ours = pair
    whole = theirs.tensor(LARGE)
    target, source = (ours.from_dlpack(whole[k : k + 40_000], copy=False) for k in (0, 1000))
    ours.allocate(1 << 20).free()
    card: Any = machine.library().driver.cards[0]
    capacity, card.capacity = card.capacity, card.used
    try:
        target.buffer.copy_from(source.buffer)
        np.testing.assert_array_equal(target.to_numpy(), LARGE[1000:41_000])
    finally:
        card.capacity = capacity


class ExternalStream:
    """As CuPy has it."""

    def __init__(self, ptr: int) -> None:
        self.ptr = ptr


def test_streams_by_every_name_and_what_is_none(pair: Any) -> None:
    theirs, ours = pair
    handle = theirs.device.queue_handle
    core = theirs.stream()  # as cuda.core's own
    assert core.__cuda_stream__() == (0, handle)
    assert not hasattr(theirs.stream(1), "__cuda_stream__")
    for stream in (handle, SimpleNamespace(cuda_stream=handle), ExternalStream(handle), core, 0, 1, 2):
        with ours.stream(stream) as queue:
            queue.synchronize()
    with hg.Executor(backend=machine.NAME, device=1) as other:
        for wrong in (other.device.queue_handle, "default", -3, True, object(), 3.7, np.float32(1), np.nan):
            with pytest.raises(InteropError, match="stream"), ours.stream(wrong):
                pass
        x = theirs.tensor(DATA)
        with pytest.raises(InteropError, match="copy=False"):
            other.from_dlpack(x, copy=False)
        np.testing.assert_array_equal(other.from_dlpack(x).to_numpy(), DATA)
        with pytest.raises(InteropError, match="of device 0, not of 1"):
            other.from_dlpack(interface(x))
    with hg.Executor(backend="cpu") as host:
        np.testing.assert_array_equal(host.tensor(theirs.tensor(DATA)).to_numpy(), DATA)
        with pytest.raises(InteropError, match="knows no queues"), host.stream(handle):
            pass


@pytest.mark.parametrize("stream", [None, 1, 2])
def test_a_consumer_of_dlpack_names_its_stream(pair: Any, stream: int | None) -> None:
    made = pair[0].tensor(DATA) + 1
    driver: Any = machine.library().driver
    ours = driver.handles[pair[0].device.queue_handle]
    made.__dlpack__(stream=-1)
    assert ours.queue
    made.__dlpack__(stream=stream)
    driver.contexts[0].defaults[stream or 1].drain()  # whoever waits for the consumer's stream waits for ours
    assert len(ours.queue) == 0


def sent(theirs: hg.Executor, ours: hg.Executor) -> bool:
    """Whether a buffer goes from one device to another when it is computed, and may be written and freed at once."""
    made = theirs.tensor(LARGE) * 2
    early = ours.allocate(LARGE.size).copy_from(made.buffer).to_numpy()
    made *= 2
    late = ours.allocate(LARGE.size).copy_from(made.buffer)
    made += 1
    del made
    gc.collect()
    theirs.empty_cache()
    theirs.synchronize()
    return bool((early == LARGE * 2).all() and (late.to_numpy() == LARGE * 4).all())


@pytest.mark.parametrize("device", [0, 1])
def test_buffers_go_from_card_to_card_past_the_host(pair: Any, device: int) -> None:
    driver: Any = machine.library().driver
    with hg.Executor(backend=machine.NAME, device=device) as other:
        assert sent(pair[0], other)
        data = pair[0].tensor(LARGE)
        with pytest.MonkeyPatch.context() as patch:
            for host in ("cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync"):
                patch.setattr(driver, host, lambda *_: 1 / 0, raising=False)
            found = other.allocate(LARGE.size).copy_from(data.buffer)
        assert (found.to_numpy() == LARGE).all()
        reached = [p.reached_by for p in driver.handles.values() if hasattr(p, "reached_by")]
        assert sorted(map(sorted, reached)) == ([[], [0], [1]] if device else [[], [], []])


@pytest.mark.parametrize("status", ["CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_INVALID_DEVICE"])
def test_a_pool_that_was_not_opened_to_another_card_is_opened_later(pair: Any, status: str) -> None:
    driver: Any = machine.library().driver
    open_, failures = driver.cuMemPoolSetAccess, [getattr(driver.CUresult, status)]

    def cuMemPoolSetAccess(*arguments: Any) -> Any:
        return (failures.pop(),) if failures else open_(*arguments)

    data = pair[0].tensor(LARGE)
    with hg.Executor(backend=machine.NAME, device=1) as other, pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "cuMemPoolSetAccess", cuMemPoolSetAccess, raising=False)
        found = other.allocate(LARGE.size)
        if "MEMORY" not in status:  # for which there is room at the second call
            with pytest.raises(hg.HologramError, match="cuMemPoolSetAccess"):
                found.copy_from(data.buffer)
        np.testing.assert_array_equal(found.copy_from(data.buffer).to_numpy(), LARGE)
        reached = [p.reached_by for p in driver.handles.values() if hasattr(p, "reached_by")]
        assert sorted(map(sorted, reached)) == [[], [0], [1]]


@pytest.mark.parametrize("left_out", [0, 1])
def test_a_wait_between_cards_that_is_left_out_shows(pair: Any, left_out: int) -> None:
    order, wait = itertools.count(), foreign.wait_between

    def planted(first: Any, then: Any) -> None:
        if next(order) % 2 != left_out:
            wait(first, then)

    with hg.Executor(backend=machine.NAME, device=1) as other, pytest.MonkeyPatch.context() as patch:
        patch.setattr(foreign, "wait_between", planted)
        try:
            right = sent(pair[0], other)
        except Misuse:
            right = False
        assert not right


def test_streams_that_are_no_more_are_not_asked(installed: None) -> None:
    driver: Any = machine.library().driver
    with hg.Executor(backend=machine.NAME) as lender:
        device: Any = lender.device
        context = device.context
        stream = context.call(driver.cuStreamCreate, driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
        x = lender.tensor(LARGE)
        capsule = x.__dlpack__(stream=int(stream))
        context.call(driver.cuStreamDestroy, stream)
        del x, capsule
        assert lender.memory_stats()["allocated"] == 0
        x = lender.tensor(LARGE)

        def borrow(lent: hg.Tensor) -> None:  # by an executor that is dropped, not closed
            other = hg.Executor(backend=machine.NAME)
            assert (other.from_dlpack(lent, copy=False) + 1).to_numpy()[1] == 2

        borrow(x)
        gc.collect()
        del x
        assert lender.memory_stats()["allocated"] == 0


def test_two_that_lend_to_each_other_wait_for_none(pair: Any) -> None:
    done = []

    def work(mine: hg.Executor, other: hg.Executor) -> None:
        for k in range(100):
            lent = other.tensor(LARGE)
            seen = mine.from_dlpack(lent[: 10_000 + k % 3], copy=False)
            del lent
            result = seen + 1
            del seen
            mine.synchronize()
            done.append(result.to_numpy()[1])

    threads = [threading.Thread(target=work, args=order, daemon=True) for order in (pair, pair[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert done == [2] * 200


class Fake:
    def __init__(self, said: Any) -> None:
        self.__cuda_stream__ = said


def test_what_is_no_stream_is_refused(pair: Any) -> None:
    theirs, ours = pair
    buffer = theirs.allocate(4)
    for wrong in (buffer, Fake(7), Fake((1, 2, 3)), "a stream", -1):
        with pytest.raises(InteropError, match="a stream is a handle"), ours.stream(wrong):
            pass
    del buffer
    assert (ours.tensor(LARGE) + 1).to_numpy()[0] == 1
    stream = copy.copy(ours.stream())
    assert stream.__cuda_stream__()[1] == ours.device.queue_handle
