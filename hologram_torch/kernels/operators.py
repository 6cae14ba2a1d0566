"""ATen's operators by name, and which are forms of one another: new results, in place, into given outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch._C import DispatchKey, DispatchKeySet
from torch._ops import OpOverload

LOOP = DispatchKeySet(DispatchKey.CompositeExplicitAutograd)  # of PyTorch's own, for any device


def operator(name: str) -> OpOverload:
    """The operator that a name like "add.Tensor" is of."""
    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def known(name: str) -> OpOverload | None:
    """The operator of a name, or None where this PyTorch has none: versions add, rename and drop some."""
    packet, _, overload = name.partition(".")
    group = getattr(torch.ops.aten, packet, None)
    return None if group is None else getattr(group, overload or "default", None)


def present(names: str) -> Iterator[OpOverload]:
    """Those of several operators, by names between spaces, that this PyTorch has."""
    return filter(None, map(known, names.split()))


def has_kernel(overload: OpOverload, key: str) -> bool:
    """Whether PyTorch has a kernel for an operator at a key of its dispatcher, by the key's name."""
    return overload.has_kernel_for_dispatch_key(DispatchKey.__members__[key])


def name_of(overload: OpOverload) -> str:
    """Its name in ATen, without the overload where that is the default one."""
    return overload._schema.name.removeprefix("aten::") + (
        f".{overload._schema.overload_name}" if overload._schema.overload_name else ""
    )


def is_output(argument: Any) -> bool:
    """Whether an argument is one that results are written to, by keyword."""
    return argument.kwarg_only and argument.alias_info is not None and argument.alias_info.is_write


def variants(overload: OpOverload) -> Iterator[tuple[str, OpOverload]]:
    """The forms of an operator that computes new results: ("in_place", ...) and ("out", ...)."""
    schema = overload._schema
    base = schema.name.removeprefix("aten::")
    wanted = [(a.name, str(a.type)) for a in schema.arguments]
    for form, packet in (("in_place", f"{base}_"), ("out", base)):
        group = getattr(torch.ops.aten, packet, None)
        for name in group.overloads() if group is not None else ():
            other: OpOverload = getattr(group, name)
            inputs = [a for a in other._schema.arguments if not is_output(a)]
            outputs = len(other._schema.arguments) - len(inputs)
            if [(a.name, str(a.type)) for a in inputs] != wanted:
                continue
            first = inputs[0].alias_info if inputs else None
            if (form == "out" and outputs and outputs == len(schema.returns)) or (
                form == "in_place" and not outputs and first is not None and first.is_write
            ):
                yield form, other
