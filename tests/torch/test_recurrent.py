"""Recurrent networks are one operator a layer and direction, and give what they give on the host."""

from __future__ import annotations

import copy
import io
from collections.abc import Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import hologram as hg  # noqa: E402
import hologram_torch  # noqa: E402, F401

nn = torch.nn
rnn = nn.utils.rnn
NETWORKS = {
    "lstm": lambda **s: nn.LSTM(5, 7, **s),
    "gru": lambda **s: nn.GRU(5, 7, **s),
    "tanh": lambda **s: nn.RNN(5, 7, **s),
    "relu": lambda **s: nn.RNN(5, 7, nonlinearity="relu", **s),
}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "layers": {"num_layers": 3},
    "bidirectional": {"num_layers": 2, "bidirectional": True},
    "batch_first": {"batch_first": True},
    "no bias": {"bias": False, "bidirectional": True},
    "projected": {"proj_size": 3, "num_layers": 2, "bidirectional": True},
    "projected without bias": {"proj_size": 6, "bias": False},
}
CASES = [(n, v) for n in NETWORKS for v in VARIANTS if n == "lstm" or "proj" not in v]
ATOL = {torch.float32: 2e-5, torch.float64: 1e-12, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def _pair(name: str, dtype: Any = torch.float32, **settings: Any) -> tuple[Any, Any]:
    torch.manual_seed(0)
    host = NETWORKS[name](**settings).to(dtype)
    return host, copy.deepcopy(host).to("hologram")


def _states(module: Any, batch: int | None, dtype: Any = torch.float32) -> Any:
    count = module.num_layers * (1 + module.bidirectional)
    sizes = [module.proj_size or module.hidden_size, module.hidden_size][: 1 + (module.mode == "LSTM")]
    found = [
        torch.randn(*((count, batch, n) if batch is not None else (count, n)), dtype=dtype) for n in sizes
    ]
    return tuple(found) if len(found) == 2 else found[0]


def _leaves(tree: Any) -> list[Any]:
    """Tensors; of packed data alone."""
    if isinstance(tree, rnn.PackedSequence):
        return [tree.data]
    if isinstance(tree, (tuple, list)):
        return [x for each in tree for x in _leaves(each)]
    return [] if tree is None else [tree]


def _everything(
    module: Any, x: Any, states: Any, device: str, lengths: Any = None, **packing: Any
) -> list[Any]:
    """Results and gradients of inputs, states and parameters, on the host."""
    module.zero_grad()
    x = x.detach().to(device).requires_grad_()
    states = torch.utils._pytree.tree_map(lambda s: s.detach().to(device).requires_grad_(), states)
    given = x if lengths is None else rnn.pack_padded_sequence(x, lengths, **packing)
    results = _leaves(module(given, states))
    total: Any = sum(
        (r * torch.linspace(-1, 1, r.numel(), device=device, dtype=r.dtype).reshape(r.shape)).sum()
        for r in results
    )
    total.backward()
    grown = [t.grad for t in (x, *_leaves(states), *module.parameters())]
    return [t.detach().cpu() for t in (*results, *grown)]


def _same(found: Sequence[Any], wanted: Sequence[Any], dtype: Any = torch.float32) -> None:
    for a, b in zip(found, wanted, strict=True):
        scale = max(b.abs().max().item(), 1.0) if b.numel() else 1.0
        torch.testing.assert_close(a, b.to(a.dtype), rtol=0, atol=ATOL[dtype] * scale)


def _supports(dtype: Any) -> bool:
    return dtype != torch.float64 or hg.float64 in torch.hologram.executor().limits.dtypes


@pytest.mark.parametrize(("name", "variant"), CASES)
def test_networks(name: str, variant: str) -> None:
    host, ours = _pair(name, **VARIANTS[variant])
    x = torch.randn(6, 3, 5).transpose(0, 1) if host.batch_first else torch.randn(6, 3, 5)
    states = _states(host, 3)
    _same(_everything(ours, x, states, "hologram"), _everything(host, x, states, "cpu"))
    found, wanted = ours(x.to("hologram"))[0], host(x)[0]  # from states of zeros
    assert found.stride() == wanted.stride()
    _same([found.detach().cpu()], [wanted.detach()])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", NETWORKS)
def test_dtypes(name: str, dtype: Any) -> None:
    """Against f64, since the host rounds 16 bits after each operator."""
    if not _supports(dtype):
        with pytest.raises((TypeError, RuntimeError, NotImplementedError)):
            torch.ones(1, dtype=dtype, device="hologram")
        return
    host, ours = _pair(name, dtype, num_layers=2, bidirectional=True)
    x, states = torch.randn(6, 3, 5, dtype=dtype), _states(host, 3, dtype)
    found = _everything(ours, x, states, "hologram")
    assert {t.dtype for t in found} == {dtype}
    wide = torch.utils._pytree.tree_map(lambda t: t.double(), states)
    _same([t.double() for t in found], _everything(host.double(), x.double(), wide, "cpu"), dtype)


@pytest.mark.parametrize("shape", [(6, 5), (6, 0, 5), (1, 2, 5), (130, 1, 5)], ids=str)
@pytest.mark.parametrize("name", NETWORKS)
def test_sizes(name: str, shape: tuple[int, ...]) -> None:
    """Without a batch, with an empty one, one step, many of one sequence."""
    host, ours = _pair(name)
    x, states = torch.randn(*shape), _states(host, shape[1] if len(shape) == 3 else None)
    if 0 in shape:  # which the host's LSTM refuses to differentiate
        found = _leaves(
            ours(x.to("hologram"), torch.utils._pytree.tree_map(lambda s: s.to("hologram"), states))
        )
        assert [tuple(t.shape) for t in found] == [tuple(t.shape) for t in _leaves(host(x, states))]
        torch.stack([t.sum() for t in found]).sum().backward()
        assert all(not p.grad.cpu().any() for p in ours.parameters())
        return
    _same(_everything(ours, x, states, "hologram"), _everything(host, x, states, "cpu"))


@pytest.mark.parametrize("variant", ["plain", "bidirectional", "projected"])
@pytest.mark.parametrize(
    ("lengths", "ordered"), [((6, 4, 4, 1), True), ((2, 6, 1, 5), False), ((3, 3), True)]
)
@pytest.mark.parametrize("name", NETWORKS)
def test_packed_sequences(name: str, lengths: tuple[int, ...], ordered: bool, variant: str) -> None:
    if variant == "projected" and name != "lstm":
        variant = "layers"
    host, ours = _pair(name, **VARIANTS[variant])
    x, states = torch.randn(max(lengths), len(lengths), 5), _states(host, len(lengths))
    for k, n in enumerate(lengths):
        x[n:, k] = torch.nan  # which nobody may look at
    found, wanted = (
        _everything(m, x, states, d, torch.tensor(lengths), enforce_sorted=ordered)
        for m, d in ((ours, "hologram"), (host, "cpu"))
    )
    _same(found, wanted)
    again = torch.tensor(lengths)
    packed = rnn.pack_padded_sequence(x.to("hologram"), again, enforce_sorted=ordered)
    padded, sizes = rnn.pad_packed_sequence(ours(packed)[0])
    assert sizes.tolist() == list(lengths)
    assert not padded[min(lengths) :, lengths.index(min(lengths))].detach().cpu().any()


CELLS = {
    "LSTMCell": lambda **s: nn.LSTMCell(5, 7, **s),
    "GRUCell": lambda **s: nn.GRUCell(5, 7, **s),
    "RNNCell": lambda **s: nn.RNNCell(5, 7, **s),
    "relu": lambda **s: nn.RNNCell(5, 7, nonlinearity="relu", **s),
}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", CELLS)
def test_cells(name: str, bias: bool) -> None:
    torch.manual_seed(0)
    host = CELLS[name](bias=bias)
    ours = copy.deepcopy(host).to("hologram")
    x, states = torch.randn(3, 5), [torch.randn(3, 7) for _ in range(1 + (name == "LSTMCell"))]
    given = tuple(states) if len(states) == 2 else states[0]
    _same(_everything(ours, x, given, "hologram"), _everything(host, x, given, "cpu"))
    _same(
        [t.detach().cpu() for t in _leaves(ours(x[0].to("hologram")))],
        [t.detach() for t in _leaves(host(x[0]))],
    )


def test_what_is_not_wanted_is_not_computed() -> None:
    host, ours = _pair("lstm", num_layers=2)
    x = torch.randn(4, 2, 5)
    for module, device in ((host, "cpu"), (ours, "hologram")):
        module.weight_hh_l1.requires_grad_(False)
        module.bias_ih_l0.requires_grad_(False)
        _, (hidden, _) = module(x.to(device))  # the last hidden states alone
        hidden.square().sum().backward()
        assert module.weight_hh_l1.grad is None
        assert module.bias_ih_l0.grad is None
    grown = [[p.grad.cpu() for p in m.parameters() if p.requires_grad] for m in (ours, host)]
    _same(*grown)


def test_two_biases_have_gradients_of_their_own() -> None:
    _, ours = _pair("lstm")
    ours(torch.randn(4, 2, 5, device="hologram"))[0].sum().backward()
    before = ours.bias_hh_l0.grad.cpu()
    ours.bias_ih_l0.grad.zero_()
    assert torch.equal(ours.bias_hh_l0.grad.cpu(), before)


@pytest.mark.parametrize("variant", ["plain", "bidirectional", "projected"])
@pytest.mark.parametrize("name", NETWORKS)
def test_second_derivatives(name: str, variant: str) -> None:
    if variant == "projected" and name != "lstm":
        variant = "no bias"
    host, ours = _pair(name, **VARIANTS[variant])
    lengths = torch.tensor([4, 2, 3])
    x, found = torch.randn(4, 3, 5), []
    for module, device in ((ours, "hologram"), (host, "cpu")):
        given = x.detach().to(device).requires_grad_()
        packed = rnn.pack_padded_sequence(given, lengths, enforce_sorted=False)
        with torch.backends.mkldnn.flags(enabled=False):  # which has no second derivatives
            total = sum(t.square().sum() for t in _leaves(module(packed)))
            grown = torch.autograd.grad(total, [given, *module.parameters()], create_graph=True)
            torch.stack([g.square().sum() for g in grown]).sum().backward()
        found.append([t.grad.cpu() for t in (given, *module.parameters())])
    _same(*found)


def test_dropout_lies_between_layers_in_training_alone() -> None:
    _, ours = _pair("gru", num_layers=2, dropout=0.999999)
    x = torch.randn(5, 3, 5, device="hologram")
    one = copy.deepcopy(ours)
    for weight in (one.weight_ih_l1,):
        torch.nn.init.zeros_(weight)
    torch.testing.assert_close(ours(x)[0], one(x)[0], rtol=0, atol=1e-5)  # nothing of the first layer arrives
    ours.eval()
    one.eval()
    assert (ours(x)[0] - one(x)[0]).abs().max().item() > 1e-2
    torch.manual_seed(3)
    half = nn.LSTM(5, 7, 2, dropout=0.5).to("hologram")
    given = x.detach().requires_grad_()
    half(given)[0].sum().backward()
    assert given.grad.cpu().isfinite().all()
    assert given.grad.cpu().any()


def test_state_dicts_and_devices() -> None:
    host, ours = _pair("lstm", num_layers=2, bidirectional=True)
    other = nn.LSTM(5, 7, num_layers=2, bidirectional=True, device="hologram")
    file = io.BytesIO()
    torch.save(ours.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, map_location="hologram"))
    x = torch.randn(4, 3, 5)
    _same([other(x.to("hologram"))[0].detach().cpu()], [host(x)[0].detach()])
    with torch.inference_mode():
        _same([other(x.to("hologram"))[0].cpu()], [host(x)[0]])
    _same([other.cpu()(x)[0].detach()], [host(x)[0].detach()])


