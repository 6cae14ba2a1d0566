"""Registers kernels with PyTorch's dispatcher."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from hologram.errors import HologramError, UnsupportedDType
from hologram.opset.forms.operation import Operation
from hologram_torch.kernels.errors import refusal
from hologram_torch.kernels.kernel import InPlace, Kernel, Promotes, Promotion, Updating
from hologram_torch.kernels.operators import name_of, operator, variants
from hologram_torch.kernels.outputs import Out
from hologram_torch.kernels.quick import Bind, quick, settled

KEY = "PrivateUse1"
FORMS: dict[str, type[Kernel]] = {"in_place": InPlace, "out": Out}
F = TypeVar("F", bound=Callable[..., Any])

library = torch.library.Library("aten", "IMPL")
everything_else = torch.library.Library("_", "IMPL")
KERNELS: dict[str, Kernel] = {}  # by ATen's names


def register(name: str, function: Callable[..., Any]) -> None:
    """Makes a function of PyTorch's tensors the device's kernel for an operator; errors become PyTorch's."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except UnsupportedDType:  # a TypeError already: no tensor of the device has this dtype
            raise
        except HologramError as error:
            raise refusal(name, error) from error

    _register(name, call)


def _register(name: str, function: Callable[..., Any]) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning only once for all operators", UserWarning)
        library.impl(name, function, KEY)


def add(
    name: str,
    compute: Callable[..., Any],
    promotes: Promotes | None = None,
    inferred: bool = True,
    operation: Operation | None = None,
    bind: Bind | None = None,
    refuses: Callable[..., str | None] | None = None,
    asked: str | None = None,
    updates: Callable[..., None] | None = None,
) -> None:
    """Registers a function of hologram's tensors for an operator and for its forms in place and with outputs.

    `operation` is what it computes of its operands alone, without other arguments, `bind` says what it computes of any
    arguments; see quick.py.
    """
    overload = operator(name)
    found = [(Kernel, overload), *((FORMS[form], other) for form, other in variants(overload))]
    for form, other in found:
        own = name_of(other)
        if own not in KERNELS:
            computes = compute
            if form is InPlace and updates is not None:
                form, computes = Updating, updates
            KERNELS[own] = form(
                other, computes, promotes, inferred, overload, refuses, operator(asked) if asked else None
            )
            call: Callable[..., Any] = KERNELS[own].__call__
            if operation is not None and form is not Out:
                call = quick(KERNELS[own], operation)
            elif bind is not None and form is Kernel:
                call = settled(KERNELS[own], bind)
            _register(own, call)


def implements(
    *names: str,
    promotes: Promotion | None = None,
    first: int = 0,
    inferred: bool = True,
    operation: Operation | None = None,
    refuses: Callable[..., str | None] | None = None,
    asked: str | None = None,
    updates: Callable[..., None] | None = None,
) -> Callable[[F], F]:
    """Declares what a function of hologram's tensors computes: ATen's operators, whose arguments it takes.

    `promotes` brings the operands from position `first` on to one dtype, by PyTorch's rule of that kind. `inferred` is
    false where shapes depend on elements. `operation` is what the function computes when it is given operands alone.
    `refuses` says why PyTorch refuses arguments that its kernels without elements let pass, or None; its CPU is asked
    too, about the operator `asked` where it does not have this one. `updates` is the form in place, where that writes
    to a part of its first operand and leaves the rest as it is.
    """

    def declare(compute: F) -> F:
        for name in names:
            add(
                name,
                compute,
                None if promotes is None else Promotes(promotes, first),
                inferred,
                operation,
                refuses=refuses,
                asked=asked,
                updates=updates,
            )
        return compute

    return declare
