"""New shapes of a known class are recipes by arithmetic, and right; see kernels/short/templates.py."""

# pyright: reportAttributeAccessIssue=false, reportPrivateImportUsage=false

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")
import torch
from torch.nn import functional

from hologram_torch.device.devices import devices
from hologram_torch.kernels.short import quick, templates

SIZES = (1, 2, 3, 5, 8, 16, 31, 33, 64, 65, 100, 130)

CALLS: dict[str, Callable[..., torch.Tensor]] = {
    "add": lambda a, b, c: a + b,
    "broadcast": lambda a, b, c: a * c,
    "turned": lambda a, b, c: a.transpose(0, 1) * b.transpose(0, 1),
    "shared memory": lambda a, b, c: a[1:] - a[:-1] if len(a) > 1 else a,
    "strided": lambda a, b, c: a[:, ::2] * 2 + b[:, ::2],
    "itself": lambda a, b, c: a + a,
    "number": lambda a, b, c: (a * 1.5 - 2).clamp(-0.5, 3),
    "softmax": lambda a, b, c: a.softmax(-1),
    "softmax outside": lambda a, b, c: a.log_softmax(0),
    "sum": lambda a, b, c: a.sum((0, -1)),
    "mean": lambda a, b, c: a.mean(1),
    "variance": lambda a, b, c: a.var(-1, correction=0),
    "largest": lambda a, b, c: a.amax(1),
    "position": lambda a, b, c: a.argmax(-1),
    "joined": lambda a, b, c: torch.cat([a, b, a], 1),
    "product": lambda a, b, c: a @ b.transpose(-1, -2),
    "linear": lambda a, b, c: functional.linear(a, b.reshape(-1, b.shape[-1])),
    "gelu": lambda a, b, c: functional.gelu(a),
    "chosen": lambda a, b, c: torch.where(a > 0, b, c),
    "copied": lambda a, b, c: a.transpose(0, 2).contiguous(),
    "sorted": lambda a, b, c: a.sort(-1)[0],
    "running": lambda a, b, c: a.cumsum(1),
    "triangle": lambda a, b, c: a.tril(),
    "in place": lambda a, b, c: a.clone().add_(b).mul_(c),
    "half": lambda a, b, c: a.half() + b.half(),
    "filled": lambda a, b, c: a.masked_fill(b > 0, -1.0),
    "gathered": lambda a, b, c: a.gather(1, (b * 0).long()),
    "powers": lambda a, b, c: a.abs() ** 1.5,
    "attention": lambda a, b, c: functional.scaled_dot_product_attention(a, b, b),
    "norm": lambda a, b, c: functional.layer_norm(a, (a.shape[-1],)),
    "padded": lambda a, b, c: functional.pad(a, (1, 2)),
    "given": lambda a, b, c: torch.add(a, b, out=torch.empty_like(a)),
    "given turned": lambda a, b, c: torch.mul(a, b, out=torch.empty_like(a.transpose(0, 1)).transpose(0, 1)),
    "given and resized": lambda a, b, c: torch.mul(a, b, out=torch.empty(0, device=a.device)),
    "product of a part": lambda a, b, c: torch.mm(
        a[0], b[0].t(), out=a.new_zeros(len(a[0]) + 3, b.shape[1])[2:-1]
    ),
    "integers": lambda a, b, c: (a * 9).int() // 3,
}


@pytest.fixture
def device(backend: str) -> str:
    """The device of PyTorch's that is the first of a backend."""
    return f"hologram:{next(k for k, place in enumerate(devices.places) if place.backend == backend)}"


def same(found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CALLS)
def test_many_shapes_give_what_the_cpu_gives(name: str, device: str) -> None:
    call, draw = CALLS[name], random.Random(name)
    for _ in range(40):
        b, t, d = draw.choice(SIZES[:7]), draw.choice(SIZES), draw.choice(SIZES[1:])
        host = torch.randn(b, t, d), torch.randn(b, t, d), torch.randn(d)
        same(call(*(x.to(device) for x in host)), call(*host))


