"""Attention modules without gradients, for which PyTorch has operators of their own."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import hologram_torch  # noqa: E402, F401


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("masks", ["none", "keys", "pairs", "heads"])
def test_heads_attend_as_on_the_host(masks: str, wanted: bool) -> None:
    torch.manual_seed(0)
    host = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    device = copy.deepcopy(host).to("hologram")
    x = torch.randn(3, 5, 8)
    padded = torch.zeros(3, 5, dtype=torch.bool)
    padded[1, 3:] = True
    later = torch.ones(5, 5, dtype=torch.bool).triu(1)
    given = {
        "none": {},
        "keys": {"key_padding_mask": padded},
        "pairs": {"attn_mask": later},
        "heads": {"attn_mask": later.expand(6, 5, 5), "key_padding_mask": padded},
    }[masks]
    with torch.inference_mode():
        here = host(x, x, x, need_weights=wanted, **given)
        there = device(
            *[x.to("hologram")] * 3, need_weights=wanted, **{n: m.to("hologram") for n, m in given.items()}
        )
    torch.testing.assert_close(there[0].cpu(), here[0], atol=1e-5, rtol=1e-4)
    assert (there[1] is None) is (here[1] is None)
    if wanted:
        torch.testing.assert_close(there[1].cpu(), here[1], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("first", [True, False])
def test_encoders_infer_as_on_the_host(first: bool) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=first, activation="gelu")
    host = nn.TransformerEncoder(layer, 2, enable_nested_tensor=not first).eval()
    device = copy.deepcopy(host).to("hologram")
    x = torch.randn(3, 5, 8)
    padded = torch.zeros(3, 5, dtype=torch.bool)
    padded[1, 3:] = True
    with torch.no_grad():
        here = host(x, src_key_padding_mask=padded)
        there = device(x.to("hologram"), src_key_padding_mask=padded.to("hologram"))
    torch.testing.assert_close(there.cpu()[~padded], here[~padded], atol=1e-5, rtol=1e-4)


def test_heads_that_do_not_fit_are_refused_as_by_pytorch() -> None:
    q, k = torch.ones(1, 4, 2, 8, device="hologram"), torch.ones(1, 2, 2, 8, device="hologram")
    with pytest.raises(RuntimeError, match="hologram"):
        nn.functional.scaled_dot_product_attention(q, k, k)


WAYS = {  # to attend: by one operation, and by those that PyTorch writes it in
    "plain": {},
    "shared keys": {"enable_gqa": True},
    "dropout": {"dropout_p": 1e-9},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [torch.bool, torch.float32])
def test_masks_hide_in_every_way_to_attend(way: str, kind: Any) -> None:
    random = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 4, 5, 8, generator=random), torch.randn(2, 4, 5, 8, generator=random)
    k = k[:, :2] if way == "shared keys" else k
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    if kind is not torch.bool:
        mask = torch.zeros(5, 5).masked_fill(~mask, -torch.inf)
    found = []
    for device in ("cpu", "hologram"):
        own, keys = q.to(device).requires_grad_(), k.to(device)
        result = nn.functional.scaled_dot_product_attention(own, keys, keys, mask.to(device), **WAYS[way])
        found.append([result.detach().cpu(), torch.autograd.grad(result.sin().sum(), own)[0].cpu()])
    for here, there in zip(*found, strict=True):
        torch.testing.assert_close(there, here, atol=1e-5, rtol=1e-4)


def test_attention_is_differentiated_for_each_of_a_batch() -> None:
    random = torch.Generator().manual_seed(0)
    q = torch.randn(3, 2, 4, 8, generator=random)
    mask = torch.ones(4, 4, dtype=torch.bool).tril()

    def attended(x, mask):
        return nn.functional.scaled_dot_product_attention(x, x, x, mask).sin().sum()

    slope = torch.func.vmap(torch.func.grad(attended), in_dims=(0, None))
    here, there = slope(q, mask), slope(q.to("hologram"), mask.to("hologram"))
    torch.testing.assert_close(there.cpu(), here, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", [torch.int64, torch.float64])
@pytest.mark.parametrize("way", WAYS)
def test_masks_of_other_dtypes_are_refused(way: str, kind: Any) -> None:
    q, mask = torch.ones(1, 2, 4, 8, device="hologram"), torch.ones(4, 4, dtype=kind, device="hologram")
    with pytest.raises(RuntimeError, match="attn_mask must be bool"):
        nn.functional.scaled_dot_product_attention(q, q, q, mask, **WAYS[way])


@pytest.mark.parametrize("compiled", [False, True])
def test_flexible_attention_is_attention(compiled: bool) -> None:
    from torch.nn.attention import flex_attention as flexible

    torch.manual_seed(0)
    here = [torch.randn(1, 2, 16, 8, requires_grad=True) for _ in range(3)]
    there = [x.detach().to("hologram").requires_grad_() for x in here]
    device = there[0].device
    earlier = flexible.create_block_mask(lambda b, h, i, j: i >= j, None, None, 16, 16, device=device)

    def attended(q, k, v):
        return flexible.flex_attention(
            q, k, v, score_mod=lambda s, b, h, i, j: s - 0.1 * (i - j).abs(), block_mask=earlier
        )

    found = (torch.compile(attended, backend="hologram", fullgraph=True) if compiled else attended)(*there)
    found.square().sum().backward()
    place = torch.arange(16)
    far = place[:, None] - place
    mask = torch.where(far >= 0, -0.1 * far.abs(), -torch.inf)
    wanted = nn.functional.scaled_dot_product_attention(*here, attn_mask=mask)
    wanted.square().sum().backward()
    torch.testing.assert_close(found.detach().cpu(), wanted.detach(), atol=1e-5, rtol=1e-5)
    for a, b in zip(there, here, strict=True):
        torch.testing.assert_close(a.grad.cpu(), b.grad, atol=1e-5, rtol=1e-5)


MODS: dict[str, Any] = {  # of scores, which may capture a tensor, and of what is looked at
    "soft cap": (lambda bias: lambda s, b, h, i, j: 2 * torch.tanh(s / 2), lambda b, h, i, j: i >= j),
    "slopes and a window": (
        lambda bias: lambda s, b, h, i, j: s + bias[h] * (j - i),
        lambda b, h, i, j: (i >= j) & (i - j < 7),
    ),
    "documents": (lambda bias: lambda s, b, h, i, j: s, lambda b, h, i, j: (i // 9 == j // 9) & (i >= 3)),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", MODS)
def test_flexible_attention_goes_by_some_queries_at_a_time(
    name: str, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.nn.attention import flex_attention as flexible

    from hologram_torch import flexible as ours

    monkeypatch.setattr(ours, "SCORES", 2 * 4 * 33 * 10)
    monkeypatch.setattr(ours, "LEAST_ROWS", 4)
    scored, looked = MODS[name]
    torch.manual_seed(0)
    here = [torch.randn(2, heads, 33, 8, requires_grad=True) for heads in (4, 2, 2)]
    here.append(torch.tensor([0.5, 0.1, -0.2, 1.0], requires_grad=name == "slopes and a window"))
    there = [x.detach().to("hologram").requires_grad_(x.requires_grad) for x in here]
    mask = flexible.create_block_mask(looked, None, None, 33, 33, device=there[0].device)

    def attended(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return flexible.flex_attention(q, k, v, score_mod=scored(bias), block_mask=mask, enable_gqa=True)

    def by_hand(q: Any, k: Any, v: Any, bias: Any) -> Any:
        k, v = (x.repeat_interleave(2, dim=1) for x in (k, v))
        at = [
            torch.arange(n).reshape([-1 if axis == x else 1 for x in range(4)])
            for axis, n in enumerate((2, 4, 33, 33))
        ]
        scores = scored(bias)(q @ k.mT / 8**0.5, *at)
        power = torch.where(looked(*at), scores.exp(), 0.0)  # of scores that are small
        return power / power.sum(-1, keepdim=True).clamp(min=1e-30) @ v

    results = []
    for run, given in (
        (by_hand, here),
        (torch.compile(attended, backend="hologram", fullgraph=True) if compiled else attended, there),
    ):
        found = run(*given)
        found.square().sum().backward()
        results.append([found.detach().cpu(), *(x.grad.cpu() for x in given if x.grad is not None)])
    assert len(results[0]) == len(results[1])
    for mine, theirs in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(mine, theirs, atol=2e-5, rtol=1e-4)


SHAPES = {  # of queries, of keys and values, of the mask
    "no batch": ((5, 8), (6, 8), None),
    "one axis, masked": ((3, 5, 8), (3, 6, 8), (5, 6)),
    "three axes, masked": ((2, 2, 3, 5, 8), (2, 2, 3, 6, 8), (2, 1, 3, 1, 6)),
    "one for all": ((1, 2, 5, 8), (3, 2, 6, 8), None),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_attention_of_any_number_of_axes(name: str, compiled: bool) -> None:
    torch.manual_seed(0)
    of_queries, of_keys, of_mask = SHAPES[name]
    mask = None if of_mask is None else torch.rand(of_mask).masked_fill(torch.rand(of_mask) < 0.3, -torch.inf)
    operands = [torch.randn(shape) for shape in (of_queries, of_keys, of_keys)]

    def attended(*operands: Any) -> Any:
        masking = None if mask is None else mask.to(operands[0].device)
        return nn.functional.scaled_dot_product_attention(*operands, attn_mask=masking)

    torch.compiler.reset()
    chosen = torch.compile(attended, backend="hologram") if compiled else attended
    found = {}
    for device, function in (("cpu", attended), ("hologram", chosen)):
        leaves = [x.to(device).requires_grad_() for x in operands]
        result = function(*leaves)
        assert result.is_contiguous()
        found[device] = [result, *torch.autograd.grad(result.sin().sum(), leaves)]
    for here, there in zip(*found.values(), strict=True):
        torch.testing.assert_close(there.cpu(), here, atol=1e-5, rtol=1e-4)
