"""Every instruction of Atlas: one enum, and the groups other modules ask about.

A value has one of the dtypes or `index`. Operands are earlier values; an attribute is known when the program is
written. Where C leaves a case undefined, Atlas does not: see the comment beside the opcode.
"""

from __future__ import annotations

from enum import Enum


class Opcode(Enum):
    __hash__ = object.__hash__  # a member is one object; Enum would hash its name, in Python

    # Positions. Results are `index`.
    COORDINATE = "coordinate"  # [k] the lane's position along grid axis k
    EXTENT = "extent"  # [k] the grid's size along axis k
    LANE = "lane"  # the lane's number in row-major order of the grid's axes that are not reduced
    WORKGROUP = "workgroup"  # number of the lane's workgroup
    THREAD = "thread"  # the lane's number within its workgroup

    # Values from outside.
    CONSTANT = "constant"  # [number]
    SCALAR = "scalar"  # [name] a launch argument

    # Memory. `position` is an index; reading outside a buffer gives any value, writing there does nothing.
    LOAD = "load"  # [buffer] position
    STORE = "store"  # [buffer] position value
    SHARED_LOAD = "shared_load"  # [shared array] position
    # [shared array of i32] position; the same for all lanes of a workgroup, which come here together between barriers
    SHARED_AGREED = "shared_agreed"
    SHARED_STORE = "shared_store"  # [shared array] position value
    LOCAL_LOAD = "local_load"  # [local array] position
    LOCAL_STORE = "local_store"  # [local array] position value
    ATOMIC_ADD = "atomic_add"  # [buffer or shared array] position value -> the old value; likewise all below
    ATOMIC_MIN = "atomic_min"
    ATOMIC_MAX = "atomic_max"
    ATOMIC_AND = "atomic_and"
    ATOMIC_OR = "atomic_or"
    ATOMIC_XOR = "atomic_xor"
    ATOMIC_EXCHANGE = "atomic_exchange"
    ATOMIC_COMPARE_EXCHANGE = (
        "atomic_compare_exchange"  # position expected value; stores where the old one is expected
    )

    # Conversions.
    # x; to nearest even; float to integer truncates and saturates, NaN gives 0; to bool is x != 0; of a complex number
    # the real part, unless it stays complex
    CONVERT = "convert"
    BITCAST = "bitcast"  # x; same width

    # Complex numbers.
    REAL = "real"  # z; the real part
    IMAG = "imag"  # z; the imaginary part
    PAIR = "pair"  # x y; x + iy

    # Arithmetic. Integers wrap.
    ADD = "add"  # x y
    SUB = "sub"  # x y
    MUL = "mul"  # x y
    DIV = "div"  # x y; integers truncate towards 0, x div 0 = 0, lowest div -1 = lowest
    REM = "rem"  # x y; sign of x (C's fmod and %); integer x rem 0 = 0
    MULHI = "mulhi"  # x y of u32 or i32; the upper half of the double-width product
    MAD = "mad"  # x y z; x * y + z, rounded once or twice
    FMA = "fma"  # x y z; x * y + z, rounded once
    MIN = "min"  # x y; NaN if either is
    MAX = "max"  # x y; NaN if either is
    ABS = "abs"  # x
    NEG = "neg"  # x
    POW = "pow"  # x y; floats as IEEE 754 pow; integers wrap, a negative exponent gives 0 unless x is 1 or -1

    # Logic on integers and bools; shifts of a width or more give 0 (-1 for a negative i shifted right).
    AND = "and"  # x y
    OR = "or"  # x y
    XOR = "xor"  # x y
    NOT = "not"  # x
    SHL = "shl"  # x count, both of one dtype
    SHR = "shr"  # x count; arithmetic for signed dtypes

    # Comparisons give bool; false if an operand is NaN, but `ne` is true.
    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    SELECT = "select"  # condition x y; x where the condition holds, y elsewhere

    # Structure. Blocks yield the results.
    IF = "if"  # condition; blocks: then, else
    LOOP = "loop"  # start stop step first...; step > 0; block arguments: counter, carried...
    WHILE = (
        "while"  # condition first...; block arguments: carried...; it yields whether to go on, and carried...
    )
    BARRIER = "barrier"  # all lanes of a workgroup meet here, and see each other's shared stores
    # [width] x number; all lanes of a workgroup come here, each gets another's x: of its subgroup, `width` neighbours
    # in the workgroup, that of the lane of this number, modulo width; any value where that lane is outside of the grid
    SHUFFLE = "shuffle"

    # Row reductions fold a value over the grid's reduced axes, in any order; the result is the same for a whole row.
    REDUCE_ADD = "reduce_add"  # x; floats accumulate in f32 at least
    REDUCE_MUL = "reduce_mul"  # x
    REDUCE_MIN = "reduce_min"  # x; NaN if any is
    REDUCE_MAX = "reduce_max"  # x; NaN if any is

    # Functions of floats.
    SQRT = "sqrt"
    RSQRT = "rsqrt"
    EXP = "exp"
    EXP2 = "exp2"
    EXPM1 = "expm1"
    LOG = "log"
    LOG2 = "log2"
    LOG1P = "log1p"
    SIN = "sin"
    COS = "cos"
    TAN = "tan"
    TANH = "tanh"
    ATAN = "atan"
    ERF = "erf"
    FLOOR = "floor"
    CEIL = "ceil"
    ROUND = "round"  # halves to even
    TRUNC = "trunc"