def test_autocast_computes_in_16_bits() -> None:
    _, ours = _pair("gru")
    x = torch.randn(4, 3, 5, device="hologram")
    wanted = ours(x)[0]
    with torch.autocast("hologram", dtype=torch.bfloat16):
        found = ours(x)[0]
        hidden = nn.RNNCell(5, 7).to("hologram")(x[0])
    assert found.dtype == hidden.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), wanted, rtol=0, atol=3e-2)
    found.sum().backward()
    assert ours.weight_hh_l0.grad.dtype == torch.float32


def test_derivatives_forward() -> None:
    """PyTorch takes networks apart for these, since it has no rule for an operator of ours."""
    host, ours = _pair("lstm", num_layers=2, bidirectional=True)
    x, direction, found = torch.randn(4, 3, 5), torch.randn(4, 3, 5), []
    for module, device in ((ours, "hologram"), (host, "cpu")):
        with torch.backends.mkldnn.flags(enabled=False):  # which has no such derivatives
            pair = torch.func.jvp(lambda t, m=module: m(t)[0], (x.to(device),), (direction.to(device),))
        found.append([t.detach().cpu() for t in pair])
    _same(*found)


def test_few_operators() -> None:
    """Two layers are two of them there and two back, however many steps they have."""
    _, ours = _pair("lstm", num_layers=2)
    names = []
    for times in (4, 4, 40, 40):  # the first call of its kind asks PyTorch more
        x = torch.randn(times, 3, 5, device="hologram")
        ours.zero_grad()
        with torch.profiler.profile() as profile:
            ours(x)[0].sum().backward()
        names.append(sorted(e.name for e in profile.events() if "::" in e.name))
    names = names[1::2]
    assert names[0].count("hologram::recurrent_layer") == 2
    assert names[0].count("hologram::recurrent_layer_backward") == 2
    assert names[0] == names[1]


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_compiled(name: str) -> None:
    """Dynamo breaks the graph at networks unless it is told not to; then they are in it as they are."""
    host, ours = _pair(name, num_layers=2, bidirectional=True)
    x, states = torch.randn(6, 3, 5), _states(host, 3)
    wanted = _everything(host, x, states, "cpu")
    torch.compiler.reset()
    with torch._dynamo.config.patch(allow_rnn=True):
        compiled = torch.compile(ours, backend="hologram", fullgraph=True)
        _same(_everything(compiled, x, states, "hologram"), wanted)


