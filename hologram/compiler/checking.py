"""HOLOGRAM_CHECK=1: a pass held to its law, by Atlas' evaluator on small data before and after it.

The data is poisoned: NaN, infinities, zeros of both signs, and the ends of the integers' ranges are among it. What the
instruction set leaves open (what a load outside of its buffer gives) is not compared; what a pass leaves open is taken
from its promise: programs are run with results that are wrong by as much as it allows, and the result has to lie among
those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from hologram.atlas.arithmetic import COMPUTE
from hologram.atlas.evaluate import evaluate
from hologram.atlas.opcodes import REDUCTIONS, Opcode
from hologram.atlas.program import Instruction, Program
from hologram.atlas.verify import verify
from hologram.compiler.passes import EXACT, Goal, Pass, Promise, Stage, Trial, programs
from hologram.foundation.dtypes import DType, bf16, f16, f32, index
from hologram.foundation.errors import CompileError, ProgramError
from hologram.machine.plan import Plan, Step

TRIALS = 4
MOST_INSTRUCTIONS = 20_000  # that a program may take on poisoned data: loops may be told to run for ever
MARGIN = 8.0  # times what the runs within a promise are apart
EPSILON = {f16: 2.0**-10, bf16: 2.0**-7, f32: 2.0**-23}
EXACTLY = frozenset({Opcode.BITCAST, Opcode.CONSTANT, Opcode.SCALAR, Opcode.SELECT})  # the bits that came
SUMS = frozenset({Opcode.ADD, Opcode.SUB, Opcode.MAD, Opcode.REDUCE_ADD})  # whose terms may cancel
SMALLEST = {f16: 2.0**-14, bf16: 2.0**-126, f32: 2.0**-126}  # that is normal
Results = dict[str, np.ndarray]


def check(step: Pass, before: Program | Step, after: Any, goal: Goal) -> None:
    """Raises CompileError, with the pass's name and the text before and after, for a result that is wrong."""
    (program,) = programs(before)
    broken = _broken(program)
    if broken is not None:
        raise CompileError(program.name, f"it breaks a rule as it was written: {broken}", str(program))
    for result in programs(after):
        broken = _broken(result)
        if broken is not None:
            raise _refused(step, before, after, f"breaks a rule: {broken}") from broken
    for number in range(TRIALS):
        aim, given, taken = step.tried(program, goal, poisoned(program, number, step.promise.finite))
        subject = step.apply(_over(before, given), aim) if aim is not goal else after
        wrong = _difference(step, program, subject, aim, given, taken)
        if wrong:
            numbers = ", ".join(f"{name} = {x}" for name, x in given.scalars.items())
            where = f"over {given.grid}{f' with {numbers}' if numbers else ''}"
            raise _refused(step, before, subject, f"changes the result: {where}, {wrong}")


def _broken(program: Program) -> ProgramError | None:
    try:  # a row's workgroup is a choice of the schedule's
        verify(replace(program, workgroup=None) if program.reduced else program)
    except ProgramError as error:
        return error
    return None


def _refused(step: Pass, before: Any, after: Any, what: str) -> CompileError:
    texts = ["\n".join(map(str, programs(subject))) for subject in (before, after)]
    name = programs(before)[0].name
    log = f"the pass {step.name!r} {what}\nbefore\n{texts[0]}\nafter\n{texts[1]}"
    return CompileError(name, log, texts[1])


def _over(before: Program | Step, trial: Trial) -> Program | Step:
    if isinstance(before, Program):
        return before
    scalars = tuple(trial.scalars[s.name] for s in before.kernel.scalars)
    return Step(before.kernel, tuple(range(len(before.kernel.buffers))), scalars, trial.grid)


# What programs are tried on.


