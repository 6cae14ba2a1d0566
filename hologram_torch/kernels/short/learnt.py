"""What a recorded call has learnt: how calls like it go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from hologram.atlas.program import Access
from hologram.foundation.frozen import frozen
from hologram.frontend.tensor import Tensor
from hologram.runtime.launches.joining import joined
from hologram.runtime.launches.launcher import Structure
from hologram.runtime.launches.recording import Recording
from hologram.runtime.memory.allocation import BufferSpec
from hologram.runtime.memory.buffer import Buffer
from hologram_torch.device.devices import devices
from hologram_torch.kernels.numbers import bounds
from hologram_torch.kernels.short.recipe import BY_VALUE, Made, Recipe, Same
from hologram_torch.tensors.memory import as_rows, hologram_tensor, spans
from hologram_torch.watch import Complaint

CONSTANTS = (type(None), bool, int, float)  # results that follow from the structure


@frozen(slots=True)
class Arguments:
    """A call's arguments taken apart: what differs between calls of one structure."""

    told: bool  # whether floats are no part of the key
    sources: list[torch.Tensor]
    blocks: list[Any]
    places: list[int]
    floats: list[float]


def recipe_of(recording: Recording, taken: Arguments, returned: Any, dtype: Any) -> Any:
    """The recipe of a call that was recorded; BY_VALUE where floats have a say, None where it cannot be repeated."""
    several = isinstance(returned, (tuple, list))
    kinds: list[BufferSpec] = []
    blocks: list[Any] = []
    results: list[Any] = []
    for x in returned if several else (returned,):
        place = next((k for k, source in enumerate(taken.sources) if source is x), None)
        if place is not None or isinstance(x, CONSTANTS):
            results.append(x if place is None else Same(place))
            continue
        tensor = _tensor(x)
        if tensor is None:
            return None
        buffer = tensor.buffer
        if type(buffer) is not Buffer or buffer.block not in recording.blocks or buffer.block in blocks:
            return None
        results.append(Made(len(kinds), tensor.layout, spans(tensor.layout, buffer.kind.layout)))
        kinds.append(buffer.kind)
        blocks.append(buffer.block)
    told = {id(x): x for x in taken.floats} if taken.told else {}
    if (taken.told and len(told) < len(taken.floats)) or _computed_with(recording, told):
        return BY_VALUE
    flags: list[tuple[int, Complaint]] = []
    flagged = [flag.block for flag, _ in recording.asked]
    if any(block not in recording.blocks or block in blocks for block in flagged) or len(set(flagged)) < len(
        flagged
    ):
        return None
    for flag, complaint in recording.asked:
        flags.append((len(kinds), complaint))
        kinds.append(flag.kind)
        blocks.append(flag.block)
    if not recording.launched and not (results and all(type(x) is Made for x in results)):
        return None
    first: Any = _tensor(taken.sources[0] if taken.sources else returned)
    engine = first.executor
    structure, numbers = None, ()
    if recording.launched:
        whole = joined(engine.bound, recording, taken.places, taken.blocks, blocks, told)
        inputs = len(taken.places)
        if whole is None or (flags and not _heeded(whole.structure, inputs, [inputs + k for k, _ in flags])):
            return None
        structure, numbers = whole.structure, whole.numbers
    held = bounds(dtype) if told and dtype is not None else (0.0, 0.0)
    alone = None if several or type(results[0]) is not Made or not results[0].whole else results[0].layout
    return Recipe(
        engine=engine,
        structure=structure,
        kinds=tuple(kinds),
        numbers=numbers,
        results=tuple(results),
        form=type(returned) if several else None,
        only=alone,
        index=devices.number(engine),
        bounds=held,
        flags=tuple(flags),
    )


def _heeded(structure: Structure, inputs: int, flags: Iterable[int]) -> bool:
    """Whether it writes to none of its first arguments, the inputs, but by launches that read flags among the others.

    Else what was written would be written again by the long way, which raises.
    """
    known = set(flags)  # and what is made of them
    for placed in structure.steps:
        areas = zip(placed.areas, placed.step.kernel.buffers, strict=True)
        ways = [(area.argument, b.access) for area, b in areas]
        heeds = any(k in known and access is not Access.WRITE for k, access in ways)
        written = {k for k, access in ways if access is not Access.READ}
        if not heeds and any(k < inputs for k in written):
            return False
        known |= {k for k in written if heeds and k >= inputs}
    return True


def _computed_with(recording: Recording, told: dict[int, float]) -> bool:
    """Whether one of a call's floats was no argument of a launch, or one that a launch was planned for."""
    handed: set[int] = set()
    for structure, arguments in recording.launched:
        handed |= {id(x) for size, x in zip(structure.sizes, arguments, strict=True) if size is None}
        if any(id(arguments[k]) in told for k in structure.values):
            return True
    return not handed >= told.keys()


def _tensor(x: Any) -> Tensor | None:
    """A result as a tensor of hologram; None if it is none of the device's."""
    if isinstance(x, Tensor):  # of a call that was traced
        return Tensor(x.buffer, as_rows(x.layout))
    return hologram_tensor(x) if isinstance(x, torch.Tensor) and x.device.type == "hologram" else None
