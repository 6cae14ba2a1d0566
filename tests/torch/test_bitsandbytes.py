"""bitsandbytes' linears of 8 and 4 bits on the device: its own operators, in PyTorch's, against its CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
library = pytest.importorskip("bitsandbytes")
import hologram_torch  # noqa: E402, F401

LINEARS: dict[str, Callable[[Any], Any]] = {
    "nf4": lambda dtype: library.nn.Linear4bit(128, 64, compute_dtype=dtype, quant_type="nf4"),
    "fp4": lambda dtype: library.nn.Linear4bit(128, 64, compute_dtype=dtype, quant_type="fp4"),
    "int8": lambda dtype: library.nn.Linear8bitLt(128, 64, has_fp16_weights=False),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", LINEARS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_linears(kind: str, dtype: Any) -> None:
    torch.manual_seed(0)
    floats, x = torch.nn.Linear(128, 64).to(dtype), torch.randn(3, 128).to(dtype)
    results = []
    for device in ("cpu", "hologram"):
        module = LINEARS[kind](dtype)
        module.load_state_dict(floats.state_dict())
        results.append(module.to(device)(x.to(device)).detach())
    wanted, found = results
    assert (found.device.type, found.dtype) == ("hologram", dtype)
    largest = float(wanted.abs().max())
    torch.testing.assert_close(found.cpu(), wanted, rtol=0, atol=2e-2 * largest)
    exact = floats(x).detach()
    torch.testing.assert_close(found.cpu(), exact, rtol=0, atol=0.25 * float(exact.abs().max()))
