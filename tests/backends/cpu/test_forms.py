"""How maps run that loop, ask about their border, or add to many places: what form they take, and what they compute."""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.atlas.opcodes import Opcode
from hologram.backends.cpu.kernel import OWN_GRIDS, ProgramKernel
from hologram.compiler.analysis.ranges import I64, Lanes
from hologram.compiler.scheduling.ahead import ahead
from hologram.compiler.scheduling.interior import inside, interior
from hologram.compiler.scheduling.loops import Variant, facts
from hologram.compiler.scheduling.threads import Threads

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def executor() -> Iterator[hg.Executor]:
    with hg.Executor("cpu") as opened:
        yield opened


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, Variant]]:
    """The programs, and the variants of their code, that are asked for from now on."""
    found, asked = set[tuple[str, Variant]](), ProgramKernel.code

    def code(kernel: ProgramKernel, variant: Variant) -> Any:
        found.add((kernel.program.name, variant))
        return asked(kernel, variant)

    monkeypatch.setattr(ProgramKernel, "code", code)
    return found


@pytest.mark.parametrize("shape", [(16, 8, 8), (3, 9, 5), (1, 8, 1), (2, 70, 3)])
def test_small_launches_of_a_loop_have_code_of_their_own(
    executor: hg.Executor, made: set[tuple[str, Variant]], shape: tuple[int, int, int]
) -> None:
    """Reductions along and across memory, and maps, in a scan: to the bit what NumPy has, NaN among it."""
    batch, ways, states = shape
    change = RNG.integers(-9, 9, (ways, states)).astype(np.float32)
    seen = RNG.integers(-9, 9, (4, batch, ways)).astype(np.float32)
    seen[2, 0, 0] = np.nan

    def turn(np_: Any, score: Any, now: Any) -> Any:
        every = (now + score[:, None])[:, :, None] + change_of[np_]
        return np_.max(now, axis=1), (np_.max(every, axis=1), np_.argmax(every, axis=1))

    change_of: dict[Any, Any] = {np: change, hg: executor.tensor(change)}
    first = np.zeros(batch, np.float32)
    scanned = hg.jit(lambda first, seen: hg.scan(lambda s, x: turn(hg, s, x), first, seen))
    last, (most, places) = scanned(executor.tensor(first), executor.tensor(seen))
    score, expected = first, []
    for now in seen:
        score, kept = turn(np, score, now)
        expected.append(kept)
    np.testing.assert_array_equal(last.to_numpy(), score)
    np.testing.assert_array_equal(most.to_numpy(), [m for m, _ in expected])
    np.testing.assert_array_equal(places.to_numpy(), [p for _, p in expected])
    assert any(variant.grid for _, variant in made), f"no code is for one grid alone: {made}"


def test_many_shapes_of_a_loop_share_code(executor: hg.Executor, made: set[tuple[str, Variant]]) -> None:
    looped = hg.jit(lambda x: hg.fori_loop(0, 3, lambda _, c: c * 0.5 + 1.75, x))
    compiled = []
    for rows in range(3, 3 + 2 * OWN_GRIDS):
        x = np.arange(5 * rows, dtype=np.float32).reshape(rows, 5)
        expected = ((x * 0.5 + 1.75) * 0.5 + 1.75) * 0.5 + 1.75
        np.testing.assert_array_equal(looped(executor.tensor(x)).to_numpy(), expected)
        compiled.append(len(made))
    assert compiled[0] < compiled[OWN_GRIDS - 1]
    assert compiled[OWN_GRIDS] == compiled[-1]


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1)])
@pytest.mark.parametrize("shape", [(320, 256, 1), (48, 128, 32), (33, 256, 48), (3, 1024, 16)])
@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_what_is_read_across_goes_by_strips(
    executor: hg.Executor,
    made: set[tuple[str, Variant]],
    order: tuple[int, ...],
    shape: tuple[int, ...],
    dtype: type,
) -> None:
    """Sums of a transposed array and one that lies in order, with a border whose inside is found, and without."""
    a = RNG.integers(-9, 9, shape).astype(dtype)
    b = RNG.integers(-9, 9, [shape[k] for k in order]).astype(a.dtype)
    x, y = executor.tensor(a), executor.tensor(b)
    np.testing.assert_array_equal((x.permute(*order) + y).to_numpy(), a.transpose(order) + b)
    np.testing.assert_array_equal((y + x.permute(*order)).to_numpy(), a.transpose(order) + b)
    padded = hg.jit(lambda x, y: hg.pad(x, ((0, 0), (1, 0), (0, 0))).permute(*order) + y)
    wider = np.pad(a, ((0, 0), (1, 0), (0, 0))).transpose(order)
    c = RNG.integers(-9, 9, wider.shape).astype(a.dtype)
    np.testing.assert_array_equal(padded(x, executor.tensor(c)).to_numpy(), wider + c)
    if shape == (320, 256, 1) and order == (1, 0, 2):
        assert 64 // a.itemsize in {variant.strips for _, variant in made}


