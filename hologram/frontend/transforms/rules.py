"""How operations see a batch: the axis ahead of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hologram.foundation.errors import HologramError
from hologram.foundation.frozen import frozen
from hologram.frontend import tensor as tensors
from hologram.frontend.tensor import Tensor
from hologram.machine.layout import Layout
from hologram.opset import indexing
from hologram.opset.forms.operation import Operation
from hologram.opset.padding import widths_of
from hologram.runtime.engine import Engine


@frozen(eq=False)
class Case:
    """An operation on operands, of which those that are flagged have a batch along their first axis."""

    engine: Engine
    operation: Operation
    operands: Sequence[Any]
    flags: Sequence[bool]
    attributes: Mapping[str, Any]
    size: int

    def repeated(self, k: int) -> Any:
        """An operand with the batch's axis in any case."""
        x = self.operands[k]
        if not isinstance(x, Tensor) or self.flags[k]:
            return x
        return x.unsqueeze(0).expand(self.size, *x.shape)

    def ndim(self, k: int) -> int:
        """Of an example of an operand."""
        x = self.operands[k]
        return x.ndim - self.flags[k] if isinstance(x, Tensor) else 0

    def shape(self, k: int) -> tuple[int, ...]:
        """Of an example of an operand."""
        return self.operands[k].shape[int(self.flags[k]) :]

    def widened(self, k: int, ndim: int) -> Any:
        """An operand that broadcasts with others of so many axes an example."""
        x = self.operands[k]
        if not isinstance(x, Tensor) or not self.flags[k] or x.ndim - 1 >= ndim:
            return x
        return x.reshape(self.size, *[1] * (ndim - x.ndim + 1), *x.shape[1:])

    def apply(self, operands: Sequence[Any], **changed: Any) -> Any:
        """The operation on others, with other attributes."""
        return tensors.apply(self.engine, self.operation, operands, {**self.attributes, **changed})


Applied = Callable[[Case], Any]


def applied(case: Case) -> Any:
    """The results with the batch ahead; None where it has to go over the examples."""
    operation = case.operation
    if operation.pointwise:
        return _pointwise(case)
    rule = RULES.get(operation.name)
    if rule is not None:
        return rule(case)
    return _along_axes(case)


def _pointwise(case: Case) -> Any:
    most = max(case.ndim(k) for k in range(len(case.operands)))
    return case.apply([case.widened(k, most) for k in range(len(case.operands))])


def _along_axes(case: Case) -> Any:
    """An operation that names the axes it goes along, which are one further on."""
    named = [n for n in ("axis", "dim") if n in case.attributes]
    if len(named) != 1:
        return None
    most = max(case.ndim(k) for k in range(len(case.operands)))
    if not most:
        return None
    given = case.attributes[named[0]]
    axis: Any = tuple(range(1, most + 1)) if given is None else _further(given, most)
    return _checked(case, [case.repeated(k) for k in range(len(case.operands))], {named[0]: axis})


def _further(axis: Any, ndim: int) -> Any:
    if isinstance(axis, (tuple, list)):
        return tuple(_further(a, ndim) for a in axis)
    return axis % ndim + 1 if ndim else axis


def _checked(case: Case, operands: Sequence[Any], changed: Mapping[str, Any]) -> Any:
    """The results, if they are what an example's are, with the batch ahead; else None."""
    own = [_example(case, k) for k in range(len(case.operands))]
    wanted = case.operation.infer(own, case.attributes)
    try:
        found = case.operation.infer(
            [x.layout if isinstance(x, Tensor) else x for x in operands], {**case.attributes, **changed}
        )
    except (HologramError, TypeError, IndexError):
        return None
    if [x.shape for x in found] != [(case.size, *x.shape) for x in wanted]:
        return None
    return case.apply(operands, **changed)


def _example(case: Case, k: int) -> Any:
    x = case.operands[k]
    return Layout.contiguous(x.dtype, case.shape(k)) if isinstance(x, Tensor) else x


def _broadcast_along(case: Case) -> Any:
    """An operation along axes of operands that are broadcast first."""
    most = max(case.ndim(k) for k in range(len(case.operands)))
    given = case.attributes["axis"]
    axis = tuple(range(1, most + 1)) if given is None else _further(given, most)
    return _checked(case, [case.widened(k, most) for k in range(len(case.operands))], {"axis": axis})


def _flat(case: Case) -> Any:
    """argmin and argmax of all elements give positions in the flat example."""
    if case.attributes["axis"] is not None:
        return _along_axes(case)
    x = case.operands[0]
    made = case.apply([x.reshape(case.size, math.prod(x.shape[1:]))], axis=1, keepdims=False)
    return made.reshape(case.size, *[1] * (x.ndim - 1)) if case.attributes["keepdims"] else made


