"""Limits are the one manifest of capabilities: each is read, and none promises what a device has not."""

from __future__ import annotations

import ast
from dataclasses import fields, replace
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import pytest

import hologram as hg
from hologram.atlas.builder import Builder
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access
from hologram.backends import cpu, cuda, metal, webgpu
from hologram.backends.cpu.device import CpuDevice
from hologram.backends.metal.device import MetalDevice
from hologram.compiler.pipeline import held
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType, f16, f32, f64
from hologram.foundation.errors import BackendUnavailable, UnsupportedDType
from hologram.machine import claims, hand_written
from hologram.machine.device import Device
from hologram.machine.limits import PROMISED, Limits
from hologram.opset.tiles import product_tile
from hologram.runtime import selector
from tests.devices import MemoryDevice, limits

PACKAGE = Path(hg.__file__).parent
HALVES = frozenset({f16})
EVERY = frozenset(dtypes.ALL)
FALSE: list[tuple[str, dict[str, Any], str]] = [
    ("tile_dtypes", {"tile_dtypes": frozenset({f32})}, "it has no hand-written kernel matmul"),
    ("own_products", {"own_products": True}, "it has no hand-written kernel matmul"),
    ("own_orders", {"own_orders": True}, "it has no hand-written kernel order_rows"),
    ("panel_dtypes", {"panel_dtypes": HALVES}, "it has no hand-written kernel matmul"),
    ("matrix_dtypes", {"matrix_dtypes": HALVES}, "it has no hand-written kernel matmul_units"),
    ("rounded_dtypes", {"rounded_dtypes": HALVES}, "it has no hand-written kernel matmul_units"),
    ("copies_ahead", {"copies_ahead": True}, "it has no hand-written kernel matmul_ahead"),
    ("bulk_bytes", {"bulk_bytes": 1 << 16}, "it has no hand-written kernel matmul_bulk"),
    ("library_products", {"library_products": HALVES}, "it has no hand-written kernel matmul_library"),
    ("matrix_attention", {"matrix_attention": True}, "it has no hand-written kernel attention_units"),
    ("matrix_dtypes", {"dtypes": EVERY - HALVES, "matrix_dtypes": HALVES}, "dtypes has no f16"),
    ("dtypes", {"compiles": EVERY - {f64}}, "it compiles no f64"),
    ("host_resident", {"host_resident": True}, "it has no host_view"),
    *((name, {name: 0}, "that must be at least 1, got 0") for name in claims.COUNTS),
]


class Boaster(MemoryDevice):
    """A device without kernels that says what it likes."""

    host_view = Device.host_view

    def __init__(self, compiles: frozenset[DType] = EVERY, **changes: Any) -> None:
        super().__init__(resident=False)
        self.info = replace(self.info, limits=limits(**{"tile_dtypes": frozenset()} | changes))
        self.compiles = compiles
        self.closed = False

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("capability", "changes", "lack"), FALSE, ids=lambda x: x if isinstance(x, str) else ""
)
def test_a_false_promise_is_refused_by_name(capability: str, changes: dict[str, Any], lack: str) -> None:
    device = Boaster(**changes)
    with pytest.raises(BackendUnavailable) as caught:
        claims.check(device)
    assert str(caught.value) == f"memory: memory promises {capability} in its limits, but {lack}"
    assert device.closed


def test_who_promises_nothing_is_opened() -> None:
    device = Boaster()
    claims.check(device)
    assert not device.closed


def test_an_executor_on_a_boaster_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(NAME="memory", open_device=lambda index: Boaster(own_orders=True))
    monkeypatch.setattr(selector, "select", lambda name, device: (module, 0))
    with pytest.raises(BackendUnavailable, match="memory promises own_orders in its limits"):
        hg.Executor("cpu")


def test_a_device_keeps_what_it_promises(executor: hg.Executor) -> None:
    claims.check(executor.device)


def test_asking_takes_less_than_a_millisecond() -> None:
    device, times = CpuDevice(), []
    for _ in range(20):
        start = perf_counter()
        claims.check(device)
        times.append(perf_counter() - start)
    assert min(times) < 1e-3


@pytest.mark.parametrize(("language", "module"), [("cuda", cuda), ("msl", metal), ("wgsl", webgpu)])
def test_reference_devices_keep_what_they_promise(language: str, module: Any) -> None:
    promised = {stem for _, stems in module.reference_limits().promised for stem in stems}
    assert promised <= hand_written.stems(language)
    assert "matrix_units" not in hand_written.stems(language)  # which others include


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
@pytest.mark.parametrize(("module", "compiles"), [(cpu, EVERY), (cuda, EVERY), (metal, MetalDevice.compiles)])
def test_what_a_device_compiles(module: Any, compiles: frozenset[DType], dtype: DType) -> None:
    b = Builder("atlas_copy", rank=1)
    place = b.position(Opcode.LANE)
    b.store(b.buffer("out", dtype, Access.WRITE), place, b.load(b.buffer("x", dtype, Access.READ), place))
    program = held(b.build())
    if dtype in compiles:
        assert "atlas_copy" in module.source(program, (64,))
    else:
        with pytest.raises(UnsupportedDType):
            module.source(program, (64,))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"software": False},
        {"subgroup": 8},
        {"own_products": True, "serial_workgroups": True, "software": False},
        {"software": False, "matrix_dtypes": HALVES, "subgroup": 32, "shared_bytes": 48 << 10},
        {
            "software": False,
            "copies_ahead": True,
            "bulk_bytes": 227 << 10,
            "matrix_dtypes": HALVES,
            "subgroup": 32,
        },
        {"software": False, "library_products": HALVES},
    ],
)
def test_products_take_only_kernels_that_were_promised(changes: dict[str, Any]) -> None:
    own = limits(**changes)
    promised = {stem for _, stems in own.promised for stem in stems}
    taken = {
        k.stem for k in product_tile.KERNELS.values() for d in own.product_dtypes for _ in k.tiles(d, own)
    }
    assert taken
    assert taken <= promised


def test_each_capability_is_read_and_each_promise_is_a_capability() -> None:
    read: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                of = node.value
                name = of.id if isinstance(of, ast.Name) else of.attr if isinstance(of, ast.Attribute) else ""
                if name.lower().endswith("limits") or (name == "self" and path.name == "limits.py"):
                    read.add(node.attr)
    capabilities = {f.name for f in fields(Limits)}
    assert capabilities <= read
    assert {name for of, _ in PROMISED for name in of} <= capabilities | {"workgroup_memory"}
