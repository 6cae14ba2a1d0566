"""How a program with reductions is swept: which values differ along a row, and in how many passes they are computed.

A reduction must see the whole row before its result can be used, so a row program runs as phases. Phase k computes
what depends on at most k reductions in a chain: first the values that are uniform over the row, once; then a sweep over
the row's elements that feeds the phase's reductions. Varying values are computed again in every sweep that needs
them: a load and some arithmetic are cheaper than keeping a row. Stores of varying values happen in the last sweep,
uniform stores after it, so a program may write the buffer it reads. Where it does not, they may come early: in the
sweep that has all their values anyway, if none would be needed but for them.
"""

from __future__ import annotations

from hologram.atlas.opcodes import EFFECTS, REDUCTIONS, Opcode
from hologram.atlas.program import Instruction, Program
from hologram.atlas.ssa import deep, has_effect, mentions, sources
from hologram.foundation.frozen import frozen


@frozen
class Phase:
    uniform: tuple[Instruction, ...]  # once per row, before the sweep
    sweep: tuple[Instruction, ...]  # for each element of the row; empty: no sweep
    reductions: tuple[Instruction, ...]  # fold an operand over the sweep


@frozen
class Rows:
    phases: tuple[Phase, ...]  # the last has no reductions
    tail: tuple[Instruction, ...]  # uniform effects, once per row, at the end


def rows(program: Program, early: bool = False) -> Rows:
    """The phases of a program; one without reduced axes is a single phase whose sweep is the whole body.

    `early` stores varying values as soon as all that are stored are known, where the program `may_store_early`.
    """
    body = program.body.instructions
    if not program.reduced:
        return Rows((Phase((), body, ()),), ())
    first_reduced = program.rank - program.reduced
    varying: set[int] = set()
    level: dict[int, int] = {}
    placed: list[tuple[Instruction, int, bool]] = []  # instruction, level, varies
    for instruction in body:
        mentioned = mentions(instruction)
        depth = max((level.get(v, 0) for v in mentioned), default=0)
        varies = not varying.isdisjoint(mentioned) or any(
            i.opcode is Opcode.COORDINATE and int(i.attribute or 0) >= first_reduced
            for i in deep((instruction,))
        )
        if instruction.opcode in REDUCTIONS:
            # A uniform operand is folded over the row like any other: it counts once per element.
            placed.append((instruction, depth, True))
            level[instruction.result] = depth + 1
            continue
        if varies:
            varying |= set(instruction.results)
        level |= dict.fromkeys(instruction.results, depth)
        placed.append((instruction, depth, varies))
    last = max(level.values(), default=0)
    stored = max((d for i, d, v in placed if v and has_effect(i)), default=0) if early else last
    phases = []
    for k in range(last + 1):
        uniform = tuple(i for i, d, v in placed if not v and d == k and not has_effect(i))
        reductions = tuple(i for i, d, _ in placed if i.opcode in REDUCTIONS and d == k)
        along = [i for i, _, varies in placed if varies and i.opcode not in REDUCTIONS]
        folded = {i.operands[0] for i in reductions}
        now = k == stored
        sweep = sources(along, folded, keep=lambda i, now=now: now and has_effect(i))
        phases.append(Phase(uniform, sweep, reductions))
    tail = tuple(i for i, _, v in placed if not v and has_effect(i))
    return Rows(tuple(phases), tail)


def may_store_early(program: Program) -> bool:
    """Whether a row program gets by with fewer sweeps if it stores early; it reads nothing after that."""
    if not program.reduced or any(
        i.opcode in EFFECTS and i.opcode is not Opcode.STORE for i in program.body.walk()
    ):
        return False
    phased = rows(program, early=True)
    storing = max(
        (k for k, p in enumerate(phased.phases) if any(map(has_effect, p.sweep))), default=len(phased.phases)
    )
    after = phased.phases[storing + 1 :]
    later = [*(i for p in after for i in (*p.uniform, *p.sweep)), *phased.tail]
    return (
        bool(after)
        and not any(p.sweep for p in after)
        and not any(i.opcode is Opcode.LOAD for i in deep(later))
    )
