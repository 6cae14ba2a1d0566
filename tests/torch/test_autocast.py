"""Mixed precision: PyTorch's lists of operators, and the scaling of losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401

F = torch.nn.functional


@pytest.fixture
def x() -> Any:
    torch.manual_seed(0)
    return torch.randn(4, 4).to("hologram")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("function", "wide"),
    [
        (lambda x: x @ x, False),
        (lambda x: F.linear(x, x, x[0]), False),
        (lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]), False),
        (lambda x: F.conv1d(x[None], x[:, :, None]), False),
        (lambda x: (x @ x).exp(), True),
        (lambda x: F.layer_norm(x @ x, (4,)), True),
        (lambda x: torch.softmax(x @ x, -1), True),
        (lambda x: (x @ x).sum(), True),
        (lambda x: F.cross_entropy(x @ x, torch.arange(4, device=x.device)), True),
        (lambda x: torch.cat([x, x @ x]), True),
        (lambda x: F.relu(x @ x), False),
    ],
)
def test_dtypes(x: Any, dtype: Any, function: Callable[..., Any], wide: bool) -> None:
    with torch.autocast("hologram", dtype=dtype):
        assert function(x).dtype == (torch.float32 if wide else dtype)
        with torch.autocast("hologram", enabled=False):
            assert (x @ x).dtype == torch.float32
    assert (x.double() @ x.double()).dtype == torch.float64


def test_what_is_unsafe_is_refused(x: Any) -> None:
    with torch.autocast("hologram"), pytest.raises(RuntimeError, match="binary_cross_entropy_with_logits"):
        F.binary_cross_entropy(torch.sigmoid(x), torch.sigmoid(x))


@pytest.mark.parametrize("fused", [False, True])
def test_steps_with_infinite_gradients_are_left_out(fused: bool) -> None:
    model = torch.nn.Linear(4, 2).to("hologram")
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01, fused=fused)
    scaler = torch.amp.GradScaler("hologram", init_scale=1024.0, growth_interval=2)
    data = torch.ones(3, 4, device="hologram")
    scales, moved = [], []
    for factor in (1.0, 1.0, float("inf"), 1.0):
        optimiser.zero_grad()
        with torch.autocast("hologram", dtype=torch.float16):
            loss = model(data).float().square().mean()
        before = model.weight.detach().clone()
        scaler.scale(loss * factor).backward()
        scaler.step(optimiser)
        scaler.update()
        scales.append(scaler.get_scale())
        moved.append(not torch.equal(before.cpu(), model.weight.detach().cpu()))
    assert scales == [1024.0, 2048.0, 1024.0, 1024.0]
    assert moved == [True, True, False, True]


def test_gradients_reach_parameters_in_their_own_dtype() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)).to("hologram")
    with torch.autocast("hologram", dtype=torch.bfloat16):
        model(torch.ones(3, 4, device="hologram")).sum().backward()
    assert {p.grad.dtype for p in model.parameters()} == {torch.float32}


def _listed(key: str) -> set[str]:
    """The operators that PyTorch itself has a kernel for at a key of autocast; libraries may add their own."""
    names = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return {name.removeprefix("aten::") for name in names if not name.startswith("torchvision::")}


# Of CUDA's own libraries.
CUDAS = {
    "_cudnn_rnn",
    "_scaled_dot_product_flash_attention",
    "cudnn_convolution",
    "cudnn_convolution_transpose",
}
# What CUDA's kernels take in 16 bits, and the CPU's once did not; and what is made of operators that are listed.
IN_SIXTEEN_BITS_ON_CUDA = """
adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d conv1d.padding conv2d.padding conv3d.padding cross_entropy_loss
fake_quantize_per_tensor_affine fractional_max_pool2d fractional_max_pool3d grid_sampler_2d grid_sampler_3d
_grid_sampler_2d_cpu_fallback max_pool3d max_unpool2d max_unpool3d multilabel_margin_loss_forward reflection_pad1d
reflection_pad2d replication_pad1d replication_pad2d replication_pad3d trace
"""
# Of named tensors, which PyTorch hands to no kernel that is written in Python.
BY_NAMES = {
    "cumprod.dimname",
    "cumsum.dimname",
    "index_copy.dimname",
    "log_softmax.Dimname",
    "norm.names_ScalarOpt_dim",
    "prod.dim_Dimname",
    "softmax.Dimname",
    "sum.dim_DimnameList",
}
HOSTS = {"_addmm_activation", "_native_multi_head_attention", "mkldnn_rnn_layer"}


def test_lists_hold_what_cudas_and_the_cpus_do() -> None:
    torch.ones(1, device="hologram")
    ours = _listed("AutocastPrivateUse1") | BY_NAMES
    assert _listed("AutocastCUDA") - ours <= CUDAS
    assert _listed("AutocastCPU") - ours <= HOSTS | set(IN_SIXTEEN_BITS_ON_CUDA.split())


AS_ON_THE_HOST: dict[str, Callable[[Any], Any]] = {
    "rfft": torch.fft.rfft,
    "fft2": torch.fft.fft2,
    "irfft": torch.fft.irfft,
    "fftn": lambda x: torch.fft.fftn(x).real,
    "stft": lambda x: torch.stft(
        x[0].repeat(8), 4, window=torch.ones(4, device=x.device), return_complex=True
    ),
    "quantile": lambda x: torch.quantile(x, 0.5),
    "inverse": torch.linalg.inv,
    "polar": lambda x: torch.polar(x, x),
    "svd": torch.linalg.svdvals,
    "vecdot": lambda x: torch.linalg.vecdot(x.float(), x.float()),
}


@pytest.mark.parametrize("name", AS_ON_THE_HOST)
def test_what_no_kernel_takes_in_sixteen_bits(name: str) -> None:
    x = torch.eye(4) + torch.arange(16.0).reshape(4, 4) / 16
    found = []
    for device in ("cpu", "hologram"):
        with torch.autocast(device, dtype=torch.bfloat16):
            found.append(AS_ON_THE_HOST[name](x.to(device) @ torch.eye(4, device=device)).cpu())
    torch.testing.assert_close(found[1], found[0], rtol=2e-2, atol=2e-2)


def test_what_cuda_lists_and_the_cpu_does_not(x: Any) -> None:
    with torch.autocast("hologram", dtype=torch.bfloat16):
        y = x @ x
        assert F.rms_norm(y, (4,)).dtype == torch.float32
        assert torch.cross(y[:, :3], x[:, :3], dim=1).dtype == torch.float32
        assert torch.linalg.vecdot(x, x).dtype == torch.bfloat16
