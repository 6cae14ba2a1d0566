"""Tensors without axes on the host, and numbers, beside tensors of the device: what they give all on one device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import hologram_torch  # noqa: E402, F401

WHOLE, PARTS = torch.tensor([3, 1, 2], dtype=torch.int32), torch.tensor([3.0, 0.0, 2.0])
NONE = torch.ones(2, 0)
Call = Callable[[Any], Any]
CASES: dict[str, tuple[Any, Call]] = {
    "an integer over integers": (WHOLE, lambda x: torch.tensor(7) // x),
    "an integer divided": (WHOLE, lambda x: torch.div(torch.tensor(7), x, rounding_mode="floor")),
    "the next number": (PARTS, lambda x: torch.nextafter(torch.tensor(1.0), x)),
    "the next narrow number": (PARTS.half(), lambda x: torch.nextafter(x, torch.tensor(1.0).double())),
    "the next number to 0": (torch.tensor([0.0, -0.0, 1e-7]).half(), lambda x: torch.nextafter(x, 1 - x)),
    "the next to 0 of bf16": (
        torch.tensor([0.0, -0.0, 1e-40]).bfloat16(),
        lambda x: torch.nextafter(x, x - 1),
    ),
    "a step": (PARTS, lambda x: torch.heaviside(x, torch.tensor(1.0))),
    "a step at one number": (PARTS, lambda x: torch.heaviside(torch.tensor(0.0), x)),
    "whether it is there": (PARTS, lambda x: torch.isin(torch.tensor(2.0), x)),
    "a wide numerator": (WHOLE, lambda x: torch.addcdiv(x, torch.tensor(1.0).double(), x)),
    "of nothing, a number": (NONE, lambda x: torch.xlogy(x, 2.0)),
    "of nothing, a sign": (NONE, lambda x: torch.copysign(x, 2.0)),
    "one part of a copy": (PARTS, lambda x: torch.select_scatter(x.half(), torch.tensor(2.5), 0, 1)),
    "a slice of a copy": (WHOLE, lambda x: torch.slice_scatter(x, x[:2] * 0.5, 0, 1)),
    "a diagonal of repeated rows": (PARTS, lambda x: torch.diagonal_scatter(x.expand(4, 3), x + 5)),
    "a diagonal in place": (PARTS, lambda x: torch.diagonal_scatter(x[:, None].T.repeat(3, 2)[:, ::2], x)),
    "no product": (PARTS[None], lambda x: torch.addmm(x, x[:, :1] * torch.nan, x, alpha=0, beta=2)),
    "attention to nothing": (
        torch.ones(3, 0, 2),
        lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_as_on_one_device(case: str) -> None:
    x, call = CASES[case]
    expected, found = call(x), call(x.to("hologram"))
    assert (found.device.type, found.dtype, found.stride()) == ("hologram", expected.dtype, expected.stride())
    torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=0)


@pytest.mark.parametrize("exponent", [-1, -130, 300])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8])
def test_exponents_that_the_dtype_does_not_hold(exponent: int, dtype: Any) -> None:
    for power in (torch.pow, torch.Tensor.pow_):
        with pytest.raises(RuntimeError) as host:
            power(torch.arange(4, dtype=dtype), exponent)
        with pytest.raises(RuntimeError, match=str(host.value)):
            power(torch.arange(4, dtype=dtype, device="hologram"), exponent)


def test_nothing_is_distinct_along_no_axis() -> None:
    for function in (torch.unique, torch.unique_consecutive):
        with pytest.raises(IndexError, match="Dimension specified as 0 but tensor has no dimensions"):
            function(torch.tensor(3, device="hologram"), dim=0)
