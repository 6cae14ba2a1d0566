"""The table of operations, in Markdown: what docs/operations.md holds, made from the declarations."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hologram import opset
from hologram.dtypes import dtype as dtype_of
from hologram.dtypes import f32
from hologram.errors import GradientError
from hologram.layout import Layout
from hologram.opset import OPERATIONS
from hologram.opset.forms.composite import Composite
from hologram.opset.forms.gradient import rules_of
from hologram.opset.forms.operation import Operation, Sample

HEAD = """# Operations

Made from the declarations in `hologram/opset` by `python docs/operations.py > docs/operations.md`; a test holds it to
them. Every operation is a function of tensors (`hg.softmax(x, dim=-1)`), most are methods (`x.softmax(dim=-1)`), and
each is an out-parameter function under its own name and those given (`hg.ops.softmax(ex, x, out, dim=-1)`). Without a
tensor to start from they take an executor first (`hg.random_uniform(ex, (4,), seed=1)`), or run on the default one.

ULP bounds the error of float results in units in the last place of the result's dtype. Devices differ: WebGPU promises
neither exact division nor a fused multiply-add, a CPU has both (`hologram info --json`). "+ n eps" adds n epsilons of
the dtype times the largest operand times the number of elements behind a result (2048 at most). Exact means correctly
rounded, or integers. `tests/test_ops.py` holds every backend to it.

Shapes are those of a call that the tests make, operands → result. Derivatives are those with respect to the operands
named, "its parts'" where an operation is composed of others, 0 where it is constant between jumps; "none" raises
GradientError ([gradients](gradients.md)). The last column names the declaration's file below `hologram/opset`, whose
comments name the source of a formula or an algorithm.

| operation, its other out-parameter names | | shapes | dtypes | error, ULP | derivative | declared in |
|---|---|---|---|---|---|---|
"""


def _accuracy(operation: Operation) -> str:
    text = "exact" if operation.ulp <= 0.5 and not operation.absolute else f"{operation.ulp:g}"
    if operation.looser:
        most = operation.ulp + sum(loss.ulp for loss in operation.looser)
        text += f", {most:g} where {' and '.join(loss.where for loss in operation.looser)}"
    return text + (f" + {operation.absolute:g} eps" if operation.absolute else "")


def _signature(operation: Operation) -> str:
    parts = [f"{name}=None" if name in operation.optional else name for name in operation.operands]
    parts = parts or ["executor"]
    for name, default in operation.attributes.items():
        parts.append(name if default is inspect.Parameter.empty else f"{name}={default!r}")
    return f"{operation.name}({', '.join(parts)})"


def _called(operation: Operation) -> tuple[Sample, tuple[Any, ...]]:
    """The sample with the most sizes to tell apart, and its results: none of them empty, where there is such a one."""
    dtype = f32 if f32 in operation.dtypes else operation.dtypes[0]
    calls = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # samples hold what has no result
        for sample in operation.samples(np.random.default_rng(0), dtype):
            found = operation.reference(*sample.operands, **sample.attributes)
            calls.append((sample, found if isinstance(found, tuple) else (found,)))

    def told(call: tuple[Sample, tuple[Any, ...]]) -> tuple[bool, int]:
        sizes = [n for x in _flat((*call[0].operands, *call[1])) for n in np.shape(x)]
        return all(sizes), len(sizes)

    return max(calls, key=told)


def _flat(operands: Sequence[Any]) -> list[Any]:
    return [x for o in operands for x in (o if isinstance(o, (tuple, list)) else (o,)) if x is not None]


def _shapes(sample: Sample, results: Sequence[Any]) -> str:
    given, found = (
        ", ".join(str(np.shape(x)).replace(" ", "") for x in _flat(side))
        for side in (sample.operands, results)
    )
    return f"{given} → {found}".strip()


def _derivative(operation: Operation, sample: Sample) -> str:
    if not operation.operands or not any(d.is_float for d in operation.dtypes):
        return ""
    if isinstance(operation, Composite):
        return "its parts'"
    several = any(isinstance(x, (tuple, list)) for x in sample.operands)
    given = _flat(sample.operands) if several else sample.operands
    inputs = [
        Layout.contiguous(dtype_of(x.dtype), x.shape) if isinstance(x, np.ndarray) else x for x in given
    ]
    attributes = {**operation.attributes, **sample.attributes}
    results = operation.infer(inputs, attributes)
    found = []
    for name, layout in zip(operation.operand_names(len(inputs)), inputs, strict=True):
        if isinstance(layout, Layout) and layout.dtype.is_float:
            try:
                has = rules_of(operation, inputs, results, attributes, (name,))
                found.append(name if has else f"{name}: 0")
            except GradientError:
                found.append(f"{name}: none")
    return ", ".join(found)


def table() -> str:
    """The whole document."""
    rows = []
    for operation in sorted(OPERATIONS.values(), key=lambda o: o.name):
        summary = (
            (inspect.getdoc(operation.function) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        )
        names = "".join(f", `{n}`" for n in operation.out_names)
        sample, results = _called(operation)
        folder = Path(opset.__file__).parent
        declared = Path(inspect.getfile(operation.function)).relative_to(folder).as_posix()
        kinds = " ".join(d.name for d in operation.dtypes)
        dtypes = "all" if len(operation.dtypes) == 13 else kinds
        rows.append(
            f"| `{_signature(operation)}`{names} | {summary} | {_shapes(sample, results)} | {dtypes} "
            f"| {_accuracy(operation)} | {_derivative(operation, sample)} | {declared} |"
        )
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(table(), end="")
