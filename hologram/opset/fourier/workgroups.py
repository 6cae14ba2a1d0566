"""Transforms of rows that fit in the memory of a workgroup: all radices in one pass over memory.

The threads of a row hold its elements in registers, about ELEMENTS each, and write them to shared memory between two
radices. Short rows share a workgroup. A program is written for one length, without loops.
"""

from __future__ import annotations

import math
from functools import lru_cache

from hologram.atlas import complex_parts
from hologram.atlas.builder import Builder, Value
from hologram.atlas.functions import select
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.foundation.dtypes import DType, index
from hologram.foundation.frozen import frozen
from hologram.machine.limits import Limits
from hologram.opset.fourier.butterflies import small
from hologram.opset.fourier.turning import scaled, turned

ELEMENTS = 16  # of a thread
THREADS = 64  # of a workgroup, at least, where there are rows enough
MOST = 512  # multiplications of a thread, about: longer programs take drivers seconds to compile


@frozen
class Rows:
    """How a workgroup is divided: so many threads for a row, and so many rows."""

    threads: int
    rows: int

    @staticmethod
    def of(n: int, parts: tuple[int, ...], dtype: DType, limits: Limits) -> Rows | None:
        """None where one row does not fit, one radix is all there is, or the program would be long."""
        size, most = n * dtype.bits // 8, limits.max_workgroup_threads
        threads = -(-n // max(ELEMENTS, *parts))
        if len(parts) < 2 or size > limits.shared_bytes or threads > most:
            return None
        work = sum(-(-(n // r) // threads) * r * (r if r % 2 else 4) for r in parts)
        if work > MOST:
            return None
        return Rows(threads, max(1, min(THREADS // threads, limits.shared_bytes // size)))


@lru_cache(maxsize=256)
def row_program(n: int, parts: tuple[int, ...], how: Rows, dtype: DType, inverse: bool) -> Program:
    """Over all threads; `count` says how many rows there are."""
    b = Builder(f"atlas_fourier_rows_{dtype}", rank=1, workgroup=how.threads * how.rows)
    x, w = b.buffer("x", dtype, Access.READ), b.buffer("roots", dtype, Access.READ)
    out = b.buffer("out", dtype, Access.WRITE)
    count = b.scalar("count", index)
    scale = b.scalar("scale", dtype.part)
    group, thread = b.position(Opcode.WORKGROUP), b.position(Opcode.THREAD)
    lane, line = thread % how.threads, thread // how.threads
    shared = b.shared("elements", dtype, n * how.rows)
    number = group * how.rows + line
    there = number < count
    number = select(there, number, 0)
    start, own = number * n, line * n

    done = 1
    for stage, radix in enumerate(parts):
        first, last = not stage, stage == len(parts) - 1
        left = n // (done * radix)
        made: list[
            tuple[Value | None, list[tuple[Value, Value]]]
        ] = []  # who stores, and which elements where
        for turn in range(-(-(n // radix) // how.threads)):
            item, stores = lane + turn * how.threads, there if last else None
            if (turn + 1) * how.threads > n // radix:
                inside = item < n // radix
                stores = inside if stores is None else stores & inside
                item = select(inside, item, 0)
            p, q = item // done, item % done
            places = [q + (p + left * k) * done for k in range(radix)]
            given = [b.load(x, start + k) if first else b.shared_load(shared, own + k) for k in places]
            elements: list[tuple[Value, Value]] = []
            for k, z in enumerate(small(given, 1 if inverse else -1, turned)):
                if k and not last:
                    root = b.load(w, p * (k * done))
                    z = z * (complex_parts.conjugate(root) if inverse else root)
                elements.append((q + (p * radix + k) * done, scaled(z, scale) if last else z))
            made.append((stores, elements))
        if not first and not last:
            b.barrier()
        for stores, elements in made:

            def store(elements: list[tuple[Value, Value]] = elements, last: bool = last) -> None:
                for place, z in elements:
                    if last:
                        b.store(out, start + place, z)
                    else:
                        b.shared_store(shared, own + place, z)

            if stores is None:
                store()
            else:
                b.if_(stores, store, lambda: None)
        if not last:
            b.barrier()
        done *= radix
    return b.build()


def groups(transforms: int, how: Rows) -> int:
    """How many threads that takes, in whole workgroups."""
    return math.ceil(transforms / how.rows) * how.threads * how.rows
