"""Everything that happens to a program between its declaration and its source: one list of passes.

A device chooses from it by its goal: `print(*PASSES)` tells what there is, `hologram explain` what ran, how long it
took and what it made of the program. HOLOGRAM_CHECK=1 holds every pass to its law (checking.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from hologram.atlas.opcodes import STRUCTURED
from hologram.atlas.program import Program
from hologram.atlas.text import digest, format_program, parse_program
from hologram.compiler.canonical.fast_math import SIMPLIFY_FAST, WIDE_INTERMEDIATES
from hologram.compiler.canonical.form import SIMPLIFY, identity_of, plain_text
from hologram.compiler.canonical.launched import DECIDED, KNOWN
from hologram.compiler.dialect import Dialect
from hologram.compiler.digest import compiler_digest
from hologram.compiler.functions.transcendental import EXPAND
from hologram.compiler.lowering.aliasing import MERGE
from hologram.compiler.lowering.arithmetic import SPELL_OUT
from hologram.compiler.lowering.bounds import GUARD
from hologram.compiler.lowering.codes import HOLD
from hologram.compiler.lowering.lower import WIDEN, refuse
from hologram.compiler.lowering.nan_guards import NAN_GUARDS
from hologram.compiler.lowering.paging import PAGE
from hologram.compiler.lowering.parts import PART
from hologram.compiler.lowering.shuffles import SHUFFLES
from hologram.compiler.lowering.unrolling import UNROLL
from hologram.compiler.passes import Applied, Goal, Pass, Stage, programs, size
from hologram.compiler.scheduling.reproducible import REPRODUCE
from hologram.compiler.scheduling.split import SPREAD
from hologram.foundation import debug, lazy, store
from hologram.foundation.config import config
from hologram.foundation.debug import Rung
from hologram.machine.limits import Limits
from hologram.machine.plan import Plan
from hologram.opset.forms.steps import Steps

if TYPE_CHECKING:
    from hologram.compiler import checking
else:  # needed where HOLOGRAM_CHECK asks for it
    checking = lazy.module("hologram.compiler.checking")

PASSES: tuple[Pass, ...] = (
    PART,
    HOLD,
    SPREAD,
    REPRODUCE,
    KNOWN,
    DECIDED,
    WIDE_INTERMEDIATES,
    SIMPLIFY_FAST,
    SIMPLIFY,
    MERGE,
    PAGE,
    GUARD,
    SHUFFLES,
    WIDEN,
    EXPAND,
    NAN_GUARDS,
    SPELL_OUT,
    UNROLL,
)

MOST_ROUNDS = 8
LONG = 30  # instructions: from there on a form is read faster than it is made
_TRAIL: ContextVar[list[Applied] | None] = ContextVar("passes that were applied", default=None)


@contextmanager
def recorded() -> Iterator[list[Applied]]:
    """Notes every pass that this thread applies inside; nothing is taken from what is kept then."""
    trail: list[Applied] = []
    token = _TRAIL.set(trail)
    try:
        yield trail
    finally:
        _TRAIL.reset(token)


def observed() -> bool:
    """Whether somebody wants to see passes, so that they have to run even if their result is known."""
    return _TRAIL.get() is not None or config.check or debug.shows(Rung.REWRITE)


def chosen(stage: Stage, goal: Goal) -> tuple[Pass, ...]:
    """The passes of a stage that a goal wants."""
    return tuple([step for step in PASSES if step.stage is stage and step.wanted(goal)])


def applied(step: Pass, before: Any, goal: Goal) -> Any:
    """What a pass makes of a program or step; raises CompileError where HOLOGRAM_CHECK finds that it breaks its law."""
    trail = _TRAIL.get()
    start = 0.0 if trail is None else perf_counter()
    after = step.apply(before, goal)
    if trail is not None:
        trail.append(Applied(step, before, after, perf_counter() - start))
    if after is before:
        return before
    if debug.shows(Rung.REWRITE) and after != before:
        (program,) = programs(before)
        sizes = f"{size(before)} -> {size(after)} instructions"
        debug.show(Rung.REWRITE, f"{program.name}: {step.name}, {sizes}")
    if config.check:
        checking.check(step, before, after, goal)
    return after


def run(stage: Stage, program: Program, goal: Goal) -> Program:
    """A program after all passes of a stage."""
    for step in chosen(stage, goal):
        program = applied(step, program, goal)
    return program


def planned(plan: Plan, operands: int, limits: Limits) -> Plan:
    """A plan after the passes of steps; `operands` counts its inputs and outputs, its scratch comes after them."""
    goal = Goal(limits=limits)
    for step in chosen(Stage.PLAN, goal):
        parts = [applied(step, s, goal) for s in plan.steps]
        if any(isinstance(part, Plan) for part in parts):
            steps = Steps(operands)
            steps.scratch += plan.scratch
            for before, after in zip(plan.steps, parts, strict=True):
                if isinstance(after, Plan):
                    steps.extend(after, before.operands)
                else:
                    steps.steps.append(after)
            plan = steps.plan()
        elif any(after is not before for before, after in zip(plan.steps, parts, strict=True)):
            plan = Plan(tuple(parts), plan.scratch)
    return plan


def lower(program: Program, goal: Goal | Dialect) -> Program:
    """The program in terms of what a language spells; raises UnsupportedDType for what cannot be."""
    goal = Goal.language(goal) if isinstance(goal, Dialect) else goal
    if goal.dialect is not None:
        refuse(program, goal.dialect)
    return run(Stage.LANGUAGE, program, goal)


def held(program: Program) -> Program:
    """A program whose elements are real and all have an arithmetic; see lowering/parts.py and lowering/codes.py."""
    return run(Stage.HELD, program, Goal())


def canonical(program: Program, *, fast_math: bool = False) -> Program:
    """The canonical form, with the program's own names; canonical already, it is returned as it is.

    It computes the same to the bit, NaN, infinities, signed zeros and integer wrap included; but powers of floats with
    some constant exponents (powers.py) differ by 2 ULP at most, and a NaN's sign and payload are not kept. Effects keep
    their order, loads their place among them, parameters theirs.

    Args:
        program: a program that `verify` accepts.
        fast_math: allows, for floats: x * y + z rounded once (`mad`); x / c as x * (1 / c); constants of sums and of
            products brought together; x + 0 = x, x * 0 = 0 and x - x = 0 also for -0.0, NaN and infinities; f16 and
            bf16 intermediates kept in f32. Nothing else.
    """
    known = _FORMS[fast_math]
    if program not in known or _TRAIL.get() is not None:
        form = _kept_form(program, fast_math)
        # A table that held its key would keep it for ever.
        known[program] = None if form == program else form
    return known.get(program) or program


def _kept_form(program: Program, fast_math: bool) -> Program:
    """The canonical form; of a long program from the store, if any process made it before by the same sources."""
    compiler = None if observed() or sum(1 for _ in program.body.walk()) < LONG else compiler_digest()
    if compiler is None:
        return formed(program, fast_math=fast_math)
    return store.shared().kept(
        "forms",
        store.key(digest(program), str(fast_math), compiler),
        lambda: format_program(formed(program, fast_math=fast_math)).encode(),
        lambda content: parse_program(content.decode()),
    )


# By fast_math: forms are kept as long as somebody holds the program; None where it is its own.
_FORMS: dict[bool, WeakKeyDictionary[Program, Program | None]] = {
    fast: WeakKeyDictionary() for fast in (False, True)
}


def formed(program: Program, *, fast_math: bool = False) -> Program:
    """The canonical form, which is not kept: for programs that are asked about once."""
    # Without structure one round does it: every rule meets operands that are in their last form already. What leaves a
    # loop, or is no longer carried by it, changes what may be done next.
    goal = Goal(fast_math=fast_math)
    once = not fast_math and not program.opcodes & STRUCTURED
    before = None
    for _ in range(1 if once else MOST_ROUNDS):
        if program == before:
            break
        before = program
        program = run(Stage.FORM, program, goal)
    return program


def canonical_text(program: Program) -> str:
    """The text of the canonical form with names out of the way: kernel, b0..., s0..., m0... in declared order."""
    return plain_text(canonical(program))


def identity(program: Program) -> str:
    """SHA-256 of the canonical text, in hexadecimal."""
    return identity_of(canonical(program))
