"""torch.compile on the device: graphs run as one jitted function each, forward and backward, and equal PyTorch's."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch._dynamo import trace_rules  # noqa: E402
from torch.nn import functional  # noqa: E402

import hologram as hg  # noqa: E402
import hologram_torch  # noqa: E402
from hologram_torch.compile.compiled import MAX_SIGNATURES, CompiledGraph  # noqa: E402
from hologram_torch.compile.host import on_executor  # noqa: E402
from hologram_torch.libraries.with_dynamo import PROGRAMS  # noqa: E402

BACKEND = "hologram"


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def convolutional() -> tuple[nn.Module, Any]:
    layers = (nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5))
    return nn.Sequential(*layers), torch.randn(4, 3, 6, 6)


def attentive() -> tuple[nn.Module, Any]:
    return nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), torch.randn(2, 5, 16)


def recurrent() -> tuple[nn.Module, Any]:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.RNNCell(4, 6)

        def forward(self, x: Any) -> Any:
            h = x.new_zeros(x.shape[0], 6)
            for k in range(x.shape[1]):
                h = self.cell(x[:, k], h)
            return h

    return Last(), torch.randn(3, 4, 4)


MODELS = (convolutional, attentive, recurrent)


@pytest.mark.parametrize("device", ["cpu", "hologram"])
@pytest.mark.parametrize("make", MODELS)
def test_training_equals_pytorch(make: Callable[[], tuple[nn.Module, Any]], device: str) -> None:
    torch.manual_seed(0)
    host, x = make()
    model = copy.deepcopy(host).to(device)
    compiled = torch.compile(model, backend=BACKEND)
    for here, run, data in ((host, host, x), (model, compiled, x.to(device))):
        optimiser = torch.optim.SGD(here.parameters(), lr=0.05)
        for _ in range(2):
            optimiser.zero_grad()
            run(data).square().mean().backward()
            optimiser.step()
    for name, wanted in host.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name].cpu(), wanted, atol=2e-5, rtol=1e-4, msg=name)


def test_graphs_are_whole() -> None:
    model, x = attentive()
    found = torch._dynamo.explain(model.to("hologram"))(x.to("hologram"))
    assert (found.graph_count, found.graph_break_count) == (1, 0)


def test_random_numbers_are_others_at_each_call() -> None:
    def noisy(x: Any) -> Any:
        return functional.dropout(x, 0.5) + torch.rand_like(x)

    run, x = torch.compile(noisy, backend=BACKEND), torch.ones(64, device="hologram")
    torch.manual_seed(1)
    first, second = run(x).cpu(), run(x).cpu()
    torch.manual_seed(1)
    again = run(x).cpu()
    torch.manual_seed(1)
    eager = noisy(x).cpu()
    assert not torch.equal(first, second)
    assert torch.equal(first, again)
    assert torch.equal(first, eager)


def test_dropout_backward_drops_the_same() -> None:
    run = torch.compile(lambda x: functional.dropout(x, 0.5), backend=BACKEND)
    x = torch.ones(256, device="hologram", requires_grad=True)
    y = run(x)
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), y.detach().cpu())


def test_sizes_may_change() -> None:
    def scores(x: Any) -> Any:
        return (x @ x.t()).softmax(-1).sum(0)

    run = torch.compile(scores, backend=BACKEND, dynamic=True)
    for n in (3, 5, 7, 3):
        x = torch.randn(n, 4)
        torch.testing.assert_close(run(x.to("hologram")).cpu(), scores(x))


def test_arguments_may_be_views_and_results_views_of_arguments() -> None:
    def both(x: Any, y: Any) -> Any:
        return x.t(), x[1:] + y, y

    run = torch.compile(both, backend=BACKEND)
    x, y = torch.arange(24.0).reshape(4, 6)[:, ::2].to("hologram"), torch.ones(3, device="hologram")
    t, total, same = run(x, y)
    x.add_(1)
    assert torch.equal(t.cpu(), x.t().cpu())  # it is a view
    assert torch.equal(total.cpu(), x[1:].cpu())
    assert same is y


def test_arguments_may_be_written_to() -> None:
    def update(x: Any, y: Any) -> Any:
        x.mul_(2).add_(y)
        x[0] = 7
        return x.sum()

    for device in ("cpu", "hologram"):
        x, y = torch.ones(3, 2, device=device), torch.arange(2.0, device=device)
        wanted = x.cpu().clone()
        total = update(wanted, y.cpu())
        assert torch.compile(update, backend=BACKEND)(x, y).item() == total.item()
        assert torch.equal(x.cpu(), wanted)


def test_changes_to_what_is_kept_are_noticed() -> None:
    x = torch.ones(3, device="hologram", requires_grad=True)
    y = torch.compile(lambda x: x.exp(), backend=BACKEND)(x)
    with torch.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_what_is_made_on_the_host_is_moved() -> None:
    def shifted(x: Any) -> Any:
        return x + torch.arange(3, device=x.device) + torch.tensor(2.0)

    for device in ("cpu", "hologram"):
        x = torch.ones(3, device=device)
        found = torch.compile(shifted, backend=BACKEND)(x)
        assert found.device == x.device
        assert found.tolist() == [3, 4, 5]


def test_tensors_of_the_host_share_their_memory() -> None:
    executor = torch.hologram.executor()
    if not executor.limits.host_resident:
        pytest.skip("the device has memory of its own")
    x = torch.randn(4, 6)[:, ::2]
    shared = on_executor(x, executor)
    shared[...] = 5.0
    assert x.tolist() == [[5.0] * 3] * 4
    assert on_executor(x, executor).buffer is shared.buffer


def test_what_was_compiled_is_bounded() -> None:
    graph = torch.fx.symbolic_trace(lambda x: (x + 1,))
    compiled = CompiledGraph(graph)

    def traced(n: int) -> int:
        before = torch.hologram.executor().preparation_stats()["traced"]
        assert compiled([torch.ones(n, device="hologram")])[0].tolist() == [2.0] * n
        return torch.hologram.executor().preparation_stats()["traced"] - before

    assert sum(map(traced, range(1, MAX_SIGNATURES + 1))) == MAX_SIGNATURES
    assert traced(MAX_SIGNATURES) == traced(1) == 0
    assert traced(MAX_SIGNATURES + 1) == 1
    assert [traced(1), traced(MAX_SIGNATURES)] == [1, 0]  # the oldest went


@pytest.mark.parametrize("written", ["column", "number"])
def test_writes_through_views_are_differentiated(written: str) -> None:
    def changed(x: Any) -> Any:
        y = x.clone()
        y[..., -1] = y[..., 0] if written == "column" else 2.0
        return functional.gelu(y)

    x = torch.linspace(-1, 1, 12).reshape(2, 2, 3)
    slopes = []
    for device, run in (("cpu", changed), ("hologram", torch.compile(changed, backend=BACKEND))):
        given = x.to(device, copy=True).requires_grad_()
        run(given).square().sum().backward()
        slopes.append(given.grad.cpu())
    torch.testing.assert_close(slopes[1], slopes[0])


def test_modes_are_taken_and_options_refused() -> None:
    x = torch.ones(3, device="hologram")
    assert torch.compile(lambda x: x + 1, backend=BACKEND, mode="reduce-overhead")(x).tolist() == [2, 2, 2]
    with pytest.raises(Exception, match="no options for this backend"):
        torch.compile(lambda x: x + 2, backend=BACKEND, options={"a": 1})(x)


@pytest.mark.parametrize("device", ["cpu", "hologram"])
@pytest.mark.parametrize("name", ["inv", "cholesky", "eigvalsh", "det"])
def test_factorisations_are_part_of_a_graph(name: str, device: str) -> None:
    def solved(x: Any) -> Any:
        square = x @ x.mT + 4 * torch.eye(3, device=x.device)
        return getattr(torch.linalg, name)(square) * 0.5 + x.sum(), x, square

    compiled = torch.compile(solved, backend="hologram", fullgraph=True)
    given = torch.randn(3, 3, generator=torch.Generator().manual_seed(0))
    found = []
    for function, place in ((solved, "cpu"), (compiled, device)):
        x = given.clone().to(place).requires_grad_()
        result, same, square = function(x)
        (result.sum() + square.sum()).backward()
        assert same is x
        found.append([y.detach().cpu() for y in (result, square, x.grad)])
    for expected, got in zip(*found, strict=True):
        torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-4)


def test_what_runs_beneath_a_broken_graph_is_not_traced() -> None:
    model = torch.nn.LSTM(3, 4, batch_first=True).to("hologram")
    x = torch.randn(2, 5, 3, device="hologram")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it says so where it cannot trace what it should not
        found, _ = torch.compile(model, backend="hologram")(x)
    torch.testing.assert_close(found, model(x)[0])
    for package in (hg, hologram_torch):
        folder = Path(str(package.__file__)).parent
        for path in folder.glob("*/**/*.py"):
            own = path.relative_to(folder).parts[0] in PROGRAMS
            assert trace_rules.check_file(str(path)).skipped != own, path


def _shared(query: Any, key: Any, value: Any, mask: Any | None, repeats: int) -> Any:
    """Attention of heads that share keys, as libraries write it."""
    key, value = (
        x[:, :, None].expand(-1, -1, repeats, -1, -1).reshape(len(x), -1, *x.shape[2:]) for x in (key, value)
    )
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)


@pytest.mark.parametrize("masked", [(), (1, 1, 1, 9), (2, 1, 1, 9), (2, 6, 1, 9), (1, 6, 1, 9), (1, 9)])
@pytest.mark.parametrize("rows", [1, 2])
def test_heads_that_share_keys_are_rows_of_one_product(rows: int, masked: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 6, rows, 8), torch.randn(2, 3, 9, 8), torch.randn(2, 3, 9, 8)
    mask = torch.randn(masked) if masked else None
    compiled: Any = torch.compile(_shared, backend="hologram")
    given = [None if x is None else x.to("hologram") for x in (query, key, value, mask)]
    with torch.no_grad():
        found = compiled(*given, 2)
        with torch.hologram.executor().profile() as profile:
            compiled(*given, 2)
    torch.testing.assert_close(found.cpu(), _shared(query, key, value, mask, 2), atol=1e-5, rtol=1e-5)
    copies = [launch for launch in profile.launches if launch.subject.kernel.startswith("atlas_cast")]
    assert rows > 1 or not copies


def _latent(query: Any, latent: Any) -> Any:
    key = latent[:, :, None].expand(-1, -1, 2, -1, -1).reshape(2, 6, 9, 8)
    return functional.scaled_dot_product_attention(query, key, key)


@pytest.mark.filterwarnings("error:erase_node")
def test_keys_that_are_values_too_are_shared() -> None:
    query, latent = torch.randn(2, 6, 1, 8), torch.randn(2, 3, 9, 8)
    with torch.no_grad():
        found = torch.compile(_latent, backend="hologram")(query.to("hologram"), latent.to("hologram"))
    torch.testing.assert_close(found.cpu(), _latent(query, latent), atol=1e-5, rtol=1e-5)


def test_shared_keys_of_any_length_and_with_gradients() -> None:
    compiled: Any = torch.compile(_shared, backend="hologram", dynamic=True)
    for length in (5, 6, 7):
        given: Any = [torch.randn(2, 4, 1, 8), torch.randn(2, 2, length, 8), torch.randn(2, 2, length, 8)]
        here = [x.to("hologram").requires_grad_() for x in given]
        there = [x.clone().requires_grad_() for x in given]
        _shared(*there, mask=None, repeats=2).square().sum().backward()
        compiled(*here, mask=None, repeats=2).square().sum().backward()
        for own, other in zip(here, there, strict=True):
            torch.testing.assert_close(own.grad.cpu(), other.grad, atol=1e-5, rtol=1e-4)
        with torch.no_grad():
            found = compiled(*here, mask=None, repeats=2)
        torch.testing.assert_close(found.cpu(), _shared(*given, mask=None, repeats=2), atol=1e-5, rtol=1e-5)
