"""Complex numbers: views of their parts, conjugates, and what ATen calls otherwise than the declarations.

The bits by which PyTorch conjugates and negates lazily are resolved before a kernel sees a tensor: by PyTorch's own
fallbacks, which call what is here, and where those let an operator through, because the CPU's kernels look at the bits,
by `_resolving`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._C import DispatchKey
from torch.utils import _pytree as pytree

import hologram as hg
from hologram.runtime.dispatch import deferred
from hologram_torch.kernels.operators import known, operator
from hologram_torch.kernels.registry import override, register
from hologram_torch.redispatch import redispatched
from hologram_torch.tensors.memory import HOST_KEYS, hologram_tensor, is_ours, torch_tensor


def _view(name: str, traced: Any) -> None:
    """Registers a view as other elements, which PyTorch's kernel makes: it looks at sizes, strides and storage only.

    A trace knows values, not bytes: there it is a copy.
    """
    if known(name) is None:
        return
    run = redispatched(operator(name))

    def kernel(x: torch.Tensor) -> torch.Tensor:
        return torch_tensor(traced(hologram_tensor(x))) if deferred() else run(HOST_KEYS, x)

    register(name, kernel)


_view("view_as_real", hg.view_as_real)
_view("view_as_complex", hg.view_as_complex)


def _conjugated(x: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    if out.dtype != x.dtype:
        raise RuntimeError(f"hologram, conj_physical: Found dtype {out.dtype} but expected {x.dtype}")
    if out.shape != x.shape:
        out.resize_(x.shape).as_strided_(x.shape, torch.empty_like(x, device="meta").stride())
    return out.copy_(torch.ops.aten._conj_physical(x))


register("conj_physical.out", _conjugated)
register("conj_physical_", lambda x: x.copy_(torch.ops.aten._conj_physical(x)))


SUBSTITUTIONS = ("linalg_solve_triangular", "linalg_solve_triangular.out")
# What PyTorch hands on with bits set.
LET_THROUGH = {
    DispatchKey.Conjugate: (
        *(
            "mm",
            "mm.out",
            "bmm",
            "bmm.out",
            "addmm",
            "addmm_",
            "addmm.out",
            "baddbmm",
            "baddbmm_",
            "baddbmm.out",
        ),
        *("dot", "dot.out", "vdot", "vdot.out", "clone", "_conj_physical"),
        *SUBSTITUTIONS,
    ),
    DispatchKey.Negative: ("clone", *SUBSTITUTIONS),
}


def _resolved(x: Any) -> Any:
    """A tensor of the device without bits, its elements as these say."""
    if not is_ours(x):
        return x
    if x.is_conj():
        x = torch.ops.aten._conj_physical(x.conj())
    return torch.neg(torch.ops.aten._neg_view(x)) if x.is_neg() else x


def _resolving(name: str, key: DispatchKey) -> Callable[..., Any]:
    """An operator for tensors with a bit set: ours are resolved before, others go to whom they went."""
    overload = operator(name)
    written = {k for k, a in enumerate(overload._schema.arguments) if a.alias_info and a.alias_info.is_write}
    named = {a.name for a in overload._schema.arguments if a.alias_info and a.alias_info.is_write}

    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        if not any(map(is_ours, pytree.tree_leaves((args, kwargs)))):
            # Where PyTorch traces, a dispatcher in Python stands before all keys, which would come here again.
            below = keys.remove(key).remove(DispatchKey.PythonDispatcher)
            return overload.redispatch(below, *args, **kwargs)
        plain = [_resolved(x) for x in args]
        rest = {n: _resolved(x) for n, x in kwargs.items()}
        result = overload(*plain, **rest)
        targets = [(args[k], plain[k]) for k in written if k < len(args)]
        targets += [(kwargs[n], rest[n]) for n in named & kwargs.keys()]
        for target, computed in targets:
            if target is not computed:
                target.copy_(computed)
            result = target
        return result

    return kernel


for _key, _names in LET_THROUGH.items():
    for _name in filter(known, _names):
        override(_name, _resolving(_name, _key), _key.name)
