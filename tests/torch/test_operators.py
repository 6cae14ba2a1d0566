"""Corners of operators that PyTorch's database does not visit: NaN, infinities, empty and 0-d tensors, wide values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")
import torch

NAN, INF = math.nan, math.inf
REALS = (torch.float32, torch.float64)
SPECIAL = torch.tensor(
    [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 1e-3, 30.0, -30.0], dtype=torch.float64
)


def _same(call: Callable[..., Any], *tensors: torch.Tensor, rtol: float = 1e-6, atol: float = 1e-9) -> None:
    want, got = call(*tensors), call(*(t.to("hologram") for t in tensors))
    for a, b in zip(*([x] if isinstance(x, torch.Tensor) else list(x) for x in (got, want)), strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=rtol, atol=atol, equal_nan=True)


UNARY = """
lgamma digamma erf erfc erfinv i0 sign sgn signbit angle nan_to_num frexp isposinf isneginf sinc logit special.i0e
special.i1 special.i1e special.erfcx special.ndtri special.log_ndtr special.bessel_j0 special.bessel_j1
special.modified_bessel_k0 special.modified_bessel_k1 special.spherical_bessel_j0 special.entr
"""


@pytest.mark.parametrize("name", UNARY.split())
def test_special_values(name: str) -> None:
    function = getattr(torch.special, name.removeprefix("special."), None) or getattr(torch, name)
    _same(function, SPECIAL, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "name", ["fmax", "fmin", "maximum", "remainder", "fmod", "copysign", "nextafter", "xlogy"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_pairs_of_special_values(name: str, dtype: torch.dtype) -> None:
    x = SPECIAL.to(dtype)
    tolerance = {"rtol": 1e-2, "atol": 1e-2} if dtype != torch.float32 else {}
    _same(getattr(torch, name), x[:, None].expand(12, 12), x.expand(12, 12), **tolerance)


@pytest.mark.parametrize("a", [0.0, 0.5, 3.0, 40.0, 500.0, INF, -1.0])
def test_incomplete_gamma(a: float) -> None:
    x = torch.tensor([0.0, 0.3, 2.0, 35.0, 45.0, 490.0, 520.0, INF, -1.0, NAN], dtype=torch.float64)
    x = x[:-1] if a == INF else x  # of which PyTorch makes 0 and 1
    first = torch.full_like(x, a)
    _same(torch.special.gammainc, first, x, rtol=1e-7)
    _same(torch.special.gammaincc, first, x, rtol=1e-7)


@pytest.mark.parametrize("name", ["max", "min", "cummax", "cummin", "median", "nanmedian", "mode"])
def test_extremes_with_positions_beside_nan(name: str) -> None:
    x = torch.tensor([[3.0, NAN, 1.0, 7.0], [2.0, 5.0, -INF, 4.0], [INF, 0.5, 1.5, -8.0]])
    if name == "mode":
        x = torch.tensor([[3.0, 1.0, 3.0, 1.0, 2.0], [5.0, 5.0, 4.0, 4.0, 4.0]])
    _same(lambda t: getattr(torch, name)(t, dim=1), x)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.sum(),
        lambda x: x.std(),
        lambda x: torch.sort(x)[0],
        lambda x: torch.topk(x, 1)[0],
        lambda x: x.max(dim=0)[0],
        lambda x: torch.cumsum(x, 0),
        lambda x: torch.unique(x),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: x.index_select(0, torch.tensor([0], device=x.device)),
        lambda x: torch.logcumsumexp(x, 0),
        lambda x: torch.linalg.vector_norm(x),
    ],
)
def test_tensors_without_axes(call: Callable[[torch.Tensor], torch.Tensor]) -> None:
    _same(call, torch.tensor(3.0))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.sum(0),
        lambda x: x.prod(),
        lambda x: torch.sort(x, 0)[1],
        lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        lambda x: torch.unique_consecutive(x),
        lambda x: x.nonzero(),
        lambda x: torch.cat([x, x]),
        lambda x: torch.cat([x, torch.ones(0, device=x.device)]),
        lambda x: torch.median(x),
        lambda x: torch.cdist(x, torch.ones(2, 3, device=x.device)),
        lambda x: x.flip(0),
        lambda x: torch.isin(x, x),
    ],
)
def test_tensors_without_elements(call: Callable[[torch.Tensor], torch.Tensor]) -> None:
    _same(call, torch.empty(0, 3))


def test_unique_slices() -> None:
    x = torch.tensor([[2, 1, 2, 1], [0, 5, 0, 4], [2, 1, 2, 1]])
    for dim in (0, 1):
        _same(lambda t, dim=dim: torch.unique(t, dim=dim, return_inverse=True, return_counts=True), x)


def test_stable_order_of_equal_elements() -> None:
    x = torch.tensor([2, 1, 2, 1, 2])
    for descending in (False, True):
        _same(lambda t, d=descending: torch.sort(t, stable=True, descending=d), x)


def test_numbers_that_integers_wrap_round_to() -> None:
    x = torch.tensor([250, 3], dtype=torch.uint8)
    _same(lambda t: torch.add(t, t, alpha=-1), x)
    _same(lambda t: t.index_add(0, torch.tensor([0, 1], device=t.device), t, alpha=-1), x)
    _same(lambda t: torch.bitwise_left_shift(t, 1), x)


def test_a_size_told_beforehand() -> None:
    """PyTorch's CPU is asked about integers with other elements, which are not as many."""
    x = torch.arange(12.0).reshape(3, 4)
    for repeats in ([0, 1, 2], [4, 5, 6], [0, 0, 0]):
        _same(
            lambda t, given=repeats: torch.repeat_interleave(
                t, torch.tensor(given, device=t.device), dim=0, output_size=sum(given)
            ),
            x,
        )
    with pytest.raises(RuntimeError, match="output_size 4 is not the sum of repeats, 3"):
        torch.repeat_interleave(torch.tensor([1, 2], device="hologram"), output_size=4)


