"""Work that is done in every call, however well known: tensors made, numbers drawn, elements and flags read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
import hologram_torch.computing  # noqa: E402, F401
from hologram_torch.tensors.memory import payload  # noqa: E402
from tests.torch.kernels.short.calls import KNOWN, Quick, pair, same  # noqa: E402

MAKERS: list[Callable[[Any, str], Any]] = [
    lambda x, device: torch.zeros(2, 3, device=device),
    lambda x, device: torch.zeros((), device=device, dtype=torch.bool),
    lambda x, device: torch.ones((2, 0), device=device, dtype=torch.int64),
    lambda x, device: torch.ones(4, device=device, requires_grad=True),
    lambda x, device: torch.full((2,), True, device=device),
    lambda x, device: torch.full((2,), -7, device=device),
    lambda x, device: torch.full((2,), math.nan, device=device),
    lambda x, device: torch.full((2,), -0.0, device=device).reciprocal(),
    lambda x, device: torch.full((2,), 2.7, device=device, dtype=torch.int32),
    lambda x, device: torch.zeros_like(x.t()),
    lambda x, device: torch.zeros_like(x, device="cpu"),
    lambda x, device: torch.ones_like(x, dtype=torch.float64),
    lambda x, device: torch.full_like(x.expand(2, 3, 4), 2**10),
    lambda x, device: torch.ones_like(x[None, None], memory_format=torch.channels_last),
    lambda x, device: x.new_zeros(5),
    lambda x, device: x.new_ones((1, 2), dtype=torch.uint8),
    lambda x, device: x.new_full((2,), 1.5),
    lambda x, device: torch.empty_like(x.t()).zero_(),
    lambda x, device: x.new_empty(3).fill_(2),
    lambda x, device: torch.empty_strided((2, 3), (1, 2), device=device).fill_(4),
]


@pytest.mark.parametrize("make", MAKERS)
def test_what_makes_tensors(make: Callable[[Any, str], Any]) -> None:
    x, a = pair(3, 4)
    held = []
    for _ in range(KNOWN):
        found, expected = make(a, "hologram"), make(x, "cpu")
        same(found, expected)
        assert (found.stride(), found.requires_grad) == (expected.stride(), expected.requires_grad)
        held.append(found.detach())
    held[0].fill_(1)  # each in memory of its own
    same(held[-1], make(x, "cpu").detach())


def test_what_cannot_be_made_is_refused_each_time() -> None:
    for _ in range(KNOWN):
        with pytest.raises(RuntimeError):
            torch.zeros(-1, device="hologram")
        with pytest.raises(RuntimeError):
            torch.full((2,), 1e30, dtype=torch.float16, device="hologram")
        with pytest.raises(RuntimeError):
            torch.full((2,), 300, dtype=torch.int8, device="hologram")
        with pytest.raises(TypeError, match="complex32"):
            torch.full((2,), 1j, dtype=torch.complex32, device="hologram")


def test_the_default_dtype_of_what_is_made() -> None:
    for _ in range(KNOWN):
        assert torch.zeros(2, device="hologram").dtype == torch.float32
        torch.set_default_dtype(torch.float64)
        try:
            assert torch.full((2,), 0.5, device="hologram").dtype == torch.float64
            assert (
                torch.empty(2, device="hologram").dtype
                == torch.zeros(2, device="hologram").dtype
                == torch.float64
            )
        finally:
            torch.set_default_dtype(torch.float32)


def test_makers_open_what_was_closed() -> None:
    for _ in range(KNOWN):
        torch.zeros(3, device="hologram")
    executor = payload(torch.zeros(3, device="hologram")).executor
    executor.close()
    for _ in range(KNOWN):
        found = torch.ones(3, device="hologram") + torch.zeros(3, device="hologram")
        assert found.cpu().tolist() == [1.0] * 3
        assert payload(found).executor is not executor


def test_what_is_drawn_is_drawn_anew() -> None:
    x = torch.ones(1000, device="hologram")
    masks = {tuple(torch.nn.functional.dropout(x, 0.5).cpu().tolist()) for _ in range(6)}
    drawn = {tuple(torch.empty(100, device="hologram").uniform_().cpu().tolist()) for _ in range(6)}
    assert len(masks) == len(drawn) == 6


def test_elements_that_are_read_are_read_anew() -> None:
    for k in range(6):
        x = torch.tensor([float(j == k) for j in range(8)])
        a = x.to("hologram")
        same(torch.nonzero(a), torch.nonzero(x))
        same(a[a > 0], x[x > 0])
        same(torch.repeat_interleave(a.to(torch.int64)), torch.repeat_interleave(x.to(torch.int64)))
        assert a.argmax().item() == k


def test_a_flag_that_is_set_is_told_of_each_time(quick: Quick) -> None:
    copy, (x, a), (y, b) = quick("index_copy_", -1), pair(5, 3), pair(2, 3)
    for _ in range(KNOWN):
        for positions in ([0, 4], [3, 1]):
            where = torch.tensor(positions)
            same(copy(a, 0, where.to("hologram"), b), x.index_copy_(0, where, y))
        with pytest.raises((IndexError, RuntimeError)):
            copy(a.clone(), 0, torch.tensor([0, 5]).to("hologram"), b)
