"""What a C-like language must spell for the generator: tables of types, literals, operators, and a few declarations.

WGSL, CUDA C++ and MSL are instances, in backends/<name>/dialect.py. A dialect only spells: what its language lacks is
rewritten before (compiler/lowering/lower.py), so a combination that is missing from a table is a bug or an unsupported
dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, ScalarParameter
from hologram.foundation import dtypes
from hologram.foundation.conduct import CONDUCT
from hologram.foundation.dtypes import DType, Number
from hologram.foundation.frozen import frozen

# A dispatch of more groups than one dimension takes is folded to 2-D with this many along x.
FOLD = 32768
LANES = "xyzw"  # the components of a vector of four


@frozen(slots=True)
class BufferDeclaration:
    """A buffer as the shader sees it; `name` can be used as it stands."""

    name: str
    dtype: DType
    access: Access
    vector: bool = False  # accessed four elements at a time (packed dtypes: in whole words) and no other way
    atomic: bool = False  # touched by atomic instructions, or by stores of packed elements


@frozen(slots=True)
class SharedDeclaration:
    """An array in workgroup memory."""

    name: str
    dtype: DType
    size: int
    atomic: bool = False  # touched by atomic instructions


@frozen(slots=True)
class Declarations:
    """Everything that is named outside the body of a kernel."""

    entry: str
    workgroup: tuple[int, int, int]
    buffers: tuple[BufferDeclaration, ...]
    parameters: tuple[ScalarParameter, ...]
    shared: tuple[SharedDeclaration, ...]
    hides: bool = False  # some values go through Dialect.hidden


@frozen(eq=False)
class Prelude:
    """How a language declares the names that a hand-written file uses (compiler/source/shader.py)."""

    alias: str  # {name} {type}
    constant: str  # {name} {type} {value}
    types: Mapping[DType, str]  # those with a type of the language's own, as they lie in memory
    # What must come first where a file uses these dtypes, and its epilogue those.
    head: Callable[[frozenset[DType], frozenset[DType]], list[str]]
    # Declares `epilogue` from the buffers it reads with their bindings, helper functions, and the lines of its body.
    epilogue: Callable[[Sequence[tuple[int, BufferDeclaration]], Sequence[str], Sequence[str]], list[str]]
    one_line: bool = False  # short declarations share the file's first line, the epilogue follows the file


@frozen(eq=False)
class Dialect:
    """A language. Templates are `str.format` strings; operands are {0}, {1}, {2}, and are names or literals.

    Values are held in `types`; a dtype that memory holds otherwise (packed into words, a bool as a byte) has its
    own `loads` and `stores`, which may call helpers. Inside a kernel the generator relies on the locals `group` (the
    folded workgroup number) and `thread_index` (the number within it), declared by `open`.
    """

    name: str
    suffix: str  # of a source file
    types: Mapping[DType, str]  # of values, `index` included
    literal: Callable[[DType, Number], str]
    # By the opcode and the dtype of the last operand. {type} is the spelling of the result's dtype.
    operators: Mapping[tuple[Opcode, DType], str]
    conversions: Mapping[tuple[DType, DType], str]  # from, to
    bitcasts: Mapping[tuple[DType, DType], str]  # from, to
    # Module-level text before the kernel: the parameters, buffers and shared arrays where the language has them there.
    declare: Callable[[Declarations], list[str]]
    # The lines that open the kernel, the last ends in "{"-scope; they define `group` and `thread_index`.
    open: Callable[[Declarations], list[str]]
    # The line that opens a function: name, (name, type) arguments, the type of its result ("" for none).
    function: Callable[[str, Iterable[tuple[str, str]], str, Declarations], str]
    # What a call passes besides its arguments where buffers and parameters are not visible everywhere.
    capture: Callable[[Declarations], tuple[str, ...]]
    let: str  # {name} {type} {value}
    var: str  # {name} {type} {value}
    loop: str  # {name} {type} {start} {stop} {step}; opens a scope
    barrier: str
    # {0}: the parameter's name; 64-bit parameters come as {0}_low and {0}_high, words of 32 bits.
    parameters: Mapping[DType, str]
    vectors: Mapping[DType, str]  # type of four elements in memory, where such a load exists
    vector: Mapping[DType, str]  # {0} to {3}, elements as values -> four elements in memory
    element: Mapping[DType, tuple[str, str, str, str]]  # {0}: the vector; each element as a value
    # {0}: the vector in memory, {1}: a value; a statement that stores one element and leaves the other three.
    element_store: Mapping[DType, tuple[str, str, str, str]]
    structure: Callable[[str, Iterable[tuple[str, str]]], list[str]]  # declares a struct
    construct: str  # {name} {values}: a value of that struct
    comment: str = "// "
    loops: Mapping[DType, str] = field(
        default_factory=dict
    )  # likewise, of counters that are spelled otherwise
    # {0}: a value, {1}: a distance; what the thread has whose number in the subgroup differs by that bit. All must ask.
    exchange: Mapping[DType, str] = field(default_factory=dict)
    # {0}: a value, {1}: a u32; what the thread of that number in the subgroup has. All must ask.
    shuffle: Mapping[DType, str] = field(default_factory=dict)
    # {buffer} {position} {value}, {expected} of a comparing exchange. Missing: `{buffer}[{position}]`, an assignment.
    loads: Mapping[DType, str] = field(default_factory=dict)
    stores: Mapping[DType, str] = field(default_factory=dict)
    # Likewise, of buffers declared as vectors.
    vector_loads: Mapping[DType, str] = field(default_factory=dict)
    lane: str = "{buffer}[{position} / 4][{position} % 4]"  # one element of such a buffer, to load or assign
    atomic_loads: Mapping[DType, str] = field(default_factory=dict)  # likewise, of buffers declared atomic
    atomic_stores: Mapping[DType, str] = field(default_factory=dict)
    atomics: Mapping[tuple[Opcode, DType], str] = field(default_factory=dict)
    shared_loads: Mapping[DType, str] = field(default_factory=dict)
    agreed: str = "{buffer}[{position}]"  # of a shared array, what all threads of a workgroup read alike
    shared_stores: Mapping[DType, str] = field(default_factory=dict)
    # Likewise, of arrays declared atomic.
    shared_atomic_loads: Mapping[DType, str] = field(default_factory=dict)
    shared_atomic_stores: Mapping[DType, str] = field(default_factory=dict)
    shared_atomics: Mapping[tuple[Opcode, DType], str] = field(default_factory=dict)
    while_: str = "while ({condition}) {{"  # opens a scope
    array: str = "{type} {name}[{size}] = {{}};"  # of a lane, zeros
    # Functions that a template calls, by what needs them. With {buffer} to fill in, once a buffer: ("load" | "atomic
    # load" | "vector load" | "store", dtype) and (an atomic opcode, or "shared" and one, dtype). As they are: (opcode,
    # dtype of the last operand), ((CONVERT | BITCAST, source), target), ("vector", dtype) for vectors in memory,
    # ("loop", dtype), ("hidden", dtype), and ("literal", dtype) for infinities, NaN and -0.0. Paragraphs (between blank
    # lines) are written once.
    helpers: Mapping[tuple[object, DType], str] = field(default_factory=dict)
    # {0}: a float that the driver shall not rearrange with its neighbours; see reassociation.py. Helper: "hidden".
    hidden: Mapping[DType, str] = field(default_factory=dict)
    # What of CONDUCT its drivers do not keep.
    shortfalls: frozenset[str] = frozenset(CONDUCT)
    # Every float goes through `hidden`, constants too: no driver can rearrange what it does not see.
    hides_all: bool = False
    # How many instructions one of a float becomes, about: compilers inline what a thread does for each element.
    weight: int = 1
    # The compiler computes with literals itself, and refuses what it cannot: 0 / 0, a shift past the width, abs of f64.
    folds: bool = False
    # Several elements share a word of memory, so a store needs atomics.
    packed: frozenset[DType] = frozenset()
    reserved: frozenset[str] = frozenset()  # words that cannot be names
    # Lines after the first one, a comment, where these dtypes occur: includes.
    head: Callable[[frozenset[DType]], list[str]] = lambda used: []
    index_bits: int = 32
    read_write: bool = False  # every buffer is declared writable
    prelude: Prelude | None = None  # None: no hand-written files
    options: str = ""  # what tells it apart from others of its name
    checks_bounds: bool = False  # the language itself sees to it that an access outside a buffer does nothing

    def spells(self, opcode: Opcode, dtype: DType) -> bool:
        """Whether the table of operators has the opcode for operands of that dtype."""
        return (opcode, dtype) in self.operators


def spell(table: Mapping[Opcode, str], *families: Iterable[DType]) -> dict[tuple[Opcode, DType], str]:
    """The same spellings for several dtypes."""
    return {(opcode, d): text for opcode, text in table.items() for family in families for d in family}


def words(dtype: DType, index_bits: int = 32) -> int:
    """How many 32-bit words a launch parameter takes."""
    bits = index_bits if dtype == dtypes.index else dtype.bits
    return 2 if bits == 64 else 1
