"""The canonical form of a program: what it computes, however it was written.

Two programs have one canonical text, and so one identity, where they differ only in names, the order of operands and of
instructions, constant folding, common and dead code, and laws of algebra that change no bit (algebra.py has them all,
each with its law; `PIPELINE` can be printed, sliced and timed). The identity is what kernels are cached by and tuned
kernels recognised by.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from weakref import WeakKeyDictionary

from hologram.atlas.opcodes import STRUCTURED
from hologram.atlas.program import Program
from hologram.atlas.text import format_program
from hologram.compiler.canonical.algebra import IEEE
from hologram.compiler.canonical.fast_math import FAST, wide_intermediates
from hologram.compiler.canonical.linearize import ordered
from hologram.compiler.canonical.numbering import Numbering, plain_names
from hologram.compiler.canonical.rules import Rule, table
from hologram.compiler.passes import log_pass
from hologram.foundation.frozen import frozen

MOST_ROUNDS = 8


@frozen
class Pass:
    """A rewrite of a whole program, and the laws it goes by."""

    name: str
    apply: Callable[[Program], Program]
    rules: tuple[Rule, ...] = ()

    def __call__(self, program: Program) -> Program:
        return self.apply(program)

    def __str__(self) -> str:
        laws = dict.fromkeys(rule.law for rule in self.rules)
        return "\n".join([self.name, *(f"  {law}" for law in laws)])


def _simplifying(rules: tuple[Rule, ...]) -> Callable[[Program], Program]:
    known = table(rules)
    return lambda program: ordered(program, Numbering(program, known).read())


PIPELINE: tuple[Pass, ...] = (Pass("simplify and order", _simplifying(IEEE), IEEE),)
FAST_PIPELINE: tuple[Pass, ...] = (
    Pass("16-bit arithmetic in f32", wide_intermediates),
    Pass("simplify fast and order", _simplifying((*FAST, *IEEE)), (*FAST, *IEEE)),
)


def canonical(program: Program, *, fast_math: bool = False) -> Program:
    """The canonical form, with the program's own names; canonical already, it is returned as it is.

    It computes the same to the bit: NaN, infinities, signed zeros and integer wrap included; a NaN's sign and payload
    are not kept. Effects keep their order, loads their place among them, parameters theirs.

    Args:
        program: a program that `verify` accepts.
        fast_math: allows, for floats: x * y + z rounded once (`mad`); x / c as x * (1 / c); constants of sums and of
            products brought together; x + 0 = x, x * 0 = 0 and x - x = 0 also for -0.0, NaN and infinities; f16 and
            bf16 intermediates kept in f32. Nothing else.
    """
    known = _FORMS[fast_math]
    if program not in known:
        found = formed(program, fast_math=fast_math)
        # A table that held its key would keep it for ever.
        known[program] = None if found == program else found
    return known.get(program) or program


# By fast_math: forms are kept as long as somebody holds the program; None where it is its own.
_FORMS: dict[bool, WeakKeyDictionary[Program, Program | None]] = {
    fast: WeakKeyDictionary() for fast in (False, True)
}


def formed(program: Program, *, fast_math: bool = False) -> Program:
    """The canonical form, which is not kept: for programs that are asked about once."""
    # Without structure one round does it: every rule meets operands that are in their last form already. What leaves a
    # loop, or is no longer carried by it, changes what may be done next.
    once = not fast_math and not program.opcodes & STRUCTURED
    before = None
    for _ in range(1 if once else MOST_ROUNDS):
        if program == before:
            break
        before = program
        for step in FAST_PIPELINE if fast_math else PIPELINE:
            program = log_pass(step.name, program, step(program))
    return program


def canonical_text(program: Program) -> str:
    """The text of the canonical form with names out of the way: kernel, b0..., s0..., m0... in declared order."""
    return _plain_text(canonical(program))


def identity(program: Program) -> str:
    """SHA-256 of the canonical text, in hexadecimal."""
    return identity_of(canonical(program))


def identity_of(form: Program) -> str:
    """The identity of a program that is in canonical form."""
    return hashlib.sha256(_plain_text(form).encode()).hexdigest()


def _plain_text(program: Program) -> str:
    return format_program(program, {program.name: "kernel"} | plain_names(program))
