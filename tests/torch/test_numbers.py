"""Numbers that a dtype does not hold: refused, or wrapped round, exactly where PyTorch's own devices do."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import hologram_torch  # noqa: E402, F401

F = torch.nn.functional
NUMBERS = (300, -5, 70000, 2**40, 2**70, 1e300, math.inf, math.nan, 3.7, -1.5, True)
DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
)


def places(x: Any) -> Any:
    return torch.tensor([0, 2], device=x.device)


def written(x: Any, place: Any, value: Any) -> Any:
    x[place] = value
    return x


def twice(name: str) -> Callable[[Any, Any], Any]:
    """An operator in place, done twice: the second call goes the quick way."""

    def call(x: Any, v: Any) -> Any:
        getattr(x, name)(v)
        return getattr(x, name)(v)

    return call


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "clamp from below": lambda x, v: x.clamp(min=v),
    "clamp from above": lambda x, v: x.clamp(max=v),
    "clamp between": lambda x, v: x.clamp(0, v),
    "clamp in place": lambda x, v: x.clamp_(min=v),
    "full": lambda x, v: torch.full((3,), v, dtype=x.dtype, device=x.device),
    "full_like": lambda x, v: torch.full_like(x, v),
    "new_full": lambda x, v: x.new_full((2,), v),
    "fill": lambda x, v: torch.fill(x, v),
    "fill in place": lambda x, v: x.fill_(v),
    "fill one": lambda x, v: x[:1].fill_(v),
    "write a slice": lambda x, v: written(x, slice(1, 3), v),
    "write one": lambda x, v: written(x, 1, v),
    "write under a mask": lambda x, v: written(x, x == 1, v),
    "write at positions": lambda x, v: written(x, places(x), v),
    "masked_fill": lambda x, v: x.masked_fill(x == 1, v),
    "index_fill": lambda x, v: x.index_fill(0, places(x), v),
    "scatter": lambda x, v: x.scatter(0, places(x), v),
    "pad": lambda x, v: F.pad(x, (1, 1), value=v),
    "where": lambda x, v: torch.where(x == 1, x, v),
    "threshold": lambda x, v: F.threshold(x, 0, v),
    "fill_diagonal": lambda x, v: x.view(2, 3).fill_diagonal_(v),
    "add": lambda x, v: x + v,
    "subtract from": lambda x, v: v - x,
    "multiply": lambda x, v: x * v,
    "alpha": lambda x, v: torch.add(x, x, alpha=v),
    "equal": lambda x, v: x == v,
    "below": lambda x, v: x < v,
    "add twice": twice("add_"),
    "subtract twice": twice("sub_"),
    "multiply twice": twice("mul_"),
    "or twice": twice("bitwise_or_"),
    "equal twice": twice("eq_"),
}
# Of these, PyTorch's CPU overlooks a bound that is NaN before 2.12.
ONE_BOUND = ("clamp from below", "clamp from above", "clamp in place")


def outcome(call: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[type, Any]:
    """What a call gives, on the host, or the kind of its error."""
    try:
        found = call(*args, **kwargs).cpu()
    except (RuntimeError, TypeError, ValueError, OverflowError, NotImplementedError) as error:
        return type(error), None
    return found.dtype, found


def same(found: tuple[Any, Any], expected: tuple[Any, Any]) -> bool:
    (kind, x), (other, y) = found, expected
    if isinstance(other, type) and issubclass(other, Exception):
        return isinstance(kind, type) and issubclass(kind, other)
    return kind == other and torch.equal(x.double().nan_to_num(0.5), y.double().nan_to_num(0.5))


@pytest.mark.parametrize("name", CALLS)
def test_numbers_that_a_dtype_may_not_hold(name: str) -> None:
    call, wrong = CALLS[name], []
    overlooks = torch.__version__ < "2.12" and name in ONE_BOUND
    for dtype, number in itertools.product(DTYPES, NUMBERS):
        if overlooks and number != number:
            continue
        start = torch.tensor([0, 1, 1, 0, 1, 0]).to(dtype)
        expected, found = (outcome(call, start.clone().to(d), number) for d in ("cpu", "hologram"))
        if not same(found, expected):
            wrong.append((dtype, number, found, expected))
    assert not wrong


@pytest.mark.parametrize("name", ["add", "sub", "rsub", "add_", "a number", "a truth", "a fraction"])
def test_alpha(name: str) -> None:
    calls: dict[str, Callable[..., Any]] = {
        "add_": lambda x, y, alpha: x.add_(y, alpha=alpha),
        "a number": lambda x, y, alpha: torch.add(x, 3, alpha=alpha),
        "a truth": lambda x, y, alpha: torch.sub(x, True, alpha=alpha),
        "a fraction": lambda x, y, alpha: torch.rsub(x, 2.5, alpha=alpha),
    }
    call, wrong = calls.get(name) or getattr(torch, name), []
    kinds = (torch.bool, torch.int32, torch.float32)
    for one, other, alpha in itertools.product(kinds, kinds, (-1, 0, 1, 2, True, False, 0.0, 1.5, 2.0)):
        x, y = torch.tensor([0, 1, 0, 1]).to(one), torch.tensor([0, 0, 1, 1]).to(other)
        expected, found = (outcome(call, x.clone().to(d), y.to(d), alpha=alpha) for d in ("cpu", "hologram"))
        if not same(found, expected):
            wrong.append((one, other, alpha, found, expected))
    assert not wrong
