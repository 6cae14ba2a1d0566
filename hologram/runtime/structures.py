"""What an executor knows of calls: launches by the structure of what they are given.

`structures` is a dictionary from (operation, layouts of the operands, kinds of numbers, attributes) to a prepared
launch, which is told where this call's operands lie; see Structure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hologram.foundation.bounded_caches import FIFOCache
from hologram.machine.choices import Choices, untuned
from hologram.machine.device import Device
from hologram.machine.layout import Layout
from hologram.machine.plan import Given, Target
from hologram.runtime.launches.launcher import Launches, Structure, handed_on
from hologram.runtime.launches.recording import Recording, dry
from hologram.runtime.launches.templates import Planner, Templates
from hologram.runtime.launches.validation import cache_key, sizes
from hologram.runtime.memory.allocation import Allocation, BufferSpec
from hologram.runtime.memory.blocks import storage_bytes
from hologram.runtime.memory.buffer import Buffer
from hologram.runtime.memory.view import View

if TYPE_CHECKING:
    from hologram.opset.forms.operation import Operation

MAX_STRUCTURES = 8192
MAX_CONTROLS = 256
recordings = Recording.open


class Structures(Allocation):
    """The memory of an executor, and what it launches for operands that lie like those it met."""

    def __init__(self, device: Device, choices: Choices = untuned) -> None:
        super().__init__(device)
        self.target = Target(self.limits, choices)
        self.bound = Launches(self.device, self.pool, choices)
        self.structures: FIFOCache[Any, Structure] = FIFOCache(MAX_STRUCTURES)
        self.controls: FIFOCache[Any, Any] = FIFOCache(
            MAX_CONTROLS
        )  # what runs loops and choices, by what they are
        self._templates = Templates(self.kind)
        self._alignment = self.limits.binding_alignment

    def described(self, operands: Sequence[Any], key: list[Any], arguments: list[Any]) -> bool:
        """Adds to a key what a launch depends on of operands, and to its arguments where they lie, or their numbers.

        Of numbers that is the type; integers, which no launch is told, are planned for, and part of the key themselves.

        False where one was freed, belongs to another executor or reaches past its buffer: the checks say which.
        """
        if not self.usable:
            return False
        for operand in operands:
            if isinstance(operand, View):
                buffer, layout = operand.buffer, operand.layout
            elif isinstance(operand, Buffer):
                buffer, layout = operand, operand.kind.layout
            else:
                kind = type(operand)
                key.append((kind, operand) if kind is int else kind)
                arguments.append(operand)
                continue
            block = buffer.block
            if block is None or buffer.executor is not self:
                return False
            place = block.place
            kind = buffer.kind
            if layout is not kind.layout:
                low, high = layout.span
                if low < 0 or high > kind.size:
                    return False
                if low:
                    layout, first = layout.placed(self._alignment)
                    place += first
            key.append(layout)
            arguments.append(place)
        return True

    def structure(self, key: tuple[Any, ...], arguments: list[Any]) -> Structure | None:
        """What is known by a key, or follows from its class; of structures for one number alone, the one for that."""
        structure = self.structures.get(key)
        if structure is None:
            if recordings and dry():  # its sizes are those of a trace
                return None
            structure = self._templates.structure(key)
            return structure and self.structures.keep(key, structure)
        return self.of_numbers(structure, arguments) if structure.values else structure

    def of_numbers(self, structure: Structure, arguments: list[Any]) -> Structure | None:
        """Of a structure for one number alone, the one for that which is among the arguments, if it is known."""
        return self.structures.get((structure, *[cache_key(arguments[k]) for k in structure.values]))

    def _learned(
        self,
        key: tuple[Any, ...],
        operation: Operation,
        operands: Sequence[Any],
        targets: Sequence[Layout] | None,
        attributes: Mapping[str, Any],
        places: Sequence[Any],
    ) -> Structure:
        """The structure of an operation on checked operands, kept by its key; without targets it has new ones.

        Numbers that its kernels are told at the call may be others each time; `places` are where all of it lies.
        """
        inputs = [o.layout.placed(self._alignment)[0] if isinstance(o, View) else o for o in operands]

        def again(layouts: Sequence[Layout]) -> Structure:
            rest = iter(layouts)
            others = [next(rest) if isinstance(x, Layout) else x for x in inputs]
            outputs = None if targets is None else tuple(rest)
            if outputs is not None:  # whether they are the results' is part of what was decided
                _ = [x.shape for x in operation.infer(others, attributes)] == [x.shape for x in outputs]
            return self.planned(operation, others, outputs, attributes)

        structure = self.planned(operation, inputs, targets, attributes)
        if structure.values:
            known = self.structures.get(key)
            if known is None or known.values != structure.values:
                known = self.structures.keep(key, structure)
            key = (known, *[cache_key(inputs[k]) for k in structure.values])
            return self.structures.keep(key, structure)
        return self._kept(key, structure, again, places)

    def _kept(
        self, key: tuple[Any, ...], structure: Structure, plan: Planner, places: Sequence[Any]
    ) -> Structure:
        """Keeps a structure; `plan` gives what others of its class launch, by the layouts of the key."""
        if not (recordings and dry()):
            self._templates.learn(key, structure, plan, places)
        return self.structures.keep(key, structure)

    def planned(
        self,
        operation: Operation,
        inputs: Sequence[Any],
        targets: Sequence[Layout] | None,
        attributes: Mapping[str, Any],
    ) -> Structure:
        """What an operation runs for layouts and numbers; without targets it has new ones."""
        self.bound.made.add("planned")
        kinds: list[BufferSpec] = []
        if targets is None:
            results = operation.infer(inputs, attributes)
            kinds = [self.kind(sizes(x.shape, operation.name), self.supported(x.dtype)) for x in results]
            targets = [kind.layout for kind in kinds]
        told = self.bound.told if operation.hands_numbers_on else frozenset()
        floats: dict[int, Any] = {k: x for k, x in enumerate(inputs) if type(x) is float} if told else {}
        marked = [Given.of(floats[k], k) if k in floats else x for k, x in enumerate(inputs)]
        plan = operation.plan(marked, targets, attributes, self.target)
        nbytes = self._nbytes([x if isinstance(x, Layout) else None for x in (*inputs, *targets)])
        handed = handed_on(plan, told)
        if set(floats) - handed:  # it made another number of one
            plan = operation.plan(inputs, targets, attributes, self.target)
            handed = set()
        values = tuple(
            k
            for k, x in enumerate(inputs)
            if isinstance(x, (bool, int, float)) and type(x) is not int and k not in handed
        )
        return self.bound.structure(plan, nbytes, kinds, values)

    def _nbytes(self, layouts: Sequence[Layout | None]) -> list[int | None]:
        """What launches see of memory that lies so: from its place to the last element, in whole words for GPUs."""
        exact = self.limits.host_resident
        return [x and (x.reach_bytes if exact else storage_bytes(x.reach_bytes)) for x in layouts]
