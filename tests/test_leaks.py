"""Ten thousand allocations and calls leave device memory, Python's objects and the process's memory where they were."""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.compiled.machine_code.engine import shared_engine
from hologram.foundation.dtypes import f32
from hologram.frontend.tensor import as_tensor
from hologram.machine.layout import Layout, cached_view
from hologram.opset import OPERATIONS
from hologram.opset.forms.steps import Steps
from hologram.runtime.launches.replay import Replay
from hologram.runtime.launches.validation import sizes
from tests.bad_calls import ADD

CALLS = 10_000
WARM_UP = 1_500  # caches fill: of launches, of blocks, of the memory of Python and of the driver
OBJECTS = 300
BYTES_PER_CALL = 150

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/statm")


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def settled(executor: hg.Executor) -> tuple[int, int, int, int]:
    """Python's objects, the process's bytes, the device's blocks in use and its bytes held."""
    executor.synchronize()
    gc.collect()
    stats = executor.memory_stats()
    return len(gc.get_objects()), resident_bytes(), stats["count"], stats["reserved"]


def allocations(ex: Any) -> Callable[[int], None]:
    def call(k: int) -> None:
        ex.allocate((k % 1000,)).fill(1)

    return call


def out_parameters(ex: Any) -> Callable[[int], None]:
    x, y, out = (ex.tensor(np.arange(64, dtype=np.float32)) for _ in range(3))

    def call(k: int) -> None:
        hg.ops.vector_add(ex, x, y, out)
        hg.ops.scalar_mul(ex, x, float(k % 7), out)

    return call


def tensors(ex: Any) -> Callable[[int], None]:
    x = ex.tensor(np.arange(60, dtype=np.float32).reshape(5, 12))

    def call(k: int) -> None:
        y = (x + 1.0) * x
        y += 1
        hg.sum(y, axis=k % 2)

    return call


def numbers(ex: Any) -> Callable[[int], None]:
    """Numbers never seen before: launches and layouts are cached by them."""
    x, out = (ex.tensor(np.arange(64, dtype=np.float32)) for _ in range(2))

    def call(k: int) -> None:
        hg.ops.scalar_add(ex, x, k + 0.5, out)

    return call


def views(ex: Any) -> Callable[[int], None]:
    x = ex.tensor(np.arange(64, dtype=np.float32))

    def call(k: int) -> None:
        part = x.reshape(8, 8)[k % 8 :, ::2].T
        (part + part).reshape(-1)

    return call


def transfers(ex: Any) -> Callable[[int], None]:
    source = np.arange(200, dtype=np.float32)
    buffer = ex.allocate(200)

    def call(k: int) -> None:
        buffer.from_numpy(source)
        buffer.to_numpy()

    return call


def dlpack(ex: Any) -> Callable[[int], None]:
    x = ex.tensor(np.arange(64, dtype=np.float32))

    def call(k: int) -> None:
        array = np.from_dlpack(x, device="cpu")
        ex.from_dlpack(array.copy())

    return call


def adopted(ex: Any) -> Callable[[int], None]:
    """Foreign memory, of which each is a new block, beside a tensor that stays."""
    x, out = (ex.tensor(np.arange(64, dtype=np.float32)) for _ in range(2))

    def call(k: int) -> None:
        hg.ops.vector_add(ex, x, ex.from_dlpack(np.ones(64, np.float32)), out)

    return call


def layouts(ex: Any) -> Callable[[int], None]:
    """Views never seen before."""
    x = ex.tensor(np.arange(20_000, dtype=np.float32))

    def call(k: int) -> None:
        x[k : k + 3].key  # noqa: B018

    return call


def programs(ex: Any) -> Callable[[int], None]:
    x, out = (ex.tensor(np.arange(64, dtype=np.float32)) for _ in range(2))
    text = ADD.replace("%3 = add %1, %2", "%4 = constant nan : f32\n%3 = add %1, %4")

    def call(k: int) -> None:
        if k % 10 == 0:  # parsed and verified anew each time
            ex.run(text, {"x": x, "out": out}, lanes=64, s=1.0)

    return call