@pytest.mark.parametrize(
    ("shape", "strips"), [((65_536, 3), 0), ((512, 512), 16), ((512, 120), 0), ((2048, 120), 16)]
)
def test_few_rows_and_lines_that_find_room_need_no_strips(
    executor: hg.Executor, made: set[tuple[str, Variant]], shape: tuple[int, int], strips: int
) -> None:
    x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    np.testing.assert_array_equal((executor.tensor(x).T + 1.0).to_numpy(), x.T + 1.0)
    assert {variant.strips for _, variant in made} == {strips}


@hg.kernel
def around(x: hg.Array[hg.f32, 2], out: hg.Array[hg.f32, 2], reach: hg.i32):
    i, j = hg.index()
    n, m = x.shape
    total = x[(i - reach + n) % n, j] + x[i, (j + 2) % m]
    if 0 < i < n - 1 and j >= 1:
        total += x[i, j - 1]
    out[i, j] = total


@pytest.mark.parametrize("shape", [(200, 300), (1, 4000), (9, 3000), (3000, 5)])
@pytest.mark.parametrize("reach", [0, 1, 5])
def test_what_is_asked_at_the_border_is_asked_there_alone(
    executor: hg.Executor, shape: tuple[int, int], reach: int
) -> None:
    x = RNG.random(shape, np.float32)
    n = shape[0]
    i, j = np.indices(shape)
    want = x[(i - reach + n) % n, j] + x[i, (j + 2) % shape[1]]
    want = want + np.where((i > 0) & (i < n - 1) & (j >= 1), x[i, j - 1], np.float32(0))
    out = executor.empty(shape)
    around[shape](executor.tensor(x), out, reach)
    assert np.array_equal(out.to_numpy(), want)


def test_the_inside_is_as_large_as_it_can_be() -> None:
    program = around.program(2)
    sizes = {"x_size0": 600, "x_size1": 300, "out_size1": 300, "reach": 1}
    lanes = Lanes.of(program, [sizes[s.name] for s in program.scalars], (600, 300), I64)
    found = interior(program, lanes, 1)
    assert found is not None
    assert found.margins == ((1, 1), (1, 2)) or found.margins == ((2, 2), (2, 2))
    within = inside(program, found.decided)
    assert Opcode.REM in program.opcodes
    assert Opcode.REM not in within.opcodes
    assert interior(within, Lanes.of(within, lanes.scalars.values(), (600, 300), I64), 1) is None  # type: ignore[arg-type]


@hg.kernel
def halved(x: hg.Array[hg.f32, 2], out: hg.Array[hg.i32, 2]):
    i, j = hg.index()
    value, count = x[i, j], 0
    while value > 1.0:
        value *= 0.5
        count += 1
    out[i, j] = count


@hg.kernel
def dots(a: hg.Array[hg.f32, 2], b: hg.Array[hg.f32], out: hg.Array[hg.f32]):
    i = hg.index()
    kept = hg.local(4, hg.f32)
    for k in range(b.size):
        kept[k % 4] += a[k, i] * b[k]
    out[i] = kept[0] + kept[1] + kept[2] + kept[3]


