"""Composites: operations written as sequences of others, which run as those do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from hologram.foundation.dtypes import dtype
from hologram.machine.layout import Layout
from hologram.machine.strided import Strided
from hologram.opset.forms.default import Default, filled
from hologram.opset.forms.expression import as_tuple
from hologram.opset.forms.further import FURTHER, further
from hologram.opset.forms.operation import ARRAYS, NUMBERS, Operation, declared
from hologram.opset.forms.types import promoted


class Shaped(Strided):
    """A tensor without elements: what operations give for it follows from its layout, and nothing runs."""

    __slots__ = ("layout",)

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def _view(self, layout: Layout) -> Shaped:
        return Shaped(layout)

    def _pairs(self) -> Shaped:
        return Shaped(self.layout.parts())

    def _joined(self) -> Shaped:
        return Shaped(Layout.contiguous(self.dtype.complex, self.shape[:-1]))

    def contiguous(self) -> Shaped:
        return Shaped(Layout.contiguous(self.dtype, self.shape))

    def clone(self) -> Shaped:
        return self.contiguous()

    def __apply__(self, operation: Operation, operands: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        inputs = [_layout(operand) for operand in operands]
        results = tuple(map(Shaped, operation.infer(inputs, attributes)))
        return results[0] if len(results) == 1 else results


def _layout(operand: Any) -> Any:
    """What is inferred from, of a tensor that is its shape or of an array beside it."""
    if isinstance(operand, (np.ndarray, np.generic)):
        return Layout.contiguous(dtype(operand.dtype), operand.shape)
    return operand.layout if isinstance(operand, Shaped) else operand


class Composite(Operation):
    """An operation written as a sequence of others; its operands are tensors, or sequences of some."""

    @property
    def composite(self) -> bool:
        return True

    @cached_property
    def sequences(self) -> frozenset[str]:
        """Operands that are several tensors, because their declaration says `Sequence[Any]`."""
        parameters = self.signature.parameters
        return frozenset(n for n in self.operands if parameters[n].annotation == "Sequence[Any]")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) > self.by_place:
            args, kwargs = self.by_name(args, kwargs)
        if kwargs and not FURTHER.isdisjoint(kwargs.keys() - self._own):
            return further(self, args, kwargs)
        operands, attributes = self.bind(args, kwargs)
        for name, operand in zip(self.operands, operands, strict=True):
            if name in self.sequences and (not isinstance(operand, (tuple, list)) or not operand):
                raise TypeError(f"{self.name}: a sequence of at least one Tensor is needed, got {operand!r}")
        known = next((o for o in _each(operands) if hasattr(o, "__apply__")), None)
        if known is None and not any(isinstance(o, (*NUMBERS, *ARRAYS)) for o in operands):
            kinds = ", ".join(type(o).__name__ for o in operands)
            raise TypeError(f"{self.name}: at least one operand must be a Tensor, got {kinds}")
        made = (self._tensor(known, n, o) for n, o in zip(self.operands, operands, strict=True))
        return self.function(*made, **attributes)

    def _tensor(self, known: Any, name: str, operand: Any) -> Any:
        """The operand as a tensor, made beside a known one (or by default) where it is numbers."""
        if isinstance(operand, (tuple, list)) and name in self.sequences:
            return tuple(self._tensor(known, f"{name}[{k}]", o) for k, o in enumerate(operand))
        if hasattr(operand, "__apply__") or (operand is None and name in self.optional):
            return operand
        numbers: bool = isinstance(operand, (*NUMBERS, *ARRAYS))
        if not numbers or any(hasattr(o, "__apply__") for o in _each((operand,))):
            raise TypeError(f"{self.name}: {name} must be a Tensor or numbers, got {type(operand).__name__}")
        executor = Default.executor(None) if known is None else known.executor
        if isinstance(operand, ARRAYS):
            return executor.tensor(operand)
        return filled(executor, operand)

    def infer(self, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> tuple[Layout, ...]:
        results = as_tuple(self.function(*map(_shaped, inputs), **attributes))
        return tuple(Layout.contiguous(x.dtype, x.shape) for x in results)


def _each(operands: Sequence[Any]) -> Iterator[Any]:
    for operand in operands:
        yield from operand if isinstance(operand, (tuple, list)) else (operand,)


def _shaped(given: Any) -> Any:
    """What stands for an input, or for several: a number is a tensor without axes."""
    if isinstance(given, (tuple, list)):
        return tuple(map(_shaped, given))
    if isinstance(given, (bool, int, float, complex)):
        given = Layout.contiguous(promoted([given]), ())
    return given if given is None else Shaped(given)


def composite(
    form: type[Composite] = Composite, /, **facts: Any
) -> Callable[[Callable[..., Any]], Operation]:
    """Declares an operation as a Python function of other operations."""
    return declared(form, **facts)
