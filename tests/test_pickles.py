"""What other processes get of hologram, and what copies are: every public name, every error, tensors and handles."""

from __future__ import annotations

import copy
import inspect
import math
import multiprocessing
import pickle
import weakref
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.atlas.derivatives.replayed import NoDerivative
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Instruction

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
ERRORS = sorted(
    (e for e in vars(hg.errors).values() if isinstance(e, type) and issubclass(e, hg.HologramError)),
    key=lambda e: e.__name__,
)


def _public() -> Iterator[tuple[ModuleType, str]]:
    """Every public name, by the module of which a user asks it."""
    modules = [hg, *(m for m in (getattr(hg, name) for name in dir(hg)) if isinstance(m, ModuleType))]
    for module in modules:
        for name in getattr(module, "__all__", dir(module)) if module is not hg else dir(module):
            if not name.startswith("_"):
                yield module, name


def _equal(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and (a == b or repr(a) == repr(b)))


def test_public_names_are_pickled_and_copied() -> None:
    names = list(_public())
    assert {(hg, "atomic_add"), (hg, "backends"), (hg.ops, "vector_add")} <= set(names)
    for module, name in names:
        value = getattr(module, name)
        if isinstance(value, ModuleType) and not callable(value):
            continue  # no module is pickled
        if value is ModuleType:
            continue  # Python's own, which no pickle finds
        for protocol in PROTOCOLS:
            assert _equal(pickle.loads(pickle.dumps(value, protocol)), value), (module.__name__, name)
        assert _equal(copy.copy(value), value)
        assert _equal(copy.deepcopy(value), value)


@pytest.mark.parametrize("kind", ERRORS, ids=lambda e: e.__name__)
def test_errors_keep_type_message_and_attributes(kind: type[hg.HologramError]) -> None:
    own = kind.__init__ if "__init__" in vars(kind) else None
    count = len(inspect.signature(own).parameters) - 1 if own else 1
    error = kind(*(f"part {k}" for k in range(count)))
    error.backend = "cpu"  # type: ignore[attr-defined]
    again = [pickle.loads(pickle.dumps(error, protocol)) for protocol in PROTOCOLS]
    for found in (*again, copy.copy(error), copy.deepcopy(error)):
        assert type(found) is kind
        assert str(found) == str(error)
        assert found.args == error.args
        assert vars(found) == vars(error)
        assert isinstance(found, hg.HologramError)


def test_the_axis_of_an_error_is_kept() -> None:
    error = hg.AxisError(3, 2, "sum")
    found = pickle.loads(pickle.dumps(error))
    assert (found.axis, found.ndim, str(found)) == (3, 2, str(error))


def test_a_derivative_that_does_not_exist_is_told_elsewhere_too() -> None:
    error = NoDerivative("it rounds", Instruction(Opcode.FLOOR, (1,), (hg.f32,), (0,)), "program")
    for found in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert (type(found), str(found), vars(found)) == (NoDerivative, str(error), vars(error))


def test_handles_are_copied_as_themselves_and_refuse_pickles(executor: hg.Executor) -> None:
    event = executor.event()
    event.record()
    with executor.profile() as profile:
        (executor.ones(3) + 1).to_numpy()
    handles = (executor, executor.device, executor.stream(), event, profile)
    for handle in handles:
        assert copy.copy(handle) is handle
        assert copy.deepcopy({"held": [handle]}) == {"held": [handle]}
        for protocol in PROTOCOLS:
            with pytest.raises(TypeError, match=f"^{type(handle).__name__}: .*cannot be pickled: "):
                pickle.dumps(handle, protocol)
    with pytest.raises(TypeError, match=r"open one where it is needed, hg.Executor\(backend, device\)"):
        pickle.dumps({"executor": executor})
    assert pickle.loads(pickle.dumps(profile.launches)) == profile.launches
    assert pickle.loads(pickle.dumps(executor.device.info)) == executor.device.info
    assert (executor.ones(3) * 2).tolist() == [2, 2, 2]


@hg.jit
def doubled(x: Any) -> Any:
    return 2 * x


@hg.func
def _half(x: Any) -> Any:
    return x / 2


@hg.kernel
def halves(x: hg.Array[hg.f32, 1]) -> None:  # type: ignore[valid-type]
    x[hg.index()] = _half(x[hg.index()])


def test_functions_of_modules_are_pickled_by_name() -> None:
    for function in (doubled, halves, _half, hg.add, hg.ops.add):
        for protocol in PROTOCOLS:
            assert pickle.loads(pickle.dumps(function, protocol)) is function
        assert copy.deepcopy(function) is function
    assert _half(3.0) == 1.5
    assert _half.__name__ == "_half"


def test_arguments_and_packed_weights_are_pickled(executor: hg.Executor) -> None:
    packed = hg.Packed.quantize(np.eye(32, dtype=np.float32), "int8", executor)
    with hg.use_executor(executor):
        for protocol in PROTOCOLS:
            found = pickle.loads(pickle.dumps(packed, protocol))
            assert np.array_equal(found.dequantize(), packed.dequantize())
            arguments = pickle.loads(pickle.dumps(hg.Arguments(1, x=executor.ones(2)), protocol))
            assert arguments.args == (1,)
            assert arguments.kwargs["x"].tolist() == [1, 1]
    assert np.array_equal(copy.deepcopy(packed).dequantize(), packed.dequantize())


def test_everything_takes_weak_references(executor: hg.Executor) -> None:
    x = executor.ones(3)
    packed = hg.Packed.quantize(np.eye(32, dtype=np.float32), "int8", executor)
    kept = (executor, x, x[1:], x.buffer, doubled, halves, halves[3], packed, hg.Arguments(x), hg.add, hg.f32)
    assert all(weakref.ref(thing)() is thing for thing in kept)
    known = weakref.WeakKeyDictionary({executor: "the executor"})
    assert known[executor] == "the executor"
    gone: list[int] = []
    weakref.finalize(x, gone.append, 1)
    del x, kept
    assert gone == [1]


def _taken(x: hg.Tensor) -> hg.Tensor:
    return doubled(x) + 1


def _refused(number: int) -> None:
    if number:
        raise hg.CompileError("kernel", "line 3: no such name", "its source")
    hg.add(hg.ones(3), hg.ones(4))


def test_processes_hand_over_tensors_and_errors() -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        x = hg.asarray([[1.0, math.inf, 3.0]], dtype=hg.bf16)
        found = pool.submit(_taken, x).result(timeout=120)
        assert isinstance(found, hg.Tensor)
        assert (found.dtype, found.tolist()) == (hg.bf16, [[3.0, math.inf, 7.0]])
        with pytest.raises(hg.CompileError, match="kernel does not compile: line 3") as caught:
            pool.submit(_refused, 1).result(timeout=60)
        assert (caught.value.kernel, caught.value.source) == ("kernel", "its source")
        with pytest.raises(hg.ShapeError, match=r"\(3,\) and \(4,\)"):
            pool.submit(_refused, 0).result(timeout=60)
        with pytest.raises(TypeError, match="cannot be pickled"):
            pool.submit(id, hg.default_executor()).result(timeout=60)
