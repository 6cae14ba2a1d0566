"""Nothing that touches memory happens once, while a function is traced: it is recorded, or refused.

Every public method of what a user holds is named here: a new one fails until it is said whether it touches memory.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.atlas.builder import Builder
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.opset import OPERATIONS


def doubled() -> Program:
    b = Builder("atlas_doubled_f32", rank=1)
    x = b.buffer("x", hg.f32, Access.READ_WRITE)
    lane = b.position(Opcode.LANE)
    b.store(x, lane, b.load(x, lane) * 2.0)
    return b.build()


class Held:
    """What a traced function closes over: a tensor, its buffer, another."""

    def __init__(self, executor: hg.Executor) -> None:
        self.executor = executor
        self.tensor = executor.tensor(np.arange(6, dtype=np.float32))
        self.buffer = self.tensor.buffer
        self.other = executor.allocate(6).fill(9.0)
        self.event = executor.stream().record()
        self.profile = executor.profile()


Act = Callable[[Held], Any]
ASSIGNING = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
# What Python or another library calls.
PROTOCOLS = frozenset({
    "__array__", "__bool__", "__complex__", "__int__", "__float__", "__index__", "__dlpack__", "__dlpack_device__",
    "__setitem__",
    "__copy__", "__deepcopy__", "__buffer__", "__len__", "__reduce_ex__",
})  # fmt: skip


def assigned(name: str) -> Act:
    """An operator that assigns."""
    return lambda h: getattr(h.tensor, f"__i{name}__")(2.0)


# What reads or writes the memory of a buffer, or makes, frees or shows it.
BUFFER: dict[str, Act] = {
    "fill": lambda h: h.buffer.fill(5.0),
    "from_numpy": lambda h: h.buffer.from_numpy(np.ones(6, np.float32)),
    "from_bytes": lambda h: h.buffer.from_bytes(bytes(24)),
    "copy_from": lambda h: h.buffer.copy_from(h.other),
    "free": lambda h: h.buffer.free(),
    "to_numpy": lambda h: h.buffer.to_numpy(),
    "to_bytes": lambda h: h.buffer.to_bytes(),
    "part": lambda h: h.buffer.part((2,), (2,), 1),
    "ptr": lambda h: h.buffer.ptr,
    "__array__": lambda h: np.asarray(h.buffer),
    "__copy__": lambda h: copy.copy(h.buffer),
    "__deepcopy__": lambda h: copy.deepcopy(h.buffer),
    "__dlpack__": lambda h: h.buffer.__dlpack__(),
    "__buffer__": lambda h: h.buffer.__buffer__(0),
}
BUFFER_APART = {
    "block", "dtype", "executor", "freed", "kind", "nbytes", "shape", "size", "shared",  # facts
    "shared_block", "live_block", "lease",  # the runtime's own
    "__dlpack_device__", "__len__", "__reduce_ex__",
}  # fmt: skip
TENSOR: dict[str, Act] = {
    "to_numpy": lambda h: h.tensor.to_numpy(),
    "item": lambda h: h.tensor[2].item(),
    "tolist": lambda h: h.tensor.tolist(),
    "tobytes": lambda h: h.tensor.tobytes(),
    "__array__": lambda h: np.asarray(h.tensor),
    "__bool__": lambda h: bool(h.tensor[1]),
    "__int__": lambda h: int(h.tensor[1]),
    "__float__": lambda h: float(h.tensor[1]),
    "__complex__": lambda h: complex(h.tensor[1]),
    "__index__": lambda h: range(3)[h.executor.tensor([1])[0]],
    "__dlpack__": lambda h: h.tensor.__dlpack__(),
    "__setitem__": lambda h: h.tensor.__setitem__(2, 5.0),
    "fill": lambda h: h.tensor.fill(5.0),
    "nonzero": lambda h: h.tensor.nonzero(),
    **{f"__i{name}__": assigned(name) for name in ASSIGNING},
}
EXECUTOR: dict[str, Act] = {
    "allocate": lambda h: h.executor.allocate(4),
    "allocate_boundary": lambda h: h.executor.allocate_boundary(3),
    "from_dlpack": lambda h: h.executor.from_dlpack(np.ones(3, np.float32)),
    "run": lambda h: h.executor.run(doubled(), {"x": h.tensor}, lanes=6),
    "launch": lambda h: h.executor.launch(doubled(), [h.buffer], (), (6,)),
    "execute": lambda h: h.executor.execute(OPERATIONS["add"], (h.buffer, 1.0), (h.other,), {}),
    "copy": lambda h: h.executor.copy(h.tensor, h.executor.as_tensor(h.other)),
    "close": lambda h: h.executor.close(),
    "synchronize": lambda h: h.executor.synchronize(),
    "empty_cache": lambda h: h.executor.empty_cache(),
    "event": lambda h: h.executor.event(),
    "profile": lambda h: h.executor.profile(),
}
# Orders and times that were asked for before.
QUEUE: dict[str, Act] = {
    "record": lambda h: h.event.record(),
    "wait": lambda h: h.event.synchronize(),
    "elapsed": lambda h: h.event.elapsed_ms(h.event),
    "stream": lambda h: h.executor.stream().record(),
    "wait for a stream": lambda h: h.executor.stream().synchronize(),
    "enter": lambda h: h.profile.__enter__(),
}
# What makes tensors of a trace: constants and results, recorded.
EXECUTOR_RECORDED: dict[str, Act] = {
    "tensor": lambda h: h.executor.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
    "zeros": lambda h: h.executor.zeros((6,)),
    "ones": lambda h: h.executor.ones((6,)),
    "full": lambda h: h.executor.full((6,), 3.0),
    "empty": lambda h: h.executor.empty((6,)).reshape(6),
    "apply": lambda h: h.executor.apply(OPERATIONS["add"], (h.tensor, h.tensor), {}),
}
EXECUTOR_APART = {
    "as_tensor", "backend", "block", "bound", "boundary", "cache_stats", "check_open", "closed", "controls", "device",
    "described", "dispatch", "kind", "kinds", "limits", "memory_stats", "planned", "pool",
    "preparation_stats", "reset_peak", "structure", "structures",
    "stream", "supported", "target", "timeline", "tracer", "tracers", "differentiated", "matmul_precision", "usable",
    "of_numbers", "reproducible", "__copy__", "__deepcopy__", "__reduce_ex__",
    "new_buffer",  # the runtime's own
}  # fmt: skip


def public(kind: type, held: Any) -> set[str]:
    """Names that a user may call: without an underscore, and the protocols that Python or a library calls."""
    operators = {f"__i{n}__" for n in ASSIGNING}
    protocols = {*operators, *(n for n in PROTOCOLS if hasattr(kind, n))}
    own = {n for k in kind.__mro__[:-1] for n in vars(k)}
    return {n for n in {*own, *getattr(held, "__dict__", ())} if not n.startswith("_")} | (protocols & own)


@pytest.fixture
def held(executor: hg.Executor) -> Held:
    return Held(hg.Executor(executor.backend))


def traced(held: Held, act: Act) -> Any:
    """What a function that does this gives, after the function was compiled: its effect at the second call alone."""

    @hg.jit
    def function(x: hg.Tensor) -> Any:
        found = act(held)
        return found if isinstance(found, hg.Tensor) else x + 1

    return function(held.executor.zeros((6,)))


@pytest.mark.parametrize("name", BUFFER)
def test_a_buffer_is_not_touched(held: Held, name: str) -> None:
    refused(held, BUFFER[name])


@pytest.mark.parametrize("name", TENSOR)
def test_a_tensor_that_is_closed_over_is_not_touched(held: Held, name: str) -> None:
    refused(held, TENSOR[name])


@pytest.mark.parametrize("name", EXECUTOR)
def test_an_executor_is_not_asked(held: Held, name: str) -> None:
    refused(held, EXECUTOR[name])


@pytest.mark.parametrize("name", QUEUE)
def test_nothing_is_waited_for_or_timed(held: Held, name: str) -> None:
    refused(held, QUEUE[name])


def refused(held: Held, act: Act) -> None:
    blocks = held.executor.memory_stats()["count"]
    with pytest.raises(hg.TraceError):
        traced(held, act)
    assert not held.executor.closed
    np.testing.assert_array_equal(held.buffer.to_numpy(), np.arange(6, dtype=np.float32))
    np.testing.assert_array_equal(held.other.to_numpy(), np.full(6, 9, np.float32))
    assert held.executor.memory_stats()["count"] <= blocks + 1  # the argument's own may live in the traceback


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_no_operation_writes_to_what_is_closed_over(held: Held, name: str) -> None:
    """Not even one whose launch is known, which passes no dispatch."""
    operation = OPERATIONS[name]
    function = getattr(hg.ops, name)
    operands = [held.buffer] * len(operation.operands)
    before = held.other.to_numpy()

    def call(h: Held) -> None:
        function(h.executor, *operands, *[h.other] * operation.results)

    expected: tuple[type[Exception], ...] = (hg.TraceError,)
    try:
        call(held)  # from now on its launch is known
    except (TypeError, ValueError):  # it wants other operands
        expected = (hg.TraceError, TypeError, ValueError)
    held.other.from_numpy(before)
    with pytest.raises(expected):
        traced(held, call)
    np.testing.assert_array_equal(held.other.to_numpy(), before)


@pytest.mark.parametrize("name", EXECUTOR_RECORDED)
def test_new_tensors_are_recorded(held: Held, name: str) -> None:
    wanted = EXECUTOR_RECORDED[name](held)

    @hg.jit
    def function(x: hg.Tensor) -> hg.Tensor:
        return EXECUTOR_RECORDED[name](held) * 0 + x if name == "empty" else EXECUTOR_RECORDED[name](held) + x

    x = held.executor.ones((6,))
    if name == "empty":  # whose memory holds anything, and zeros in a trace
        wanted = held.executor.zeros((6,))
    for _ in range(2):
        np.testing.assert_array_equal(function(x).to_numpy(), wanted.to_numpy() + 1)


def test_what_is_closed_over_counts_as_it_is_at_each_call(held: Held) -> None:
    function = hg.jit(lambda x: x + held.tensor)
    x = held.executor.zeros((6,))
    np.testing.assert_array_equal(function(x).to_numpy(), np.arange(6))
    held.buffer.fill(4.0)
    np.testing.assert_array_equal(function(x).to_numpy(), np.full(6, 4.0))


def test_a_jitted_function_inside_another_is_part_of_it(held: Held) -> None:
    inner = hg.jit(lambda t: t * 2)
    inner(held.tensor)  # known: not run while the outer one is traced
    outer = hg.jit(lambda x: x + inner(held.tensor))
    x = held.executor.zeros((6,))
    outer(x)
    held.buffer.fill(3.0)
    np.testing.assert_array_equal(outer(x).to_numpy(), np.full(6, 6.0))


def test_another_executor_is_not_touched_either(held: Held, executor: hg.Executor) -> None:
    other = executor.tensor(np.arange(3, dtype=np.float32))
    for act in (lambda: other.buffer.fill(1.0), lambda: other + 1, lambda: executor.zeros((2,))):
        with pytest.raises(hg.TraceError):
            hg.jit(lambda x, act=act: (act(), x + 1)[1])(held.tensor)
    np.testing.assert_array_equal(other.to_numpy(), np.arange(3))


def test_pickling_is_not_reading(held: Held) -> None:
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(held.buffer)


def test_every_public_name_is_known(held: Held) -> None:
    """A new one must say here whether it touches memory."""
    assert public(hg.Buffer, held.buffer) == {*BUFFER, *BUFFER_APART}
    assert public(hg.Executor, held.executor) == {*EXECUTOR, *EXECUTOR_RECORDED, *EXECUTOR_APART}
    views = {
        "T", "contiguous", "clone", "astype", "device", "dtype", "executor", "expand", "flatten",
        "is_contiguous", "key", "to", "to_device", "layout", "buffer", "mT", "nbytes", "ndim", "narrow", "offset",
        "permute", "reshape", "select", "shape", "size", "slice", "squeeze", "strides", "transpose", "unsqueeze",
        "view_1d", "at", "copy", "ravel", "real", "imag", "__dlpack_device__", "__len__", "__copy__", "__deepcopy__",
        "conjugate", "diagonal", "itemsize", "swapaxes", "trace", "view", "sort", "partition", "argpartition",
        "choose", "compress",
    }  # fmt: skip
    # Operations, put there when they were first used.
    methods = {n for n in vars(hg.Tensor) if n in OPERATIONS}
    assert public(hg.Tensor, held.tensor) - methods == {*TENSOR, *views} - methods
