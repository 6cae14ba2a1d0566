"""Compiled graphs whose shapes or ways depend on elements, and memory that is written by parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import hologram_torch  # noqa: E402, F401

MASK = torch.tensor([True, False, True, True])
LISTED = [True, False, True, True]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def doubled_where_large(x: Any) -> Any:
    y, large = torch.zeros_like(x), x > 0.5
    y[large] = x[large] * 2
    return y + 1


def counted_where_large(x: Any) -> Any:
    y = x.clone()
    y[x > 0.5] = torch.arange(int((x > 0.5).sum()), device=x.device).float()
    return y


def written_under(mask: Any) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        y = x.clone()
        y[mask] = torch.arange(12.0, device=x.device).reshape(3, 4)
        y[mask] += 1
        return y

    return function


def two_ways(x: Any) -> Any:
    return torch.cond(x.sum() > 10, lambda x: (x + 1) * 2, lambda x: x - 1, (x,)) * 3


def five_turns(x: Any) -> Any:
    start = torch.zeros((), dtype=torch.int64, device=x.device)
    turned = torch._higher_order_ops.while_loop(
        lambda k, x: k < 5, lambda k, x: (k + 1, x * 2), (start, x + 1)
    )
    return turned[1] - 1


def written_beside(mask: Any) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        y = x.clone()
        y[:, mask.to(x.device)] = -1.0
        return y.index_put((mask.to(x.device),), x.sum(), accumulate=True)

    return function


BY_ELEMENTS: dict[str, Callable[[Any], Any]] = {
    "read and written under a mask": doubled_where_large,
    "read under a mask": lambda x: (x[x > 0.5] * 2).sum() + x,
    "a mask's count": counted_where_large,
    "positions found": lambda x: torch.nonzero(x > 0.5).sum() + x,
    "selected": lambda x: torch.masked_select(x, x > 0.5) * 2,
    "a mask of the host": written_under(MASK),
    "a listed mask": written_under(LISTED),
    "a constant mask": lambda x: x[torch.tensor(LISTED)] * 2,
    "listed positions": lambda x: x[[1, 3]] + x[torch.tensor([0, 2])],
    "one value, of an axis behind": written_beside(MASK),
    "a number of the elements": lambda x: x * int((x > 0.5).sum().item()),
    "a size of the elements": lambda x: x.reshape(-1)[: int((x > 0.5).sum().item())] * 2,
    "one of two ways": two_ways,
    "turns": five_turns,
}


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("name", BY_ELEMENTS)
def test_what_depends_on_elements(name: str, captured: bool) -> None:
    function, draw = BY_ELEMENTS[name], torch.Generator().manual_seed(0)
    with torch._dynamo.config.patch(
        capture_dynamic_output_shape_ops=captured, capture_scalar_outputs=captured
    ):
        compiled = torch.compile(function, backend="hologram")
        for scale in (1, 2, -1):
            x = torch.rand(4, 4, generator=draw) * scale
            torch.testing.assert_close(compiled(x.to("hologram")).cpu(), function(x), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["read and written under a mask", "one of two ways", "turns"])
def test_their_gradients(name: str) -> None:
    found = []
    for place, backend in (("cpu", "aot_eager"), ("hologram", "hologram")):
        x = torch.rand(4, 4, generator=torch.Generator().manual_seed(1)).to(place).requires_grad_()
        torch.compile(BY_ELEMENTS[name], backend=backend)(x).square().sum().backward()
        found.append(x.grad.cpu())
    torch.testing.assert_close(*found)


def test_sampling_by_weights() -> None:
    sampled = torch.compile(lambda x: torch.multinomial(x, 3), backend="hologram")
    weights = torch.tensor([0.0, 1.0, 0.0, 2.0, 3.0], device="hologram")
    assert sorted(sampled(weights).tolist()) == [1, 3, 4]
    with pytest.raises(RuntimeError, match="inf`, `nan` or element < 0"):
        sampled(-weights).cpu()


def columns(x: Any) -> Any:
    y = torch.empty(4, 4, device=x.device)
    y[:, 0::2], y[:, 1::2] = x[:, 0::2], -1
    return y


def rows(x: Any) -> Any:
    y = torch.empty_like(x)
    for k in range(4):
        y[k] = x[k] * k
    return y


def masks(x: Any) -> Any:
    y, large = torch.empty_like(x), x > 0.5
    y[large], y[~large] = 1.0, 0.5
    return y


def scattered(x: Any) -> Any:
    return torch.empty(4, 4, device=x.device).scatter_(1, torch.arange(4, device=x.device).repeat(4, 1), x)


def outputs(x: Any) -> Any:
    y = torch.empty(2, 4, 4, device=x.device)
    torch.add(x, 1, out=y[0])
    torch.mul(x, 2, out=y[1])
    return y


@pytest.mark.parametrize("function", [columns, rows, masks, scattered, outputs], ids=lambda f: f.__name__)
def test_new_memory_is_written_by_parts(function: Callable[[Any], Any]) -> None:
    x = torch.rand(4, 4, generator=torch.Generator().manual_seed(0))
    compiled = torch.compile(function, backend="hologram")
    for _ in range(2):
        torch.testing.assert_close(compiled(x.to("hologram")).cpu(), function(x), rtol=0, atol=0)


def test_the_compiler_that_writes_no_kernels_names_the_one_that_does() -> None:
    inductor = pytest.importorskip("torch._inductor.compile_fx").compile_fx
    compiled = torch.compile(lambda x: x.sin() * 2, backend=inductor)
    with pytest.raises(torch._inductor.exc.InductorError, match=r"writes no kernels.*backend='hologram'"):
        compiled(torch.ones(3, device="hologram"))


@pytest.mark.parametrize("device", ["hologram", "cpu"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.histc(x * 2, 10) + 1,
        lambda x: torch.histogram(x, 5)[0] * 2,
        lambda x: torch.histogramdd(x.reshape(-1, 2), [3, 2])[0],
        lambda x: (x.mul_(0.5), torch.histc(x.sin(), 4), torch.histc(x.cos(), 4) * x.sum()),
    ],
    ids=["histc", "histogram", "histogramdd", "two"],
)
def test_operators_that_ask_for_an_element_run_as_they_are(function: Any, device: str) -> None:
    """Bounds that nobody gave are the least and the largest element."""
    compiled = torch.compile(function, backend="hologram")
    for seed in (0, 1):
        x = torch.rand(50, generator=torch.Generator().manual_seed(seed))
        ours = x.clone().to(device)
        wanted, found = function(x), compiled(ours)
        pairs = zip(wanted, found, strict=True) if isinstance(wanted, tuple) else [(wanted, found)]
        for theirs, mine in [*pairs, (x, ours)]:
            torch.testing.assert_close(mine.cpu(), theirs)
