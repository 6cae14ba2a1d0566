"""Steps of a plan as a page runs them: WGSL, bindings, words and workgroups, for any adapter of WebGPU's own limits."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hologram.backends.webgpu.aliasing import mixed_access, shared_parameters
from hologram.backends.webgpu.reference import LIMITS as REFERENCE
from hologram.backends.webgpu.wgsl.dialect import wgsl
from hologram.compiler.passes import Goal, Stage
from hologram.compiler.pipeline import run
from hologram.compiler.source.generator import generator
from hologram.foundation.dtypes import f64, i64, u64
from hologram.foundation.errors import UnsupportedOperation
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Binding
from hologram.machine.limits import Limits
from hologram.machine.plan import Step

FOLDER = Path(__file__).parent  # all that decides the text
WIDE = frozenset({i64, u64})  # two words each, as in any browser
LIMITS = replace(
    REFERENCE,
    dtypes=frozenset(d for d in REFERENCE.dtypes if d.part is not f64),
    emulated_dtypes=WIDE,
    tracks_whole_buffers=True,
)
SOFTWARE = replace(LIMITS, software=True, parallelism=4)  # an adapter that computes on some cores of the CPU


@frozen
class Exported:
    """A dispatch: buffers by number, each with the offset and the size in bytes that are bound."""

    text: str
    entry: str
    writable: tuple[bool, ...]
    bindings: tuple[tuple[int, int, int], ...]
    parameters: tuple[int, ...]  # words of the uniform buffer behind the bindings
    groups: tuple[int, int, int]


def exported(step: Step, areas: Sequence[Binding], limits: Limits) -> Exported | None:
    """A step on parts of buffers, whose memories are numbers; None where there is nothing to do.

    Raises UnsupportedOperation for an operand of more than 128 MiB, which a browser does not bind.
    """
    kernel = step.kernel
    largest = max((b.nbytes for b in areas), default=0)
    if largest > limits.max_binding_bytes:
        raise UnsupportedOperation(
            f"export_web: {kernel.name} sees {largest} bytes at once, a browser 128 MiB"
        )
    bound, read_write = list(areas), False
    if not kernel.stem:
        shared = shared_parameters(kernel, areas)
        read_write = mixed_access(kernel, areas, shared)
        assert kernel.program is not None
        kernel = run(Stage.BINDING, kernel.program, Goal(shared=shared, cut=None))
        bound = [areas[k] for k in sorted(set(shared))]
    writer = generator(kernel, wgsl(limits.dtypes, WIDE, read_write=read_write), limits, FOLDER)
    source = writer.source(writer.variant(step.grid, step.scalars))
    groups = source.groups(step.grid, limits)
    if not math.prod(groups):
        return None
    writable = tuple(read_write or w for w in source.writable)
    words = source.pack(step.scalars, step.grid)
    bindings: list[Any] = [(b.memory, b.offset, max(16, -(-b.nbytes // 16) * 16)) for b in bound]
    parameters = struct.unpack(f"<{len(words) // 4}I", words)
    return Exported(source.text, source.entry, writable, tuple(bindings), parameters, groups)


def seen_twice(step: Step, areas: Sequence[Binding]) -> list[int]:
    """Operands of a hand-written kernel that meet one before: such a kernel declares all as written, and a browser
    lets none of these meet. Those that it only reads may be copies.
    """
    if not step.kernel.stem:
        return []
    return [k for k, a in enumerate(areas) if any(_meet(a, b) for b in areas[:k])]


def _meet(a: Binding, b: Binding) -> bool:
    return a.memory == b.memory and a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes
