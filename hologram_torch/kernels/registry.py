"""Registers kernels with PyTorch's dispatcher."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch._ops import OpOverload

from hologram.opset.forms.operation import Operation
from hologram.runtime.dispatch import deferred
from hologram_torch.kernels import strides
from hologram_torch.kernels.in_place import InPlace
from hologram_torch.kernels.kernel import Kernel, Promotes
from hologram_torch.kernels.operators import known, name_of, operator, variants
from hologram_torch.kernels.outputs import Out
from hologram_torch.kernels.plain import Plain
from hologram_torch.kernels.promotion import Promotion
from hologram_torch.kernels.short.quick import quick

KEY = "PrivateUse1"
FORMS: dict[str, type[Kernel]] = {"in_place": InPlace, "out": Out}
F = TypeVar("F", bound=Callable[..., Any])

library = torch.library.Library("aten", "IMPL")
everything_else = torch.library.Library("_", "IMPL")
KERNELS: dict[str, Kernel] = {}  # by ATen's names
COMPOSED: dict[OpOverload, Callable[..., Any]] = {}  # exported graphs take these for PyTorch's own forms
LACKING: list[str] = []  # names of kernels whose operators this PyTorch has not


def register(name: str, function: Callable[..., Any], recorded: bool = False) -> None:
    """Makes a function of PyTorch's tensors the device's kernel for an operator; errors become PyTorch's.

    `recorded` says that what it launches depends on nothing but its arguments' structure and numbers; see quick.py.
    """
    kernel = Plain(name, function)
    _register(name, quick(kernel, -1) if recorded else kernel)


def _register(name: str, function: Callable[..., Any], key: str = KEY, **how: Any) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning only once for all operators", UserWarning)
        library.impl(name, function, key, **how)


def override(name: str, function: Callable[..., Any], key: str) -> None:
    """Makes a function, of the keys and the arguments, what PyTorch calls for an operator at another key of its own."""
    _register(name, function, key, with_keyset=True)


def add(
    name: str,
    compute: Callable[..., Any],
    promotes: Promotes | None = None,
    inferred: bool = True,
    operation: Operation | None = None,
    refuses: Callable[..., str | None] | None = None,
    asked: str | None = None,
    wider: frozenset[torch.dtype] = frozenset(),
    over: Callable[..., Any] | None = None,
    by_class: bool = False,
    around: Callable[[OpOverload, Callable[..., Any]], Callable[..., Any]] | None = None,
) -> None:
    """Registers a function of hologram's tensors for an operator and for its forms in place and with outputs.

    `operation` is what it computes of its operands alone, without other arguments. `around` makes of each form and its
    kernel what PyTorch calls. An operator that this PyTorch has not costs itself alone; see `LACKING`.
    """
    overload = known(name)
    if overload is None:
        LACKING.append(name)
        return
    forms = [(Kernel, overload), *((FORMS[form], other) for form, other in variants(overload))]
    for form, other in forms:
        own = name_of(other)
        if own not in KERNELS:
            KERNELS[own] = form(
                other,
                (over or _over(operation, compute)) if form is InPlace else compute,
                promotes,
                inferred,
                overload,
                refuses,
                operator(asked) if asked else None,
                wider,
                by_class,
                strides.like(overload),
            )
            kernel = quick(KERNELS[own], -1 if operation is None else len(operation.operands))
            _register(own, kernel if around is None else around(other, kernel))


def _over(operation: Operation | None, compute: Callable[..., Any]) -> Callable[..., Any]:
    """What an operation computes, written over its first operand where it can be."""
    if operation is None:
        return compute

    def over(x: Any, *operands: Any, **settings: Any) -> Any:
        alone = not settings and len(operands) + 1 == len(operation.operands)
        alone = alone and not any(isinstance(y, complex) for y in operands)
        apart = alone and not operation.composite and not deferred() and 0 not in x.layout.strides
        if apart and x.executor._update(operation, (x, *operands), x):
            return x
        return compute(x, *operands, **settings)

    return over


def implements(
    *names: str, promotes: Promotion | None = None, first: int = 0, wraps: bool = True, **facts: Any
) -> Callable[[F], F]:
    """Declares what a function of hologram's tensors computes: ATen's operators, whose arguments it takes.

    `promotes` brings the operands from position `first` on to one dtype, by PyTorch's rule of that kind; `wraps`
    says that numbers beyond a dtype of integers wrap round. Other facts are arguments of `add`. `inferred` is
    false where shapes depend on elements. `operation` is what the function computes when it is given operands
    alone. `refuses` says why PyTorch refuses arguments that its kernels without elements let pass, or None; its
    CPU is asked too, about the operator `asked` where it does not have this one, but not where the first
    argument's dtype is one of `wider`, which others of PyTorch's devices take. `over` computes the same for the
    form in place: it may write to its first argument, and then returns it. `by_class` says that results' shapes,
    and what is refused, depend on no more of sizes than which are 0, 1 or equal, as they do wherever operands are
    promoted; see short/templates.py.
    """
    promotion = None if promotes is None else Promotes(promotes, first, wraps)

    def declare(compute: F) -> F:
        for name in names:
            add(name, compute, promotion, **facts)
        return compute

    return declare
