"""Generated WGSL that outlives the process. What the driver makes of it is the driver's own to keep."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from hologram import debug, dtypes, store
from hologram.atlas.program import Access, BufferParameter, ScalarParameter
from hologram.compiler.source.codegen import Source
from hologram.compiler.source.digest import generator_digest
from hologram.compiler.source.schedule import Schedule, Sweep
from hologram.debug import Rung

KIND = "webgpu"


def kept_source(identity: str, generate: Callable[[], Source]) -> Source:
    """A generated kernel, from the store if any process generated it before.

    `identity` tells apart all that `generate` may give under one code generator. Raises what `generate` does.
    """
    generator = generator_digest(Path(__file__).parents[1])
    # Rewrites that are to be shown have to be made.
    key = None if generator is None or debug.shows(Rung.REWRITE) else store.key(identity, generator)
    return store.shared().kept(KIND, key, lambda: _packed(generate()), _unpacked)


def _packed(source: Source) -> bytes:
    schedule = source.schedule
    values = {field.name: getattr(source, field.name) for field in fields(source)} | {
        "buffers": [(b.name, b.dtype.name, b.access.value) for b in source.buffers],
        "parameters": [(p.name, p.dtype.name) for p in source.parameters],
        "schedule": (schedule.sweep.value, schedule.workgroup, schedule.elements, schedule.threads),
    }
    return json.dumps(values).encode()


def _unpacked(content: bytes) -> Source:
    """Raises ValueError, TypeError or KeyError for what `_packed` did not make."""
    values = json.loads(content)
    sweep, *numbers = values["schedule"]
    x, y, z = values["workgroup"]
    return Source(
        **values
        | {
            "workgroup": (x, y, z),
            "buffers": tuple(BufferParameter(n, dtypes.named(d), Access(a)) for n, d, a in values["buffers"]),
            "parameters": tuple(ScalarParameter(n, dtypes.named(d)) for n, d in values["parameters"]),
            "schedule": Schedule(Sweep(sweep), *numbers),
        }
    )
