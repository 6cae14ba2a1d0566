"""Mixed precision: which operators `torch.autocast("hologram")` runs in 16 bits, and which in f32.

The lists are those of PyTorch's CUDA device (ATen/autocast_mode.h); networks run in 16 bits as cuDNN's do. What no
kernel takes in 16 bits, CUDA's neither, runs in f32, as the CPU's lists have it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._C import DispatchKey, DispatchKeySet
from torch.utils import _pytree as pytree

from hologram_torch.kernels.operators import known, operator
from hologram_torch.kernels.registry import everything_else, library
from hologram_torch.loading import NAME
from hologram_torch.reach import reach

KEY = "AutocastPrivateUse1"
KEYS = DispatchKeySet(getattr(DispatchKey, KEY))  # the stubs leave it out

IN_SIXTEEN_BITS = """
_convolution _convolution.deprecated conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d.input
conv_transpose3d.input convolution prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm bmm
chain_matmul linalg_multi_dot _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell
rnn_relu_cell lstm.input lstm.data gru.input gru.data rnn_tanh.input rnn_tanh.data rnn_relu.input rnn_relu.data
scaled_dot_product_attention
"""
IN_F32 = """
acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar pow.Tensor_Tensor
pow.Scalar softplus layer_norm native_layer_norm group_norm frobenius_norm.dim nuclear_norm nuclear_norm.dim
cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss
smooth_l1_loss huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss
multi_margin_loss binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp norm.Scalar norm.ScalarOpt_dim
upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d
_upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d
upsample_bicubic2d _upsample_bicubic2d_aa rms_norm
"""
IN_F32_AS_ON_THE_HOST = """
fft_fft fft_ifft fft_rfft fft_irfft fft_hfft fft_ihfft fft_fft2 fft_ifft2 fft_rfft2 fft_irfft2 fft_fftn fft_ifftn
fft_rfftn fft_irfftn stft stft.center polar view_as_complex quantile quantile.scalar nanquantile nanquantile.scalar
ctc_loss.IntList ctc_loss.Tensor cholesky cholesky_inverse cholesky_solve geqrf inverse lu_solve orgqr ormqr pinverse qr
svd triangular_solve _lu_with_info linalg_cholesky linalg_cholesky_ex linalg_cond linalg_cond.p_str linalg_eig
linalg_eigh linalg_eigvals linalg_eigvalsh linalg_householder_product linalg_inv linalg_inv_ex linalg_lstsq
linalg_matrix_rank linalg_matrix_rank.atol_rtol_float linalg_matrix_rank.atol_rtol_tensor linalg_matrix_rank.tol_tensor
linalg_matrix_sqrth linalg_qr linalg_solve linalg_svd linalg_svdvals linalg_tensorinv linalg_tensorsolve
"""
GIVING_F32 = """
prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm
linalg_matrix_norm.str_ord sum sum.dim_IntList
"""
IN_THE_WIDEST = """
addcdiv addcmul atan2 bilinear cross linalg_cross dot vdot grid_sampler index_put tensordot scatter_add cat stack
index_copy
"""


def _eligible(x: Any) -> bool:
    return (
        isinstance(x, torch.Tensor)
        and x.device.type == "hologram"
        and x.is_floating_point()
        and x.dtype != torch.float64
    )


def _cast(tree: Any, dtype: torch.dtype) -> Any:
    return pytree.tree_map(lambda x: x.to(dtype) if _eligible(x) else x, tree)


def _in_sixteen_bits(args: Any, kwargs: Any) -> Any:
    return _cast((args, kwargs), torch.get_autocast_dtype("hologram"))


def _in_f32(args: Any, kwargs: Any) -> Any:
    return _cast((args, kwargs), torch.float32)


def _giving_f32(args: Any, kwargs: Any) -> Any:
    """The result alone is in f32: kernels read operands of 16 bits as such."""
    if (
        not _eligible(args[0])
        or kwargs.get("dtype") is not None
        or any(isinstance(a, torch.dtype) for a in args)
    ):
        return args, kwargs
    return args, {**kwargs, "dtype": torch.float32}


def _in_the_widest(args: Any, kwargs: Any) -> Any:
    kinds = {x.dtype for x in pytree.tree_leaves((args, kwargs)) if _eligible(x)}
    wide = torch.float32 if torch.float32 in kinds else torch.get_autocast_dtype("hologram")
    return _cast((args, kwargs), wide) if len(kinds) > 1 else (args, kwargs)


def _guard() -> Callable[[], AbstractContextManager[Any]]:
    guard: Any = torch._C._ExcludeDispatchKeyGuard  # pyright: ignore[reportAttributeAccessIssue]
    return lambda: guard(KEYS)


_without_autocast = reach(
    "autocast",
    "torch._C._ExcludeDispatchKeyGuard",
    "operators under torch.autocast cost more of the host's time",
    _guard,
    lambda: torch.autocast(NAME, enabled=False),
)


def _kernel(name: str, prepare: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    run = operator(name)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with _without_autocast():
            args, kwargs = prepare(args, kwargs)
            return run(*args, **kwargs)

    return kernel


def _refused(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(
        "hologram, binary_cross_entropy: torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to "
        "autocast: many models use a sigmoid layer right before the binary cross entropy layer; combine the two with "
        "binary_cross_entropy_with_logits"
    )


everything_else.fallback(torch.library.fallthrough_kernel, KEY)
for _names, _prepare in (
    (IN_SIXTEEN_BITS, _in_sixteen_bits),
    (IN_F32, _in_f32),
    (IN_F32_AS_ON_THE_HOST, _in_f32),
    (GIVING_F32, _giving_f32),
    (IN_THE_WIDEST, _in_the_widest),
):
    for _name in filter(known, _names.split()):
        library.impl(_name, _kernel(_name, _prepare), KEY)
library.impl("binary_cross_entropy", _refused, KEY)
