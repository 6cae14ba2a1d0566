"""The entry point of a map program: a thread computes one lane, or four neighbours by calling `element`."""

from __future__ import annotations

from hologram.atlas.opcodes import MEETINGS, Opcode
from hologram.atlas.program import Instruction
from hologram.compiler.scheduling.schedule import Schedule, Units
from hologram.compiler.source.emit import Emitter
from hologram.foundation import dtypes


def write(emitter: Emitter, schedule: Schedule) -> None:
    """The entry point and, where a thread takes several lanes, the function that computes one."""
    if schedule.elements == 4:
        _Vectors(emitter).write(schedule)
    else:
        _scalar(emitter, schedule)


def lanes(emitter: Emitter, axes: int) -> str:
    """The number of lanes as an expression."""
    return " * ".join(emitter.extent(k) for k in range(axes)) or emitter.number(1)


def coordinates(emitter: Emitter, used: set[int], axes: int, lane: str) -> None:
    """Declares i0, i1, ...: the coordinates of a lane along the first `axes` axes, those that are used."""
    if not used:
        return
    index = dtypes.index
    outermost = min(used)
    rest = lane
    for k in range(axes - 1, outermost - 1, -1):
        if k == 0:
            emitter.let("i0", index, rest)
            return
        if k in used:
            emitter.let(f"i{k}", index, f"{rest} % {emitter.extent(k)}")
        if k > outermost:
            emitter.let(f"lanes_{k}", index, f"{rest} / {emitter.extent(k)}")
            rest = f"lanes_{k}"


def used_coordinates(emitter: Emitter) -> set[int]:
    return {int(i.attribute or 0) for i in emitter.program.body.walk() if i.opcode is Opcode.COORDINATE}


def _scalar(emitter: Emitter, schedule: Schedule) -> None:
    program = emitter.program
    opening = emitter.dialect.open(emitter.declarations)
    emitter.lines += opening
    emitter.depth = 1
    emitter.let("lanes", dtypes.index, lanes(emitter, program.rank))
    if program.shared and "cleared" in emitter.dialect.shortfalls:
        _zeroes(emitter, schedule)
    here = f"group * {emitter.number(schedule.workgroup)} + thread_index"
    if program.opcodes & MEETINGS:
        # Every thread must reach the barriers: those past the end repeat the last lane, without effect on memory.
        emitter.let("number", dtypes.index, here)
        emitter.let("inside", dtypes.bool_, "number < lanes")
        emitter.let("lane", dtypes.index, f"min(number, lanes - {emitter.number(1)})")
        emitter.guard = "inside"
    else:
        emitter.let("lane", dtypes.index, here)
        emitter.line("if (lane >= lanes) { return; }")
    coordinates(emitter, used_coordinates(emitter), program.rank, "lane")
    emitter.locals()
    emitter.instructions(program.body.instructions)
    emitter.depth = 0
    emitter.line("}")


def _zeroes(emitter: Emitter, schedule: Schedule) -> None:
    """Fills the shared arrays with what Atlas says they begin with. So does WGSL say, but not wgpu-native 29."""
    index, step = dtypes.index, emitter.number(schedule.workgroup)
    for array in emitter.program.shared:
        zero = emitter.literal(array.dtype.python(0), array.dtype)
        with emitter.loop("place", index, emitter.index("thread_index"), emitter.number(array.size), step):
            emitter.line(emitter.share(array.name, array.dtype, "place", zero))
    emitter.line(emitter.dialect.barrier)


