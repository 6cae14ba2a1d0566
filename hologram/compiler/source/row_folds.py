"""How the threads of a row fold their partial results: by each other's values, or through workgroup memory."""

from __future__ import annotations

from hologram.atlas.opcodes import FOLDS
from hologram.atlas.program import Instruction
from hologram.compiler.scheduling.schedule import Schedule
from hologram.compiler.source.emit import Emitter


def combine(emitter: Emitter, fold: Instruction, x: str, y: str) -> str:
    """Two partial results in one expression."""
    return emitter.operation(FOLDS[fold.opcode], fold.type, fold.type, x, y)


class Tree:
    """Writes what makes one result of a fold of a thread's four parts, and of those of all threads of a row."""

    def __init__(self, emitter: Emitter, schedule: Schedule) -> None:
        self.emitter = emitter
        self.threads = schedule.threads
        self.subgroup = schedule.subgroup

    def write(self, fold: Instruction) -> None:
        """The threads' partial results become the row's."""
        emitter = self.emitter
        v = f"v{fold.result}"
        emitter.values[fold.result] = v
        for pair, (a, b) in enumerate(((0, 1), (2, 3))):
            emitter.let(f"{v}_{'ab'[pair]}", fold.type, combine(self.emitter, fold, f"{v}_{a}", f"{v}_{b}"))
        if self.threads == 1:
            emitter.let(v, fold.type, combine(self.emitter, fold, f"{v}_a", f"{v}_b"))
            return
        whole = combine(self.emitter, fold, f"{v}_a", f"{v}_b")
        if self.subgroup > 1 and fold.type in self.emitter.dialect.exchange:
            emitter.var(v, fold.type, whole)
            self._by_subgroups(fold, v)
        else:
            self._by_halves(fold, v, whole)

    def _by_subgroups(self, fold: Instruction, v: str) -> None:
        """Threads of a subgroup look at each other's values; a row of several leaves one value each for all of them."""
        emitter, number = self.emitter, self.emitter.number
        self._exchange(fold, v, self.subgroup)
        count = self.threads // self.subgroup
        if count == 1:
            return
        partial = f"partial_{fold.type}"
        subgroup = number(self.subgroup)
        with emitter.scope(f"if (thread_index % {subgroup} == {number(0)}) {{"):
            emitter.line(f"{partial}[thread_index / {subgroup}] = {v};")
        emitter.line(self.emitter.dialect.barrier)
        first = f"(thread_index - member) / {subgroup}"
        emitter.line(f"{v} = {partial}[{first} + thread_index % {number(count)}];")
        self._exchange(fold, v, count)
        emitter.line(self.emitter.dialect.barrier)

    def _exchange(self, fold: Instruction, v: str, count: int) -> None:
        """So many neighbouring threads fold what each has in `v`, which is the whole in each of them afterwards."""
        distance = 1
        while distance < count:
            with self.emitter.scope("{"):
                other = self.emitter.dialect.exchange[fold.type].format(v, distance)
                self.emitter.let(f"{v}_other", fold.type, other)
                self.emitter.line(f"{v} = {combine(self.emitter, fold, v, f'{v}_other')};")
            distance *= 2

    def _by_halves(self, fold: Instruction, v: str, whole: str) -> None:
        """The first half of a row's threads fold what the second half left in workgroup memory, then half of them."""
        emitter, number = self.emitter, self.emitter.number
        shared = f"partial_{fold.type}"
        emitter.line(f"{shared}[thread_index] = {whole};")
        emitter.line(self.emitter.dialect.barrier)
        half = self.threads // 2
        while half:
            with emitter.scope(f"if (member < {number(half)}) {{"):
                other = f"{shared}[thread_index + {number(half)}]"
                emitter.line(
                    f"{shared}[thread_index] = {combine(self.emitter, fold, f'{shared}[thread_index]', other)};"
                )
            emitter.line(self.emitter.dialect.barrier)
            half //= 2
        emitter.let(v, fold.type, f"{shared}[thread_index - member]")
        emitter.line(self.emitter.dialect.barrier)
