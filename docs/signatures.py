"""The operations' signatures for checkers and editors, as functions and as methods, made from the declarations."""

from __future__ import annotations

import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import hologram as hg
from hologram.foundation.dtypes import f32
from hologram.frontend.numpy_names.aliases import ALIASES
from hologram.frontend.packed import TAKEN
from hologram.frontend.tensor import _OWN
from hologram.opset import OPERATIONS
from hologram.opset.forms.composite import Composite
from hologram.opset.forms.further import meant
from hologram.opset.forms.operation import Operation
from hologram.opset.forms.places import ALSO
from hologram.opset.forms.public import known

FOLDER = Path(hg.__file__).parent / "frontend"
HEAD = """# Made from the declarations in `hologram/opset` by `python docs/signatures.py`, as a test tells.
# `hologram` and `Tensor` find operations by name when they are asked for them.
from collections.abc import Sequence
from typing import Any, TypeAlias

from numpy.typing import ArrayLike

from hologram.foundation.dtypes import DType
{imports}
{operand}Axes: TypeAlias = int | Sequence[int] | None
Ints: TypeAlias = int | Sequence[int]
AnyDType: TypeAlias = DType | str | type | None
"""
BY_NAME = {
    "padding": "Ints | Sequence[Sequence[int]]",
    **dict.fromkeys(("axis", "dim"), "Axes"),
    "axes": "Any",
    "shift": "Any",
    **dict.fromkeys(("dtype",), "AnyDType"),
    **dict.fromkeys(("dilation", "stride", "output_padding", "kernel_size", "shape"), "Ints"),
    **dict.fromkeys(("repetitions", "source", "destination", "normalized_shape"), "Ints"),
    **dict.fromkeys(("k", "m", "n", "n_rows", "num"), "int"),
    **dict.fromkeys(("low", "high", "value", "start", "stop"), "float"),
    **dict.fromkeys(("subscripts", "reduce"), "str"),
}


def _parameter(name: str, default: Any) -> str:
    """An attribute with its type: by its name, or else by its default."""
    kind = BY_NAME.get(name) or (
        type(default).__name__ if type(default) in (bool, int, float, str) else "Any"
    )
    if default is None and kind in ("Ints", "float"):
        kind += " | None"
    return f"{name}: {kind}" + ("" if default is inspect.Parameter.empty else " = ...")


def _operand(operation: Operation, name: str) -> str:
    several = operation.operands == ("tensors",)
    kind = "Sequence[Operand]" if several else "Operand"
    if operation in TAKEN and name == operation.operands[1]:
        kind = "Operand | Packed"
    return f"{name}: {kind}" + (" | None = ..." if name in operation.optional else "")


def _result(operation: Operation, executor: hg.Executor) -> str:
    """A tensor, or so many; what is made of other operations shows it by a sample."""
    if not isinstance(operation, Composite):
        return "Tensor" if operation.results == 1 else f"tuple[{', '.join(['Tensor'] * operation.results)}]"
    dtype = f32 if f32 in operation.dtypes else operation.dtypes[0]
    sample = next(iter(operation.samples(np.random.default_rng(0), dtype)))

    def tensor(x: Any) -> Any:
        return executor.tensor(x) if isinstance(x, np.ndarray) else x

    operands = [
        [tensor(y) for y in x] if isinstance(x, (list, tuple)) else tensor(x) for x in sample.operands
    ]
    found = (
        operation(*operands, **sample.attributes) if operands else operation(executor, **sample.attributes)
    )
    if isinstance(found, list):
        return "list[Tensor]"
    return f"tuple[{', '.join(['Tensor'] * len(found))}]" if isinstance(found, tuple) else "Tensor"


def _lines(operation: Operation, result: str) -> tuple[str, str]:
    """As a function, and as a method of its first operand."""
    also = {alias: operation.attributes[n] for alias, n in ALSO.items() if n in operation.attributes}
    attributes = [_parameter(n, d) for n, d in (*operation.attributes.items(), *also.items())]
    required = [p for p in attributes if not p.endswith(" = ...")]
    attributes = [*required, *(p for p in attributes if p not in required)]
    further = ("where",) if operation.pointwise else ()
    further = further if operation.further is None else meant(operation.further)
    asked = [f"{n}: Any = ..." for n in (*further, "out") if n not in operation.signature.parameters]
    if not operation.operands:  # an executor, or what must be given, in places
        given = [
            "*given: Any",
            "device: Any = ...",
            *(p.removesuffix(" = ...") + " = ..." for p in attributes),
        ]
        return f"def {operation.name}({', '.join(given)}) -> {result}: ...", ""
    own = type(operation).bind is not Operation.bind or type(operation).by_name is not Operation.by_name
    if own and operation.attributes:  # it sorts its arguments itself
        given = "*given: Any, **attributes: Any"
        method = f"    def {operation.name}(self, {given}) -> {result}: ..." if operation.methods else ""
        return f"def {operation.name}({given}) -> {result}: ...", method
    operands = [_operand(operation, n) for n in operation.operands]
    # So that `f(*operands)` of a list is accepted; and nothing that is required may follow what is not.
    if attributes and (len(operands) > 2 or (required and any(p.endswith(" = ...") for p in operands))):
        attributes = ["*", *attributes, *asked]
    else:
        named = {p.partition(":")[0]: p for p in [*attributes, *asked]}
        places = [ALSO.get(n, n) for n in known(operation.argument_order, {*named, *operation.operands})]
        by_place = [named.pop(n) for n in places if n in named]
        attributes = [*by_place, *(["*"] if named else []), *named.values()]
    call = f"def {operation.name}({', '.join([*operands, *attributes])}) -> {result}: ..."
    method = f"    def {operation.name}({', '.join(['self', *operands[1:], *attributes])}) -> {result}: ..."
    return call, method if operation.methods else ""


@cache
def _all() -> tuple[list[str], list[str]]:
    """Of every operation, as a function and as a method."""
    with hg.Executor("cpu") as executor:
        operations = sorted(OPERATIONS.values(), key=lambda o: o.name)
        lines = [_lines(operation, _result(operation, executor)) for operation in operations]
    return [function for function, _ in lines], [method for _, method in lines if method]


def functions() -> str:
    """The file signatures.pyi."""
    head = HEAD.format(
        imports="from hologram.frontend.packed import Packed\nfrom hologram.frontend.tensor import Tensor\n",
        operand="Operand: TypeAlias = Tensor | ArrayLike\n",
    )
    others = [f"{alias} = {name}" for alias, name in ALIASES.items()]
    return "\n".join([head, *_all()[0], *others]) + "\n"


def methods() -> str:
    """The file methods.pyi, which stands below Tensor and does not name it."""
    head = HEAD.format(imports="from typing_extensions import Self\n", operand="")
    own = {method.split("(")[0].split()[-1]: method for method in _all()[1]}
    words = {"Tensor": "Self", "Operand": "Self | ArrayLike", "Packed": "Any"}
    kept = [
        re.sub("Tensor|Operand|Packed", lambda m: words[m[0]], method)
        for name, method in own.items()
        if name not in _OWN
    ]
    return "\n".join([head, "class Methods:", *kept]) + "\n"


if __name__ == "__main__":
    (FOLDER / "signatures.pyi").write_text(functions())
    (FOLDER / "methods.pyi").write_text(methods())
