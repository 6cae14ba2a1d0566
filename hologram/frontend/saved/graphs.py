"""Graphs in files: a line for its inputs, one for each node, loop and choice, one for its outputs.

A graph that another has, a loop's body or a branch, stands before it. Of results only operations are written: their
layouts are inferred anew, so that a file cannot lie about them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hologram.compiler.fusion.control import in_order
from hologram.compiler.fusion.graph import Choice, Control, Graph, Loop, Node, Read
from hologram.foundation import dtypes
from hologram.foundation.errors import TraceError
from hologram.frontend.saved.container import Line, Writing
from hologram.frontend.saved.operations import Operations, fits, referred
from hologram.frontend.saved.values import inside, layout_from, layout_to, value_from, value_to
from hologram.machine.layout import Layout
from hologram.opset.forms.operation import Operation

MOST_TURNS = 1 << 40
MOST_NESTED = 64  # loops and choices in one another


def write_graph(graph: Graph, file: Writing, operations: Operations) -> int:
    """Adds a graph; gives the number of its last line."""
    steps = []
    for step in in_order(graph):
        try:
            steps.append(_step(step, file, operations))
        except TraceError as error:
            named = step.what.who if isinstance(step, Control) else step.operation.name
            raise TraceError(f"save_program: {named}: {error}") from error
    file.add("inputs", layouts=[[v, layout_to(x)] for v, x in graph.inputs.items()])
    for kind, content in steps:
        file.add(kind, **content)
    return file.add("outputs", values=list(graph.outputs), donated=sorted(graph.donated))


def _step(step: Node | Control, file: Writing, operations: Operations) -> tuple[str, dict[str, Any]]:
    if isinstance(step, Node):
        inferred = tuple(step.operation.infer(step.inputs, step.settings))
        if inferred != step.layouts:
            raise TraceError(f"its results are laid out as {step.layouts}, not as {inferred}")
        reference, attributes = operations.of_node(step)
        return "node", {
            "operation": reference,
            "operands": [value_to(o) for o in step.operands],
            "attributes": {name: value_to(x) for name, x in attributes.items()},
            "results": list(step.results),
        }
    what, common = (
        step.what,
        {"operands": [value_to(o) for o in step.operands], "results": list(step.results)},
    )
    if isinstance(what, Choice):
        branches = [write_graph(g, file, operations) for g in what.branches]
        return "choice", {"who": what.who, "branches": branches, **common}
    ends = None if what.condition is None else write_graph(what.condition, file, operations)
    return "loop", {
        "who": what.who,
        "body": write_graph(what.body, file, operations),
        "condition": ends,
        "constants": what.constants,
        "carried": what.carried,
        "length": what.length,
        "reverse": what.reverse,
        **common,
    }


class GraphReader:
    """Takes the lines of one graph after its inputs."""

    def __init__(self, line: Line) -> None:
        self.inputs: dict[int, Layout] = {}
        for value, layout in line.take("layouts", list):
            if type(value) is not int or value < 0 or value in self.inputs:
                raise line.wrong("layouts", "each must be of a value of its own")
            self.inputs[value] = layout_from(layout)
        self.nodes: list[Node] = []
        self.controls: list[Control] = []
        self._known = dict(self.inputs)
        self._last = -1  # of the values that were made

    def node(self, line: Line, made: dict[int, Any]) -> None:
        """An operation on values that are known."""
        operation = referred(line, made, line.content.get("operation"))
        operands = tuple(map(value_from, line.take("operands", list)))
        attributes = {name: value_from(x) for name, x in line.take("attributes", dict).items()}
        names = operation.operand_names(len(operands))
        if len(names) != len(operands):
            taken = ", ".join(names) or "nothing"
            raise line.wrong("operands", f"{operation.name} takes {taken} in this version of hologram")
        declared = type(operation).bind is Operation.bind  # else it takes others than it is called with
        if declared and not set(attributes) <= set(operation.attributes):
            raise line.wrong(
                "attributes", f"{operation.name} has not {', '.join(map(str, attributes))[:200]}"
            )
        for name, x in zip(names, operands, strict=True):
            if x is None and name not in operation.optional:
                raise line.wrong("operands", f"{operation.name} needs {name}")
            if isinstance(x, (str, tuple, list, Layout, dtypes.DType, complex)):
                raise line.wrong(
                    "operands", f"{name} must be a read, a number or nothing, got {type(x).__name__}"
                )
        for x in (*operands, *attributes.values()):
            if isinstance(x, Read):
                self._check(line, x)
        node = Node(operation, operands, attributes, self._results(line), ())
        if not fits(operation, node.inputs):
            raise line.wrong("operands", f"{operation.name} is a launch on operands that lie otherwise")
        layouts = tuple(operation.infer(node.inputs, node.settings))
        for part in attributes.values():
            if isinstance(part, Layout) and not inside(part, layouts[0].size):
                raise line.wrong("attributes", f"{part} does not lie in {layouts[0]}")
        self.nodes.append(Node(operation, operands, attributes, node.results, layouts))
        self._know(line, node.results, layouts)

    def loop(self, line: Line, made: dict[int, Any]) -> None:
        """A loop, whose body fits what it is given and what it carries on."""
        body, ends = _graph(line, made, "body"), line.content.get("condition")
        condition = None if ends is None else _graph(line, made, "condition")
        constants, carried = line.count("constants"), line.count("carried")
        loop = Loop(
            line.take("who", str),
            body,
            constants,
            carried,
            line.count("length", MOST_TURNS),
            line.take("reverse", bool),
            condition,
        )
        first, given = constants + carried, list(body.inputs.values())
        rows = [Layout.contiguous(x.dtype, (loop.length, *x.shape)) for x in given[first:]]
        results = [body.layouts[v] for v in body.outputs]
        if (
            first > len(given)
            or results[:carried] != given[constants:first]
            or (condition is not None and rows)
        ):
            raise line.wrong("body", "what it carries on must be as what it carries")
        if condition is not None:
            asked = [condition.layouts[v] for v in condition.outputs]
            if (
                asked != [Layout.contiguous(dtypes.bool_, ())]
                or list(condition.inputs.values()) != given[:first]
            ):
                raise line.wrong("condition", "it must give a bool for what is carried")
            if len(results) != carried:
                raise line.wrong("body", "with a condition it gives what it carries alone")
        self._control(line, loop, [*given[:first], *rows])

    def choice(self, line: Line, made: dict[int, Any]) -> None:
        """A choice among branches that take and give the same."""
        numbers = line.take("branches", list)
        branches = tuple(_named_graph(line, made, n, "branches") for n in numbers)
        forms = {(tuple(g.inputs.values()), tuple(g.layouts[v] for v in g.outputs)) for g in branches}
        if len(forms) != 1:
            raise line.wrong("branches", "there must be one at least, and all must take and give the same")
        first = value_from(line.take("operands", list)[0])
        number = first.layout.dtype
        if not (number is dtypes.bool_ or number.is_integer) or first.layout.shape:
            raise line.wrong("operands", "the number of a branch must be an integer or a bool without axes")
        given = [Layout.contiguous(number, ()), *branches[0].inputs.values()]
        self._control(line, Choice(line.take("who", str), branches), given)

    def finished(self, line: Line) -> Graph:
        """The graph, of which the outputs are the last line."""
        outputs, donated = line.take("values", list), line.take("donated", list)
        made = {v for step in (*self.nodes, *self.controls) for v in step.results}
        if not set(outputs) <= made or len(set(outputs)) != len(outputs):
            raise line.wrong("values", "each must be a result of its own")
        if not set(donated) <= set(self.inputs):
            raise line.wrong("donated", "each must be an input")
        return Graph(self.inputs, tuple(self.nodes), tuple(outputs), frozenset(donated), tuple(self.controls))

    def _control(self, line: Line, what: Loop | Choice, wanted: Sequence[Layout]) -> None:
        operands = tuple(map(value_from, line.take("operands", list)))
        if not all(isinstance(o, Read) for o in operands) or [o.layout for o in operands] != list(wanted):
            raise line.wrong("operands", f"reads of {', '.join(map(str, wanted))} are needed")
        for read in operands:
            self._check(line, read)
        if _depth([what]) > MOST_NESTED:
            raise line.wrong("", f"at most {MOST_NESTED} loops and choices can lie in one another")
        layouts = tuple(what.infer())
        results = self._results(line)
        self.controls.append(Control(what, operands, results, layouts))
        self._know(line, results, layouts)

    def _check(self, line: Line, read: Read) -> None:
        """Refuses a read of what is not known, or beyond its end."""
        storage = self._known.get(read.value)
        if storage is None:
            raise line.wrong("operands", f"value {read.value} is not known yet")
        size = storage.span[1] if read.value in self.inputs else storage.size
        if read.layout.dtype is not storage.dtype or not inside(read.layout, size):
            raise line.wrong("operands", f"{read.layout} does not lie in value {read.value}, {storage}")

    def _results(self, line: Line) -> tuple[int, ...]:
        """New values: they are numbered in the order in which they are made."""
        results = line.take("results", list)
        for value in results:
            if type(value) is not int or value <= self._last or value in self._known:
                raise line.wrong("results", "values are numbered in the order in which they are made")
            self._last = value
        return tuple(results)

    def _know(self, line: Line, results: Sequence[int], layouts: Sequence[Layout]) -> None:
        if len(results) != len(layouts):
            raise line.wrong("results", f"there are {len(layouts)}, got {len(results)}")
        self._known.update(zip(results, layouts, strict=True))


def used_dtypes(graph: Graph) -> Iterable[tuple[Any, Any]]:
    """Operations and the dtypes of their results, those of bodies and branches among them."""
    for node in graph.nodes:
        yield from ((node.operation, layout.dtype) for layout in node.layouts)
    for control in graph.controls:
        what = control.what
        inner = what.branches if isinstance(what, Choice) else (what.body, what.condition)
        for each in inner:
            if each is not None:
                yield from used_dtypes(each)


def _depth(controls: Sequence[Loop | Choice]) -> int:
    """How many lie in one another."""
    inner = [
        [control.what for control in part.controls]
        for what in controls
        for part in (what.branches if isinstance(what, Choice) else (what.body, what.condition))
        if part is not None
    ]
    return 1 + max(map(_depth, filter(None, inner)), default=0)


def _graph(line: Line, made: dict[int, Any], field: str) -> Graph:
    return _named_graph(line, made, line.content.get(field), field)


def _named_graph(line: Line, made: dict[int, Any], number: Any, field: str) -> Graph:
    """A part of a loop or a choice, and of one alone: else few lines would say 2^30 parts."""
    graph = made.get(number) if type(number) is int else None
    if not isinstance(graph, Graph):
        raise line.wrong(field, "the number of a line before that ends a graph, of no other part, is needed")
    return made.pop(number)