NOWHERE = 2**31 - 1  # a position outside of every array, for accesses that shall do nothing
O = Opcode
POSITIONS = frozenset({O.COORDINATE, O.EXTENT, O.LANE, O.WORKGROUP, O.THREAD})
COMPARISONS = frozenset({O.EQ, O.NE, O.LT, O.LE, O.GT, O.GE})
BINARY = frozenset(
    {O.ADD, O.SUB, O.MUL, O.DIV, O.REM, O.MULHI, O.MIN, O.MAX, O.POW, O.AND, O.OR, O.XOR, O.SHL, O.SHR}
)
TERNARY = frozenset({O.MAD, O.FMA})
BITWISE = frozenset({O.AND, O.OR, O.XOR, O.NOT, O.SHL, O.SHR})
COMMUTATIVE = frozenset({O.ADD, O.MUL, O.MULHI, O.MIN, O.MAX, O.AND, O.OR, O.XOR, O.EQ, O.NE})
ROUNDINGS = frozenset({O.FLOOR, O.CEIL, O.ROUND, O.TRUNC})
TRANSCENDENTALS = frozenset(
    {
        O.SQRT,
        O.RSQRT,
        O.EXP,
        O.EXP2,
        O.EXPM1,
        O.LOG,
        O.LOG2,
        O.LOG1P,
        O.SIN,
        O.COS,
        O.TAN,
        O.TANH,
        O.ATAN,
        O.ERF,
    }
)
# Those that complex numbers have too.
COMPLEX_FUNCTIONS = frozenset(
    {O.SQRT, O.EXP, O.EXP2, O.EXPM1, O.LOG, O.LOG2, O.LOG1P, O.SIN, O.COS, O.TAN, O.TANH, O.ATAN}
)
UNARY = frozenset({O.ABS, O.NEG, O.NOT}) | ROUNDINGS | TRANSCENDENTALS
# By what they fold.
FOLDS = {O.REDUCE_ADD: O.ADD, O.REDUCE_MUL: O.MUL, O.REDUCE_MIN: O.MIN, O.REDUCE_MAX: O.MAX}
REDUCTIONS = frozenset(FOLDS)
ATOMICS = frozenset(
    {
        O.ATOMIC_ADD,
        O.ATOMIC_MIN,
        O.ATOMIC_MAX,
        O.ATOMIC_AND,
        O.ATOMIC_OR,
        O.ATOMIC_XOR,
        O.ATOMIC_EXCHANGE,
        O.ATOMIC_COMPARE_EXCHANGE,
    }
)
READS, WRITES = ATOMICS | {O.LOAD}, ATOMICS | {O.STORE}  # of buffers
BUFFER_ACCESSES = READS | WRITES
LOCAL_ACCESSES = frozenset({O.LOCAL_LOAD, O.LOCAL_STORE})
# What has a position as its first operand.
ACCESSES = BUFFER_ACCESSES | LOCAL_ACCESSES | {O.SHARED_LOAD, O.SHARED_AGREED, O.SHARED_STORE}
LOADS = frozenset({O.LOAD, O.SHARED_LOAD, O.SHARED_AGREED, O.LOCAL_LOAD})
MEETINGS = frozenset({O.BARRIER, O.SHUFFLE})  # where all lanes of a workgroup come
STORES = frozenset({O.STORE, O.SHARED_STORE, O.LOCAL_STORE})
EFFECTS = STORES | ATOMICS | MEETINGS
LOOPS = frozenset({O.LOOP, O.WHILE})
STRUCTURED = LOOPS | {O.IF}
PURE = frozenset(Opcode) - LOADS - EFFECTS - STRUCTURED
del O