@pytest.fixture
def disagreeing(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Has every structure go both ways; the recipes that are not what the long way gives."""
    found: list[Any] = []

    def agrees(guess: Any, learnt: Any, places: Any) -> bool:
        if not compared(guess, learnt, places):
            found.append((guess, learnt))
            return False
        return True

    compared = templates.agrees
    monkeypatch.setattr("hologram.runtime.launches.templates.COMPARED", 10**9)
    monkeypatch.setattr(quick, "agrees", agrees)
    return found


@pytest.mark.parametrize("name", CALLS)
def test_recipes_are_what_the_long_way_gives(name: str, disagreeing: list[Any], device: str) -> None:
    draw = random.Random(name)
    for _ in range(60):
        b, t, d = draw.choice(SIZES[:7]), draw.choice(SIZES), draw.choice(SIZES[1:])
        CALLS[name](*(torch.randn(s, device=device) for s in ((b, t, d), (b, t, d), (d,))))
    assert disagreeing == []


DIRECT = ("add", "broadcast", "number", "softmax", "mean", "variance", "gelu", "joined", "product", "copied")


@pytest.mark.parametrize("name", DIRECT)
def test_most_shapes_of_a_class_are_not_planned(name: str, long_ways: list[str], device: str) -> None:
    shapes = [(3, 40 + n, 70) for n in range(30)]
    for shape in shapes:
        a, b, c = (torch.randn(s, device=device) for s in (shape, shape, shape[-1:]))
        if shape == shapes[15]:
            long_ways.clear()
        CALLS[name](a, b, c)
    assert len([n for n in long_ways if not n.startswith(("empty", "normal", "randn"))]) < 9  # at thresholds


def test_the_same_operand_twice_is_another_class(device: str) -> None:
    for n in range(20, 40):
        x, y = torch.randn(n, 7), torch.randn(n, 7)
        here, there = x.to(device), y.to(device)
        same(here - there, x - y)
        same(here - here, x - x)


def test_results_lie_as_pytorch_lays_them_out(device: str) -> None:
    """Views with gaps, whose axes lie in one order and then in the other, and sizes that tell nothing."""

    def views(n: int, m: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(2 * n, 2 * m)[::2, ::2], torch.randn(2 * m, 2 * n)[::2, ::2].t()

    for turned in (0, 1, 0):
        for k in range(12):
            x = views(41 + k, 60 + 2 * k)[turned]
            for call in (torch.neg, torch.clone, lambda t: t * 2.5, lambda t: t.softmax(0)):
                there = torch.empty_strided(x.shape, x.stride(), device=device).copy_(x)
                found = call(there)
                assert found.stride() == call(x).stride()
                same(found, call(x))


def test_memory_used_twice_while_small_is_large_enough_where_it_would_not_be(device: str) -> None:
    """What is (m, n) and what is (n,) take as little memory as each other while both are small."""
    for m, n in (
        (4, 9),
        (3, 8),
        (5, 7),
        (6, 9),
        (4, 11),
        (3, 13),
        (5, 11),
        (2, 9),
        (7, 8),
        (50, 60),
        (700, 900),
    ):
        x, a, b = torch.randn(n), torch.randn(m, 40), torch.randn(40, n)
        found = torch.addmm(x.to(device), a.to(device), b.to(device), beta=0.2, alpha=0.6)
        torch.testing.assert_close(
            found.cpu(), torch.addmm(x, a, b, beta=0.2, alpha=0.6), atol=1e-4, rtol=1e-4
        )


def test_large_memory_that_begins_elsewhere_in_a_cache_line_is_another_class(device: str) -> None:
    """What is stored past the caches has to be aligned."""
    size = 1 << 22
    for rows, first in (*((size + 100 * k, 0) for k in range(6)), (size + 1000, 1), (size + 1017, 3)):
        x = torch.randn(rows + first)
        here = x.to(device)
        for each in (x, here):
            each[first:].clamp_(-1, 1)
        assert torch.equal(here.cpu(), x)


def test_what_pytorch_refuses_stays_refused(device: str) -> None:
    for n in range(20, 40, 2):
        functional.glu(torch.randn(3, n, device=device))
        torch.randn(n, 6, device=device).unfold(0, 4, 1).sum()
        torch.randn(n, device=device).topk(18)
    with pytest.raises(RuntimeError, match="must be even"):
        functional.glu(torch.randn(3, 31, device=device))
    with pytest.raises((RuntimeError, IndexError), match="k"):
        torch.randn(17, device=device).topk(18)


def test_an_index_is_checked_against_its_own_size(device: str) -> None:
    for n in range(20, 32):
        x = torch.randn(n, 4, device=device)
        index = torch.tensor([0, n - 1], device=device)
        assert x[index].shape == (2, 4)
        with pytest.raises(IndexError, match=f"size {n}"):
            x[index + 1].cpu()


def test_observers_see_the_launches_of_templates(device: str) -> None:
    for n in range(20, 30):
        x = torch.randn(n, 9, device=device)
        with torch.hologram.executor(device).profile() as profile:
            x.softmax(-1)
        assert len(profile.launches) == 1


def test_a_bounded_number_of_templates_is_kept() -> None:
    known = quick.Known()
    for k in range(quick.MAX_TEMPLATES + 10):
        known.templates.keep(k, None)
    assert len(known.templates) == quick.MAX_TEMPLATES
    assert 0 not in known.templates
