"""hg.jvp, vmap and what is made of them: functions from functions, named and behaving as JAX's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from hologram.foundation.errors import GradientError, ShapeError
from hologram.frontend import tensor as tensors
from hologram.frontend.control import functions as _loops  # noqa: F401  (transforms follow them)
from hologram.frontend.control.body import executor_of, tensor_of
from hologram.frontend.gradient.transforms import vjp
from hologram.frontend.tensor import Tensor
from hologram.frontend.transforms.batching import Batching
from hologram.frontend.transforms.forward import pushed
from hologram.frontend.tree import branches, leaves, mapped, paths
from hologram.machine.axes import integers
from hologram.opset.creation import eye
from hologram.runtime.dispatch import traced_by, tracing

Function = Callable[..., Any]


def jvp(function: Function, primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """A function's result, and its derivative along tangents: forward mode.

        y, slope = hg.jvp(hg.sin, (x,), (hg.ones((3,)),))

    Args:
        function: takes the primals by position; it may have loops, with conditions too.
        primals: tensors, arrays and numbers, in any nesting.
        tangents: of the primals' structure, each leaf of its shape and dtype; None counts as zeros.
        has_aux: the function returns (result, anything else), and that comes third.

    Raises:
        GradientError: a tangent does not fit its primal, or the function does what has no derivative.
    """
    who = _name(function, "jvp")
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(f"{who}: primals and tangents must be tuples or lists, one item for each argument")
    engine = executor_of(tuple(primals), tuple(tangents))
    given = [tensor_of(engine, x, who) for x in leaves(list(primals)) if x is not None]
    slopes = _slopes(who, engine, primals, tangents, given)
    aux: list[Any] = []

    def flat(*each: Any) -> Any:
        rest = iter(each)
        result = function(*mapped(list(primals), lambda x: None if x is None else next(rest)))
        if has_aux:
            if not (isinstance(result, tuple) and len(result) == 2):
                raise GradientError(
                    f"{who}: with has_aux it must return (result, anything else), got {result!r}"
                )
            aux.append(result[1])
            return result[0]
        return result

    result, tracer = pushed(who, flat, given, slopes, engine)

    def tangent(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return None
        slope = tracer.tangent(x)
        return tensors.full(engine, x.shape, 0, x.dtype) if slope is None else slope

    made = mapped(result, tracer.primal), mapped(result, tangent)
    return (*made, mapped(aux[0], tracer.primal)) if has_aux else made


def _slopes(who: str, engine: Any, primals: Any, tangents: Any, given: Sequence[Tensor]) -> list[Any]:
    names = [
        p
        for p, x in zip(paths(list(primals), "primals"), leaves(list(primals)), strict=True)
        if x is not None
    ]
    if not _covers(list(tangents), list(primals)):
        raise GradientError(f"{who}: the tangents must have the structure of the primals")
    slopes: list[Any] = []
    for name, primal, slope in zip(names, given, _spread(list(tangents), list(primals)), strict=True):
        if slope is None or not primal.dtype.is_inexact:
            slopes.append(None)
            continue
        tensor = tensor_of(engine, slope, who, primal.dtype)
        if (tensor.shape, tensor.dtype) != (primal.shape, primal.dtype):
            wanted, got = (f"{x.dtype} of shape {x.shape}" for x in (primal, tensor))
            raise GradientError(f"{who}: the tangent of {name} must be {wanted}, got {got}")
        slopes.append(tensor)
    return slopes


def linearize(function: Function, *primals: Any) -> tuple[Any, Function]:
    """A function's result, and its derivative as a linear function of tangents, one for each primal."""
    result, _ = jvp(function, primals, [None] * len(primals))
    return result, lambda *tangents: jvp(function, primals, tangents)[1]


def vmap(function: Function, in_axes: Any = 0, out_axes: Any = 0, axis_size: int | None = None) -> Function:
    """A function of one example as one of a batch of them: JAX's vmap.

        distances = hg.vmap(hg.vmap(distance, in_axes=(None, 0)), in_axes=(0, None))(a, b)

    Args:
        function: takes one example; operations in it see no batch. It may be jitted, differentiated, or batched.
        in_axes: along which axis of the arguments' leaves the examples lie, None for arguments that all share: one for
            all positional arguments, or one for each; for an argument that is a tree, one or a tree of the same form.
        out_axes: along which axis of the results' leaves they are to lie, likewise; None for what is the same for all.
        axis_size: how many examples there are, where no argument says.

    Raises:
        ShapeError: axes of different sizes (each is named), or an axis that an argument does not have.
    """
    who = _name(function, "vmap")

    @functools.wraps(function)
    def batched(*args: Any, **kwargs: Any) -> Any:
        engine = executor_of(args, kwargs)
        axes = _axes_of(who, in_axes, list(args))
        axes += [0] * sum(x is not None for x in leaves(dict(kwargs)))
        everything = [list(args), dict(kwargs)]
        flat = [x for x in leaves(everything) if x is not None]
        pairs = zip(_names(args, kwargs), leaves(everything), strict=True)
        names = [name for name, x in pairs if x is not None]
        size = _size(who, names, flat, axes, axis_size)
        tracer = Batching(who, tracing(), engine, size)
        given = iter(
            [_lifted(tracer, engine, who, n, x, a) for n, x, a in zip(names, flat, axes, strict=True)]
        )
        positional, named = mapped(everything, lambda x: None if x is None else next(given))
        with traced_by(tracer):
            result = function(*positional, **named)
            result = mapped(result, lambda x: None if x is None else tensor_of(engine, x, who))
        places = iter(_spread_axes(who, out_axes, result))
        return mapped(result, lambda x: None if x is None else _shown(tracer, who, x, next(places)))

    return batched


