"""Kernels that follow from the operations' declarations: their `aten` names, and PyTorch's schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from hologram.opset import OPERATIONS
from hologram.opset.forms import types
from hologram.opset.forms.map import Elementwise
from hologram.opset.forms.operation import ATEN_WORDS, Operation
from hologram.opset.forms.row import Row
from hologram_torch.aten.neural.losses import REDUCTIONS
from hologram_torch.kernels.kernel import Promotes, counts
from hologram_torch.kernels.operators import has_kernel, known
from hologram_torch.kernels.promotion import Promotion
from hologram_torch.kernels.registry import KERNELS, LACKING, add
from hologram_torch.tensors.dtypes import dtype_of

Bind = Callable[..., tuple[Operation, Sequence[Any], Mapping[str, Any]]]  # an operation, operands, attributes
PROMOTIONS: dict[Any, Promotes] = {  # by the declaration's rule
    types.same: Promotes(Promotion.DEFAULT),
    types.number: Promotes(Promotion.DEFAULT),
    types.integer: Promotes(Promotion.DEFAULT),
    types.magnitude: Promotes(Promotion.DEFAULT),
    types.angular: Promotes(Promotion.INT_TO_FLOAT),
    types.floating: Promotes(Promotion.INT_TO_FLOAT),
    types.comparison: Promotes(Promotion.ALWAYS_BOOL),
    types.choice: Promotes(Promotion.DEFAULT, first=1),
}


def composed(overload: OpOverload) -> bool:
    """Whether PyTorch takes the operator apart itself, gradients included, or it gives views."""
    views = any(r.alias_info is not None for r in overload._schema.returns)
    return views or has_kernel(overload, "CompositeImplicitAutograd")


def binding(operation: Operation, overload: OpOverload) -> Bind:
    """What an operator's arguments are to an operation: its operands, in order, and all of its attributes."""
    schema = overload._schema
    names = {a.name for a in schema.arguments}
    words = {n: [w for w in (n, *ATEN_WORDS.get(n, ())) if w in names][:1] for n in operation.attributes}
    attribute_of = {matches[0]: n for n, matches in words.items() if matches}
    free = [a.name for a in schema.arguments if a.name not in attribute_of]
    operands, left = free[: len(operation.operands)], free[len(operation.operands) :]
    positions = {a.name: k for k, a in enumerate(schema.arguments)}
    defaults = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
    defaults = dict.fromkeys(names) | defaults
    along = next(
        (n for n in ("axis", "axes") if n in attribute_of.values() and isinstance(operation, Row)), None
    )
    settings = {own: _setting(operation, name) for name, own in attribute_of.items()}

    def bind(*args: Any, **kwargs: Any) -> tuple[Operation, list[Any], dict[str, Any]]:
        given = defaults | dict(zip(positions, args, strict=False)) | kwargs
        for name in left:
            if name != "dtype" and given[name] != defaults[name] and given[name] not in (None, False, 1):
                raise NotImplementedError(f"{name}={given[name]!r} is not supported")
        attributes = operation.attributes | {
            own: settings[own](given[name]) for name, own in attribute_of.items()
        }
        if along is not None and not getattr(given[operands[0]], "ndim", 1):
            attributes[along] = None  # PyTorch lets a tensor without axes have axis 0
        values = [given[name] for name in operands]
        asked = given["dtype"] if "dtype" in left else None
        return operation, values if asked is None else [_in(x, asked) for x in values], attributes

    return bind


def _in(x: Any, dtype: Any) -> Any:
    """A tensor, PyTorch's or ours, in the dtype that an operation without a choice of one is asked to compute in."""
    return x.to(dtype) if isinstance(x, torch.Tensor) else x.astype(dtype, copy=False)


def computed(bind: Bind) -> Callable[..., Any]:
    """A function of the operator's arguments, given as hologram's tensors, that calls the operation."""

    def compute(*args: Any, **kwargs: Any) -> Any:
        operation, operands, attributes = bind(*args, **kwargs)
        return operation(*operands, **attributes)

    return compute


def _setting(operation: Operation, name: str) -> Callable[[Any], Any]:
    """How an argument of ATen's is written as an attribute."""
    if name == "reduction":
        return lambda number: REDUCTIONS[number]
    if name in ("dim", "dims"):  # no axis named is all of them
        return lambda axes: (tuple(axes) or None) if isinstance(axes, list) else axes
    if name == "dtype":
        return lambda value: dtype_of(value) if isinstance(value, torch.dtype) else value
    return lambda value: tuple(value) if isinstance(value, list) else value


for _operation in OPERATIONS.values():
    for _name in _operation.aten:
        _overload = known(_name)
        if _overload is None:
            LACKING.append(_name)
        elif _name not in KERNELS and not composed(_overload):
            _rule: Any = getattr(_operation, "types", None)
            _promotes = PROMOTIONS.get(_rule)
            _short = _promotes is not None and not _operation.attributes and len(_operation.operands) < 3
            _bind = binding(_operation, _overload)
            _by_class = isinstance(_operation, (Elementwise, Row)) and not counts(_overload)
            add(
                _name,
                computed(_bind),
                _promotes,
                operation=_operation if _short else None,
                by_class=_by_class,
            )
