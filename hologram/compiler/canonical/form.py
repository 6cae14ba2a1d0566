"""What a program computes, however it was written.

Two programs have one canonical text, and so one identity, where they differ only in names, the order of operands and of
instructions, constant folding, common and dead code, and laws of algebra that change no bit (algebra.py has them all,
each with its law). The identity is what kernels are cached by and tuned kernels recognised by.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Program
from hologram.atlas.text import format_program
from hologram.compiler.canonical.algebra import IEEE
from hologram.compiler.canonical.linearize import ordered
from hologram.compiler.canonical.numbering import Numbering, plain_names
from hologram.compiler.canonical.rules import Rule, table
from hologram.compiler.passes import Goal, Pass, Promise, Stage


def simplifying(rules: tuple[Rule, ...]) -> Callable[[Program, Goal], Program]:
    """Equal values made one and simplified by these rules, dead code left out, the rest in an order of its own."""
    known = table(rules)
    return lambda program, goal: ordered(program, Numbering(program, known).read())


def laws_of(rules: tuple[Rule, ...]) -> tuple[str, ...]:
    """Each once."""
    return tuple(dict.fromkeys(rule.law for rule in rules))


SIMPLIFY = Pass(
    "simplify and order",
    "laws of algebra that change no bit, but of powers of floats by numbers; what nothing needs goes",
    Stage.FORM,
    simplifying(IEEE),
    wanted=lambda goal: not goal.fast_math,
    promise=Promise(frozenset({Opcode.POW}), ulp=2.0),
    laws=laws_of(IEEE),
)


def identity_of(form: Program) -> str:
    """The identity of a program that is in canonical form."""
    return hashlib.sha256(plain_text(form).encode()).hexdigest()


def plain_text(form: Program) -> str:
    """Its text with names out of the way."""
    return format_program(form, {form.name: "kernel"} | plain_names(form))
