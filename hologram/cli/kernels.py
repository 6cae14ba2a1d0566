"""`hologram kernels`: the operations, and the kernels that each of them runs as on a backend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import numpy as np
import typer

from hologram.backends import registry
from hologram.cli.display import BACKENDS, output, print_json
from hologram.foundation import dtypes
from hologram.foundation.display import table
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.plan import Step, Target
from hologram.opset import OPERATIONS
from hologram.opset.forms.operation import Operation
from hologram.runtime import selector


@frozen
class ExplainedOperation:
    """An operation on a backend: the bound of its error, and what runs for its sample arguments of one dtype.

    `generated` are entry points of generated kernels, `hand_written` the stems of tiles. A `composite` calls other
    operations and has no kernels of its own.
    """

    name: str
    dtypes: tuple[str, ...]
    ulp: float
    dtype: str
    composite: bool
    generated: tuple[str, ...]
    hand_written: tuple[str, ...]


def kernels(
    names: Annotated[list[str] | None, typer.Argument(help="Operations; all of them by default.")] = None,
    backend: Annotated[str, typer.Option(help=f"{BACKENDS}; it need not be here.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the operations, and the kernels each of them runs as on a backend."""
    unknown = sorted(set(names or ()) - OPERATIONS.keys())
    if unknown:
        raise typer.BadParameter(f"there is no operation {', '.join(unknown)}")
    chosen = selector.choose().name if backend == "auto" else backend
    probe = registry.probe(chosen)
    limits = probe.devices[0].limits if probe.available else registry.reference_limits(chosen)
    explanations = [explained(OPERATIONS[name], limits) for name in sorted(names or OPERATIONS)]
    if as_json:
        print_json({"backend": chosen, "operations": [asdict(e) for e in explanations]})
        return
    shown = table("operation", "error, ULP", "kernels", "hand-written", numbers=("error, ULP",))
    for e in explanations:
        generated = "of other operations" if e.composite else " ".join(e.generated)
        shown.add_row(e.name, f"{e.ulp:g}", generated, " ".join(e.hand_written))
    output.print(f"[bold]What operations run as on {chosen}[/]")
    output.print(shown)


def explained(operation: Operation, limits: Limits) -> ExplainedOperation:
    """Plans the operation's samples of one dtype for a device of these limits; runs nothing."""
    known = [d for d in operation.dtypes if d in limits.dtypes]
    dtype = dtypes.f32 if dtypes.f32 in known else known[0]
    steps = () if operation.composite else tuple(_steps(operation, dtype, limits))
    programs = (s.kernel.name for s in steps if not s.kernel.stem)
    tiles = (s.kernel.stem for s in steps if s.kernel.stem)
    return ExplainedOperation(
        name=operation.name,
        dtypes=tuple(d.name for d in known),
        ulp=operation.ulp_on(limits),
        dtype=dtype.name,
        composite=operation.composite,
        generated=tuple(dict.fromkeys(programs)),
        hand_written=tuple(dict.fromkeys(tiles)),
    )


def _steps(operation: Operation, dtype: DType, limits: Limits) -> Iterator[Step]:
    for sample in operation.samples(np.random.default_rng(0), dtype):
        operands, attributes = operation.bind(sample.operands, sample.attributes)
        inputs = [_layout(o) for o in operands]
        yield from operation.plan(
            inputs, operation.infer(inputs, attributes), attributes, Target(limits)
        ).steps


def _layout(operand: Any) -> Any:
    is_array = isinstance(operand, np.ndarray)
    return Layout.contiguous(dtypes.dtype(operand.dtype), operand.shape) if is_array else operand