def test_ranges() -> None:
    for arguments in ((5,), (2, 11, 3), (10, 0, -3), (0.5, 2.0, 0.25), (3, 3)):
        assert torch.equal(torch.arange(*arguments, device="hologram").cpu(), torch.arange(*arguments))
    assert torch.equal(
        torch.linspace(0, 10, 7, dtype=torch.int64, device="hologram").cpu(),
        torch.linspace(0, 10, 7, dtype=torch.int64),
    )
    with pytest.raises(RuntimeError, match="hologram"):
        torch.arange(0, 5, -1, device="hologram")


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
def test_ranges_with_their_ends() -> None:
    for arguments in ((0, 5), (1, 4, 0.5), (5, 1, -2), (2, 2)):
        for dtype in (None, torch.float64, torch.float16):
            found = torch.range(*arguments, dtype=dtype, device="hologram")
            torch.testing.assert_close(found.cpu(), torch.range(*arguments, dtype=dtype))
    assert torch.range(1, 7, 3, dtype=torch.int64, device="hologram").tolist() == [1, 4, 7]
    with pytest.raises(RuntimeError, match="hologram, range"):
        torch.range(0, 5, -1, device="hologram")


@pytest.mark.parametrize(
    "call",
    [
        lambda device: torch.linspace(0, 1, 3, dtype=torch.bool, device=device),
        lambda device: torch.logspace(0, 1, 3, dtype=torch.bool, device=device),
        lambda device: torch.linspace(0, 1, 3, dtype=torch.uint16, device=device),
        lambda device: torch.tril_indices(2, 2, dtype=torch.bool, device=device),
        lambda device: torch.complex(*(torch.ones(2, dtype=d, device=device) for d in REALS)),
        lambda device: torch.polar(*(torch.ones(2, dtype=d, device=device) for d in REALS)),
        lambda device: torch.cumsum(torch.ones(2, device=device), 0, out=torch.ones(2, device=device).bool()),
        lambda device: torch.nansum(
            torch.ones(2, device=device), 0, out=torch.ones((), device=device).long()
        ),
        lambda device: torch.conj_physical(
            torch.ones(2, device=device), out=torch.ones(2, device=device).long()
        ),
    ],
)
def test_dtypes_that_pytorch_refuses(call: Callable[[str], Any]) -> None:
    with pytest.raises(RuntimeError) as host:
        call("cpu")
    for _ in range(2):
        with pytest.raises(host.type, match="hologram"):
            call("hologram")


