"""Writing LLVM IR as text: fresh names, blocks, counted loops, and what each dtype is in memory and in registers.

f16 and bf16 live in registers as f32 values that the narrow format can represent; every operation rounds its result
back. So arithmetic needs no half-precision instructions, and conversions fold away.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from hologram.atlas import arithmetic
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen

REGISTER = {"f32": "float", "f64": "double", "bool": "i1", "index": "i64"}
MEMORY = {"f32": "float", "f16": "half", "bf16": "i16", "f64": "double", "bool": "i8", "index": "i64"}

_ONCE = '!{!"llvm.loop.unroll.runtime.disable"}'  # loops whose length is known are still unrolled whole
_KEPT = ('!{!"llvm.loop.unroll.disable"}', '!{!"llvm.loop.vectorize.enable", i1 false}')
_LANES = (
    '!{!"llvm.loop.parallel_accesses", !0}',
    f'!{{!"llvm.loop.vectorize.followup_epilogue", {_ONCE}, !{{!"llvm.loop.isvectorized", i32 1}}}}',
)


def register_type(dtype: DType) -> str:
    """The LLVM type of a value."""
    return REGISTER.get(dtype.computed.name) or f"i{dtype.bits}"


def memory_type(dtype: DType) -> str:
    """The LLVM type of a buffer's element."""
    return MEMORY.get(dtype.name) or f"i{dtype.bits}"


def literal(number: int | float | bool, dtype: DType) -> str:
    """A constant operand: floats as the bits of the double that holds them exactly."""
    if dtype.kind == "bool":
        return "true" if number else "false"
    if not dtype.is_float:
        return str(int(number))
    if dtype.name != "f64":
        number = float(arithmetic.number(float(number), dtype))
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(number)))[0]:016X}"


@frozen(slots=True)
class Inverse:
    """What divides 64 bits by one number (division.py): a factor, and how far to shift before and after."""

    factor: str
    first: str
    second: str