def _names(args: Sequence[Any], kwargs: dict[str, Any]) -> list[str]:
    """What errors call the leaves of arguments."""
    positional = [n for k, x in enumerate(args) for n in paths(x, f"argument {k}")]
    return positional + [
        n for name in branches(kwargs) or () for n in paths(kwargs[name], f"argument {name}")
    ]


def _axes_of(who: str, in_axes: Any, args: list[Any]) -> list[int | None]:
    """An axis for each leaf of the arguments that is no None."""
    if isinstance(in_axes, (tuple, list)):
        if len(in_axes) != len(args):
            raise ShapeError(
                f"{who}: in_axes must name an axis for each of {len(args)} arguments, got {in_axes!r}"
            )
        in_axes = list(in_axes)
    return _spread_axes(who, in_axes, args)


def _spread_axes(who: str, axes: Any, tree: Any) -> list[int | None]:
    """An axis for each leaf of a tree, from a tree that may end earlier."""
    if axes is None or (isinstance(axes, int) and not isinstance(axes, bool)):
        return [axes for x in leaves(tree) if x is not None]
    inner, outer = branches(axes), branches(tree)
    if inner is None or outer is None or list(inner) != list(outer):
        raise ShapeError(
            f"{who}: axes must be an integer, None, or a tree of such like the argument's, got {axes!r}"
        )
    return [axis for key in outer for axis in _spread_axes(who, inner[key], outer[key])]


def _size(who: str, names: Sequence[str], flat: Sequence[Any], axes: Sequence[Any], given: int | None) -> int:
    sizes = {} if given is None else {"axis_size": integers(given, f"{who}: axis_size")[0]}
    for name, x, axis in zip(names, flat, axes, strict=True):
        if axis is None:
            continue
        shape: Any = getattr(x, "shape", ())
        if not -len(shape) <= axis < len(shape):
            raise ShapeError(f"{who}: {name} has no axis {axis} for the batch, got shape {tuple(shape)}")
        sizes[f"axis {axis} of {name}"] = shape[axis]
    if not sizes:
        raise ShapeError(
            f"{who}: at least one argument must have a batch, or axis_size say how many examples there are"
        )
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} has {n}" for name, n in sizes.items())
        raise ShapeError(f"{who}: the batch must have one size, but {listed}")
    return next(iter(sizes.values()))


def _lifted(tracer: Batching, engine: Any, who: str, name: str, x: Any, axis: int | None) -> Any:
    tensor = tensor_of(engine, x, who)
    if axis is None:
        return tensor if isinstance(x, Tensor) else x
    order = [axis % tensor.ndim, *(k for k in range(tensor.ndim) if k != axis % tensor.ndim)]
    return tracer.examples(tensor.permute(order))


def _shown(tracer: Batching, who: str, x: Any, axis: int | None) -> Any:
    if axis is None:
        if tracer.batched(x):
            raise ShapeError(f"{who}: a result with out_axes None must be the same for all examples")
        return tracer.all(x)
    whole = tracer.repeated(x) if tracer.owns(x) else x.unsqueeze(0).expand(tracer.size, *x.shape)
    if not -whole.ndim <= axis < whole.ndim:
        raise ShapeError(f"{who}: out_axes {axis} is no axis of a result of shape {tuple(whole.shape)}")
    place = axis % whole.ndim
    rest = list(range(1, whole.ndim))
    return whole.permute([*rest[:place], 0, *rest[place:]]).contiguous()


