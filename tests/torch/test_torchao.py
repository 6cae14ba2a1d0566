"""torchao's quantize_: weights of 8 bits against its own arithmetic on the CPU, and packed ones against floats."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchao")
from torch import nn  # noqa: E402
from torchao.quantization import (  # noqa: E402
    Int8DynamicActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
    quantize_,
)

from hologram_torch.packed import PackedLinear  # noqa: E402
from hologram_torch.torchao import PackedWeightConfig  # noqa: E402

DTYPES = {torch.float32: 1e-3, torch.bfloat16: 2e-2}


def model(dtype: Any) -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(96, 64, bias=False), nn.ReLU(), nn.Linear(64, 33)).to(dtype).eval()


def close(found: Any, wanted: Any, near: float) -> None:
    assert found.device.type == "hologram"
    largest = float(wanted.abs().max())
    torch.testing.assert_close(found.cpu().float(), wanted.float(), rtol=0, atol=near * largest)


@pytest.mark.parametrize("config", [Int8WeightOnlyConfig, Int8DynamicActivationInt8WeightConfig])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("there_first", [True, False])
def test_eight_bits(config: Any, dtype: Any, there_first: bool) -> None:
    reference, mine, x = model(dtype), model(dtype), torch.randn(2, 5, 96).to(dtype)
    quantize_(reference, config())
    mine = mine.to("hologram") if there_first else mine
    quantize_(mine, config())
    mine = mine.to("hologram")
    with torch.no_grad():
        for rows in (x, x[:1, :1]):
            close(mine(rows.to("hologram")), reference(rows), DTYPES[dtype] * 4)
    assert mine[0].weight.qdata.device.type == "hologram"


def test_codes_are_not_made_floats(long_ways: list[str]) -> None:
    mine = model(torch.float32).to("hologram")
    quantize_(mine, Int8WeightOnlyConfig())
    with torch.no_grad():
        mine(torch.randn(3, 96, device="hologram"))
    assert "mm" not in long_ways


def test_inputs_have_gradients() -> None:
    reference, mine = model(torch.float32), model(torch.float32).to("hologram")
    slopes = []
    for each, device in ((reference, "cpu"), (mine, "hologram")):
        quantize_(each, Int8WeightOnlyConfig())
        torch.manual_seed(1)
        x = torch.randn(3, 96).to(device).requires_grad_()
        each(x).square().sum().backward()
        slopes.append(x.grad)
    close(slopes[1], slopes[0], 1e-3)


@pytest.mark.parametrize("format", ["int8", "int4g32", "uint4g32", "f8e4m3"])
@pytest.mark.parametrize("device", ["cpu", "hologram"])
def test_packed(format: str, device: str) -> None:
    floats, x = model(torch.float32), torch.randn(3, 96)
    mine = copy.deepcopy(floats).to(device)
    quantize_(mine, PackedWeightConfig(format))
    assert all(isinstance(mine[k], PackedLinear) for k in (0, 2))
    for k in (0, 2):
        floats[k].weight.data.copy_(mine[k].weight.cpu())
    with torch.no_grad():
        close(mine.to("hologram")(x.to("hologram")), floats(x), 1e-3)