def _matmul(case: Case) -> Any:
    a, b = case.operands
    vectors = case.ndim(0) == 1, case.ndim(1) == 1
    a = a.unsqueeze(-2) if vectors[0] else a
    b = b.unsqueeze(-1) if vectors[1] else b
    most = max(x.ndim - f for x, f in zip((a, b), case.flags, strict=True))
    wide = [
        x.reshape(case.size, *[1] * (most - x.ndim + 1), *x.shape[1:]) if f and x.ndim - 1 < most else x
        for x, f in zip((a, b), case.flags, strict=True)
    ]
    if case.flags == [True, False] and most == 2:  # one product of all rows
        rows = wide[0].shape[-2]
        made = case.apply([wide[0].reshape(case.size * rows, wide[0].shape[-1]), wide[1]])
        made = made.reshape(case.size, rows, made.shape[-1])
    else:
        made = case.apply(wide)
    made = made.squeeze(-2) if vectors[0] else made
    return made.squeeze(-1) if vectors[1] else made


def _index_select(case: Case) -> Any:
    x, index = case.operands
    axis = case.attributes["axis"] % case.ndim(0)
    if not case.flags[1]:
        return case.apply([x, index], axis=axis + 1)
    count = index.shape[1]
    if not case.flags[0]:
        made = case.apply([x, index.reshape(case.size * count)], axis=axis)
        made = made.reshape(*x.shape[:axis], case.size, count, *x.shape[axis + 1 :])
        return made.permute([axis, *(k for k in range(made.ndim) if k != axis)])
    shape = [case.size, *x.shape[1:]]
    shape[axis + 1] = count
    across = [case.size, *[1] * case.ndim(0)]
    across[axis + 1] = count
    return indexing.gather(x, index.reshape(*across).expand(*shape), dim=axis + 1)


def _embedding(case: Case) -> Any:
    index, weight = case.operands
    if not case.flags[1]:
        return case.apply([index, weight])
    index = case.repeated(0)
    width = weight.shape[-1]
    flat = index.reshape(case.size, math.prod(index.shape[1:]), 1)
    made = indexing.gather(weight, flat.expand(*flat.shape[:2], width), dim=1)
    return made.reshape(*index.shape, width)


def _concat(case: Case) -> Any:
    axis = case.attributes["axis"] % max(case.ndim(0), 1) + 1
    return case.apply([case.repeated(k) for k in range(len(case.operands))], axis=axis)


def _pad(case: Case) -> Any:
    widths = widths_of(case.ndim(0), case.attributes["padding"])
    return case.apply([case.repeated(0)], padding=((0, 0), *widths))


def _behind(case: Case) -> Any:
    """An operation along the last axes, whatever is ahead of them."""
    return _checked(case, [case.repeated(k) for k in range(len(case.operands))], {})


def _merged(case: Case) -> Any:
    """An operation on images (N, C, ...): those of all examples are more images."""
    if any(case.flags[1:]):
        return None
    x = case.operands[0]
    made = case.apply([x.reshape(case.size * x.shape[1], *x.shape[2:]), *case.operands[1:]])
    return made.reshape(case.size, x.shape[1], *made.shape[1:])


def _convolution(case: Case) -> Any:
    """Examples with weights of their own are groups of channels."""
    if not any(case.flags[1:]):
        return _merged(case)
    x, weight, bias = (case.repeated(k) for k in range(3))
    count, channels = x.shape[1:3]
    wide = x.permute([1, 0, *range(2, x.ndim)]).reshape(count, case.size * channels, *x.shape[3:])
    weights = weight.reshape(case.size * weight.shape[1], *weight.shape[2:])
    biases = None if bias is None else bias.reshape(math.prod(bias.shape))
    made = case.apply([wide, weights, biases], groups=case.attributes["groups"] * case.size)
    made = made.reshape(count, case.size, weight.shape[1], *made.shape[2:])
    return made.permute([1, 0, *range(2, made.ndim)])


def _with_tables(case: Case) -> Any:
    """An operation on its first operand alone, whose others are tables."""
    if any(case.flags[1:]):
        return None
    axis = case.attributes.get("axis")
    moved = {} if axis is None else {"axis": _further(axis, case.ndim(0))}
    return case.apply([case.repeated(0), *case.operands[1:]], **moved)


def _overwrite(case: Case) -> Any:
    """The part of every example, in all of them."""
    part, whole = case.attributes["part"], case.repeated(0)
    strides = (math.prod(whole.shape[1:]), *part.strides)
    over = Layout(part.dtype, (case.size, *part.shape), strides, part.offset)
    return case.apply([whole, case.repeated(1)], part=over)


RULES: Mapping[str, Applied] = {
    "matmul": _matmul,
    "index_select": _index_select,
    "embedding": _embedding,
    "concat": _concat,
    "dot_along": _broadcast_along,
    "argmin": _flat,
    "argmax": _flat,
    "overwrite": _overwrite,
    "pad": _pad,
    **dict.fromkeys(("tril", "triu"), _behind),
    **dict.fromkeys(("transform", "chirp_transform", "real_transform", "real_inverse"), _with_tables),
    **dict.fromkeys(("conv1d", "conv2d"), _convolution),
    **dict.fromkeys(("max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d"), _merged),
}
