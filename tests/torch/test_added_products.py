"""addmm, addmv and baddbmm: what is added is spread over the product, and read only where it counts."""

from __future__ import annotations

import itertools

import pytest
import torch

OPERATORS = {
    "addmm": lambda x, a, b, **how: torch.addmm(x, a, b, **how),
    "addmv": lambda x, a, b, **how: torch.addmv(x, a, b[:, 0], **how),
    "baddbmm": lambda x, a, b, **how: torch.baddbmm(x, a[None], b[None], **how),
}
FACTORS = tuple(itertools.product((0, 1, 2), (0, 1, 2)))
SHAPES = ((8,), (4, 8), (4, 1), (1, 8), (1, 1), (1,), (), (4,), (3,), (5, 4, 8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_any_bias_that_spreads_is_added_and_no_other(name, shape, dtype):
    call, seed = OPERATORS[name], torch.Generator().manual_seed(1)
    x, a, b = (torch.randint(-3, 4, s, generator=seed).to(dtype) for s in (shape, (4, 3), (3, 8)))
    there = [t.to("hologram") for t in (x, a, b)]
    for alpha, beta in FACTORS * 2:  # the long way and the short way
        try:
            expected = call(x, a, b, alpha=alpha, beta=beta)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                call(*there, alpha=alpha, beta=beta)
            continue
        found = call(*there, alpha=alpha, beta=beta)
        assert found.dtype is dtype
        assert torch.equal(found.cpu(), expected)


@pytest.mark.parametrize("shape", [(8,), (4, 8), ()], ids=str)
@pytest.mark.parametrize("alpha", [0, 1])
def test_what_counts_nothing_is_not_read(shape, alpha):
    x = torch.full(shape, torch.nan, device="hologram")
    a, b = torch.ones(4, 3, device="hologram"), torch.ones(3, 8, device="hologram")
    out = torch.full((4, 8), torch.nan, device="hologram")
    for _ in range(3):
        assert (torch.addmm(x, a, b, beta=0, alpha=alpha).cpu() == 3 * alpha).all()
        torch.addmm(x, a, b, beta=0, alpha=alpha, out=out)
        assert (out.cpu() == 3 * alpha).all()


def test_factors_that_do_not_fit_are_refused_though_they_count_nothing():
    x, a = torch.ones(4, 8, device="hologram"), torch.ones(4, 3, device="hologram")
    for alpha in (0, 1):
        with pytest.raises(RuntimeError):
            torch.addmm(x, a, torch.ones(2, 8, device="hologram"), alpha=alpha)
