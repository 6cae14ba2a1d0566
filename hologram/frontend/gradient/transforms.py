"""hg.grad and its kin: functions from functions, named and behaving as JAX's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hologram.foundation import dtypes
from hologram.foundation.errors import GradientError, ShapeError
from hologram.foundation.frozen import frozen
from hologram.frontend import tensor as tensors
from hologram.frontend.gradient.tape import Node, Tape, detached
from hologram.frontend.gradient.tracked import Tracked, Variable
from hologram.frontend.tensor import Tensor
from hologram.frontend.tree import leaves, mapped, same_structure
from hologram.machine.axes import integers
from hologram.opset.forms.default import Default
from hologram.opset.forms.gradient import Rule
from hologram.runtime.dispatch import traced_by, tracing
from hologram.runtime.engine import Engine
from hologram.runtime.memory.buffer import Buffer

Function = Callable[..., Any]


def grad(function: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """A function that gives the gradient of another, whose result is one number.

        loss = lambda w, x, y: hg.mse_loss(x @ w, y)
        w -= 0.1 * hg.grad(loss)(w, x, y)

    Args:
        function: takes tensors, in any nesting of tuples, lists and dicts, and returns a float tensor without axes.
        argnums: which positional arguments to differentiate with respect to; all their leaves must be floats.
        has_aux: the function returns (result, anything else), and its gradient (gradient, anything else).

    Returns:
        A function of the same arguments. It gives what the argument is, with a gradient for every tensor: of its shape
        and dtype. For several `argnums`, a tuple of these.

    Raises:
        GradientError: (from the call) the result is not one float, an argument holds integers, or the function does
            what has no derivative.
    """
    _name(function, "grad")
    with_value = value_and_grad(function, argnums, has_aux)

    @functools.wraps(function)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, gradients = with_value(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return gradient


def value_and_grad(function: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """A function that gives another's result and its gradient: (result, gradient); see grad.

    With `has_aux`, ((result, anything else), gradient).
    """
    who = _name(function, "value_and_grad")
    chosen = integers(argnums, f"{who}: argnums")

    @functools.wraps(function)
    def both(*args: Any, **kwargs: Any) -> Any:
        places = [k % len(args) for k in chosen if -len(args) <= k < len(args)]
        if len(set(places)) < len(chosen):
            raise GradientError(
                f"{who}: argnums must name some of {len(args)} positional arguments, each once, got {argnums}"
            )
        followed = _Followed.through(function, who, args, kwargs, places, has_aux)
        result = followed.tracked
        if not isinstance(result, Tensor) or result.shape or not result.dtype.is_float:
            what = (
                f"shape {result.shape}, {result.dtype}"
                if isinstance(result, Tensor)
                else type(result).__name__
            )
            raise GradientError(
                f"{who}: the result must be one float, a tensor without axes, got {what}; sum it, or use hg.vjp"
            )
        one = tensors.full(result.executor, (), 1, result.dtype)
        gradients = followed.backward([one], keep=False)
        value = (followed.value, followed.aux) if has_aux else followed.value
        return value, tuple(gradients) if isinstance(argnums, Sequence) else gradients[0]

    return both


def vjp(function: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """A function's result, and the function that takes cotangents of the result to those of the arguments.

        y, pullback = hg.vjp(hg.matmul, a, b)
        a_bar, b_bar = pullback(y_bar)

    The second may be called more than once; None stands for a cotangent of zeros. With `has_aux`, the function returns
    (result, anything else), which comes third. The pullback reads the arguments, and what the function closes over, as
    they are when it is called: write to them afterwards. Raises what grad raises; the pullback raises ShapeError for
    cotangents that are not of the result's form.
    """
    who = _name(function, "vjp")
    followed = _Followed.through(function, who, primals, {}, range(len(primals)), has_aux)

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        if not same_structure(cotangent, followed.tracked):
            raise ShapeError(f"{who}: the cotangent must have the structure of the result")
        given: list[Tensor | None] = []
        for result, each in zip(leaves(followed.tracked), leaves(cotangent), strict=True):
            if not isinstance(result, Tensor) or not result.dtype.is_inexact or each is None:
                given.append(None)
                continue
            each = each if isinstance(each, Tensor) else tensors.constant(result.executor, each, result.dtype)
            if (each.shape, each.dtype) != (result.shape, result.dtype):
                wanted, got = (f"{x.dtype} of shape {x.shape}" for x in (result, each))
                raise ShapeError(f"{who}: a cotangent must be {wanted}, got {got}")
            given.append(each)
        return tuple(followed.backward(given, keep=True))

    # The tape may keep what the function returned, and its caller may write to it.
    value = mapped(followed.value, lambda t: t.clone() if isinstance(t, Tensor) else t)
    return (value, pullback, followed.aux) if has_aux else (value, pullback)


def stop_gradient(x: Any) -> Any:
    """The tensors of a tree as constants: what is computed with them is not differentiated through them."""

    def leaf(t: Any) -> Any:
        return t.executor.dispatch(detached, "stop_gradient", t.executor, t) if isinstance(t, Tensor) else t

    return mapped(x, leaf)


def custom_gradient(function: Function) -> Function:
    """A function whose derivative its author states.

        @hg.custom_gradient
        def clipped(x):
            return x, lambda cotangent: (hg.clip(cotangent, -1.0, 1.0),)

    Args:
        function: returns (result, pullback). The pullback takes the cotangent of the result to a tuple with one for
            each argument, or to one where there is one argument. The function sees plain tensors, so it may run
            programs and write to buffers of its own. Keyword arguments are constants.
    """
    who = _name(function, "custom_gradient")

    @functools.wraps(function)
    def stated(*args: Any, **kwargs: Any) -> Any:
        tape = tracing()
        if not isinstance(tape, Tape):
            return _pair(who, function(*args, **kwargs))[0]
        if any(map(tape.follows, leaves(kwargs))):
            raise GradientError(
                f"{who}: what is differentiated must be given by position, got {', '.join(kwargs)}"
            )
        with traced_by(tape.outer):
            result, pullback = _pair(who, function(*tape.beneath(args), **tape.beneath(kwargs)))

        def back(cotangent: Any) -> Any:
            cotangents = pullback(cotangent)
            cotangents = cotangents if isinstance(cotangents, (tuple, list)) else (cotangents,)
            for x, back in zip(leaves(args), leaves(tuple(cotangents)), strict=False):
                if tape.follows(x) and back is not None and getattr(back, "shape", None) != x.shape:
                    got = getattr(back, "shape", type(back).__name__)
                    raise GradientError(
                        f"{who}: its pullback must give a tensor of shape {x.shape}, got {got}"
                    )
            return cotangents

        return on_tape(tape, who, args, result, back)

    return stated


def _pair(who: str, pair: Any) -> tuple[Any, Function]:
    if not (isinstance(pair, tuple) and len(pair) == 2 and callable(pair[1])):
        raise GradientError(f"{who}: it must return (result, pullback), got {type(pair).__name__}")
    return pair


def on_tape(tape: Tape, who: str, arguments: Any, result: Any, pullback: Function) -> Any:
    """A result from beneath the tape, with the function that takes its cotangent to one for each leaf of the arguments.

    The cotangent has the structure of the result, with None in the place of what is no float tensor.
    """
    given = {str(k): x for k, x in enumerate(leaves(arguments))}
    sources = {name: (x.buffer.variable, x.layout) for name, x in given.items() if tape.follows(x)}
    made: list[Variable | None] = []

    def tracked(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        whole = x.contiguous()
        made.append(Variable(whole.layout) if sources and whole.dtype.is_inexact else None)
        return tape.tracked(whole, made[-1])

    outputs = mapped(result, tracked)

    def rule(cotangents: Sequence[Any]) -> tuple[Any, ...]:
        arrived = iter(cotangents)
        pulled = tuple(leaves(pullback(mapped(result, lambda x: next(arrived) if _is_float(x) else None))))
        if len(pulled) != len(given):
            raise GradientError(
                f"{who}: its pullback must give a cotangent for each of {len(given)} arguments, "
                f"got {len(pulled)}"
            )
        return pulled

    if sources:
        tape.nodes.append(Node([Rule(tuple(given), ("cotangents",), rule)], {}, sources, made))
    return outputs


@frozen
class _Followed:
    """A call of a function that a tape has followed."""

    tape: Tape
    engine: Engine
    tracked: Any  # the result, as the tape knows it
    value: Any
    aux: Any
    arguments: Sequence[tuple[Any, Sequence[Variable]]]  # trees, with the variables of their leaves

    @staticmethod
    def through(
        function: Function, who: str, args: Sequence[Any], kwargs: Any, places: Sequence[int], has_aux: bool
    ) -> _Followed:
        engine = _engine(args, kwargs)
        tape = Tape(who, tracing(), engine)
        given, arguments = list(args), []
        for place in places:
            variables: list[Variable] = []

            def leaf(x: Any, variables: list[Variable] = variables) -> Tracked | None:
                if x is None:  # a tree without leaves
                    return None
                tracked, variable = tape.argument(_float(who, engine, x))
                variables.append(variable)
                return tracked

            given[place] = mapped(args[place], leaf)
            arguments.append((args[place], variables))
        with traced_by(tape):
            returned = function(*given, **kwargs)
        if has_aux and not (isinstance(returned, tuple) and len(returned) == 2):
            raise GradientError(
                f"{who}: with has_aux it must return (result, anything else), got {returned!r}"
            )
        result, aux = returned if has_aux else (returned, None)
        return _Followed(tape, engine, result, tape.beneath(result), tape.beneath(aux), arguments)

    def backward(self, cotangents: Sequence[Tensor | None], *, keep: bool) -> list[Any]:
        """The cotangents of the arguments, each of its argument's structure."""
        results = leaves(self.tracked)
        pairs = zip(results, cotangents, strict=True)
        seeds = [(r, c) for r, c in pairs if c is not None and self.tape.follows(r)]
        wanted = [v for _, variables in self.arguments for v in variables]
        gradients = iter(zip(self.tape.backward(seeds, wanted, keep=keep), wanted, strict=True))
        others = (*cotangents, *(x for tree, _ in self.arguments for x in leaves(tree)))
        taken = {id(x.buffer) for x in others if isinstance(x, Tensor)}

        def leaf(x: Any) -> Tensor | None:
            if x is None:
                return None
            gradient, variable = next(gradients)
            if gradient is None:
                return tensors.full(self.engine, variable.layout.shape, 0, variable.layout.dtype)
            if id(gradient.buffer) in taken or not gradient.is_contiguous():
                gradient = gradient.clone()  # memory of its own, which may be written to
            taken.add(id(gradient.buffer))
            return gradient

        return [mapped(tree, leaf) for tree, _ in self.arguments]


