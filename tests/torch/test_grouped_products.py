"""Products of groups that offsets tell apart, against float64 and PyTorch's CPU; and experts of a mixture."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401
from tests.torch.test_models import transformers  # noqa: E402

aten = torch.ops.aten
NEAR = {torch.float32: 1e-5, torch.float64: 1e-12, torch.float16: 1e-3, torch.bfloat16: 1e-2}


def ends(*values: int) -> Any:
    return torch.tensor(values, dtype=torch.int32)


CASES = {
    "rows": ((7, 16), (3, 16, 24), ends(2, 2, 7)),
    "one row of many": ((2, 16), (40, 16, 8), ends(*([0] * 20 + [1] * 10 + [2] * 10))),
    "columns": ((3, 8, 16), (16, 8), ends(2, 2, 8)),
    "inner": ((8, 8), (8, 16), ends(2, 2, 8)),
    "batches": ((3, 7, 16), (3, 16, 24), None),
    "no rows": ((0, 16), (3, 16, 24), ends(0, 0, 0)),
}


def both(case: str, dtype: Any) -> tuple[list[Any], list[Any]]:
    torch.manual_seed(0)
    left, right, offsets = CASES[case]
    a, b = torch.randn(left).to(dtype), torch.randn(right).to(dtype)
    return [a, b, offsets], [x if x is None else x.to("hologram") for x in (a, b, offsets)]


@pytest.mark.parametrize("dtype", NEAR, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_groups(case: str, dtype: Any) -> None:
    host, device = both(case, dtype)
    found = aten._grouped_mm(*device)
    exact = (
        aten._grouped_mm(host[0].float(), host[1].float(), host[2]) if host[0].numel() else torch.zeros(0, 24)
    )
    assert (found.device.type, found.dtype, found.shape) == ("hologram", dtype, exact.shape)
    torch.testing.assert_close(
        found.cpu().float(), exact, rtol=max(NEAR[dtype], 1e-5), atol=10 * max(NEAR[dtype], 1e-5)
    )


def test_no_groups_give_nothing() -> None:
    a, b = torch.randn(7, 16, device="hologram"), torch.randn(0, 16, 24, device="hologram")
    assert torch.equal(aten._grouped_mm(a, b, ends().to("hologram")).cpu(), torch.zeros(7, 24))


def test_turned_weights() -> None:
    host, device = both("rows", torch.float32)
    host[1], device[1] = (x[1].mT.contiguous().mT for x in (host, device))
    torch.testing.assert_close(aten._grouped_mm(*device).cpu(), aten._grouped_mm(*host), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", ["rows", "columns", "inner", "batches"])
def test_gradients(case: str) -> None:
    slopes = []
    for a, b, offsets in both(case, torch.float32):
        a.requires_grad_()
        b.requires_grad_()
        aten._grouped_mm(a, b, offsets).square().sum().backward()
        slopes.append([a.grad.cpu(), b.grad.cpu()])
    torch.testing.assert_close(slopes[1], slopes[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("a", "b", "offsets", "more"),
    [
        ((7, 16), (3, 16, 24), None, {}),
        ((3, 7, 16), (3, 16, 24), ends(1, 2, 3), {}),
        ((7, 16), (3, 12, 24), ends(2, 2, 7), {}),
        ((7, 16), (3, 16, 24), ends(2, 7), {}),
        ((7, 16), (3, 16, 24), ends(2, 2, 7).long(), {}),
        ((7, 16), (3, 16, 24), ends(2, 2, 7), {"bias": torch.zeros(3, 24)}),
        ((7, 16), (3, 16, 24), ends(2, 2, 7), {"out_dtype": torch.bfloat16}),
    ],
)
def test_what_pytorch_refuses(a: Any, b: Any, offsets: Any, more: Any) -> None:
    for device in ("cpu", "hologram"):
        given = [x if x is None else x.to(device) for x in (torch.randn(a), torch.randn(b), offsets)]
        there = {n: x.to(device) if isinstance(x, torch.Tensor) else x for n, x in more.items()}
        with pytest.raises(RuntimeError):
            aten._grouped_mm(*given, **there)


@pytest.mark.parametrize("offsets", [ends(3, 2, 7), ends(2, 3, 8), ends(-1, 2, 7)])
def test_offsets_that_do_not_rise(offsets: Any) -> None:
    a, b = torch.randn(7, 16, device="hologram"), torch.randn(3, 16, 24, device="hologram")
    with pytest.raises(RuntimeError, match="offsets must rise and end by 7"):
        aten._grouped_mm(a, b, offsets.to("hologram"))


def test_compiled() -> None:
    host, device = both("rows", torch.bfloat16)
    compiled = torch.compile(
        lambda a, b, o: aten._grouped_mm(a * 2, b, o) + 1, backend="hologram", fullgraph=True
    )
    wanted = aten._grouped_mm(host[0] * 2, host[1], host[2]) + 1
    torch.testing.assert_close(compiled(*device).cpu(), wanted, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("experts", ["grouped_mm", "batched_mm", "eager"])
def test_a_mixture_of_experts(experts: str) -> None:
    library = transformers()
    config = library.MixtralConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, num_local_experts=8, num_experts_per_tok=2,
    )  # fmt: skip
    torch.manual_seed(3)
    model = library.MixtralForCausalLM._from_config(config, experts_implementation=experts).eval()  # noqa: SLF001  transformers' own way to choose how experts run
    tokens = torch.randint(0, 64, (2, 9))
    results = []
    for device in ("cpu", "hologram"):
        model.zero_grad()
        output = model.to(device)(tokens.to(device), labels=tokens.to(device))
        output.loss.backward()
        slopes = [p.grad.cpu() for p in model.parameters()]
        results.append([output.logits.detach().cpu(), *slopes])
    torch.testing.assert_close(results[1], results[0], rtol=1e-3, atol=1e-5)
