"""What a jitted function becomes, in words: its kernels, why each is one of its own, and the text they are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import accumulate, pairwise
from textwrap import indent
from typing import Any

from hologram.atlas.program import Access, Block, Launchable, Program
from hologram.atlas.text import format_program
from hologram.backends import registry
from hologram.compiler.fusion.assemble import Assembly, assemble
from hologram.compiler.fusion.control import parts_of
from hologram.compiler.fusion.groups import Group
from hologram.compiler.fusion.memory import arrange
from hologram.compiler.passes import Applied
from hologram.compiler.pipeline import canonical, identity, planned, recorded
from hologram.foundation.display import size
from hologram.foundation.frozen import frozen
from hologram.frontend.jit.compiled import Compiled
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.plan import Plan, Step, Target
from hologram.runtime.engine import Engine


@frozen
class ExplainedPass:
    """A pass of the compiler that a program took, its law, how long it took, and instructions before and after."""

    name: str
    law: str
    microseconds: float
    before: int
    after: int


def explained_passes(trail: Iterable[Applied]) -> tuple[ExplainedPass, ...]:
    """Those that were applied, in order; one that was repeated is told once."""
    by_name: dict[str, list[Applied]] = {}
    for each in trail:
        by_name.setdefault(each.step.name, []).append(each)
    return tuple(
        ExplainedPass(
            name,
            taken[0].step.law,
            round(1e6 * sum(each.seconds for each in taken), 1),
            taken[0].sizes[0],
            taken[-1].sizes[1],
        )
        for name, taken in by_name.items()
    )


def passes_text(passes: Sequence[ExplainedPass]) -> list[str]:
    """A line for each."""
    width = max((len(p.name) for p in passes), default=0)
    return [
        f"{p.name:{width}}  {p.microseconds:8.0f} us  {p.before} -> {p.after} instructions" for p in passes
    ]


@frozen
class ExplainedLaunch:
    """One launch of a call.

    `reads` and `writes` are inputs, outputs and scratch memory of the call. `form` is the canonical form of a program,
    `identity` its SHA-256; of a hand-written kernel, `tile` is the stem and `form` what is declared to it. `passes` are
    those that the program, or a hand-written kernel's epilogue, takes from its declaration to its source.
    """

    kernel: str
    grid: tuple[int, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    tile: str
    identity: str
    form: str
    passes: tuple[ExplainedPass, ...]
    source: str

    def text(self, *, source: bool = True) -> str:
        """For people; with or without the generated source."""
        made = f"hand-written {self.tile}" if self.tile else "generated"
        grid = " x ".join(map(str, self.grid))
        lines = [
            f"launch {self.kernel}, {made}, grid {grid}: {', '.join(self.reads)} -> {', '.join(self.writes)}",
            f"  canonical form {self.identity}" if self.identity else "  declared",
            indent(self.form.rstrip("\n"), "    "),
        ]
        if self.passes:
            lines += ["  passes", *(f"    {line}" for line in passes_text(self.passes))]
        if source:
            lines += ["  source", indent(self.source.rstrip("\n"), "    ", lambda line: bool(line.strip()))]
        return "\n".join(lines)


@frozen
class ExplainedGroup:
    """Operations that were fused, and why they are apart from the rest.

    They run over `domain`, whose last `reduced` axes are rows.
    """

    operations: tuple[str, ...]
    reasons: tuple[str, ...]
    domain: tuple[int, ...]
    reduced: int
    launches: tuple[ExplainedLaunch, ...]

    def text(self, *, source: bool = True) -> str:
        """For people; with or without the generated source."""
        over = " x ".join(map(str, self.domain)) or "one element"
        rows = f", rows along the last {self.reduced}" if self.reduced else ""
        return "\n".join(
            [
                f"{' + '.join(self.operations)}, over {over}{rows}",
                *(f"  apart because: {reason}" for reason in self.reasons),
                *(indent(launch.text(source=source), "  ") for launch in self.launches),
            ]
        )


@frozen
class Explanation:
    """What a call of a jitted function runs on an executor. `str()` gives all of it as text."""

    function: str
    backend: str
    device: str
    inputs: tuple[str, ...]  # the tensors among the arguments, then those that the function closes over
    outputs: tuple[str, ...]
    donations: tuple[tuple[int, int], ...]  # outputs, and the inputs whose memory they take
    operations: int  # that the function did
    scratch_bytes: int
    groups: tuple[ExplainedGroup, ...]

    @property
    def launches(self) -> tuple[ExplainedLaunch, ...]:
        return tuple(launch for group in self.groups for launch in group.launches)

    def text(self, *, source: bool = True) -> str:
        """For people; with or without the generated source."""
        counts = (_counted(self.operations, "operation"), _counted(len(self.launches), "launch"))
        scratch = f", {size(self.scratch_bytes)} of scratch memory" if self.scratch_bytes else ""
        memory = "".join(f"\noutput {k} takes the memory of input {j}" for k, j in self.donations)
        head = (
            f"{self.function} on {self.backend} ({self.device}): {' in '.join(counts)}{scratch}\n"
            f"inputs {', '.join(self.inputs)}\noutputs {', '.join(self.outputs) or 'none'}{memory}"
        )
        groups = [f"{k}. {group.text(source=source)}" for k, group in enumerate(self.groups, 1)]
        return "\n\n".join([head, *groups])

    def __str__(self) -> str:
        return self.text()

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        return asdict(self)


@frozen
class Machine:
    """What a graph is explained for: a device, open or imagined.

    `ready` gives a plan, whose inputs and outputs are counted, as the device runs it; `source` a launch's text.
    """

    backend: str
    device: str
    limits: Limits
    ready: Callable[[Plan, int], Plan]
    source: Callable[[Launchable, Sequence[int], Sequence[int | float | bool]], str]


def explained(compiled: Compiled, executor: Engine, fast_math: bool = False) -> Explanation:
    """What a compiled function runs on its executor; nothing is computed."""
    device = executor.device
    machine = Machine(
        executor.backend, device.info.name, executor.limits, executor.bound.ready, device.source
    )
    return _of_parts(compiled, machine, executor.target, fast_math)


def explained_elsewhere(compiled: Compiled, backend: str, fast_math: bool = False) -> Explanation:
    """What a compiled function would run on a reference device of a backend, which need not be here.

    Raises BackendUnavailable for a name that no backend has, UnsupportedDType where the backend lacks a dtype.
    """
    limits = registry.reference_limits(backend)
    machine = Machine(
        backend,
        "a reference device",
        limits,
        lambda plan, operands: planned(plan, operands, limits),
        partial(registry.source, backend),
    )
    return _of_parts(compiled, machine, Target(limits), fast_math)


def _of_parts(compiled: Compiled, machine: Machine, target: Target, fast_math: bool) -> Explanation:
    """What the parts of a graph run, one after the other: loops' bodies, and what lies between."""
    graph = compiled.assembly.graph
    explanations = []
    for part in parts_of(graph):
        with recorded() as trail:
            assembly = assemble(part, target, fast_math)
        explanations.append(_explanation(compiled.who, assembly, machine, trail))
    if not graph.controls:
        return explanations[0]
    return Explanation(
        function=compiled.who,
        backend=machine.backend,
        device=machine.device,
        inputs=tuple(map(spelled, graph.inputs.values())),
        outputs=tuple(spelled(graph.layouts[v]) for v in graph.outputs),
        donations=(),
        operations=sum(e.operations for e in explanations),
        scratch_bytes=max((e.scratch_bytes for e in explanations), default=0),
        groups=tuple(group for e in explanations for group in e.groups),
    )