class Writer:
    """One LLVM function under construction; calling it appends an instruction and returns its result's name."""

    def __init__(self, metadata: list[str]) -> None:
        """`metadata` is the module's list of nodes; node 0 is the group of accesses that lanes do not order."""
        self.lines: list[str] = []
        self.entry: list[str] = []  # of the first block: allocas, and what they begin with
        self.declarations: set[str] = set()
        self.inverses: dict[str, Inverse] = {}  # of divisors that all lanes share, by register
        self.patience = ""  # where it counts the turns that are left until it asks for interrupts, if it does
        self.metadata = metadata
        self.block = "entry"
        self._count = 0
        self._loops = 0  # that stand in the innermost loop being written

    def name(self, stem: str = "v") -> str:
        self._count += 1
        return f"%{stem}{self._count}"

    def __call__(self, text: str) -> str:
        result = self.name()
        self.lines.append(f"  {result} = {text}")
        return result

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def label(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def place(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str, suffix: str = "") -> None:
        self.do(f"br label %{label}{suffix}")

    def branch(self, condition: str, then: str, otherwise: str) -> None:
        self.do(f"br i1 {condition}, label %{then}, label %{otherwise}")

    def intrinsic(self, name: str, result: str, *operands: tuple[str, str]) -> str:
        """A call of a function outside; its declaration follows from the operands' types."""
        self.declarations.add(f"declare {result} @{name}({', '.join(t for t, _ in operands)})")
        return self(f"call {result} @{name}({', '.join(f'{t} {v}' for t, v in operands)})")

    def i64(self, operation: str, x: str, y: str | int) -> str:
        """Arithmetic on positions."""
        return self(f"{operation} i64 {x}, {y}")

    def alloca(self, type_: str, count: int | str, align: int = 64) -> str:
        result = self.name("a")
        self.entry.append(f"  {result} = alloca [{count} x {type_}], align {align}")
        return result

    def element(self, pointer: str, type_: str, position: str) -> str:
        """The address of pointer[position]."""
        return self(f"getelementptr inbounds {type_}, ptr {pointer}, i64 {position}")

    def node(self, text: str) -> int:
        """The number of a node of the module's metadata."""
        if text not in self.metadata:
            self.metadata.append(text)
        return self.metadata.index(text)

    def looped(self) -> None:
        """Notes a loop that was written by hand inside of the innermost one."""
        self._loops += 1

    def loop(
        self,
        start: str,
        stop: str,
        step: str,
        carried: Sequence[tuple[str, str]],
        body: Callable[[str, list[str]], Sequence[str]],
        *,
        counter: str = "i64",
        less: str = "slt",
        flags: str = " nsw",
        lanes: bool = False,
        rounds: int = 1,
        kept: bool = False,
    ) -> list[str]:
        """Counts from start below stop; (type, first value) of what is carried, whose last values return.

        With `lanes` the iterations are independent of each other, whatever the pointers may be: accesses in the body
        carry the access group, so LLVM vectorises without asking whether buffers overlap. What is left over then is
        few elements, and a loop around loops is long as it is: neither is unrolled. `rounds` are the vectors that are
        computed side by side; 1: as LLVM likes. A loop that is `kept` stays one, in the order of its body.
        """
        before, head, inside, latch, after = (
            self.block,
            *(self.label(s) for s in ("head", "body", "latch", "done")),
        )
        self.jump(head)
        self.place(head)
        i, following = self.name("i"), self.name("i")
        phis = [self.name("c") for _ in carried]
        self.do(f"{i} = phi {counter} [ {start}, %{before} ], [ {following}, %{latch} ]")
        slots = []
        for _ in carried:
            slots.append(len(self.lines))
            self.lines.append("")
        condition = self(f"icmp {less} {counter} {i}, {stop}")
        self.branch(condition, inside, after)
        self.place(inside)
        loops, self._loops = self._loops, 0
        results = body(i, phis)
        properties = [*_LANES] if lanes else []
        if rounds > 1:
            properties.append(f'!{{!"llvm.loop.interleave.count", i32 {rounds}}}')
        if kept:
            properties += _KEPT
        elif self._loops:
            properties.append(_ONCE)
        self._loops += loops + 1
        self.jump(latch)
        self.place(latch)
        self.do(f"{following} = add{flags} {counter} {i}, {step}")
        self.jump(head, self._loop_metadata(properties) if properties else "")
        for slot, phi, (type_, first), result in zip(slots, phis, carried, results, strict=True):
            self.lines[slot] = f"  {phi} = phi {type_} [ {first}, %{before} ], [ {result}, %{latch} ]"
        self.place(after)
        return phis

    def _loop_metadata(self, properties: Sequence[str]) -> str:
        """`, !llvm.loop !N`, the node naming itself first, as LLVM asks. Node 0 is the access group."""
        numbers = [self.node(text) for text in properties]
        own = len(self.metadata)
        self.metadata.append(f"distinct !{{{', '.join(f'!{n}' for n in [own, *numbers])}}}")
        return f", !llvm.loop !{own}"

    def function(self, signature: str, attributes: str) -> str:
        """The finished function."""
        return "\n".join([f"define {signature} {attributes} {{", "entry:", *self.entry, *self.lines, "}"])


def round_to(w: Writer, value: str, dtype: DType) -> str:
    """A float register rounded to f16 or bf16 and back; other dtypes as they are."""
    if dtype == dtypes.f16:
        return w(f"fpext half {w(f'fptrunc float {value} to half')} to float")
    if dtype == dtypes.bf16:
        return from_memory(w, to_memory(w, value, dtype), dtype)
    return value


def to_memory(w: Writer, value: str, dtype: DType) -> str:
    """A register value in the form memory holds."""
    if dtype.kind == "bool":
        return w(f"zext i1 {value} to i8")
    if dtype == dtypes.f16:
        return w(f"fptrunc float {value} to half")
    if dtype == dtypes.bf16:
        # To nearest even: add half a unit, less one where the kept part is even. A NaN must not carry over into inf.
        bits = w(f"bitcast float {value} to i32")
        kept = w(f"lshr i32 {bits}, 16")
        half = w(f"add nuw i32 {w(f'and i32 {kept}, 1')}, 32767")
        rounded = w(f"lshr i32 {w(f'add i32 {bits}, {half}')}, 16")
        quiet = w(f"or i32 {kept}, 64")
        chosen = w(f"select i1 {w(f'fcmp uno float {value}, {value}')}, i32 {quiet}, i32 {rounded}")
        return w(f"trunc i32 {chosen} to i16")
    return value


def from_memory(w: Writer, value: str, dtype: DType) -> str:
    """What memory holds, as a register value."""
    if dtype.kind == "bool":
        return w(f"icmp ne i8 {value}, 0")
    if dtype == dtypes.f16:
        return w(f"fpext half {value} to float")
    if dtype == dtypes.bf16:
        wide = w(f"zext i16 {value} to i32")
        return w(f"bitcast i32 {w(f'shl i32 {wide}, 16')} to float")
    return value