def test_numbers_between_complex_ends() -> None:
    found = torch.linspace(1, 2 + 3j, 5, device="hologram")
    torch.testing.assert_close(found.cpu(), torch.linspace(1, 2 + 3j, 5))


def test_whether_tensors_are_equal() -> None:
    x = torch.tensor([1.0, 2.0, NAN])
    for y in (x[:2].double(), x[:2].long(), x[:2] + 1, x, x[:1], torch.ones(1, 2), x[:2].to(torch.complex64)):
        for first in (x[:2], x):
            assert torch.equal(first.to("hologram"), y.to("hologram")) == torch.equal(first.clone(), y)


def test_whether_tensors_are_set_to_others() -> None:
    for device in ("cpu", "hologram"):
        x = torch.arange(6.0, device=device).reshape(2, 3)
        same: Any = torch.empty(0, device=device)
        others = (x, x.view(2, 3), x.view(6), x.t(), x[1:], x.clone(), same.set_(x))
        assert [x.is_set_to(y) for y in others] == [True, True, False, False, False, False, True]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.int32, torch.bool])
@pytest.mark.parametrize("exponent", [2, 2.0, 3, -1, 0.5])
def test_powers_by_numbers(dtype: Any, exponent: int | float) -> None:
    host = torch.tensor([0, 1, 2, 3]).to(dtype)
    try:
        wanted = host**exponent
    except RuntimeError as error:
        with pytest.raises(RuntimeError, match=str(error)):
            host.to("hologram") ** exponent
        return
    for _ in range(3):  # the long way, then the short one
        found = host.to("hologram") ** exponent
        assert found.dtype == wanted.dtype
        torch.testing.assert_close(found.cpu(), wanted)


@pytest.mark.parametrize("length", [0, 1, 2, 7, 100])
def test_windows_of_kaiser(length: int) -> None:
    for periodic in (True, False):
        for dtype in (torch.float32, torch.float64):
            found = torch.kaiser_window(length, periodic, 5.0, dtype=dtype, device="hologram")
            wanted = torch.kaiser_window(length, periodic, 5.0, dtype=dtype)
            torch.testing.assert_close(found.cpu(), wanted, atol=1e-6, rtol=1e-5)
    with pytest.raises(RuntimeError, match="kaiser_window"):
        torch.kaiser_window(-1, device="hologram")


def test_what_sums_computes_in_the_dtype_of_its_output() -> None:
    x = torch.tensor([[1.5, 1.5, -0.5], [2.75, 0.75, 3.25]])
    for name in ("sum", "prod", "cumsum", "cumprod"):
        for dtype in (torch.int64, torch.float64):

            def call(x: Any, name: str = name, dtype: Any = dtype) -> Any:
                return getattr(torch, name)(x, 1, out=torch.empty(0, dtype=dtype, device=x.device))

            _same(call, x)


def test_means_are_of_the_dtype_asked_for() -> None:
    for x in (torch.arange(6).reshape(2, 3), torch.full((2, 3000), 1.1, dtype=torch.float16)):
        _same(lambda x: (x.mean(dtype=torch.float64), x.mean(-1, dtype=torch.float32)), x)
        _same(lambda x: torch.mean(x, 1, dtype=torch.float32, out=torch.empty(0, device=x.device)), x)
    x = torch.ones(2, 3, device="hologram", dtype=torch.float16, requires_grad=True)
    x.mean(dtype=torch.float32).backward()
    assert x.grad is not None
    assert x.grad.dtype == torch.float16
    for dtype in (torch.float64, None, torch.float32, None):  # the second time by the short way
        assert x.detach().mean(dtype=dtype).dtype == (dtype or torch.float16)
