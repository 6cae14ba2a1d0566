"""The arguments of a call as one writes them on the command line: `f32[1024,1024], [f32[8], f32], axis=-1`.

It is Python's own syntax: a dtype with sizes is a tensor, a dtype alone a tensor without axes; numbers, strings, True,
False and None are themselves; lists, tuples and dicts may hold any of them.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

import typer

from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import UnsupportedDType
from hologram.foundation.frozen import frozen


@frozen
class TensorArgument:
    """A tensor of that dtype and shape."""

    dtype: DType
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@frozen
class Arguments:
    """Positional and named arguments, trees with a TensorArgument for every tensor."""

    positional: tuple[Any, ...]
    named: dict[str, Any]

    def filled(self, make: Callable[[TensorArgument], Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with what `make` gives for each tensor."""
        return tuple(_filled(a, make) for a in self.positional), {
            name: _filled(a, make) for name, a in self.named.items()
        }


def parse_arguments(text: str) -> Arguments:
    """Reads them; raises typer.BadParameter with the part that is not understood."""
    wrong = f"arguments must read like those of a call, got {text!r}"
    try:
        call = ast.parse(f"f({text})", mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise typer.BadParameter(f"{wrong}: {error}") from error
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise typer.BadParameter(wrong)
    if any(k.arg is None for k in call.keywords):
        raise typer.BadParameter(wrong)
    return Arguments(tuple(map(_value, call.args)), {str(k.arg): _value(k.value) for k in call.keywords})


def _value(node: ast.expr) -> Any:
    if isinstance(node, (ast.Subscript, ast.Name)):
        return _tensor(node)
    if isinstance(node, ast.List):
        return [_value(e) for e in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_value(e) for e in node.elts)
    try:
        if isinstance(node, ast.Dict):
            return {ast.literal_eval(k): _value(v) for k, v in zip(node.keys, node.values, strict=True) if k}
        return ast.literal_eval(node)
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(
            f"an argument must be a tensor like f32[8,8], a number, a string, a list, a tuple or a dict of them, "
            f"got {ast.unparse(node)}"
        ) from error


def _tensor(node: ast.Subscript | ast.Name) -> TensorArgument:
    name, shape = (node, ()) if isinstance(node, ast.Name) else (node.value, _shape(node.slice))
    written = ast.unparse(name)
    try:
        return TensorArgument(dtypes.dtype(written), shape)
    except UnsupportedDType as error:
        raise typer.BadParameter(
            f"a tensor is written dtype[sizes], got {ast.unparse(node)}: {error}"
        ) from error


def _shape(node: ast.expr) -> tuple[int, ...]:
    written = node.elts if isinstance(node, ast.Tuple) else [node]
    sizes = [n.value for n in written if isinstance(n, ast.Constant) and type(n.value) is int]
    if len(sizes) != len(written):
        raise typer.BadParameter(f"the sizes of a tensor must be whole numbers, got {ast.unparse(node)}")
    return tuple(sizes)


def _filled(tree: Any, make: Callable[[TensorArgument], Any]) -> Any:
    if isinstance(tree, TensorArgument):
        return make(tree)
    if isinstance(tree, (list, tuple)):
        return type(tree)(_filled(branch, make) for branch in tree)
    if isinstance(tree, dict):
        return {key: _filled(branch, make) for key, branch in tree.items()}
    return tree
