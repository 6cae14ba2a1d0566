"""Operators of one's own: PyTorch's, made of functions of hologram's tensors or of Atlas programs."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import torch
from torch._ops import OpOverload

from hologram.atlas.program import Program
from hologram.frontend.executor import Executor
from hologram.frontend.gradient.transforms import vjp
from hologram.frontend.jit.jitted import jit
from hologram.frontend.jit.number import Formulas
from hologram.frontend.jit.recorder import Recorder
from hologram.frontend.tensor import Tensor
from hologram.machine.layout import Layout
from hologram_torch.device.devices import devices
from hologram_torch.programmed import programmed
from hologram_torch.tensors.dtypes import DTYPES, torch_dtype
from hologram_torch.tensors.memory import hologram_tensor, torch_tensor

# Of schemas, by annotations.
WORDS = {Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str"}
Function = Callable[..., Any]

_libraries: dict[str, torch.library.Library] = {}


@overload
def custom_op(
    name: str, *, fake: Function | None = None, gradient: Function | None = None
) -> Callable[[Function], OpOverload]: ...
@overload
def custom_op(
    name: str,
    function: Function | Program | str,
    *,
    outputs: Mapping[str, str] | None = None,
    fake: Function | None = None,
    gradient: Function | None = None,
) -> OpOverload: ...
def custom_op(
    name: str,
    function: Function | Program | str | None = None,
    *,
    outputs: Mapping[str, str] | None = None,
    fake: Function | None = None,
    gradient: Function | None = None,
) -> Any:
    """Makes an operator of PyTorch's, which runs eagerly, under autograd and compiled.

        @hologram_torch.custom_op("mine::swish")
        def swish(x: hg.Tensor, beta: float = 1.0) -> hg.Tensor:
            return x * hg.sigmoid(beta * x)

        axpy = hologram_torch.custom_op("mine::axpy", AXPY, outputs={"y": "y"})

    Arguments are what the annotations say: hg.Tensor (also without one), hg.Tensor | None, int, float, bool, str; the
    result one tensor, or a tuple of as many as its annotation names. A program's buffers are tensors, in its order, and
    its scalars numbers.

    Args:
        name: "namespace::name"; the operator is then also torch.ops.namespace.name.
        function: what to compute, on hologram's tensors; without it, a decorator is given.
        outputs: of a program, the buffers that are results, each with the buffer that is read and has its shape.
        fake: from PyTorch's tensors without elements to results without elements; by default, what tracing the function
            gives, which then is compiled by hg.jit. With a fake it is called as it is, and may ask for elements.
        gradient: gradient(cotangents, *arguments) gives the cotangents of the tensors among the arguments, None where
            there is none; on hologram's tensors. By default hg.vjp of the function; a program has none.

    Returns:
        the operator. Raises ProgramError for a program that breaks a rule, TypeError for an annotation that no operator
        can have.
    """
    if function is None:
        return lambda decorated: custom_op(name, decorated, outputs=outputs, fake=fake, gradient=gradient)
    if isinstance(function, (Program, str)):
        operation = programmed(function, outputs or {})
        floats = {s.name: "float" if s.dtype.is_float else "SymInt" for s in operation.program.scalars}
        parameters = [*(f"Tensor {n}" for n in operation.operands), *(f"{w} {n}" for n, w in floats.items())]
        names = [*operation.operands, *floats]

        def computed(*args: Any) -> Any:
            given = dict(zip(names, args, strict=True))
            return operation(*(given[n] for n in operation.operands), **{n: given[n] for n in floats})

        return _made(name, computed, parameters, operation.results, fake, gradient, differentiable=False)
    return _made(name, function, *_signature(function), fake, gradient, differentiable=True)


def _made(
    name: str,
    function: Function,
    parameters: Sequence[str],
    results: int,
    fake: Function | None,
    gradient: Function | None,
    *,
    differentiable: bool,
) -> OpOverload:
    namespace, _, own = name.partition("::")
    returned = "Tensor" if results == 1 else f"({', '.join(['Tensor'] * results)})"
    # What gives its own shapes may ask for elements, which no trace has.
    kernel = jit(function) if differentiable and fake is None else function
    overload = _defined(namespace, own, f"({', '.join(parameters)}) -> {returned}", function, kernel, fake)
    if differentiable or gradient is not None:
        _differentiated(namespace, own, overload, function, gradient, parameters, results)
    else:
        _underived(namespace, overload, "a program has no derivative: state one as gradient=")
    return overload


def _defined(
    namespace: str, own: str, schema: str, function: Function, computed: Function, fake: Function | None
) -> OpOverload:
    """An operator with its shapes, and a kernel that computes what the function says."""
    library = _libraries.get(namespace)
    if library is None:
        library = _libraries[namespace] = torch.library.Library(namespace, "FRAGMENT")
    library.define(own + schema, tags=(torch.Tag.pt2_compliant_tag,))

    def kernel(*args: Any) -> Any:
        returned = computed(*(_given(a) for a in args))
        taken = {id(hologram_tensor(a).buffer) for a in _tensors(args)}
        return _each(returned, lambda x: torch_tensor(_own(x, taken)))

    def inferred(*args: Any) -> Any:
        executor = _executor(args)
        recorder = Recorder(executor, own, Formulas(()))
        traced = [_each(a, lambda x: recorder.argument(_layout(x))) for a in args]
        returned = recorder.recorded(function, traced, {})
        device = next(_tensors(args)).device
        return _each(returned, lambda x: torch.empty(x.shape, dtype=torch_dtype(x.dtype), device=device))

    library.impl(own, kernel, "PrivateUse1")
    torch.library.register_fake(f"{namespace}::{own}", fake or inferred, lib=library)
    return getattr(getattr(torch.ops, namespace), own).default


def _differentiated(
    namespace: str,
    own: str,
    overload: OpOverload,
    function: Function,
    gradient: Function | None,
    parameters: Sequence[str],
    results: int,
) -> None:
    """Registers the derivative, an operator too, so that it is compiled like the function."""
    places = [k for k, p in enumerate(parameters) if p.startswith("Tensor")]

    def back(cotangents: Sequence[Tensor], wanted: Sequence[bool], *args: Any) -> list[Tensor]:
        chosen = [k for k, want in zip(places, wanted, strict=True) if want]
        if gradient is not None:
            given = gradient(cotangents[0] if results == 1 else tuple(cotangents), *args)
            given = given if isinstance(given, (tuple, list)) else (given,)
            pulled = dict(zip(places, given, strict=True))
            return [args[k].executor.zeros(args[k].shape, args[k].dtype) if pulled[k] is None else pulled[k]
                    for k in chosen]  # fmt: skip

        def of_chosen(*operands: Any) -> Any:
            full = list(args)
            for k, operand in zip(chosen, operands, strict=True):
                full[k] = operand
            return function(*full)

        _, pullback = vjp(of_chosen, *(args[k] for k in chosen))
        return list(pullback(cotangents[0] if results == 1 else tuple(cotangents)))

    def shapes(cotangents: Any, wanted: Sequence[bool], *args: Any) -> list[torch.Tensor]:
        return [torch.empty_like(args[k], memory_format=torch.contiguous_format)
                for k, want in zip(places, wanted, strict=True) if want]  # fmt: skip

    plain = [p.partition("=")[0] for p in parameters]
    schema = f"({', '.join(['Tensor[] cotangents', 'bool[] wanted', *plain])}) -> Tensor[]"
    computed = jit(back) if gradient is None else back
    backward_overload = _defined(namespace, f"{own}_backward", schema, back, computed, shapes)
    _underived(
        namespace, backward_overload, "there is no second derivative: call hg.grad of the function itself"
    )

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*(inputs[k] for k in places))
        ctx.rest = [None if k in places else x for k, x in enumerate(inputs)]
        ctx.like = [(x.shape, x.dtype, x.device) for x in _tensors((output,))]

    def backward(ctx: Any, *cotangents: Any) -> tuple[Any, ...]:
        args = list(ctx.rest)
        for k, x in zip(places, ctx.saved_tensors, strict=True):
            args[k] = x
        given = len(ctx.needs_input_grad)  # arguments at their defaults are left out
        wanted = [k < given and bool(ctx.needs_input_grad[k]) and args[k] is not None for k in places]
        full = [
            torch.zeros(shape, dtype=dtype, device=device) if c is None else c
            for c, (shape, dtype, device) in zip(cotangents, ctx.like, strict=True)
        ]
        gradients = iter(backward_overload(full, wanted, *args))
        chosen = dict(zip(places, wanted, strict=True))
        return tuple(next(gradients) if chosen.get(k) else None for k in range(given))

    torch.library.register_autograd(
        overload, backward, setup_context=setup_context, lib=_libraries[namespace]
    )


def _underived(namespace: str, overload: OpOverload, why: str) -> None:
    """Refuses to differentiate an operator, for which PyTorch would only warn that gradients get lost."""

    def backward(*_: Any) -> Any:
        raise RuntimeError(f"hologram: {overload.name()}: {why}")

    torch.library.register_autograd(overload, backward, lib=_libraries[namespace])


def _signature(function: Function) -> tuple[list[str], int]:
    """A schema's parameters, and how many results there are, by the annotations."""
    hints = typing.get_type_hints(function)
    parameters = []
    for name, parameter in inspect.signature(function).parameters.items():
        word = _word(function, name, hints.get(name, Tensor))
        default = parameter.default
        stands = "" if default is inspect.Parameter.empty else f"={_literal(default)}"
        parameters.append(f"{word} {name}{stands}")
    result = hints.get("return", Tensor)
    return parameters, len(typing.get_args(result)) if typing.get_origin(result) is tuple else 1


