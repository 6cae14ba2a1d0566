"""The skip of what a device lacks: let be by CI's rule only where HOLOGRAM_WITHOUT took it away."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hologram.foundation import dtypes
from tests.devices import MemoryExecutor
from tests.needs import Lacking, needs


@pytest.mark.parametrize(
    ("on", "missing", "without", "told"),
    [
        ("webgpu", "f64", "float64", True),
        ("webgpu", "c128", "subgroups,int64", True),
        ("webgpu", "f64", "float16,subgroups", False),
        ("webgpu", "f16", "float16,float64", False),  # which is packed there
        ("cpu", "f64", "float64", False),
    ],
)
def test_a_dtype_that_was_taken_away(
    on: str, missing: str, without: str, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLOGRAM_WITHOUT", without)
    info = SimpleNamespace(name="one", backend=on)
    executor = SimpleNamespace(
        limits=SimpleNamespace(dtypes=frozenset({dtypes.f32})), device=SimpleNamespace(info=info)
    )
    needs(executor, "f32")
    with pytest.raises(Lacking, match=f"one has no {missing}") as raised:
        needs(executor, "f32", missing)
    assert raised.value.told is told


def test_what_is_there_is_no_reason() -> None:
    needs(MemoryExecutor(), *dtypes.ALL)
