"""Quotients and remainders of integers without the processor's division, which takes one number at a time.

Of up to 32 bits they are products of floats. 64 bits are divided by what all lanes share, a constant or a scalar of the
launch, by a multiplication: Granlund and Montgomery, Division by invariant integers using multiplication (1994),
figure 4.1. Only divisors of 64 bits that vary take the processor's.
"""

from __future__ import annotations

from collections.abc import Iterable

from hologram.backends.cpu.llvm.writer import Inverse, Writer, literal, register_type
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType

_HALF = 0xFFFFFFFF


def inverts(d: DType) -> bool:
    """Whether numbers of this dtype are divided by multiplying with an `Inverse`."""
    return d in (dtypes.i64, dtypes.u64)


def divided(w: Writer, d: DType, x: str, y: str, remainder: bool) -> str:
    """The quotient that is cut towards zero, or what it leaves, of integers; 0 where y is 0, and no overflow traps."""
    t = register_type(d)
    operation = ("s" if d.is_signed else "u") + ("rem" if remainder else "div")
    constant = int(y) if y.lstrip("-").isdigit() else None
    if constant is not None and constant not in (0, -1) and (not inverts(d) or constant.bit_count() == 1):
        return w(f"{operation} {t} {x}, {y}")  # LLVM has an inverse of its own
    inverse = w.inverses.get(y) if constant is None else _of_constant(d, constant)
    if inverts(d) and inverse is not None:
        quotient = _times(w, d, x, y, inverse)
    elif d.kind != "index" and d.bits <= 32:
        quotient = _times_float(w, d, x, y)
        if d.is_signed:
            minus = w(f"icmp eq {t} {y}, -1")
            quotient = w(f"select i1 {minus}, {t} {w(f'sub {t} 0, {x}')}, {t} {quotient}")
    else:
        return _by_processor(w, d, x, y, operation)
    if remainder:
        quotient = w(f"sub {t} {x}, {w(f'mul {t} {quotient}, {y}')}")
    return w(f"select i1 {w(f'icmp eq {t} {y}, 0')}, {t} 0, {t} {quotient}")


def _by_processor(w: Writer, d: DType, x: str, y: str, operation: str) -> str:
    t = register_type(d)
    zero = w(f"icmp eq {t} {y}, 0")
    minus = w(f"icmp eq {t} {y}, -1") if d.is_signed else "false"
    unsafe = w(f"or i1 {zero}, {minus}")
    result = w(f"{operation} {t} {x}, {w(f'select i1 {unsafe}, {t} 1, {t} {y}')}")
    if d.is_signed:
        special = "0" if operation.endswith("rem") else w(f"sub {t} 0, {x}")
        result = w(f"select i1 {minus}, {t} {special}, {t} {result}")
    return w(f"select i1 {zero}, {t} 0, {t} {result}")


def _times_float(w: Writer, d: DType, x: str, y: str) -> str:
    """The truncated quotient of integers of at most 32 bits; poison for y = 0 and where it overflows.

    x * (inverse + 2 eps) lies above x / y by less than 4 eps of it. The next integer is 1 / (x + y) of it away at
    least, so truncation is exact: in f32 for 16 bits, in f64 for 32. Nothing here traps: LLVM makes vectors of it, and
    takes the inverse of a divisor that is the same for all lanes once.
    """
    wide = dtypes.f64 if d.bits == 32 else dtypes.f32
    t, f = register_type(d), register_type(wide)
    sign = "s" if d.is_signed else "u"
    inverse = w(
        f"fdiv {f} {literal(1 + 2.0 ** (-51 if d.bits == 32 else -22), wide)}, {w(f'{sign}itofp {t} {y} to {f}')}"
    )
    product = w(f"fmul {f} {w(f'{sign}itofp {t} {x} to {f}')}, {inverse}")
    return w(f"fpto{sign}i {f} {product} to {t}")


# Inverses of 64 bits: of the magnitude, for the signs are taken apart.