@pytest.mark.parametrize("shape", [(1, 1), (3, 31), (5, 64), (40, 200)])
def test_lanes_that_loop_go_together(executor: hg.Executor, shape: tuple[int, int]) -> None:
    assert facts(halved.program(2)).together
    x = (2.0 ** RNG.integers(-3, 30, size=shape) * (1 + RNG.random(shape) / 2)).astype(np.float32)
    x.flat[0] = np.nan
    out = executor.empty(shape, hg.i32)
    halved[shape](executor.tensor(x), out)
    with np.errstate(invalid="ignore"):
        want = np.where(x > 1, np.ceil(np.log2(x.astype(float))), 0).astype(int)
    assert np.array_equal(out.to_numpy(), want)
    found, b = executor.empty(shape[1]), RNG.random(shape[0], np.float32)
    dots[shape[1]](executor.tensor(x), executor.tensor(b), found)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(found.to_numpy(), b @ wide, rtol=1e-5)


def test_loops_that_differ_or_read_along_memory_stay_within_a_lane() -> None:
    @hg.kernel
    def rows(x: hg.Array[hg.i32, 2], ends: hg.Array[hg.i32], out: hg.Array[hg.i32, 2]):
        i = hg.index()
        for k in range(ends[i]):
            out[i, k] = 1
        for k in range(x.shape[1]):
            out[i, k] = x[i, k]

    program = rows.program()
    loops = [i for i in program.body.walk() if i.opcode is Opcode.LOOP]
    assert len(loops) == 2
    assert not any(map(Threads.of(program).go_together, loops))


def test_sums_along_memory_stay_within_a_lane_and_much_is_computed_ahead() -> None:
    @hg.kernel
    def total(x: hg.Array[hg.f32, 2], out: hg.Array[hg.f32]):
        i, s = hg.index(), 0.0
        for k in range(x.shape[1]):
            s += x[i, k]
        out[i] = s

    @hg.kernel
    def series(x: hg.Array[hg.f32, 2], out: hg.Array[hg.f32]):
        i, s = hg.index(), 0.0
        for k in range(x.shape[1]):
            y = x[i, k]
            s += 1.0 + y * (1.0 + y * (0.5 + y * (0.17 + y * (0.04 + y * 0.008))))
        out[i] = s

    @hg.kernel
    def product(x: hg.Array[hg.f32, 2], y: hg.Array[hg.f32, 2], out: hg.Array[hg.f32, 2]):
        (i, j), s = hg.index(), 0.0
        for k in range(y.shape[0]):
            s += x[i, k] * y[k, j]
        out[i, j] = s

    programs = [kernel.program(rank) for kernel, rank in ((total, 1), (series, 1), (product, 2))]
    assert [facts(program).together for program in programs] == [False, False, True]
    loops = [next(i for i in p.body.walk() if i.opcode is Opcode.LOOP) for p in programs]
    assert [ahead(loop) is not None for loop in loops] == [False, True, False]


@pytest.mark.parametrize(("length", "form"), [(0, "together"), (15, "together"), (16, "map")])
@pytest.mark.parametrize("lanes", [70, 300])
def test_few_turns_are_not_computed_ahead(
    executor: hg.Executor, made: set[tuple[str, Variant]], length: int, form: str, lanes: int
) -> None:
    @hg.kernel
    def series(x: hg.Array[hg.f32, 2], out: hg.Array[hg.f32]):
        i, s = hg.index(), 0.0
        for k in range(x.shape[1]):
            y = x[i, k]
            s += 1.0 + y * (1.0 + y * (0.5 + y * (0.25 + y * (0.125 + y * 0.0625))))
        out[i] = s

    y = RNG.integers(-2, 3, (lanes, length)).astype(np.float32)
    out = executor.empty(lanes)
    series[lanes](executor.tensor(y), out)
    want = 1.0 + y * (1.0 + y * (0.5 + y * (0.25 + y * (0.125 + y * 0.0625))))
    np.testing.assert_array_equal(out.to_numpy(), want.sum(axis=1))
    assert {variant.form for _, variant in made} == {form}


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 200])
def test_what_is_computed_ahead_is_folded_in_order(executor: hg.Executor, length: int) -> None:
    @hg.kernel
    def largest(x: hg.Array[hg.f32, 2], values: hg.Array[hg.f32], places: hg.Array[hg.i32]):
        i, best, place = hg.index(), -1.0e30, -1
        for k in range(1, x.shape[1], 2):
            y = x[i, k]
            z = y * (1.0 - y * (0.5 - y * (0.25 - y * (0.125 - y * (0.0625 - y)))))
            place = hg.where(z > best, k, place)
            best = hg.where(z > best, z, best)
        values[i] = best
        places[i] = place

    loop = next(i for i in largest.program(1).body.walk() if i.opcode is Opcode.LOOP)
    assert ahead(loop) is not None
    x = RNG.integers(-8, 8, size=(5, length)).astype(np.float32) / 4  # exact, and with many equal ones
    values, places = executor.empty(5), executor.empty(5, hg.i32)
    largest[5](executor.tensor(x), values, places)
    z = x * (1 - x * (0.5 - x * (0.25 - x * (0.125 - x * (0.0625 - x)))))
    for row, value, place in zip(z[:, 1::2], values.to_numpy(), places.to_numpy(), strict=True):
        assert (value, place) == ((row.max(), 1 + 2 * row.argmax()) if row.size else (np.float32(-1e30), -1))