def test_refused() -> None:
    _, ours = _pair("lstm")
    x = torch.randn(4, 3, 5, device="hologram")
    with pytest.raises(RuntimeError, match="sequence length to be larger than 0"):
        ours(x[:0])
    with pytest.raises(RuntimeError, match=r"must have one dtype, got torch\.float16 and torch\.float32"):
        torch.ops.aten.lstm.input(x.half(), [x.new_zeros(1, 3, 7)] * 2, ours._flat_weights, True, 1, 0.0, False,
                                  False, False)  # fmt: skip
    with pytest.raises(RuntimeError, match="must be on one device, got hologram:0 and cpu"):
        torch.ops.aten.lstm.input(
            x, [torch.zeros(1, 3, 7)] * 2, ours._flat_weights, True, 1, 0.0, False, False, False
        )
    with pytest.raises(RuntimeError, match=r"weight must have shape|inner sizes|linear"):
        torch.ops.aten.lstm.input(x[..., :4], [x.new_zeros(1, 3, 7)] * 2, ours._flat_weights, True, 1, 0.0, False,
                                  False, False)  # fmt: skip
    with pytest.raises(RuntimeError, match="batch sizes that do not grow"):
        torch.ops.aten.lstm.data(x[0], torch.tensor([1, 2]), [x.new_zeros(1, 1, 7)] * 2, ours._flat_weights, True, 1,
                                 0.0, False, False)  # fmt: skip
