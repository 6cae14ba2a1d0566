"""ATen's operators on lists of tensors, which optimisers are written in.

Lists of floats of one shape each are computed together; whatever else they hold, PyTorch's own loop calls the operator
on one tensor at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

import hologram as hg
from hologram.frontend.tensor import Tensor
from hologram_torch.kernels.fused import Fused, in_torch
from hologram_torch.kernels.lists import Updates, alike, apart, is_device_scalar, numbers, wide
from hologram_torch.kernels.operators import LOOP, known, operator
from hologram_torch.kernels.registry import register
from hologram_torch.kernels.strides import iterated, outermost_first
from hologram_torch.redispatch import redispatched
from hologram_torch.tensors.memory import hologram_tensor, torch_tensor

Combine = Callable[..., Tensor]

# By the operators' names. What follows the tensors of a list is a tensor of each other list, or a number.
BINARY: dict[str, Combine] = {
    "add": hg.add,
    "sub": hg.subtract,
    "mul": hg.multiply,
    "div": hg.divide,
    "pow": hg.pow,
    "clamp_max": hg.minimum,
    "clamp_min": hg.maximum,
    "maximum": hg.maximum,
    "minimum": hg.minimum,
}
TERNARY: dict[str, Combine] = {
    "addcmul": lambda x, a, b, value: x + value * a * b,
    "addcdiv": lambda x, a, b, value: x + value * (a / b),
}
UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round "
    "rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
)


def _lerp(x: Tensor, y: Tensor, weight: Any) -> Tensor:
    return x + weight * (y - x)


def _scaled(x: Tensor, y: Tensor, alpha: Any) -> Tensor:
    return x + alpha * y


def _each(combine: Combine) -> Callable[..., list[list[Tensor]]]:
    """A function of lists of tensors, and of a number for each or for all, that combines what stands at each place."""

    def whole(
        written: list[list[Tensor]], others: list[list[Tensor]], shared: Any = None
    ) -> list[list[Tensor]]:
        results = []
        for k, x in enumerate(written[0]):
            operands = [wide(x), *(wide(each[k]) for each in others)]
            if shared is not None:
                operands.append(
                    shared[k] if isinstance(shared, list) and len(shared) > 1 else _single(shared)
                )
            results.append(combine(*operands).astype(x.dtype, copy=False))
        return [results]

    whole.__name__ = f"foreach_{getattr(combine, '__name__', 'combined')}"
    return whole


def _single(shared: Any) -> Any:
    return shared[0] if isinstance(shared, list) else shared


class OnLists:
    """The two forms of an operator: over its first list, and with new results."""

    def __init__(self, combine: Combine) -> None:
        function = _each(combine)
        self.over = Updates(function)
        self.new = hg.jit(function)

    def register(self, name: str, overload: str, taken: Callable[..., Any]) -> None:
        """Registers both; `taken` gives the lists and what follows them, or None for PyTorch's loop."""
        for form in (name, f"{name}_"):
            full = f"_foreach_{form}{overload}"
            found = known(full)
            if found is not None:
                register(full, self._kernel(found, taken, form != name))

    def _kernel(self, overload: Any, taken: Callable[..., Any], in_place: bool) -> Callable[..., Any]:
        loop = redispatched(overload)

        def kernel(*args: Any, **kwargs: Any) -> Any:
            given = taken(*args, **kwargs)
            if given is None or not alike(given[0]):
                return loop(LOOP, *args, **kwargs)
            lists = [list(each) for each in given[0]]
            if in_place:
                if not apart(lists[:1], lists[1:]):  # PyTorch's loop sees what it has written
                    return loop(LOOP, *args, **kwargs)
                return self.over(lists[:1], lists[1:], *given[1:])
            taken_lists = [[hologram_tensor(x) for x in each] for each in lists]
            shared = [hologram_tensor(x) if isinstance(x, torch.Tensor) else x for x in given[1:]]
            return [torch_tensor(x) for x in self._laid_out(taken_lists, shared)]

        return kernel

    def _laid_out(self, lists: list[list[Tensor]], shared: Sequence[Any]) -> list[Tensor]:
        """New results, whose axes lie in memory in the order that their operands give."""
        if all(x.layout.is_contiguous for each in lists for x in each):
            return self.new(lists[:1], lists[1:], *shared)[0]
        orders = []
        for place in zip(*lists, strict=True):
            shape = place[0].shape
            orders.append(outermost_first(shape, iterated(shape, [x.strides for x in place])))
        turned = [[x.permute(order) for x, order in zip(each, orders, strict=True)] for each in lists]
        results = self.new(turned[:1], turned[1:], *shared)[0]
        return [
            x.permute([order.index(k) for k in range(x.ndim)])
            for x, order in zip(results, orders, strict=True)
        ]


def _lists(count: int) -> Callable[..., Any]:
    return lambda *lists: (lists[:count],)


def _with_number(count: int) -> Callable[..., Any]:
    """Lists, then a number for all of them or one for each."""

    def taken(*args: Any, **kwargs: Any) -> Any:
        rest = (*args[count:], *kwargs.values())
        given = rest[0] if rest else 1
        scalars = numbers(given if isinstance(given, (list, tuple)) else [given])
        return None if scalars is None else (args[:count], scalars)

    return taken


def _with_scalar(self: Any, other: torch.Tensor, *, alpha: Any = 1) -> Any:
    """A list, then a tensor without axes."""
    if alpha != 1 or not is_device_scalar(other) or not self or self[0].device != other.device:
        return None
    return (self,), other


def _with_alpha(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    scalars = numbers([alpha])
    return None if scalars is None else ((self, other), scalars)


for _name, _combine in BINARY.items():
    _on_lists = OnLists(_combine)
    for _overload in (".Scalar", ".ScalarList"):
        _on_lists.register(_name, _overload, _with_number(1))
    if _name in ("mul", "div"):
        _on_lists.register(_name, ".Tensor", _with_scalar)
    if _name not in ("add", "sub"):
        _on_lists.register(_name, ".List", _lists(2))
OnLists(_scaled).register("add", ".List", _with_alpha)
OnLists(lambda x, y, alpha: x - alpha * y).register("sub", ".List", _with_alpha)
for _name, _combine in TERNARY.items():
    _on_lists = OnLists(_combine)
    for _overload in (".Scalar", ".ScalarList"):
        _on_lists.register(_name, _overload, _with_number(3))
_on_lists = OnLists(_lerp)
_on_lists.register("lerp", ".List", _lists(3))
for _overload in (".Scalar", ".ScalarList"):
    _on_lists.register("lerp", _overload, _with_number(2))
for _name in filter(known, UNARY.split()):
    OnLists(in_torch(operator(_name))).register(_name, "", _lists(1))


# Norms, of which clipping gradients asks.


def _norms(lists: list[Tensor], order: Any, dtype: Any) -> list[Tensor]:
    norm = in_torch(torch.ops.aten.linalg_vector_norm)
    return [norm(x, order, dtype=dtype) for x in lists]


_norms_together = Fused(_norms)


def _foreach_norm(
    tensors: Sequence[torch.Tensor], ord: Any = 2, dtype: torch.dtype | None = None
) -> list[torch.Tensor]:
    if not alike([tensors]):
        return redispatched(operator("_foreach_norm.Scalar"))(LOOP, tensors, ord, dtype)
    return [torch_tensor(x) for x in _norms_together([hologram_tensor(x) for x in tensors], ord, dtype)]


register("_foreach_norm.Scalar", _foreach_norm)