def _engine(args: Sequence[Any], kwargs: Any) -> Engine:
    """The executor of the tensors among the arguments; without any, the default."""
    executors = (x.executor for x in leaves((tuple(args), dict(kwargs))) if isinstance(x, (Tensor, Buffer)))
    return next(executors, None) or Default.executor(None)  # type: ignore[return-value]  (they are Engines)


def _float(who: str, engine: Any, x: Any) -> Tensor:
    """An argument's leaf as a tensor of floats or complex numbers."""
    if isinstance(x, Buffer):
        x = tensors.as_tensor(x)
    elif isinstance(x, np.ndarray):
        x = tensors.constant(engine, x)
    elif isinstance(
        x, (np.generic, float, complex)
    ):  # a number of a function that is traced is one of each call
        number: Any = x
        own = dtypes.c64 if isinstance(x, complex) else dtypes.f32 if isinstance(x, float) else x.dtype
        x = tensors.full(engine, (), number, own)
    if not isinstance(x, Tensor) or not x.dtype.is_inexact:
        kind = f"{x.dtype} of shape {x.shape}" if isinstance(x, Tensor) else repr(x)
        raise GradientError(f"{who}: it can be differentiated with respect to float tensors, got {kind}")
    return x


def _is_float(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype.is_inexact


def _name(function: Any, transform: str) -> str:
    if not callable(function):
        raise TypeError(f"{transform}: a function is needed, got {type(function).__name__}")
    return getattr(function, "__name__", None) or getattr(function, "name", type(function).__name__)
