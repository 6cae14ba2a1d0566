"""Operators that this PyTorch has under another name, or no more."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
from hologram_torch.kernels import registry
from hologram_torch.kernels.operators import known, present


@pytest.mark.parametrize("name", ["no_such_operator", "add.NoSuchOverload"])
def test_an_operator_that_pytorch_lacks_costs_itself_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "LACKING", [])
    registry.add(name, lambda x: x)
    assert registry.LACKING == [name]
    assert name not in registry.KERNELS


def test_operators_are_found_by_name() -> None:
    assert known("no_such_operator") is None
    assert known("add.NoSuchOverload") is None
    names = [each._schema.name for each in present("no_such_operator mul.Tensor cos")]
    assert names == ["aten::mul", "aten::cos"]
