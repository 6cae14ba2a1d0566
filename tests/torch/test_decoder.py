"""A decoder's step under torch.compile: few launches, and a cache that is written to where it lies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from hologram_torch.device.devices import devices  # noqa: E402

WIDTH, HEADS, KEYS, LENGTH = 56, 7, 1, 32
LAYER = 8  # launches: q, k, v with the norm before; rotary embedding and cache; attention (3); out; gate and up; down


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.fixture
def device(backend: str) -> str:
    """The device of PyTorch's that is the first of a backend."""
    return f"hologram:{next(k for k, place in enumerate(devices.places) if place.backend == backend)}"


def turned(x: Any, cos: Any, sin: Any) -> Any:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Layer(nn.Module):
    """As transformers writes Llama's, for one token of one sequence, with grouped keys."""

    def __init__(self) -> None:
        super().__init__()
        head = WIDTH // HEADS
        self.q, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(WIDTH, KEYS * head, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(WIDTH, 3 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * WIDTH, WIDTH, bias=False)
        self.before, self.between = (nn.RMSNorm(WIDTH, eps=1e-6) for _ in range(2))

    def forward(self, x: Any, cos: Any, sin: Any, mask: Any, place: Any, keys: Any, values: Any) -> Any:
        y = self.before(x)
        q, k, v = (f(y).view(1, 1, -1, WIDTH // HEADS).transpose(1, 2) for f in (self.q, self.k, self.v))
        keys.index_copy_(2, place, turned(k, cos, sin))
        values.index_copy_(2, place, v)
        every = (c[:, :, None].expand(1, KEYS, HEADS // KEYS, LENGTH, WIDTH // HEADS) for c in (keys, values))
        k, v = (c.reshape(1, HEADS, LENGTH, WIDTH // HEADS) for c in every)
        y = functional.scaled_dot_product_attention(turned(q, cos, sin), k, v, attn_mask=mask)
        x = x + self.out(y.transpose(1, 2).reshape(1, 1, WIDTH))
        y = self.between(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.words = nn.Embedding(50, WIDTH)

    def forward(self, word: Any, place: Any, caches: list[tuple[Any, Any]]) -> Any:
        angle = place[:, None].float() * torch.arange(WIDTH // HEADS // 2, device=place.device)
        cos, sin = (f(torch.cat((angle, angle), dim=-1)) for f in (torch.cos, torch.sin))
        mask = torch.arange(LENGTH, device=place.device)[None] <= place[:, None]
        x = self.words(word)
        for layer, (keys, values) in zip(self.layers, caches, strict=True):
            x = layer(x, cos, sin, mask, place, keys, values)
        return x


def caches_on(device: str, layers: int) -> list[tuple[Any, Any]]:
    shape = (1, KEYS, LENGTH, WIDTH // HEADS)
    return [(torch.zeros(shape, device=device), torch.zeros(shape, device=device)) for _ in range(layers)]


def launches(device: str, step: Any, *args: Any) -> int:
    with devices.executor(torch.device(device).index).profile() as profile:
        step(*args)
    return len(profile.launches)


def tokens(device: str, count: int) -> Iterator[tuple[Any, Any]]:
    for k in range(count):
        yield torch.tensor([[k * 7 % 50]]).to(device), torch.tensor([k]).to(device)


@torch.no_grad()
def test_a_decoders_step_is_few_launches(device: str) -> None:
    """The same as PyTorch's over a few tokens; each layer more adds so many launches."""
    torch.manual_seed(0)
    counts = []
    for layers in (2, 4):
        model = Decoder(layers)
        wanted, expected = caches_on("cpu", layers), []
        expected = [model(*token, wanted) for token in tokens("cpu", 5)]
        compiled, caches = torch.compile(model.to(device), backend="hologram"), caches_on(device, layers)
        for token, result in zip(tokens(device, 4), expected, strict=False):
            torch.testing.assert_close(compiled(*token, caches).cpu(), result, rtol=2e-5, atol=2e-5)
        counts.append(launches(device, compiled, *list(tokens(device, 5))[-1], caches))
        for ours, theirs in zip(caches, wanted, strict=True):
            for a, b in zip(ours, theirs, strict=True):
                torch.testing.assert_close(a.cpu(), b, rtol=2e-5, atol=2e-5)
    assert counts[1] - counts[0] <= 2 * LAYER, counts
    assert counts[0] <= 2 * LAYER + 4, (
        counts
    )  # embedding, mask, turns of the first layer, what is not in range


def written(x: Any, place: Any, value: Any) -> Any:
    x.index_copy_(0, place, value)
    return x.sum()


@torch.no_grad()
def test_what_is_written_is_seen_by_views_and_keeps_its_memory(device: str) -> None:
    compiled = torch.compile(written, backend="hologram")
    x = torch.zeros(6, 3, device=device)
    view, address, version = x[4], x.data_ptr(), x._version
    place, value = torch.tensor([4], device=device), torch.ones(1, 3, device=device)
    for k in range(1, 4):
        assert compiled(x, place, value * k).item() == 3 * k
        assert view.tolist() == [k] * 3
    assert x.data_ptr() == address
    assert x._version > version


@torch.no_grad()
def test_memory_that_others_have_is_written_to_as_well(device: str) -> None:
    """A view of a larger tensor; the argument that is given twice; two arguments of one memory."""

    def pair(x: Any, y: Any) -> Any:
        x.add_(1)
        return y * 2

    compiled = torch.compile(pair, backend="hologram")
    whole = torch.zeros(4, 3, device=device)
    assert compiled(whole[1], torch.ones(3, device=device)).tolist() == [2, 2, 2]
    assert whole.cpu().sum(dim=1).tolist() == [0, 3, 0, 0]
    assert compiled(whole[2], whole[3]).tolist() == [0, 0, 0]
    assert whole.cpu().sum(dim=1).tolist() == [0, 3, 3, 0]
    alone = torch.zeros(3, device=device)
    assert compiled(alone, alone).tolist() == [2, 2, 2]
    assert alone.tolist() == [1, 1, 1]


@torch.no_grad()
def test_results_are_not_the_memory_that_was_written_to(device: str) -> None:
    def step(x: Any) -> Any:
        x.mul_(2)
        return x * 1, x + 0

    compiled = torch.compile(step, backend="hologram")
    x = torch.ones(5, device=device)
    first, second = compiled(x)
    first.zero_()
    assert x.tolist() == second.tolist() == [2] * 5
    x.zero_()
    assert second.tolist() == [2] * 5


@torch.no_grad()
def test_tensors_that_change_places(device: str) -> None:
    """What one argument becomes is another: neither is overwritten too early."""

    def swap(x: Any, y: Any) -> Any:
        held = x.clone()
        x.copy_(y)
        y.copy_(held)
        return x - y

    compiled = torch.compile(swap, backend="hologram")
    x, y = torch.ones(4, device=device), torch.full((4,), 5.0, device=device)
    for _ in range(2):
        before = x.tolist(), y.tolist()
        compiled(x, y)
        assert (y.tolist(), x.tolist()) == before


@torch.no_grad()
def test_tensors_of_the_host_are_written_to(device: str, request: pytest.FixtureRequest) -> None:
    own = torch.hologram.device(device)  # which computes on them
    own.__enter__()
    request.addfinalizer(lambda: own.__exit__(None, None, None))
    torch.compiler.reset()

    def halved(x: Any) -> Any:
        x.mul_(0.5)
        return x

    compiled, again = (torch.compile(f, backend="hologram") for f in (written, halved))
    x = torch.zeros(6, 3)
    assert compiled(x, torch.tensor([4]), torch.ones(1, 3)).item() == 3
    assert x.sum(dim=1).tolist() == [0, 0, 0, 0, 3, 0]
    whole = torch.ones(4, 6)
    part = whole.t()[1:3]
    assert again(part).sum() == 4
    assert whole.sum(dim=0).tolist() == [4, 2, 2, 4, 4, 4]
    parameter = torch.nn.Parameter(torch.ones(3))
    for k in (0.5, 0.25):
        again(parameter)
        assert parameter.tolist() == [k] * 3
    twice = torch.compile(lambda x: x * 2, backend="hologram")
    for k in (0.5, 5.0):
        assert twice(parameter).tolist() == [k] * 3
        parameter.data.mul_(10)  # which PyTorch does not count
    with torch.inference_mode():
        assert twice(torch.nn.Parameter(torch.ones(2))).tolist() == [2, 2]


def test_statistics_of_a_batch_are_kept_while_training(device: str) -> None:
    """Forward graphs of training write to buffers as well."""
    torch.manual_seed(0)
    ours, theirs = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    theirs.load_state_dict(ours.state_dict())
    ours = ours.to(device)
    compiled = torch.compile(ours, backend="hologram")
    for _ in range(3):
        x = torch.randn(8, 3)
        compiled(x.to(device)).sum().backward()
        theirs(x).sum().backward()
    for name, wanted in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name].cpu(), wanted)
