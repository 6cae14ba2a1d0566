"""The memory plan: nothing that lives at the same time overlaps, and little is needed."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from hologram.atlas.builder import Builder
from hologram.atlas.program import Access, Program
from hologram.compiler.fusion.memory import Arenas, Life, arrange
from hologram.foundation.dtypes import f32, i8
from hologram.machine.limits import ALIGNMENT
from hologram.machine.plan import Plan, Scratch, Step, Tile, reading, writing
from tests.devices import limits

FIRST = 2  # one input, one output
ONE = limits()
APART = replace(ONE, tracks_whole_buffers=True)
UNIT = ALIGNMENT // f32.itemsize  # elements


def step(reads: list[int], writes: list[int]) -> Step:
    """A step that adds up what lies at some positions and stores that at others."""
    b = Builder("atlas_test")
    sources = [b.buffer(f"x{k}", f32, Access.READ) for k in range(len(reads))]
    targets = [b.buffer(f"y{k}", f32, Access.WRITE) for k in range(len(writes))]
    i = b.coordinate(0)
    total = b.constant(0.0, f32)
    for source in sources:
        total = total + b.load(source, i)
    for target in targets:
        b.store(target, i, total)
    return Step(b.build(), (*reads, *writes), (), (1,))


def chain(*units: int) -> Plan:
    """Each area is computed from the one before."""
    positions = [0, *range(FIRST, FIRST + len(units)), 1]
    steps = [step([a], [b]) for a, b in itertools.pairwise(positions)]
    return Plan(tuple(steps), tuple(Scratch(f32, n * UNIT) for n in units))


def lives(plan: Plan) -> list[Life]:
    """The definition, read off the plan."""
    uses = [
        [n for n, s in enumerate(plan.steps) if FIRST + k in s.operands] for k in range(len(plan.scratch))
    ]
    return [Life(min(u, default=0), max(u, default=-1)) for u in uses]


def at_once(plan: Plan) -> int:
    """The most bytes that live at one time: what no plan can go below."""
    sizes = [-(-s.size * s.dtype.itemsize // ALIGNMENT) * ALIGNMENT or ALIGNMENT for s in plan.scratch]
    return max(
        (
            sum(n for n, life in zip(sizes, lives(plan), strict=True) if life.first <= at <= life.last)
            for at in range(len(plan.steps))
        ),
        default=0,
    )


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    count = draw(st.integers(0, 12))
    areas = st.integers(0, FIRST + count - 1)
    steps = []
    for _ in range(draw(st.integers(0, 15))):
        chosen = draw(st.lists(areas, unique=True, min_size=1, max_size=5))
        cut = draw(st.integers(0, len(chosen)))
        steps.append(step(chosen[:cut], chosen[cut:]))
    sizes = draw(st.lists(st.integers(0, 3000), min_size=count, max_size=count))
    kinds = draw(st.lists(st.sampled_from([f32, i8]), min_size=count, max_size=count))
    return Plan(tuple(steps), tuple(map(Scratch, kinds, sizes)))


def check(plan: Plan, arenas: Arenas) -> None:
    spans = []
    for place, scratch, life in zip(arenas.places, plan.scratch, lives(plan), strict=True):
        assert place.offset % ALIGNMENT == 0
        end = place.offset + -(-max(1, scratch.size * scratch.dtype.itemsize) // ALIGNMENT) * ALIGNMENT
        if life.first <= life.last:
            assert end <= arenas.sizes[place.arena]
            spans.append((place.arena, place.offset, end, life))
    for k, (arena, start, end, life) in enumerate(spans):
        for other, begin, stop, another in spans[:k]:
            apart = arena != other or end <= begin or stop <= start
            assert apart or life.last < another.first or another.last < life.first
    whole = sum(-(-max(1, s.size * s.dtype.itemsize) // ALIGNMENT) * ALIGNMENT for s in plan.scratch)
    assert arenas.nbytes <= whole


@settings(deadline=None)
@given(plans())
def test_what_lives_at_once_never_overlaps(plan: Plan) -> None:
    arenas = arrange(plan, FIRST, ONE)
    check(plan, arenas)
    assert len(arenas.sizes) <= 1
    assert arenas.nbytes >= at_once(plan)


@settings(deadline=None)
@given(plans())
def test_what_a_step_reads_and_writes_lies_in_different_arenas_where_it_must(plan: Plan) -> None:
    arenas = arrange(plan, FIRST, APART)
    check(plan, arenas)
    for each in plan.steps:
        places: dict[Access, set[int]] = {}
        assert isinstance(each.kernel, Program)
        for parameter, position in zip(each.kernel.buffers, each.operands, strict=True):
            if position >= FIRST:
                places.setdefault(parameter.access, set()).add(arenas.places[position - FIRST].arena)
        assert not places.get(Access.READ, set()) & places.get(Access.WRITE, set())


@settings(deadline=None)
@given(plans(), st.integers(1, 20))
def test_no_arena_is_larger_than_the_largest_buffer_or_area(plan: Plan, most: int) -> None:
    arenas = arrange(plan, FIRST, replace(ONE, max_buffer_bytes=most * ALIGNMENT))
    check(plan, arenas)
    largest = max((s.size * s.dtype.itemsize for s in plan.scratch), default=0)
    assert all(n <= max(most * ALIGNMENT, -(-largest // ALIGNMENT) * ALIGNMENT) for n in arenas.sizes)


@given(st.lists(st.just(5), min_size=2, max_size=20))
def test_a_chain_of_equal_areas_needs_two(units: list[int]) -> None:
    for where in (ONE, APART):
        assert arrange(chain(*units), FIRST, where).nbytes == 2 * 5 * ALIGNMENT
    assert len(arrange(chain(*units), FIRST, APART).sizes) == 2


@given(st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_short_chains_need_what_lives_at_once(units: list[int]) -> None:
    plan = chain(*units)
    assert arrange(plan, FIRST, ONE).nbytes == at_once(plan)


def test_the_smallest_gap_is_taken() -> None:
    """Of two gaps, not the first that is large enough."""
    # Areas 0 and 2 hold their places throughout; 1 and 3 end, and leave gaps of 4 and 2 units for 4, which needs 2.
    steps = [step([0], [2, 3, 4, 5]), step([2, 4], [6]), step([2, 4, 6], [1])]
    plan = Plan(tuple(steps), tuple(Scratch(f32, n * UNIT) for n in (9, 4, 3, 2, 2)))
    places = arrange(plan, FIRST, ONE).places
    assert [place.offset // ALIGNMENT for place in places] == [0, 9, 13, 16, 16]


def test_hand_written_kernels_may_bind_one_buffer_to_all() -> None:
    """They declare every buffer read-write, which WebGPU allows for parts of one buffer."""
    tile = Tile("test", (*reading(f32, "x"), *writing(f32, "y")), ())
    plan = Plan(
        (step([0], [2]), Step(tile, (2, 3), (), (1, 1, 1)), step([3], [1])),
        (Scratch(f32, UNIT), Scratch(f32, UNIT)),
    )
    assert arrange(plan, FIRST, APART).sizes == (2 * ALIGNMENT,)


def test_areas_that_no_step_uses_take_no_room() -> None:
    assert arrange(Plan((), (Scratch(f32, 1000),)), FIRST, ONE).nbytes == 0
