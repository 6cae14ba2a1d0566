"""What a call launched, joined: calls like it launch just that, all of it at once, and ask nothing more."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from hologram.atlas.program import Access
from hologram.foundation.frozen import frozen
from hologram.foundation.sizes import plain
from hologram.machine.kernel import Area
from hologram.machine.plan import Given, Step
from hologram.runtime.launches.launcher import Launches, Placed, Structure
from hologram.runtime.launches.recording import Recording
from hologram.runtime.memory.blocks import Block, storage_bytes


@frozen
class Joined:
    """Launches as one: its arguments are the places of the inputs and of the new results, then these numbers.

    Among the numbers are places of constants.
    """

    structure: Structure
    numbers: tuple[Any, ...]


class _Regions:
    """The memory that launches met, as arguments of one launch."""

    def __init__(
        self,
        places: Sequence[int],
        blocks: Sequence[Block],
        results: Sequence[Block],
        constants: Mapping[Block, int],
    ) -> None:
        self._inputs = tuple(zip(places, blocks, strict=True))
        self._results = {block: len(places) + k for k, block in enumerate(results)}
        self._constants = constants
        self._scratch: dict[Block, int] = {}

    def between(self, blocks: Mapping[Block, int], first: int) -> list[int]:
        """Takes the other blocks, of which so many bytes are used, for scratch memory: arguments from the `first` on.

        Gives how many bytes each has to have.
        """
        others = [b for b in blocks if b not in self._results and all(b is not i for _, i in self._inputs)]
        self._scratch = {block: first + k for k, block in enumerate(others)}
        return [storage_bytes(blocks[block]) for block in others]

    def area(self, place: int, nbytes: int) -> Area | None:
        """Bytes from a place on; None where it lies in memory of somebody else's."""
        for known in (self._scratch, self._results, self._constants):
            for block, argument in known.items():
                if _lies(place, nbytes, block):
                    return Area(argument, place - block.place, nbytes)
        for k, (start, block) in enumerate(self._inputs):
            if _lies(place, nbytes, block):
                return Area(k, place - start, nbytes)
        return None


def _lies(place: int, nbytes: int, block: Block) -> bool:
    """Whether bytes from a place on lie in a block; where there are none, whether the place does."""
    first = plain(place) - block.place
    return 0 <= first < block.nbytes and first + plain(nbytes) <= block.nbytes


def joined(
    launches: Launches,
    recording: Recording,
    places: Sequence[int],
    blocks: Sequence[Block],
    results: Sequence[Block],
    told: dict[int, Any],
) -> Joined | None:
    """What was recorded as one launch on inputs at places in blocks, and on the results' blocks.

    `told` are numbers of the call by their `id`: arguments of the launch, in order, where they were handed on
    unchanged. None where there is nothing to join, or where it touched memory of somebody else's.
    """
    first = len(places) + len(results)
    constants = {block: first + len(told) + k for k, block in enumerate(recording.constants)}
    regions = _Regions(places, blocks, results, constants)
    numbers: list[Any] = [block.place for block in constants]
    count = first + len(told) + len(constants)
    count += sum(s is None for one, _ in recording.launched for s in one.sizes)
    arenas = regions.between(recording.blocks, count)
    own, steps = len(arenas), []
    whole: Structure | None = None  # that is all of it
    order = {key: first + k for k, key in enumerate(told)}
    for structure, arguments in recording.launched:
        moved: list[Any] = []
        for size, argument in zip(structure.sizes, arguments, strict=True):
            if size is None and id(argument) not in order:
                moved.append(first + len(told) + len(numbers))
                numbers.append(argument)
            else:
                moved.append(order[id(argument)] if size is None else regions.area(argument, size))
        if any(place is None for place in moved):
            return None
        moved += _in_turns(structure.arenas, arenas, own, count)
        if len(recording.launched) == 1 and not own and not constants and _stays(moved, structure, count):
            whole, steps = structure, list(structure.steps)
            break
        steps += [moved_to(placed, moved) for placed in structure.steps]
    new = {*range(len(places), count + own)} - {*constants.values()}
    if _reads_what_nobody_wrote(steps, new):
        return None
    if whole is not None:
        return Joined(whole, tuple(numbers))
    sizes = [0 if k < first or k in constants.values() else None for k in range(count)]
    numbers += [0.0] * (count - first - len(told) - len(numbers))
    held = tuple(recording.constants.values())
    return Joined(Structure(launches, steps, sizes, arenas, held=held), tuple(numbers))


def repeated(
    launches: Launches, recorded: Sequence[tuple[Structure, list[Any]]]
) -> tuple[Structure, list[Any]]:
    """What was recorded as one launch, and its arguments, which are the same each time."""
    arguments: list[Any] = []
    at: dict[int, int] = {}  # of each place
    sizes: list[int | None] = []
    calls: list[list[Any]] = []
    for structure, given in recorded:
        moved: list[Any] = []
        for size, argument in zip(structure.sizes, given, strict=True):
            number = len(arguments) if size is None else at.setdefault(argument, len(arguments))
            if number == len(arguments):
                arguments.append(argument)
                sizes.append(None if size is None else 0)
            moved.append(number if size is None else Area(number, 0, size))
        calls.append(moved)
    arenas: list[int] = []
    steps: list[Placed] = []
    for (structure, _), moved in zip(recorded, calls, strict=True):
        moved += _in_turns(structure.arenas, arenas, 0, len(arguments))
        steps += [moved_to(placed, moved) for placed in structure.steps]
    return Structure(launches, steps, sizes, arenas), arguments


def _in_turns(needed: Sequence[int], arenas: list[int], own: int, first: int) -> Iterator[Area]:
    """A launch's scratch memory: that of the launches before it, behind those arenas that are all their `own`."""
    for k, nbytes in enumerate(needed, own):
        if k < len(arenas):
            arenas[k] = max(arenas[k], nbytes)
        else:
            arenas.append(nbytes)
        yield Area(first + k, 0, nbytes)


def _stays(moved: Sequence[Any], structure: Structure, count: int) -> bool:
    """Whether a structure's arguments are those of the joined launch, so that it is that launch, and prepared."""
    if len(structure.sizes) != count:
        return False
    places = [(x.argument, x.first) if type(x) is Area else (x, 0) for x in moved]
    return places == [(k, 0) for k in range(len(moved))]


def _reads_what_nobody_wrote(steps: Sequence[Placed], new: Collection[int]) -> bool:
    """Whether a launch reads an argument that is new memory ahead of all that write to it: the host wrote there."""
    written: set[int] = set()
    for placed in steps:
        bound = list(zip(placed.areas, placed.step.kernel.buffers, strict=True))
        for area, b in bound:
            if b.access is Access.READ and area.argument in new and area.argument not in written:
                return True
        written |= {area.argument for area, b in bound if b.access is not Access.READ}
    return False


def moved_to(placed: Placed, moved: Sequence[Any]) -> Placed:
    """A step whose operands lie in the arguments of a larger launch."""
    step = placed.step
    areas = tuple(
        Area(moved[a.argument].argument, moved[a.argument].first + a.first, a.nbytes) for a in placed.areas
    )
    scalars = tuple(Given.of(x, moved[x.argument]) if type(x) is Given else x for x in step.scalars)
    return Placed(Step(step.kernel, step.operands, scalars, step.grid), areas)
