"""`hologram_torch.save_compiled` and `export_web`: a module as a saved program, or a page's, without PyTorch.

torch.export takes the module apart into a graph, which is traced as one that torch.compile gives. Parameters and
buffers are tensors that the traced function closes over, and so the weights of the file.
"""

from __future__ import annotations

import copy
import inspect
import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from hologram.foundation.errors import TraceError
from hologram.frontend.saved import export
from hologram.frontend.saved.saving import Arguments, calls_of, write_program
from hologram.frontend.tensor import Tensor
from hologram.frontend.tree import branches
from hologram.opset.random import Key
from hologram_torch.compile.compiled import within, without_bits
from hologram_torch.compile.decompositions import DECOMPOSITIONS
from hologram_torch.compile.graph import moved
from hologram_torch.compile.heads import folded
from hologram_torch.device.devices import devices
from hologram_torch.device.generator import Traced, drawn_by
from hologram_torch.kernels.registry import COMPOSED
from hologram_torch.tensors.memory import hologram_tensor
from hologram_torch.watch import flagged


def save_compiled(path: str | os.PathLike[str], model: Callable[..., Any], *examples: Any) -> None:
    """Writes what a module or a function does, with its parameters and buffers, to a file that runs without PyTorch.

        hologram_torch.save_compiled("model.holo", model.eval(), torch.randn(1, 3, 224, 224))
        hg.load("model.holo")(pixels)  # a NumPy array, or a tensor of hologram's

    The module is exported (torch.export) for the arguments `examples`, or for those of each `hg.Arguments(...)`, and
    computes on its device; one that is on the host is copied to the current device of hologram first. Tensors that a
    function closes over are its weights, and must be on that device. Gradients are not part of the file. See
    docs/saved.md.

    Raises:
        TraceError: the module changes its buffers or arguments, or draws random numbers, as in training.
        TypeError: the model is neither a module nor a function.
    """
    module = _module("save_compiled", model)
    write_program(path, [_exported(module, call) for call in calls_of(examples)], _name(module))


def export_web(path: str | os.PathLike[str], model: Callable[..., Any], *examples: Any) -> None:
    """Writes what a module does, with its parameters and buffers, to a folder that a page runs; see hg.export_web.

    It is exported as by save_compiled, and refused for the same reasons.
    """
    module = _module("export_web", model)
    cases = [_exported(module, call) for call in calls_of(examples)]
    export.export_web(path, cases[0][0], *[call for _, call in cases])


class Function(torch.nn.Module):
    """A function in a module's place, which torch.export asks for, with the module whose method it is."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.owner = getattr(function, "__self__", None)
        self.forward = function


def _module(who: str, model: Any) -> torch.nn.Module:
    if isinstance(model, torch.nn.Module):
        return model
    if not callable(model):
        raise TypeError(f"{who}: the model must be a module or a function, got {type(model).__name__}")
    try:
        inspect.signature(model)
    except ValueError as error:
        raise TypeError(
            f"{who}: a function must be Python's own, so that arguments have names: {error}"
        ) from error
    return Function(model)


def _name(model: torch.nn.Module) -> str:
    """The name of a module's class, or of a function."""
    named = model.forward if isinstance(model, Function) else type(model)
    return getattr(named, "__name__", type(named).__name__)


def _exported(model: torch.nn.Module, call: Arguments) -> tuple[Callable[..., Any], Arguments]:
    """The module as a function of hologram's tensors, and the arguments of a call as such."""
    device = _device(model)
    if not any(p.device.type == "hologram" for p in (*model.parameters(), *model.buffers())):
        model = copy.deepcopy(model).to(device)
    args, kwargs = pytree.tree_map_only(torch.Tensor, lambda x: x.to(device), (call.args, call.kwargs))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PyTorch's, of its own parts
        exported = torch.export.export(model, args, kwargs).run_decompositions({**DECOMPOSITIONS, **COMPOSED})
    given, named = pytree.tree_map_only(torch.Tensor, _given, (args, kwargs))
    return _function(exported, model, device.index), Arguments(*given, **named)


def _device(model: torch.nn.Module) -> torch.device:
    own = next(
        (p.device for p in (*model.parameters(), *model.buffers()) if p.device.type == "hologram"), None
    )
    return own or torch.device("hologram", devices.current)


def _given(x: Any) -> Tensor:
    return hologram_tensor(without_bits(x.detach()))


def _function(exported: ExportedProgram, model: torch.nn.Module, index: int) -> Callable[..., Any]:
    """The module as a function of hologram's tensors."""
    who = _name(model)
    signature = exported.graph_signature
    for output in signature.output_specs:
        if output.kind is not OutputKind.USER_OUTPUT:
            raise TraceError(
                f"save_compiled: {who} writes to {output.target}, and a file cannot: call model.eval(), or return the "
                "new value"
            )
    graph = moved(folded(exported.graph_module), index)
    key = devices.executor(index).tensor(np.zeros(2, np.uint64))
    spec: Any = exported.call_spec
    weights = [_weight(exported, each) for each in signature.input_specs]

    def function(*args: Any, **kwargs: Any) -> Any:
        given = iter(spec.in_spec.flatten_up_to((args, kwargs)))  # as PyTorch exported them
        inputs = [next(given) if w is None else w for w in weights]
        tensors = [within(x) if isinstance(x, Tensor) else x for x in inputs]
        drawn = Traced(Key(key))
        with torch.no_grad(), drawn_by(drawn), flagged():
            results = graph(*tensors)
        if drawn.drawn:
            raise TraceError(f"save_compiled: {who} draws random numbers: call model.eval()")
        return _plain(pytree.tree_unflatten(results, spec.out_spec))

    function.__name__ = who
    function.__signature__ = inspect.signature(model.forward)  # type: ignore[attr-defined]  # by whose names arguments may be given
    return function


def _weight(exported: ExportedProgram, spec: Any) -> Tensor | None:
    """What an input of the graph holds; None for an argument."""
    if spec.kind is InputKind.USER_INPUT:
        return None
    known: Mapping[str, Any] = exported.constants
    held = exported.state_dict.get(spec.target)
    return _given(known[spec.target] if held is None else held)


def _plain(tree: Any) -> Any:
    """Results in tuples, lists and dicts, with hologram's tensors."""
    if isinstance(tree, torch.Tensor):
        return hologram_tensor(without_bits(tree))
    if isinstance(tree, (tuple, list)):  # what torch.topk gives is a tuple that has no name outside
        return (list if isinstance(tree, list) else tuple)(map(_plain, tree))
    children = branches(tree)
    if children is None:
        return tree
    return {key: _plain(children[key]) for key in (tree if isinstance(tree, dict) else children)}