def poisoned(program: Program, number: int, finite: bool = False) -> Trial:
    """Arguments for a program, others for each number: all pairs of special values, some of them, and none."""
    rng = np.random.default_rng(number)
    special = number % 2 == 0 and not finite
    side = (50 if number else 520) ** (1 / program.rank)
    grid = tuple(int(n) for n in rng.integers(math.ceil(side), math.ceil(side) + 3, program.rank))
    if program.workgroup is not None and not program.reduced:
        grid = (*(1 for _ in grid[1:]), program.workgroup + 5)
    lanes = math.prod(grid)
    size = (2 * lanes + 3, lanes, lanes // 2 + 1, lanes)[number % 4]
    buffers = {}
    for k, b in enumerate(program.buffers):
        pool = _special(b.dtype, positions=_counts_in_64_bits(program))
        buffers[b.name] = data(rng, b.dtype, size, pool if special else None)
        if special and not number:  # where lanes read at their own place, they meet every pair, and triple
            buffers[b.name] = pool[np.arange(size) // pool.size**k % pool.size]
    return Trial(buffers, {s.name: _number(rng, s.dtype, special) for s in program.scalars}, grid)


def _number(rng: np.random.Generator, dtype: DType, special: bool) -> complex | bool:
    """A scalar: those that count, such as a stride or a loop's step, are small."""
    if dtype.is_complex:
        return complex(*(_number(rng, dtype.part, special) for _ in range(2)))
    if not dtype.is_float:
        return bool(rng.integers(2)) if dtype.kind == "bool" else int(rng.integers(1, 6))
    return float(rng.choice([0.5, -1.5, 3.0, -0.0, math.inf, math.nan] if special else [0.5, -1.5, 3.0, 2.0]))


def data(rng: np.random.Generator, dtype: DType, size: int, special: np.ndarray | None) -> np.ndarray:
    """Small numbers, and every sixth a special one, where there are any."""
    if dtype.is_complex:
        parts = None if special is None else special.view(dtype.part.numpy)
        return data(rng, dtype.part, 2 * size, parts).view(dtype.numpy)
    if dtype.kind == "bool":
        return rng.random(size) < 0.5
    if dtype.is_float:
        small = rng.normal(0.0, 3.0, size).astype(dtype.numpy)
    else:
        small = rng.integers(0 if dtype.kind == "uint" else -9, 9, size).astype(dtype.numpy)
    if special is None:
        return small
    return np.where(rng.random(size) < 1 / 6, special[rng.integers(0, special.size, size)], small)


def _counts_in_64_bits(program: Program) -> bool:
    """Whether positions are made of integers of 64 bits."""
    made = (
        program.types[i.operands[0]]
        for i in program.body.walk()
        if i.opcode is Opcode.CONVERT and i.type == index
    )
    return any(dtype.bits == 64 for dtype in made)


def _special(dtype: DType, *, positions: bool = False) -> np.ndarray:
    """Eight values at most; `positions` may be multiplied by a stride, which must not overflow."""
    if dtype.kind == "bool":
        return np.array([False, True])
    if dtype.is_complex:
        return _special(dtype.part).view(dtype.numpy)
    with np.errstate(over="ignore"):
        if dtype.is_float:
            return np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.5, 1e-40]).astype(dtype.numpy)
    low, high = np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max
    if positions and dtype.bits == 64:
        low, high = max(low, -(2**40)), 2**40
    return np.array([low, high, 0, 1, 7, high // 2, low + 1, low // 2], dtype.numpy)


# Running them.


class _Endless(Exception):
    """The program takes more instructions than it is worth."""


class _Reading:
    """One way to read a program: what its loads give outside, and how wrong its results are within a promise."""

    def __init__(
        self,
        trial: Trial,
        promise: Promise = EXACT,
        outside: int = 0,
        sign: int = 0,
        seed: int = 0,
        contested: bool = False,
        fused: bool = False,
        signed: bool = False,
    ) -> None:
        self.memory = trial.buffers
        self.grid = trial.grid
        self.contested = contested  # what several lanes store to one place is something else
        self.fused = fused  # products that are added to are not rounded
        self.signed = signed  # NaN that arithmetic gives have the other sign
        self.promise = promise
        self.outside = outside  # 0: zeros, 1: the first element, 2: anything else
        self.sign = sign  # of the errors; 2: by chance
        self.rng = np.random.default_rng(seed)
        self.left = MOST_INSTRUCTIONS
        self.missed: set[str] = set()

    def __call__(self, i: Instruction, operands: Any, results: Any, mask: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise _Endless
        if i.opcode in (Opcode.LOAD, Opcode.STORE):
            return self.accessed(i, operands, results, mask)
        if self.fused and i.opcode is Opcode.MAD:
            return (COMPUTE[Opcode.FMA](i.type, *operands),)
        if self.sign and i.opcode in self.promise.opcodes and i.type.is_float:
            return (self.wrong(i, operands, results[0]),)
        if self.sign and i.opcode in self.promise.opcodes and i.type.is_complex:
            return (self.wrong_complex(i, operands, results[0]),)
        if self.signed and i.opcode not in EXACTLY and i.types and i.type.is_float:
            return tuple(np.where(np.isnan(x), -x, x) for x in results)
        return results

    def accessed(self, i: Instruction, operands: Any, results: Any, mask: Any) -> Any:
        memory, position = self.memory[str(i.attribute)], operands[0]
        outside = (position < 0) | (position >= memory.size)
        if self.contested and i.opcode is Opcode.STORE:
            acting = np.broadcast_to(True if mask is None else mask, np.broadcast(*operands).shape) & ~outside
            places = np.broadcast_to(position, acting.shape)[acting]
            several = np.bincount(places, minlength=memory.size) > 1
            memory[several] = memory[several] == 0  # 0 or 1, and the other where it was one of these
        if not outside.any() or (
            i.opcode is Opcode.STORE and mask is not None and not (mask & outside).any()
        ):
            return results
        self.missed.add(str(i.attribute))
        if i.opcode is Opcode.STORE or not self.outside or not memory.size:
            return results
        instead = memory[0] if self.outside == 1 else self.rng.permutation(memory)[0]
        return (np.where(outside, instead, results[0]),)

    def wrong(self, i: Instruction, operands: Any, exact: np.ndarray) -> np.ndarray:
        """A result off by as many units as the promise allows; of a sum, units of its terms' magnitudes."""
        signs = self.rng.choice([-1.0, 1.0], exact.shape) if self.sign == 2 else float(self.sign)
        wide = exact.astype(np.float64)
        scale = np.abs(wide)
        if i.opcode is Opcode.MAD:
            scale = np.maximum(scale, np.abs(operands[0].astype(np.float64) * operands[1].astype(np.float64)))
        if i.opcode in REDUCTIONS:
            terms = np.abs(operands[0].astype(np.float64))
            axes = tuple(k for k, (n, m) in enumerate(zip(terms.shape, exact.shape, strict=True)) if n != m)
            scale = np.maximum(scale, terms.sum(axis=axes, keepdims=True))
            if self.sign == 2:  # in another order it may overflow on the way
                wide = np.where(self.overflowing(i, terms, axes), np.nan, wide)
        unit = self.promise.ulp * EPSILON.get(i.type, 2.0**-52)
        smallest = np.where(scale == 0, 0.0, SMALLEST.get(i.type, 2.0**-1022))
        return (wide + signs * unit * np.maximum(scale, smallest)).astype(exact.dtype)

    def wrong_complex(self, i: Instruction, operands: Any, exact: np.ndarray) -> np.ndarray:
        """Likewise of complex numbers, in units of their magnitudes, or of those that they are made of."""
        signs = self.rng.choice([-1.0, 1.0], (2, *exact.shape)) if self.sign == 2 else float(self.sign)
        across, up = np.broadcast_to(signs, (2, *exact.shape))
        wide = exact.astype(np.complex128)
        sizes = [np.abs(x).max(initial=0.0) for x in operands] if i.opcode in SUMS else [0.0]
        scale = np.maximum(np.abs(wide), max(sizes) * max(1, max(np.size(x) for x in operands)))
        unit = self.promise.ulp * EPSILON.get(i.type.part, 2.0**-52)
        return (wide + unit * scale * (across + 1j * up)).astype(exact.dtype)

    def overflowing(self, i: Instruction, terms: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        """Where a part of a sum, or of a product, may be more than floats hold, or less."""
        times = 1 if axes else math.prod(self.grid)
        most = 1022.0 if i.type.bits == 64 else 125.0
        with np.errstate(all="ignore"):
            powers = np.log2(terms)
            powers = np.where(np.isfinite(powers), powers, 0.0) * times
            if i.opcode is not Opcode.REDUCE_MUL:
                return powers.max(axis=axes, keepdims=True, initial=0.0) + 10.0 > most
            above = np.maximum(powers, 0.0).sum(axis=axes, keepdims=True)
            below = np.minimum(powers, 0.0).sum(axis=axes, keepdims=True)
        return (above > most) | (below < -most)


def _run(subject: Any, trial: Trial, read: Callable[[Trial], _Reading]) -> tuple[Results, set[str]] | None:
    """The contents of the buffers afterwards, and those that were missed; None where it takes too long."""
    copies: dict[int, np.ndarray] = {}
    buffers = {n: copies.setdefault(id(a), a.copy()) for n, a in trial.buffers.items()}
    missed: set[str] = set()
    try:
        for program, names, scalars, grid in _launches(subject, trial, buffers):
            here = replace(trial, buffers={b.name: buffers[n] for b, n in names})
            reading = read(here)
            evaluate(program, here.buffers, scalars, grid, reading)
            missed |= reading.missed
    except _Endless:
        return None
    return buffers, missed


def _launches(subject: Any, trial: Trial, buffers: Results) -> Iterator[tuple[Program, Any, Mapping, tuple]]:
    """The programs of a subject with the names of what they see, their numbers and their grids."""
    if isinstance(subject, Program):
        yield subject, [(b, b.name) for b in subject.buffers], trial.scalars, trial.grid
        return
    plan = subject if isinstance(subject, Plan) else Plan((subject,))
    names = list(buffers)
    for k, scratch in enumerate(plan.scratch):
        names.append(f" scratch {k}")
        buffers[names[-1]] = data(
            np.random.default_rng(k), scratch.dtype, scratch.size, _special(scratch.dtype)
        )
    for step in plan.steps:
        seen = [(b, names[k]) for b, k in zip(step.kernel.buffers, step.operands, strict=True)]
        numbers = dict(zip((s.name for s in step.kernel.scalars), step.scalars, strict=True))
        yield step.program, seen, numbers, tuple(step.grid)


# What came of it.


def _difference(
    step: Pass, before: Program, after: Any, goal: Goal, given: Trial, taken: Trial
) -> str | None:
    """How the results differ, in words; None where they do not, or where nothing can be said."""
    try:
        first = _run(before, given, _Reading)
        if first is None:
            return None
        open_ways: list[dict[str, int]] = [{"outside": k} for k in (1, 2) if first[1]]
        open_ways += [{"contested": 1}] if step.stage is Stage.PLAN else []
        open_ways += [{"signed": 1}] if Opcode.BITCAST in before.opcodes else []
        promise = _left_open(before, step.promise)
        ways: list[dict[str, int]] = [
            {"sign": sign, "seed": k} for k, sign in enumerate((1, -1, 2, 2, 2)) if promise.ulp
        ]
        ways += [{"fused": 1}] if Opcode.MAD in promise.opcodes else []
        read = partial(partial, _Reading, promise=promise)
        others = [_run(before, given, read(**way)) for way in (*open_ways, *ways)]
    except ProgramError:  # a loop's step that is not positive
        return None
    if None in others:
        return None
    runs = [first[0], *(other[0] for other in others if other)]
    try:
        last = _run(after, taken, _Reading)
    except ProgramError as error:
        return f"it cannot be run: {error}"
    if last is None:
        return None
    results, missed = last
    beyond = sorted(missed & set(step.inside(before, goal)))
    if beyond:
        return f"a lane misses {', '.join(beyond)}, which is guarded"
    for b in before.buffers:
        if b.name in results:
            part = b.dtype.part  # of complex numbers each part is compared
            exact, *rest = [run[b.name].view(part.numpy) for run in runs]
            vague = [~_alike(exact, other) for other in rest[: len(open_ways)]]
            got = _as_seen(results[b.name], part)
            wrong = ~_agrees(got, exact, rest[len(open_ways) :], part, promise)
            wrong &= ~np.logical_or.reduce([np.zeros_like(wrong), *vague])
            if wrong.any():
                k = int(np.flatnonzero(wrong)[0])
                return f"{b.name}[{k}] was {exact[k]!r} and is {got[k]!r}"
    return None


def _as_seen(memory: np.ndarray, dtype: DType) -> np.ndarray:
    """Numbers of a dtype, which may have come as their codes."""
    return memory if memory.dtype == dtype.numpy else memory.view(dtype.numpy)


def _left_open(program: Program, promise: Promise) -> Promise:
    """A promise with what the instruction set leaves open: whether a product that is added to is rounded first."""
    if not any(i.opcode is Opcode.MAD and i.type.is_float for i in program.body.walk()):
        return promise
    return replace(promise, opcodes=promise.opcodes | {Opcode.MAD}, ulp=max(promise.ulp, 1.0))


def _agrees(
    got: np.ndarray, exact: np.ndarray, others: Collection[np.ndarray], dtype: DType, promise: Promise
) -> np.ndarray:
    """Where a result is one of those that are allowed."""
    alike = _alike(got, exact)
    if promise.finite and dtype.is_float:
        alike |= (got == exact) | ~np.isfinite(exact.astype(np.float64))
    if not others:
        return alike
    open_ = ~np.logical_and.reduce([_alike(other, exact) for other in others])
    if not dtype.is_float or not open_.any():
        return alike | open_
    with np.errstate(all="ignore"):
        wide = np.stack([exact, *others]).astype(np.float64)
        low, high = wide.min(0), wide.max(0)
        unit = promise.ulp * EPSILON.get(dtype, 2.0**-52)  # errors may cancel in the runs
        room = MARGIN * (high - low) + unit * np.abs(high) + SMALLEST.get(dtype, 2.0**-1022)
        among = (got.astype(np.float64) >= low - room) & (got.astype(np.float64) <= high + room)
    return alike | (among & (open_ | (exact != 0))) | (open_ & ~np.isfinite(wide).all(0))


def _alike(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Equal to the bit, or both NaN."""
    if x.dtype.kind in "biu":
        return x == y
    bits = f"u{x.dtype.itemsize}"
    nan = np.isnan(x.astype(np.float64)) & np.isnan(y.astype(np.float64))
    return nan | (x.view(bits) == y.view(bits))