def _of_constant(d: DType, y: int) -> Inverse | None:
    size = abs(y)
    if not size:
        return None
    bits = (size - 1).bit_length()
    factor = ((1 << 64) * ((1 << bits) - size) // size + 1) % (1 << 64)
    return Inverse(str(factor), str(min(bits, 1)), str(max(bits - 1, 0)))


def prepare(w: Writer, divisors: Iterable[tuple[DType, str]]) -> None:
    """Computes the inverses of registers that all lanes share, at the function's start; of 0 that of 1."""
    for d, y in divisors:
        w.inverses[y] = _of_register(w, d, y)


def _of_register(w: Writer, d: DType, y: str) -> Inverse:
    size = w.intrinsic("llvm.umax.i64", "i64", ("i64", _magnitude(w, d, y)[0]), ("i64", "1"))
    less = w(f"sub i64 {size}, 1")
    bits = w(f"sub i64 64, {w.intrinsic('llvm.ctlz.i64', 'i64', ('i64', less), ('i1', 'false'))}")
    # 2^64 (2^bits - size) / size, digit by digit.
    shifted = w(f"shl i64 1, {w(f'and i64 {bits}, 63')}")
    power = w(f"select i1 {w(f'icmp eq i64 {bits}, 64')}, i64 0, i64 {shifted}")

    def digit(_: str, now: list[str]) -> list[str]:
        quotient, rest = now
        doubled = w(f"shl i64 {rest}, 1")
        fits = w(f"or i1 {w(f'icmp slt i64 {rest}, 0')}, {w(f'icmp uge i64 {doubled}, {size}')}")
        following = w(f"sub i64 {doubled}, {w(f'select i1 {fits}, i64 {size}, i64 0')}")
        return [w(f"or i64 {w(f'shl i64 {quotient}, 1')}, {w(f'zext i1 {fits} to i64')}"), following]

    begun = [("i64", "0"), ("i64", w(f"sub i64 {power}, {size}"))]
    quotient, _ = w.loop("0", "64", "1", begun, digit)
    first = w.intrinsic("llvm.umin.i64", "i64", ("i64", bits), ("i64", "1"))
    return Inverse(w(f"add i64 {quotient}, 1"), first, w(f"sub i64 {bits}, {first}"))


def _magnitude(w: Writer, d: DType, x: str) -> tuple[str, str]:
    """The absolute value as an unsigned number, and a mask of the sign."""
    if not d.is_signed:
        return x, "0"
    sign = w(f"ashr i64 {x}, 63")
    return w(f"sub i64 {w(f'xor i64 {x}, {sign}')}, {sign}"), sign


def _times(w: Writer, d: DType, x: str, y: str, inverse: Inverse) -> str:
    size, sign = _magnitude(w, d, x)
    high = _high(w, size, inverse.factor)
    rest = w(f"lshr i64 {w(f'sub i64 {size}, {high}')}, {inverse.first}")
    quotient = w(f"lshr i64 {w(f'add i64 {high}, {rest}')}, {inverse.second}")
    if not d.is_signed:
        return quotient
    sign = w(f"xor i64 {sign}, {_magnitude(w, d, y)[1]}")
    return w(f"sub i64 {w(f'xor i64 {quotient}, {sign}')}, {sign}")


def _high(w: Writer, x: str, y: str) -> str:
    """The upper half of the product of unsigned numbers, by products of 32 bits, of which LLVM makes vectors."""
    (x0, x1), (y0, y1) = ((w(f"and i64 {v}, {_HALF}"), w(f"lshr i64 {v}, 32")) for v in (x, y))
    lower = w(f"lshr i64 {w(f'mul i64 {x0}, {y0}')}, 32")
    middle = w(f"add i64 {w(f'mul i64 {x1}, {y0}')}, {lower}")
    other = w(f"add i64 {w(f'mul i64 {x0}, {y1}')}, {w(f'and i64 {middle}, {_HALF}')}")
    upper = w(f"add i64 {w(f'mul i64 {x1}, {y1}')}, {w(f'lshr i64 {middle}, 32')}")
    return w(f"add i64 {upper}, {w(f'lshr i64 {other}, 32')}")