@hg.kernel
def spread(x: hg.Array[hg.f32], at: hg.Array[hg.i32], out: hg.Array[hg.f32], counts: hg.Array[hg.i32]):
    i = hg.index()
    hg.atomic_add(out, at[i], x[i])
    hg.atomic_add(out, at[i] + 1, 2.0 * x[i])
    hg.atomic_add(counts, at[i], 1)


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("places", [1, 50, 3000])
def test_additions_to_many_places(places: int, threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLOGRAM_CPU_THREADS", threads)
    assert facts(spread.program()).scattered == ("out", 2)
    x, at = RNG.random(20_000, np.float32), RNG.integers(-1, places + 2, size=20_000).astype(np.int32)
    want, counted = np.ones(places), np.zeros(places, int)
    for offset, factor in ((0, 1.0), (1, 2.0)):
        within = (at + offset >= 0) & (at + offset < places)
        np.add.at(want, at[within] + offset, factor * x[within].astype(float))
    np.add.at(counted, at[(at >= 0) & (at < places)], 1)
    with hg.Executor("cpu") as executor:
        out, counts = executor.full(places, 1.0), executor.zeros(places, hg.i32)
        spread[20_000](executor.tensor(x), executor.tensor(at), out, counts)
        np.testing.assert_allclose(out.to_numpy(), want, rtol=1e-4)
        assert np.array_equal(counts.to_numpy(), counted)


def test_one_memory_in_two_places_is_added_to_as_it_is(executor: Any) -> None:
    both = executor.zeros(40)
    x, at = executor.full(4000, 1.0), executor.tensor(np.arange(4000, dtype=np.int32) % 39)

    @hg.kernel
    def twice(x: hg.Array[hg.f32], at: hg.Array[hg.i32], one: hg.Array[hg.f32], other: hg.Array[hg.f32]):
        hg.atomic_add(one, at[hg.index()], x[hg.index()])
        hg.atomic_add(other, at[hg.index()], x[hg.index()])

    twice[4000](x, at, both, both)
    assert both.to_numpy().sum() == 8000


def test_operations_that_wrap_around(executor: hg.Executor) -> None:
    """They are large enough for an inside of their own."""
    array = RNG.random((500, 700), np.float32)
    x = executor.tensor(array)
    for found, want in (
        (hg.roll(x, (3, -5), (0, 1)), np.roll(array, (3, -5), (0, 1))),
        (hg.pad(x, ((2, 3), (4, 1)), mode="wrap"), np.pad(array, ((2, 3), (4, 1)), mode="wrap")),
        (hg.concat([x, x[:, :9]], axis=1), np.concatenate([array, array[:, :9]], axis=1)),
        (hg.triu(x, 3), np.triu(array, 3)),
    ):
        assert np.array_equal(found.to_numpy(), want)


@hg.kernel(workgroup=24)
def by_workgroup(out: hg.Array[hg.f32]):
    total = 0.0
    for k in range(hg.workgroup_index()):
        total += k + 1.0
    out[hg.index()] = total


def test_neighbours_of_two_workgroups_do_not_loop_alike(executor: hg.Executor) -> None:
    out, group = executor.empty(1000), np.arange(1000) // 24
    by_workgroup[1000](out)
    assert np.array_equal(out.to_numpy(), group * (group + 1) / 2)
