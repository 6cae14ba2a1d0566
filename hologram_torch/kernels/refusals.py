"""What PyTorch refuses though its kernels without elements let it pass: those of its CPU are asked, with zeros.

They know which dtypes an operator has no meaning for, and which outputs its results may be written to. A signature asks
once at most, and only where its dtypes give cause to. An error that comes with zeros may be about the zeros, as masks
and lengths that are 0 do not go with other arguments: it is a refusal if it also comes with ones, and with the elements
that were given.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from hologram.runtime.dispatch import deferred

HOST = torch.device("cpu")
MANY = 4096  # elements, beyond which zeros stand for tensors of at most four along each axis
REFUSALS = (
    RuntimeError,
    TypeError,
    ValueError,
    IndexError,
    NotImplementedError,
    AssertionError,
    OverflowError,
)


def _filled(x: Any, small: bool, element: int = 0) -> Any:
    if isinstance(x, torch.Tensor):
        return torch.full([min(n, 4) if small else n for n in x.shape], element, dtype=x.dtype, device=HOST)
    return HOST if isinstance(x, torch.device) else x


def _are_many(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    return sum(x.numel() for x in tensors) > MANY


def _on_host(
    args: Sequence[Any], kwargs: Mapping[str, Any], small: bool, element: int = 0
) -> tuple[list[Any], dict[str, Any]]:
    return pytree.tree_map(lambda x: _filled(x, small, element), (list(args), dict(kwargs)))


def with_tensors(overload: OpOverload, args: Sequence[Any]) -> list[Any]:
    """Arguments with tensors where the schema asks for one, of a dtype that promotes as the number given does."""
    like = next((a for a in args if isinstance(a, torch.Tensor)), None)
    if like is None:
        return list(args)
    operands = []
    for a, argument in zip(args, overload._schema.arguments, strict=False):
        if isinstance(a, (bool, int, float, complex)) and str(argument.type) == "Tensor":
            own = torch.result_type(like, a)
            a = torch.tensor(a, dtype=own if own == like.dtype else None, device="meta")
        operands.append(a)
    return operands


def _error(overload: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Exception | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            overload(*args, **kwargs)
        except torch.linalg.LinAlgError:  # about elements  # pyright: ignore
            return None
        except REFUSALS as error:
            return error
    return None


def of_arguments(overload: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Exception | None:
    """The error for arguments of these shapes, dtypes and values of all else, or None.

    It is not about elements: those that were given are asked about last, where they are known and few.
    """
    if torch.Tag.nondeterministic_seeded in overload.tags:  # it would draw from the host's generator
        return None
    args, small = with_tensors(overload, args), _are_many(args, kwargs)
    given = _on_host(args, kwargs, small)
    error = _error(overload, *given)
    if error is None or _error(overload, *_on_host(args, kwargs, small, element=1)) is None:
        return None
    if not small and not deferred():
        return _error(overload, *pytree.tree_map(_given, (args, dict(kwargs))))
    return error if _floats_are_taken(overload, given) else None


def _given(x: Any) -> Any:
    """A tensor with its own elements, on the host, where it can be resized; zeros for one without any."""
    return (
        x.to(HOST).clone() if isinstance(x, torch.Tensor) and x.device.type != "meta" else _filled(x, False)
    )


def _floats_are_taken(overload: OpOverload, given: Any) -> bool:
    """Whether floats are no error, for all tensors or for the first: else it may be about sizes, or about elements."""
    leaves, tree = pytree.tree_flatten(given)
    tensors = [k for k, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
    for places in (tensors, tensors[:1]):
        floats = [x.real.float() if k in places else x for k, x in enumerate(leaves)]
        if _error(overload, *pytree.tree_unflatten(floats, tree)) is None:
            return True
    return False


def of_numbers(
    overload: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], numbers: Collection[str]
) -> Exception | None:
    """The error for the values of the arguments `numbers`: the one that there is not where they are all 1."""
    error = of_arguments(overload, args, kwargs)
    if error is None:
        return None
    names = [a.name for a in overload._schema.arguments]
    ones = [_one(x) if n in numbers else x for n, x in zip(names, args, strict=False)]
    named = {n: _one(x) if n in numbers else x for n, x in kwargs.items()}
    return error if of_arguments(overload, ones, named) is None else None


def _one(x: Any) -> Any:
    return type(x)(1) if isinstance(x, (int, float, complex)) else x


def results(overload: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What the CPU gives for zeros of these shapes and dtypes; its error if it refuses them; None if not asked.

    The kernels without elements refuse a few arguments that it takes (targets of losses in uint8).
    """
    if torch.Tag.nondeterministic_seeded in overload.tags:
        return None
    error = of_arguments(overload, args, kwargs)
    if error is not None:
        return error
    given = pytree.tree_map(lambda x: _filled(x, False), (list(args), dict(kwargs)))
    if _error(overload, *given) is not None:  # about the zeros
        return None
    return overload(*given[0], **given[1])


def of_signature(
    overload: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], mixed: bool = False
) -> Exception | None:
    """The error for dtypes or shapes of the kinds that PyTorch's kernels without elements are not strict about.

    `mixed` says that operands of several dtypes, floats all of them, give cause to ask as well.
    """
    tensors = [x for x in pytree.tree_leaves(args) if isinstance(x, torch.Tensor)]
    # Integers and bools mean less to operators, and complex numbers to those of an order. Where elements say what there
    # is to give, others are refused for what they say.
    by_elements = torch.Tag.dynamic_output_shape in overload.tags
    whole = bool(tensors) and not tensors[0].dtype.is_floating_point and not by_elements
    empty = not all(x.numel() for x in tensors)  # an axis without elements has no largest one
    mixed = mixed and len({x.dtype for x in tensors}) > 1
    error = of_arguments(overload, args, kwargs) if whole or empty or mixed else None
    return None if not (whole or mixed) and isinstance(error, NotImplementedError) else error


def of_outputs(
    overload: OpOverload,
    base: OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    names: Sequence[str],
) -> Exception | None:
    """The error for outputs of these dtypes, or None where the operator takes them, or not even its arguments."""
    if torch.Tag.nondeterministic_seeded in overload.tags:
        return None
    small = _are_many(args, kwargs)
    empty = {name: torch.empty(0, dtype=kwargs[name].dtype, device=HOST) for name in names}
    for element in (0, 1):  # pivots count from 1
        given, named = _on_host(args, kwargs, small, element)
        rest = {name: value for name, value in named.items() if name not in names}
        if _error(base, given, rest) is None:
            return _error(overload, given, rest | empty)
    return None
