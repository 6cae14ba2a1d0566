"""What an operation's declaration says of it in words: for help(), and for the table of operations in the documents."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from hologram.foundation.dtypes import ALL, COMPLEX, COMPUTED, f32
from hologram.foundation.dtypes import dtype as dtype_of
from hologram.foundation.errors import GradientError
from hologram.machine.layout import Layout
from hologram.opset.forms.gradient import rules_of
from hologram.opset.forms.operation import Inputs, Operation, Sample
from hologram.opset.forms.public import PublicText


def text(operation: Operation) -> str:
    """Its docstring: how it is called, what it is, and shapes of a call, dtypes, error and derivative."""
    sample = telling(operation)
    facts = {
        "Shapes of a call": shapes(operation, sample),
        "Dtypes": dtypes(operation),
        "Error in ULP": accuracy(operation),
        "Derivative": derivative(operation, sample),
    }
    lines = [f"{name}: {fact}" for name, fact in facts.items() if fact]
    call = f"{operation.name}{inspect.signature(operation)}"
    return "\n\n".join([call, inspect.getdoc(operation.function) or "", "\n".join(lines)])


def dtypes(operation: Operation) -> str:
    """What it is computed in."""
    known = {ALL: "all", COMPUTED: "all real with arithmetic", COMPUTED + COMPLEX: "all with arithmetic"}
    return known.get(operation.dtypes) or " ".join(d.name for d in operation.dtypes)


def accuracy(operation: Operation) -> str:
    """The bound of its error, in units in the last place."""
    words = "exact" if operation.ulp <= 0.5 and not operation.absolute else f"{operation.ulp:g}"
    if operation.looser:
        most = operation.ulp + sum(loss.ulp for loss in operation.looser)
        words += f", {most:g} where {' and '.join(loss.where for loss in operation.looser)}"
    words += f" + {operation.each:g} a factor" if operation.each else ""
    words += f" + {operation.absolute:g} eps" if operation.absolute else ""
    words += f" ({operation.beyond:g} eps beyond)" if operation.beyond else ""
    rounded = (operation.ulp or operation.parts_ulp != 8.0) and any(d.is_complex for d in operation.dtypes)
    return words + (f"; {max(operation.parts_ulp, operation.ulp):g} of complex numbers" if rounded else "")


def telling(operation: Operation) -> Sample:
    """The sample with the most sizes to tell apart; none of them is 0, where there is such a one."""
    dtype = f32 if f32 in operation.dtypes else operation.dtypes[0]

    def sizes(sample: Sample) -> tuple[bool, int]:
        lengths = [
            n
            for x in (*flat(sample.operands), *_results(operation, sample))
            for n in (x.shape if isinstance(x, Layout) else np.shape(x))
        ]
        return all(lengths), len(lengths)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # samples hold what overflows
        return max(operation.samples(np.random.default_rng(0), dtype), key=sizes)


def shapes(operation: Operation, sample: Sample) -> str:
    """The shapes of a call: operands → results."""
    given = [np.shape(x) for x in flat(sample.operands)]
    results = [x.shape for x in _results(operation, sample)]
    sides = (", ".join(str(shape).replace(" ", "") for shape in side) for side in (given, results))
    return " → ".join(sides).strip()


def derivative(operation: Operation, sample: Sample) -> str:
    """The operands that it has derivatives of; 0 and none stand beside those of which it is constant or has none."""
    if not operation.operands or not any(d.is_inexact for d in operation.dtypes):
        return ""
    if operation.composite:
        return "its parts'"
    inputs, attributes = _described(operation, sample)
    results = operation.infer(inputs, attributes)
    names = []
    for name, layout in zip(operation.operand_names(len(inputs)), inputs, strict=True):
        if isinstance(layout, Layout) and layout.dtype.is_inexact:
            try:
                has = rules_of(operation, inputs, results, attributes, (name,))
                names.append(name if has else f"{name}: 0")
            except GradientError:
                names.append(f"{name}: none")
    return ", ".join(names)


def flat(operands: Sequence[Any]) -> list[Any]:
    """All that are given, those of sequences one by one."""
    return [x for o in operands for x in (o if isinstance(o, (tuple, list)) else (o,)) if x is not None]


def _results(operation: Operation, sample: Sample) -> tuple[Layout, ...]:
    return operation.infer(*_described(operation, sample))


def _described(operation: Operation, sample: Sample) -> tuple[Inputs, dict[str, Any]]:
    """What it sees of a sample's operands, and all attributes."""
    operands, attributes = operation.bind(sample.operands, sample.attributes)
    several = any(isinstance(x, (tuple, list)) for x in operands) and not operation.composite
    return [_layout(x) for x in (flat(operands) if several else operands)], attributes


def _layout(given: Any) -> Any:
    if isinstance(given, (tuple, list)):
        return tuple(map(_layout, given))
    return Layout.contiguous(dtype_of(given.dtype), given.shape) if isinstance(given, np.ndarray) else given


PublicText.write = staticmethod(text)