def _explanation(who: str, assembly: Assembly, machine: Machine, trail: Sequence[Applied]) -> Explanation:
    graph = assembly.graph
    operands = len(graph.inputs) + len(graph.outputs)
    with recorded() as further:
        plan = machine.ready(assembly.plan, operands)
    history = _history([*trail, *further])
    return Explanation(
        function=who,
        backend=machine.backend,
        device=machine.device,
        inputs=tuple(spelled(layout) for layout in graph.inputs.values()),
        outputs=tuple(spelled(graph.layouts[v]) for v in graph.outputs),
        donations=tuple(sorted(assembly.donations.items())),
        operations=len(graph.nodes),
        scratch_bytes=arrange(plan, operands, machine.limits).nbytes,
        groups=tuple(_groups(assembly, plan, machine, history)),
    )


def _history(trail: Iterable[Applied]) -> dict[Block, list[Applied]]:
    """What led to each body; names may have changed since."""
    history: dict[Block, list[Applied]] = {}
    for each in trail:
        if isinstance(each.before, Program) and isinstance(each.after, Program):
            history[each.after.body] = [*history.get(each.before.body, ()), each]
    return history


def spelled(layout: Layout) -> str:
    """A tensor as `hologram explain --args` takes it."""
    sizes = ",".join(map(str, layout.shape))
    return f"{layout.dtype}[{sizes}]" if sizes else str(layout.dtype)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 'es' if what.endswith('h') else 's'}"


