"""Modules with packed weights: against those with the same weights as floats."""

from __future__ import annotations

import copy
import io
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import hologram as hg  # noqa: E402
import hologram_torch  # noqa: E402, F401
from hologram_torch.packed import PackedEmbedding, PackedLinear, keep_packed  # noqa: E402

FORMATS = ["int8", "i8", "int4g32", "uint4g32", "f8e4m3"]


def packed_of(format: str, rows: int = 48, columns: int = 64) -> tuple[hg.Packed, Any]:
    weights = np.random.default_rng(0).normal(0, 1, (rows, columns)).astype(np.float32)
    packed = hg.Packed.quantize(weights, format, torch.hologram.executor())
    return packed, torch.from_numpy(packed.dequantize().to_numpy().copy())


def close(found: Any, wanted: Any, near: float = 1e-3) -> None:
    wanted = wanted.detach()
    largest = float(wanted.abs().max())
    torch.testing.assert_close(found.detach().cpu().float(), wanted, rtol=0, atol=near * largest)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("shape", [(1, 64), (2, 5, 64), (40, 64), (0, 64), (64,)])
def test_linear(format: str, shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    packed, weights = packed_of(format)
    bias, x = torch.randn(48), torch.randn(shape)
    module = PackedLinear(packed, bias.to("hologram"))
    assert isinstance(module, nn.Linear)
    found, wanted = module(x.to("hologram")), nn.functional.linear(x, weights, bias)
    assert found.shape == wanted.shape
    if wanted.numel():
        close(found, wanted)
    close(module.weight, weights, 1e-6)
    assert module.packed.planes["codes"].buffer is packed.planes["codes"].buffer


def test_columns_in_an_order_of_their_own() -> None:
    """As GPTQ's activations put them: products, their derivative, rows, all weights, and what is saved."""
    plain, lying = packed_of("uint4g32")
    order = torch.randperm(64, generator=torch.Generator().manual_seed(2))
    weights = torch.empty_like(lying)
    weights[:, order] = lying
    own = plain.executor.tensor(order.numpy().astype(np.int32))
    packed = hg.Packed(plain.format, plain.columns, plain.planes, own)
    module, other = PackedLinear(packed), PackedLinear(packed_of("uint4g32")[0])
    assert "order" in module.state_dict()
    x = torch.randn(3, 64)
    given = x.to("hologram").requires_grad_()
    found = module(given)
    close(found, x @ weights.T)
    assert torch.equal(found.cpu(), other(x[:, order].to("hologram")).cpu())
    found.sum().backward()
    close(given.grad, weights.sum(0).expand(3, 64))
    close(copy.deepcopy(module).cpu()(x), x @ weights.T)
    assert torch.equal(module.weight.cpu(), weights)
    assert torch.equal(torch.from_numpy(module.packed.dequantize().to_numpy()), weights)
    index = torch.tensor([[5, 0], [47, 3]])
    assert torch.equal(PackedEmbedding(packed)(index.to("hologram")).cpu(), weights[index])


@pytest.mark.parametrize("shape", [(3, 5, 64), (64,), (0, 64)])
def test_what_is_no_weight_is_differentiated(shape: tuple[int, ...]) -> None:
    packed, weights = packed_of("int4g32")
    reference = nn.Linear(64, 48)
    reference.weight = nn.Parameter(weights)
    module = PackedLinear(packed, reference.bias.detach().to("hologram"))
    slopes = []
    x = torch.randn(shape)
    for each, device in ((reference, "cpu"), (module, "hologram")):
        given = x.detach().to(device).requires_grad_()
        each(given).square().sum().backward()
        slopes.append((given.grad, each.bias.grad))
    for wanted, found in zip(*slopes, strict=True):
        assert found.shape == wanted.shape
        if wanted.numel():
            close(found, wanted)


@pytest.mark.filterwarnings("error")
def test_the_derivative_is_differentiated() -> None:
    """As by a penalty on gradients: of the cotangent of x, with respect to x and the bias."""
    packed, weights = packed_of("int4g32")
    x, bias, slopes = torch.randn(3, 64), torch.randn(48), []
    module = PackedLinear(packed, bias.to("hologram"))
    for layer, device in ((lambda x: nn.functional.linear(x, weights, bias), "cpu"), (module, "hologram")):
        given = x.to(device, copy=True).requires_grad_()
        (slope,) = torch.autograd.grad(layer(given).pow(3).sum(), given, create_graph=True)
        slopes += torch.autograd.grad(slope.square().sum(), given)
    close(slopes[1], slopes[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_conversions_leave_the_weights_alone(dtype: Any) -> None:
    packed, weights = packed_of("int8")
    x = torch.randn(3, 64)
    module = nn.Sequential(PackedLinear(packed, torch.zeros(48, device="hologram"))).to(dtype)
    assert module[0].scales.dtype == torch.float32
    found = module(x.to("hologram", dtype))
    assert found.dtype == module[0].bias.dtype == dtype
    close(found, x @ weights.T, 2e-2)


def test_it_moves_and_is_saved() -> None:
    packed, weights = packed_of("int4g32")
    x = torch.randn(3, 64)
    wanted = x @ weights.T
    module = PackedLinear(packed)
    copied = copy.deepcopy(module)
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    for each in (copied, torch.load(file, weights_only=False)):
        close(each(x.to("hologram")), wanted)
    other, _ = packed_of("int4g32", 48, 64)
    again = PackedLinear(other)
    again.load_state_dict(module.state_dict())
    on_host = module.to("cpu")
    assert on_host.codes.device.type == "cpu"
    close(on_host(x), wanted)
    close(on_host.to("hologram")(x.to("hologram")), wanted)


def test_compiled() -> None:
    packed, weights = packed_of("int4g32")
    module, x = PackedLinear(packed), torch.randn(3, 64)
    compiled = torch.compile(lambda x: torch.relu(module(x)) + 1, backend="hologram", fullgraph=True)
    close(compiled(x.to("hologram")), torch.relu(x @ weights.T) + 1)


def test_embedding() -> None:
    packed, weights = packed_of("int8")
    module, index = PackedEmbedding(packed), torch.tensor([[1, 47], [0, 3]])
    for device in ("hologram", "cpu"):
        assert module.to(device)(index.to(device)).cpu().equal(weights[index])
    assert module.half()(index).dtype == torch.float16
    for position in (48, -1):
        with pytest.raises(IndexError):
            module.to("hologram")(torch.tensor([position], device="hologram"))


class Scaled(nn.Embedding):
    def forward(self, input: Any) -> Any:
        return super().forward(input) * 3


class Own(nn.Linear):
    def forward(self, input: Any) -> Any:
        return nn.functional.linear(input, self.weight * 2, self.bias)


def test_classes_below_keep_what_they_do() -> None:
    packed, weights = packed_of("int8")
    planes = {n: x.to_numpy() for n, x in packed.planes.items()}
    embedding, linear = Scaled(48, 64), Own(64, 48)
    for module in (embedding, linear):
        keep_packed(module, "int8", 64, planes)
        assert isinstance(module, (Scaled, Own))
        assert "weight" not in dict(module.named_parameters())
    assert embedding(torch.tensor([5])).equal(weights[[5]] * 3)
    x = torch.randn(2, 64)
    close(linear(x), nn.functional.linear(x, weights * 2, linear.bias))


def test_other_modules_are_refused() -> None:
    packed, _ = packed_of("int8")
    for module in (nn.Conv2d(1, 1, 1), PackedLinear(packed)):
        with pytest.raises(TypeError, match="Linear, Embedding"):
            keep_packed(module, "int8", 64, {})