class _Vectors:
    """Four lanes a thread: buffers accessed at the lane are read and written four elements at a time."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self.dialect = emitter.dialect
        program = emitter.program
        units = Units(program)
        declared = zip(program.buffers, emitter.declarations.buffers, strict=True)
        vectors = {b.name for b, d in declared if d.vector}  # a declared name may differ: see identifier
        self.loads = {v: name for v, name in units.loads.items() if name in vectors}
        self.stores = {name: v for name, v in units.stores.items() if name in vectors}
        self.loaded = tuple(dict.fromkeys(self.loads.values()))
        self.captured = self.dialect.capture(emitter.declarations)

    def write(self, schedule: Schedule) -> None:
        self._element()
        emitter = self.emitter
        emitter.lines += self.dialect.open(emitter.declarations)
        emitter.depth = 1
        emitter.let("lanes", dtypes.index, lanes(emitter, emitter.program.rank))
        number = emitter.number
        emitter.let("word", dtypes.index, f"group * {number(schedule.workgroup)} + thread_index")
        emitter.let("first", dtypes.index, f"word * {number(4)}")
        emitter.line("if (first >= lanes) { return; }")
        for name in self.loaded:
            dtype = emitter.program.buffer(name).dtype
            vector = self.dialect.vectors[dtype]
            emitter.help("vector", dtype, "")
            text = f"{emitter.buffer_names[name]}[word]"
            emitter.line(self.dialect.let.format(name=self._loaded(name), type=vector, value=text))
        with emitter.scope(f"if (first + {number(3)} < lanes) {{", "} else {"):
            self._whole()
        emitter.depth = 2
        self._tail()
        emitter.depth = 1
        emitter.line("}")
        emitter.depth = 0
        emitter.line("}")

    def _element(self) -> None:
        """The function of one lane: takes what was loaded, gives what will be stored, and does the rest itself."""
        emitter, program = self.emitter, self.emitter.program
        arguments = [("lane", emitter.type(dtypes.index))]
        for value in self.loads:
            emitter.values[value] = f"v{value}"
            arguments.append((f"v{value}", emitter.type(program.types[value])))
        fields = [(emitter.buffer_names[n], emitter.type(program.buffer(n).dtype)) for n in self.stores]
        result = fields[0][1] if len(fields) == 1 else "Element" if fields else ""
        if len(fields) > 1:
            emitter.lines += [*self.dialect.structure("Element", fields), ""]
        emitter.lines.append(self.dialect.function("element", arguments, result, emitter.declarations))
        emitter.depth = 1
        coordinates(emitter, used_coordinates(emitter), program.rank, "lane")
        emitter.locals()
        emitter.instructions(i for i in program.body.instructions if not self._handled(i))
        values = [emitter.values[v] for v in self.stores.values()]
        if len(values) == 1:
            emitter.line(f"return {values[0]};")
        elif values:
            emitter.line(f"return {self.dialect.construct.format(name='Element', values=', '.join(values))};")
        emitter.depth = 0
        emitter.lines += ["}", ""]

    def _handled(self, i: Instruction) -> bool:
        if i.opcode is Opcode.LOAD:
            return i.result in self.loads
        return i.opcode is Opcode.STORE and i.attribute in self.stores

    def _call(self, k: int) -> str:
        emitter = self.emitter
        arguments = [*self.captured, "first" if k == 0 else f"first + {emitter.number(k)}"]
        for value, name in self.loads.items():
            arguments.append(self.dialect.element[emitter.program.types[value]][k].format(self._loaded(name)))
        return f"element({', '.join(arguments)})"

    def _loaded(self, name: str) -> str:
        return f"{self.emitter.buffer_names[name]}_4"

    def _result(self, name: str, e: str) -> str:
        """What one call gives for one buffer."""
        return e if len(self.stores) == 1 else f"{e}.{self.emitter.buffer_names[name]}"

    def _let_result(self, k: int) -> None:
        emitter = self.emitter
        if not self.stores:
            emitter.line(f"{self._call(k)};")
        elif len(self.stores) == 1:
            (name,) = self.stores
            emitter.let(f"e{k}", emitter.program.buffer(name).dtype, self._call(k))
        else:
            emitter.line(self.dialect.let.format(name=f"e{k}", type="Element", value=self._call(k)))

    def _whole(self) -> None:
        emitter = self.emitter
        for k in range(4):
            self._let_result(k)
        for name in self.stores:
            dtype = emitter.program.buffer(name).dtype
            emitter.help("vector", dtype, "")
            values = [self._result(name, f"e{k}") for k in range(4)]
            emitter.line(
                f"{emitter.buffer_names[name]}[word] = {self.dialect.vector[dtype].format(*values)};"
            )

    def _tail(self) -> None:
        """The last, incomplete vector: its other elements may be someone else's."""
        emitter = self.emitter
        for k in range(3):
            opening = "{" if k == 0 else f"if (first + {emitter.number(k)} < lanes) {{"
            with emitter.scope(opening):
                self._let_result(k)
                for name in self.stores:
                    store = self.dialect.element_store[emitter.program.buffer(name).dtype][k]
                    target = f"{emitter.buffer_names[name]}[word]"
                    emitter.line(store.format(target, self._result(name, f"e{k}")))