def _groups(
    assembly: Assembly, plan: Plan, machine: Machine, history: Mapping[Block, Sequence[Applied]]
) -> Iterator[ExplainedGroup]:
    names = _operands(assembly, plan)
    for group, steps in zip(assembly.groups, _steps(assembly, plan, machine), strict=True):
        yield ExplainedGroup(
            operations=_operations(group, assembly),
            reasons=tuple(group.reasons),
            domain=tuple(group.shape),
            reduced=group.reduced,
            launches=tuple(_launch(step, names, machine, history) for step in steps),
        )


def _steps(assembly: Assembly, ready: Plan, machine: Machine) -> Iterator[Sequence[Step]]:
    """The launches of each group, as the device runs them: it may want more of them than were planned."""
    plan, operands = assembly.plan, len(assembly.graph.inputs) + len(assembly.graph.outputs)
    parts = (
        Plan(plan.steps[first:last], plan.scratch)
        for first, last in pairwise((0, *accumulate(assembly.counts)))
    )
    counts = (len(machine.ready(part, operands).steps) for part in parts)
    return (ready.steps[first:last] for first, last in pairwise((0, *accumulate(counts))))


def _operands(assembly: Assembly, plan: Plan) -> tuple[str, ...]:
    """What the plan's operands are called."""
    inputs, outputs = len(assembly.graph.inputs), len(assembly.graph.outputs)
    counts = (("input", inputs), ("output", outputs), ("scratch", len(plan.scratch)))
    return tuple(f"{kind} {k}" for kind, count in counts for k in range(count))


def _operations(group: Group, assembly: Assembly) -> tuple[str, ...]:
    """In the order they were done."""
    inside = {id(node) for node in (*group.inlined.values(), group.anchor)}
    return tuple(node.operation.name for node in assembly.prepared.nodes if id(node) in inside)


def _launch(
    step: Step, names: Sequence[str], machine: Machine, history: Mapping[Block, Sequence[Applied]]
) -> ExplainedLaunch:
    kernel, program = step.kernel, step.kernel.program
    pairs = [(names[k], b.access) for k, b in zip(step.operands, kernel.buffers, strict=True)]
    with recorded() as trail:
        source = machine.source(kernel, step.grid, step.scalars)
    before = () if program is None else history.get(program.body, ())
    return ExplainedLaunch(
        kernel=kernel.label,
        grid=tuple(step.grid),
        reads=tuple(dict.fromkeys(o for o, a in pairs if a is not Access.WRITE)),
        writes=tuple(dict.fromkeys(o for o, a in pairs if a is not Access.READ)),
        tile=kernel.stem,
        identity="" if kernel.stem else identity(step.program),
        form=str(kernel) if kernel.stem else format_program(canonical(step.program)),
        passes=explained_passes([*before, *trail]),
        source=source,
    )
