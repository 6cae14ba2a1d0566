"""What a pass is: a rewrite of programs with a name, the law it keeps, and who wants it.

The passes themselves stand beside what they rewrite with; `pipeline.PASSES` has them all, in the order they run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Any

from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Program
from hologram.atlas.rewrite import Unrolling
from hologram.compiler.dialect import Dialect
from hologram.foundation.dtypes import DType, Number
from hologram.foundation.frozen import frozen
from hologram.machine.limits import Limits
from hologram.machine.plan import Plan, Step

Place = tuple[str, int]  # an access: the buffer or shared array, and the value that is its position
Subject = Program | Step | Plan


class Stage(Enum):
    """When a pass runs, and so what its goal knows."""

    HELD = "held"  # first of all; knows nothing
    PLAN = "plan"  # a step becomes several; knows the device's limits
    LAUNCH = "launch"  # before a program is recognised; knows a launch's grid and numbers
    FORM = "form"  # again and again until nothing changes; knows whether fast math is allowed
    BINDING = "binding"  # knows what memory a launch binds
    LANGUAGE = "language"  # last, before source is written; knows the language, and what a launch may miss


@frozen(eq=False)
class Goal:
    """What a program is rewritten for: the facts that passes ask of a device, its language and a launch."""

    limits: Limits | None = None
    parts: int | None = None  # of a row that is split; None: as the limits suggest
    fast_math: bool = False
    grid: tuple[int, ...] = ()
    scalars: tuple[Number, ...] = ()
    shared: tuple[int, ...] = ()  # for each buffer the first that is the same memory; empty: all lie apart
    cut: Any = None  # how a launch is paged (lowering/paging.py); None: it is not
    dialect: Dialect | None = None  # None: LLVM, which has every dtype and an arithmetic for it
    lacks: Callable[[Opcode, DType], bool] = lambda opcode, dtype: False  # what is to be spelled out
    strict: bool = False  # f64 is at full speed and nothing is rearranged, as on a CPU
    guarded: frozenset[Place] = frozenset()  # accesses that may miss their memory
    unrolled: Mapping[int, Unrolling] = field(default_factory=dict)  # loops, by their counters

    @staticmethod
    def language(dialect: Dialect, limits: Limits | None = None) -> Goal:
        """That of a language without its launches."""
        return Goal(
            limits=limits, dialect=dialect, lacks=lambda opcode, dtype: not dialect.spells(opcode, dtype)
        )


@frozen(eq=False)
class Promise:
    """How far results may differ: by so many units in the last place of each float that these opcodes give."""

    opcodes: frozenset[Opcode] = frozenset()
    ulp: float = 0.0
    finite: bool = False  # of numbers only: NaN, infinities and the signs of zeros are not kept


EXACT = Promise()  # to the bit, but for a NaN's sign and payload


@frozen(eq=False)
class Trial:
    """Arguments that a program is tried on, by name."""

    buffers: Mapping[str, Any]  # arrays; one array under two names is one memory
    scalars: Mapping[str, Any]
    grid: tuple[int, ...]


def _alike(program: Program, goal: Goal, trial: Trial) -> tuple[Goal, Trial, Trial]:
    return goal, trial, trial


@frozen(eq=False)
class Pass:
    """A rewrite: of a program, or in Stage.PLAN of a step, which becomes a plan; what it leaves alone it returns."""

    name: str
    law: str  # why the result is the same
    stage: Stage
    apply: Callable[[Any, Goal], Any]
    wanted: Callable[[Goal], bool] = lambda goal: True  # whether it has anything to do there
    promise: Promise = EXACT
    # For HOLOGRAM_CHECK. Where what it does depends on a launch, or the result takes other arguments: the goal to try
    # it with, and the arguments before and after. Then the memory that no lane of the result may miss.
    tried: Callable[[Program, Goal, Trial], tuple[Goal, Trial, Trial]] = _alike
    inside: Callable[[Program, Goal], Collection[str]] = lambda program, goal: ()
    laws: tuple[str, ...] = ()  # of the rules it consists of, where there are any

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: {self.law}", *(f"  {law}" for law in self.laws)])


@frozen(eq=False)
class Applied:
    """A pass that was applied."""

    step: Pass
    before: Subject
    after: Subject
    seconds: float

    @property
    def sizes(self) -> tuple[int, int]:
        """Instructions before and after."""
        return size(self.before), size(self.after)


def programs(subject: Subject) -> Sequence[Program]:
    """The programs of what a pass takes or gives."""
    if isinstance(subject, Program):
        return (subject,)
    steps = subject.steps if isinstance(subject, Plan) else (subject,)
    return [s.program for s in steps if not s.kernel.stem]


def size(subject: Subject) -> int:
    """Instructions, those of inner blocks included."""
    return sum(1 for program in programs(subject) for _ in program.body.walk())
