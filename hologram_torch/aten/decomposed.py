"""Operators without a kernel of ours that PyTorch knows how to write in terms of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from hologram_torch.kernels import refusals
from hologram_torch.kernels.errors import refusal
from hologram_torch.kernels.fused import DECOMPOSITIONS
from hologram_torch.kernels.kernel import NAMES
from hologram_torch.kernels.operators import has_kernel, is_output, name_of, variants
from hologram_torch.kernels.registry import KERNELS, register

# In place of PyTorch's decompositions. Its kernels of view_copy also take what has no view of that shape.
OWN: dict[OpOverload, Callable[..., Any]] = {
    torch.ops.aten.view_copy.default: lambda x, size: x.reshape(size).clone()
}
LEFT_OUT = ("_to_copy", "copy", "copy_", "empty_like", "lift_fresh", "detach", "clone", "to.")
COMPUTING = ("PrivateUse1", "CompositeImplicitAutograd", "CompositeExplicitAutograd")  # keys of such kernels


def wanted(overload: OpOverload) -> bool:
    """Whether nothing computes an operator on the device; PyTorch's way from one form to another counts as nothing."""
    return name_of(overload) not in _taken and not any(has_kernel(overload, key) for key in COMPUTING)


def guarded(overload: OpOverload, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that refuses what PyTorch's own refuses: dtypes, asked once for each set of them, and arguments."""
    asked: set[Any] = set()

    def call(*args: Any, **kwargs: Any) -> Any:
        leaves = pytree.tree_leaves((args, kwargs))
        tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
        key = tuple(x.dtype if isinstance(x, torch.Tensor) else type(x) for x in leaves)
        if key not in asked or not all(x.numel() for x in tensors):
            error = refusals.of_signature(overload, args, kwargs)
            if error is not None:
                raise refusal(name_of(overload), error)
            asked.add(key)
        try:
            return kernel(*args, **kwargs)
        except refusals.REFUSALS:
            error = refusals.of_arguments(overload, args, kwargs)
            if error is None:
                raise
            raise refusal(name_of(overload), error) from None

    return call


def in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """The form of a function that writes its result over its first argument."""

    def kernel(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return _written(function(x, *args, **kwargs), x)

    return kernel


def _written(result: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    if not torch.can_cast(result.dtype, target.dtype):
        given, wanted = NAMES[result.dtype], NAMES[target.dtype]
        raise RuntimeError(f"hologram: result type {given} can't be cast to the desired output type {wanted}")
    return target.copy_(result)


def with_outputs(
    function: Callable[..., Any], names: list[str], overload: OpOverload, base: OpOverload
) -> Callable[..., Any]:
    """The form of a function that writes its results into arguments of those names."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        outputs = [kwargs[name] for name in names]
        results = function(*args, **{name: x for name, x in kwargs.items() if name not in names})
        results = results if len(names) > 1 else (results,)
        if [r.dtype for r in results] != [x.dtype for x in outputs]:
            error = refusals.of_outputs(overload, base, args, kwargs, names)
            if error is not None:
                raise refusal(name_of(overload), error)
        for output, result in zip(outputs, results, strict=True):
            if output.shape != result.shape:
                output.resize_(result.shape).as_strided_(result.shape, result.stride())
            _written(result, output)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    return kernel


def decompose(overload: OpOverload, function: Callable[..., Any]) -> None:
    """Registers PyTorch's decomposition of an operator, for its other forms too."""
    function = OWN.get(overload, function)
    kernels = [(overload, function)]
    for form, other in variants(overload):
        names = [a.name for a in other._schema.arguments if is_output(a)]
        written = with_outputs(function, names, other, overload)
        kernels.append((other, in_place(function) if form == "in_place" else written))
    for other, kernel in kernels:
        if wanted(other):
            _taken.add(name_of(other))
            register(name_of(other), guarded(other, kernel))


_taken = set(KERNELS)
for _overload, _function in DECOMPOSITIONS.items():
    if isinstance(_overload, OpOverload) and _overload.namespace == "aten":
        _arguments = _overload._schema.arguments
        if not any(map(is_output, _arguments)) and not name_of(_overload).startswith(LEFT_OUT):
            decompose(_overload, _function)