def replays(ex: Any) -> Callable[[int], None]:
    """A plan with scratch, on inputs that come and go; and one that donates."""
    steps, layout = Steps(2), Layout.contiguous(f32, (64,))
    between = steps.place(f32, (64,)).position
    double = OPERATIONS["add"].plan([layout, layout], [layout], {}, ex.target)
    steps.extend(double, (0, 0, between))
    steps.extend(double, (between, between, 1))
    replay = Replay(ex, steps.plan(), (layout,), (layout,))
    donating = Replay(ex, double, (layout, layout), (layout,), {0: 0})
    kept = [ex.tensor(np.arange(64, dtype=np.float32))]

    def call(k: int) -> None:
        (out,) = replay([ex.zeros((64,)) if k % 10 == 0 else kept[0]])
        donating([as_tensor(out), kept[0]])

    return call


def training(ex: Any) -> Callable[[int], None]:
    """Steps that replace their parameters; now and then gradients without a compiler."""
    rng = np.random.default_rng(0)
    x, classes = ex.tensor(rng.random((8, 6), np.float32)), ex.tensor(np.arange(8, dtype=np.int32) % 3)

    def loss(parameters: Any) -> Any:
        hidden = hg.relu(x @ parameters["w"] + parameters["b"])
        return hg.cross_entropy_loss(hidden @ parameters["v"], classes)

    @functools.partial(hg.jit, donate=(0, 1))
    def step(parameters: Any, velocities: Any) -> Any:
        value, gradients = hg.value_and_grad(loss)(parameters)
        velocities = {name: 0.9 * velocities[name] + gradients[name] for name in parameters}
        return {name: p - 0.1 * velocities[name] for name, p in parameters.items()}, velocities, value

    shapes = {"w": (6, 5), "b": (5,), "v": (5, 3)}
    parameters = {name: ex.tensor(rng.random(shape, np.float32)) for name, shape in shapes.items()}
    velocities = {name: ex.zeros(shape) for name, shape in shapes.items()}

    def call(k: int) -> None:
        nonlocal parameters, velocities
        parameters, velocities, _ = step(parameters, velocities)
        if k % 10 == 0:
            hg.grad(loss)(parameters)

    return call


def refusals(ex: Any) -> Callable[[int], None]:
    x, short = ex.allocate(8), ex.allocate(7)

    def call(k: int) -> None:
        try:
            hg.ops.vector_add(ex, x, short, x)
        except hg.ShapeError:
            pass

    return call


TRAFFIC = [
    allocations,
    out_parameters,
    tensors,
    numbers,
    views,
    layouts,
    transfers,
    dlpack,
    adopted,
    programs,
    replays,
    training,
    refusals,
]


@pytest.fixture(scope="module")
def known() -> None:
    """Fills what is known of sizes and views, so that each that is new takes an old one's place."""
    for k in range(10_000):
        cached_view(Layout.contiguous(f32, sizes((k, 2, 3, 4), "a test")), Layout.permute, (1, 0, 3, 2))


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("traffic", TRAFFIC, ids=lambda f: f.__name__)
def test_nothing_is_left(
    traffic: Callable[[Any], Callable[[int], None]],
    executor: hg.Executor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executor.structures, "most", 200)
    executor.structures.clear()
    call = traffic(executor)
    for k in range(WARM_UP):
        call(k)
    # A cache or an arena of the driver that grows late looks like a leak once; a leak does so every time.
    grown = []
    for attempt in range(3):
        before = settled(executor)
        for k in range(CALLS):
            call(k + WARM_UP + attempt * CALLS)
        grown.append(tuple(b - a for a, b in zip(before, settled(executor), strict=True)))
        objects, resident, count, reserved = grown[-1]
        if objects <= OBJECTS and resident <= CALLS * BYTES_PER_CALL and not count and reserved <= 0:
            return
    pytest.fail(f"objects, bytes, blocks and reserved bytes grew by {grown} in {CALLS} calls each")


def test_compilers_leave_nothing() -> None:
    engine = shared_engine()
    text = "define void @f(ptr %x) {\n  store i32 1, ptr %x\n  ret void\n}\n"

    def grown(count: int) -> int:
        before = resident_bytes()
        for _ in range(count):
            engine.compile("f", text)
        gc.collect()
        return resident_bytes() - before

    grown(50)
    assert min(grown(150) for _ in range(3)) < 150 * 16 << 10  # a pass manager has 50 KB
