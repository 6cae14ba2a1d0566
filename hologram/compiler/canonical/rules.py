"""Rules of algebra as values: what each rewrites, and the law it goes by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from hologram.atlas.opcodes import Opcode
from hologram.foundation.frozen import frozen

if TYPE_CHECKING:
    from hologram.compiler.canonical.term import Term

# A rule takes the numbering, the result's dtype and the operands; None where it has nothing to say.
Apply = Callable[..., "Term | None"]


@frozen
class Rule:
    """One law of algebra: what it rewrites, for operands of which kinds of dtype."""

    law: str
    opcodes: frozenset[Opcode]
    apply: Apply
    kinds: frozenset[str]


Table = Mapping[tuple[Opcode, str], tuple[Apply, ...]]


def rule(law: str, opcodes: Opcode | frozenset[Opcode], apply: Apply, kinds: frozenset[str]) -> Rule:
    """A rule for one opcode or several."""
    return Rule(law, opcodes if isinstance(opcodes, frozenset) else frozenset({opcodes}), apply, kinds)


def table(rules: Sequence[Rule]) -> Table:
    """The rules in their order, by opcode and kind of the last operand."""
    entries: dict[tuple[Opcode, str], tuple[Apply, ...]] = {}
    for rule in rules:
        for opcode in rule.opcodes:
            for kind in rule.kinds:
                entries[opcode, kind] = (*entries.get((opcode, kind), ()), rule.apply)
    return entries