def jacfwd(function: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """The Jacobian by forward mode, a tangent for each element of the arguments, all at once.

    For each leaf of the result there is one like the argument: of the result's shape followed by the argument's.
    """
    return _jacobian(function, argnums, has_aux, "jacfwd", _forward)


def jacrev(function: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """The Jacobian by reverse mode, a cotangent for each element of the result, all at once; as jacfwd gives it."""
    return _jacobian(function, argnums, has_aux, "jacrev", _reverse)


def hessian(function: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """The second derivatives: the Jacobian by forward mode of that by reverse mode."""
    return jacfwd(jacrev(function, argnums, has_aux), argnums, has_aux)


def _jacobian(function: Function, argnums: Any, has_aux: bool, name: str, way: Function) -> Function:
    who = _name(function, name)
    chosen = integers(argnums, f"{who}: argnums")

    @functools.wraps(function)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        places = [k % len(args) for k in chosen if -len(args) <= k < len(args)]
        if len(set(places)) < len(chosen):
            raise GradientError(
                f"{who}: argnums must name some of {len(args)} positional arguments, each once, got {argnums}"
            )
        engine = executor_of(args, kwargs)
        trees = [mapped(args[k], lambda x: None if x is None else tensor_of(engine, x, who)) for k in places]
        aux: list[Any] = []

        def of_chosen(*own: Any) -> Any:
            everything = list(args)
            for k, tree in zip(places, own, strict=True):
                everything[k] = tree
            returned = function(*everything, **kwargs)
            if has_aux:
                aux[:] = [returned[1]]
                return returned[0]
            return returned

        made = way(who, engine, of_chosen, trees)
        several = isinstance(argnums, Sequence)
        result = mapped(made, lambda each: tuple(each.trees) if several else each.trees[0])
        if not has_aux:
            return result
        return result, function(*args, **kwargs)[1]

    return jacobian


class _Each:
    """The derivatives of one leaf of a result, a tree for each argument."""

    def __init__(self, trees: Sequence[Any]) -> None:
        self.trees = trees


def _units(engine: Any, x: Tensor) -> Tensor:
    """The unit tangents of a tensor, stacked."""
    return eye(engine, n_rows=x.size, dtype=x.dtype).reshape(x.size, *x.shape)


def _forward(who: str, engine: Any, function: Function, trees: Sequence[Any]) -> Any:
    flat = [x for x in leaves(list(trees)) if x is not None]
    _check_floats(who, flat)
    columns: list[Any] = []
    for number, leaf in enumerate(flat):

        def along(unit: Any, k: int = number) -> Any:
            slopes = iter([unit if j == k else None for j in range(len(flat))])
            given = [mapped(tree, lambda x: None if x is None else next(slopes)) for tree in trees]
            return jvp(function, list(trees), given)[1]

        columns.append(vmap(along, out_axes=-1)(_units(engine, leaf)))
    rows = zip(*map(leaves, columns), strict=True)
    made = []
    for parts in rows:
        if parts[0] is None:
            made.append(None)
            continue
        shaped = iter([p.reshape(*p.shape[:-1], *x.shape) for p, x in zip(parts, flat, strict=True)])
        made.append(_Each([mapped(tree, lambda x: None if x is None else next(shaped)) for tree in trees]))  # noqa: B023
    rest = iter(made)
    return mapped(columns[0], lambda _: next(rest))


def _reverse(who: str, engine: Any, function: Function, trees: Sequence[Any]) -> Any:
    flat = [x for x in leaves(list(trees)) if x is not None]
    _check_floats(who, flat)
    result, pullback = vjp(function, *trees)
    results = leaves(result)
    made = []
    for k, leaf in enumerate(results):
        if isinstance(leaf, Tensor) and leaf.dtype.is_complex:
            raise GradientError(
                f"{who}: results must be real, got {leaf.dtype}: use hg.jacfwd, or hg.view_as_real of them"
            )
        if not isinstance(leaf, Tensor) or not leaf.dtype.is_float:
            made.append(None)
            continue

        def back(unit: Any, k: int = k) -> Any:
            rest = iter([unit if j == k else None for j in range(len(results))])
            return list(pullback(mapped(result, lambda _: next(rest))))

        pulled = vmap(back)(_units(engine, leaf))
        made.append(_Each(mapped(pulled, lambda x, leaf=leaf: x.reshape(*leaf.shape, *x.shape[1:]))))
    rest = iter(made)
    return mapped(result, lambda _: next(rest))


def _check_floats(who: str, flat: Sequence[Tensor]) -> None:
    for x in flat:
        if not x.dtype.is_float:
            raise GradientError(
                f"{who}: it can be differentiated with respect to float tensors, got {x.dtype} of shape {x.shape}"
            )


def _covers(tangents: Any, primals: Any) -> bool:
    """Whether a tree has the other's structure, or None where that has branches."""
    if tangents is None:
        return True
    here, there = branches(tangents), branches(primals)
    if here is None or there is None:
        return here is there
    return list(here) == list(there) and all(_covers(here[k], there[k]) for k in there)


def _spread(tangents: Any, primals: Any) -> list[Any]:
    """A tangent, or None, for each leaf of the primals that is no None."""
    if tangents is None:
        return [None for x in leaves(primals) if x is not None]
    there = branches(primals)
    if there is None:
        return [] if primals is None else [tangents]
    here = branches(tangents)
    assert here is not None
    return [x for key in there for x in _spread(here[key], there[key])]


def _name(function: Any, transform: str) -> str:
    if not callable(function):
        raise TypeError(f"{transform}: a function is needed, got {type(function).__name__}")
    return getattr(function, "__name__", None) or getattr(function, "name", type(function).__name__)
