"""The operators that PyTorch's CPU has and the device has not: all are of a class that is left out for a reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401

COMPOSED = ("PrivateUse1", "CompositeImplicitAutograd", "CompositeExplicitAutograd")
KEYS = (*COMPOSED, "CompositeExplicitAutogradNonFunctional")

LEFT_OUT = {
    "quantised tensors, which the device has not": r"(de)?quantize(_|\.)|quantized_|_empty_(affine|per_channel)_|"
    r"_make_per_(tensor|channel)_quantized|_add_relu|_dyn_quant_|_weight_int|_int_mm|fbgemm|choose_qparams",
    "layouts of a library of the CPU's": r".*mkldnn|_?mkl_|.*xnnpack",
    "nested tensors": r"_nested_|_jagged_to|_padded_dense_to|_transform_bias_rescale_qkv",
    "sparse layouts": r"_?sspaddmm|_spdiags|_convert_indices_from_|_validate_(compressed_)?sparse|_?sparse_|_to_sparse|"
    r"_(csr|coo)_",
    "the CPU's own ways of a convolution, which the device does otherwise": r"_?slow_conv|_nnpack",
    "parts of attention on the CPU": r"_masked_softmax|_fused_sdp_choice|_scaled_dot_product_\w*_for_cpu|"
    r"_flash_attention|_compute_linear_combination",
    "files that the CPU maps": r"from_file$",
    "PyTorch's own tests and traces": r"_test_|_foobar|_functional_assert|_make_dep_token|_print|_debug",
    "random numbers of keys by a stream that PyTorch's own devices share, private in torch.func": r"_philox_",
    "stated elsewhere": r"is_set_to$|range\.out$",
}


def test_what_the_device_lacks_is_left_out_for_a_reason() -> None:
    torch.ones(1, device="hologram")
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    names = [n for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::")]
    lacking = [n for n in names if has(n, "CPU") and not any(has(n, key) for key in KEYS)]
    unexplained = [n for n in lacking if not any(re.match(why, n[6:]) for why in LEFT_OUT.values())]
    assert not unexplained


def _normalised(x: Any) -> Any:
    mean, variance = torch.zeros(3, device=x.device), torch.ones(3, device=x.device)
    return (*torch.batch_norm_update_stats(x, mean, variance, 0.25), mean, variance)


IMAGE = torch.arange(2 * 3 * 4 * 6.0).reshape(2, 3, 4, 6).sin()
CALLS: dict[str, Callable[[Any], Any]] = {
    "batch_norm_update_stats": _normalised,
    "unique_dim_consecutive": lambda x: torch.ops.aten.unique_dim_consecutive(
        x[0, 0].round().repeat_interleave(2, 0), 0, True, True
    ),
    "set_": lambda x: x.clone().set_(),
    "adaptive_avg_pool2d.out": lambda x: torch.ops.aten.adaptive_avg_pool2d.out(
        x, [2, 3], out=torch.empty(0, device=x.device)
    ),
    "adaptive_avg_pool3d.out": lambda x: torch.ops.aten.adaptive_avg_pool3d.out(
        x, [1, 2, 3], out=torch.empty(0, device=x.device)
    ),
    "rrelu_with_noise.out": lambda x: torch.ops.aten.rrelu_with_noise.out(
        x, torch.zeros_like(x), out=torch.empty(0, device=x.device)
    ),
}

if hasattr(torch.linalg, "polar"):
    CALLS["linalg.polar"] = lambda x: tuple(torch.linalg.polar(x.mT + torch.eye(6, 4, device=x.device)))
    CALLS["linalg.matrix_sqrth"] = lambda x: torch.linalg.matrix_sqrth(
        x @ x.mT + 2 * torch.eye(4, device=x.device)
    )


@pytest.mark.parametrize("name", CALLS)
def test_forms_that_pytorch_makes_for_its_own_devices(name: str) -> None:
    found, want = CALLS[name](IMAGE.to("hologram")), CALLS[name](IMAGE)
    for ours, theirs in zip(*((x if isinstance(x, tuple) else (x,)) for x in (found, want)), strict=True):
        assert ours.device.type == "hologram"
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-5)