def _word(function: Function, name: str, annotation: Any) -> str:
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    kinds = [a for a in typing.get_args(annotation) if a is not type(None)] if union else [annotation]
    if len(kinds) != 1 or kinds[0] not in WORDS:
        raise TypeError(
            f"custom_op: {getattr(function, '__name__', function)}: an argument is an hg.Tensor, an int, a float, a "
            f"bool, a str, or one of these or None; {name} is {annotation}"
        )
    return WORDS[kinds[0]] + ("?" if union else "")


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def _tensors(args: Any) -> Any:
    for a in args:
        if isinstance(a, (list, tuple)):
            yield from _tensors(a)
        elif isinstance(a, torch.Tensor):
            yield a


def _each(tree: Any, of: Callable[[Any], Any]) -> Any:
    if isinstance(tree, (list, tuple)):
        return type(tree)(_each(x, of) for x in tree)
    return of(tree) if isinstance(tree, (torch.Tensor, Tensor)) else tree


def _given(argument: Any) -> Any:
    return _each(argument, hologram_tensor)


def _own(x: Tensor, taken: set[int]) -> Tensor:
    """A result in memory of its own."""
    return x.clone() if id(x.buffer) in taken or not x.is_contiguous() else x


def _executor(args: Sequence[Any]) -> Executor:
    index = next(x.device.index for x in _tensors(args))
    return devices.executor(devices.current if index is None else index)


def _layout(x: torch.Tensor) -> Layout:
    return Layout.contiguous(DTYPES[x.dtype], tuple(int(n) for n in x.shape))
