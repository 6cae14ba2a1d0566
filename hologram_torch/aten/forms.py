"""Forms of operators, with outputs or without arguments, that PyTorch makes of the others for its own devices alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from hologram_torch.aten.decomposed import with_outputs
from hologram_torch.kernels.operators import is_output, name_of, operator
from hologram_torch.kernels.registry import register

# Forms with outputs, and the operators that compute the same.
BY_ANOTHER = {
    "adaptive_avg_pool2d.out": "_adaptive_avg_pool2d",
    "adaptive_avg_pool3d.out": "_adaptive_avg_pool3d",
    "adaptive_avg_pool3d_backward.grad_input": "_adaptive_avg_pool3d_backward",
    "linalg_eigvals.out": "_linalg_eigvals",
    "rrelu_with_noise.out": "rrelu_with_noise",
}


def _form(name: str, base: str) -> Callable[..., Any]:
    overload, computing = operator(name), operator(base)
    outputs = [a.name for a in overload._schema.arguments if is_output(a)]
    return with_outputs(computing, outputs, overload, computing)


for _name, _base in BY_ANOTHER.items():
    register(name_of(operator(_name)), _form(_name, _base))


def _emptied(x: torch.Tensor) -> torch.Tensor:
    return x.set_(x.new_empty(0))  # pyright: ignore[reportArgumentType]


def _batch_statistics(
    x: torch.Tensor, running_mean: torch.Tensor | None, running_var: torch.Tensor | None, momentum: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Each channel's mean and variance, towards which the running ones go, that one without bias."""
    axes = [k for k in range(x.ndim) if k != 1]
    variance, mean = torch.var_mean(x, axes, correction=0)
    count = x.numel() // x.shape[1]
    if running_mean is not None:
        running_mean.lerp_(mean.to(running_mean.dtype), momentum)
    if running_var is not None:
        running_var.lerp_((variance * (count / (count - 1))).to(running_var.dtype), momentum)
    return mean, variance


register("set_", _emptied)
register("batch_norm_update_stats", _batch_statistics)


# Of PyTorch's 2.14 and later.


def _polar(A: torch.Tensor, *, U: torch.Tensor, H: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Orthonormal columns and a matrix that is positive semidefinite, whose product is A."""
    left, values, right = torch.linalg.svd(A, full_matrices=False)
    stretched = right.mH @ (values.unsqueeze(-1) * right)
    return tuple(x.resize_(y.shape).copy_(y) for x, y in ((U, left @ right), (H, stretched)))  # type: ignore


def _root(x: torch.Tensor) -> torch.Tensor:
    """The square root of a Hermitian matrix that is positive definite, of which the lower triangle is read."""
    values, vectors = torch.linalg.eigh(x)
    return (vectors * values.sqrt().unsqueeze(-2)) @ vectors.mH


register("linalg_polar.out", _polar)
register("linalg_matrix_sqrth", _root)
