"""Matrices of some size by compiled code of our own, where that takes less time than LAPACK's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from hologram.backends.cpu.image import ADDRESS, Patch, Piece, Step
from hologram.backends.cpu.kernel import Host
from hologram.backends.cpu.linear_algebra import eigen, orthogonal, triangles
from hologram.backends.cpu.linear_algebra.desk import BUFFERS, Kind, LISTS, REALS, WORDS, Unit, module
from hologram.backends.cpu.linear_algebra.sweeps import Sweeps
from hologram.compiled.machine_code.engine import Code, Engine
from hologram.compiled.machine_code.objects import kept_code
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen

FEWEST = 4  # lanes
_SHARED_NS = 6_000  # of a launch that is worth several threads


@frozen
class Way:
    """How a stem is computed: the unit, by its flag, up to how many rows and columns, and ns of an element of those."""

    unit: Callable[[bool], Unit]
    most: int
    cube_ns: float = 0.1


WAYS: Mapping[str, Way] = {
    "cholesky": Way(triangles.cholesky, 128),
    "solve": Way(lambda _: triangles.solve, 128),
    "qr": Way(lambda _: orthogonal.qr, 128),
    "eigh": Way(eigen.eigh, 128),
    "eigvalsh": Way(eigen.eigvalsh, 128),
}


def text(kind: Kind) -> str:
    """The module's."""
    sweeps = Sweeps(kind.dtype, kind.lanes)
    functions = sweeps.text()
    if kind.stem == "eigh":
        functions.append(sweeps.function("rotated", eigen.ROTATED, eigen.rotated))
    return module(sweeps, functions, WAYS[kind.stem].unit(kind.flag))


@functools.lru_cache(maxsize=64)
def _code(engine: Engine, kind: Kind) -> Code:
    written = text(kind)
    return kept_code(engine, f"linalg_{kind.stem}", written, lambda: (written, ("each",)))


def taken(stem: str, sizes: Mapping[str, int]) -> bool:
    """Whether it is computed here."""
    way = WAYS.get(stem)
    return way is not None and 0 < max(sizes["m"], sizes["n"], sizes["right"]) <= way.most


def kind_of(stem: str, dtype: DType, most: int, vector_bits: int, flag: bool) -> Kind:
    lanes = vector_bits // dtype.part.bits
    while lanes > FEWEST and lanes // 2 >= most:
        lanes //= 2
    return Kind(stem, dtype, lanes, flag)


def pieces(
    host: Host, stem: str, dtype: DType, count: int, sizes: Mapping[str, int], flag: bool, buffers: int
) -> list[Piece]:
    """A unit for each of so many matrices."""
    engine = host.engine()
    most = max(sizes["m"], sizes["n"])
    kind = kind_of(stem, dtype, most, engine.vector_bits, flag)
    lanes = kind.lanes
    code = _code(engine, kind)

    def up(n: int) -> int:
        return -(-n // lanes) * lanes

    columns = max(sizes["n"], sizes["width"])
    row = up(columns) + (up(sizes["right"]) if sizes["right"] else 0)
    list_ = max(row, up(sizes["m"]))
    second = row * sizes["m"]
    lists = second + (list_ * most if stem in ("qr", "eigh", "eigvalsh") else 0)
    plane = lists + LISTS * list_
    reals = plane * (2 if dtype.is_complex else 1)
    room_bytes = (reals + REALS * list_) * dtype.part.itemsize + 64
    ns = count * most**3 * WAYS[stem].cube_ns
    slices = min(count, 4 * host.threads) if host.threads > 1 and ns > _SHARED_NS else 1
    slice_ = -(-count // slices)
    known = {
        **sizes, "row": row, "list": list_, "plane": plane, "second": second, "lists": lists, "reals": reals,
        "room_bytes": room_bytes, "slice": slice_,
    }  # fmt: skip
    patches = tuple(Patch(k, ADDRESS, k) for k in range(buffers))
    return [
        Piece(
            (Step(code.addresses[0], count, slice_),),
            [known.get(word, 0) for word in WORDS],
            patches,
            owner=code,
            room=(slices * room_bytes + 64) // 8 + 1,
            room_at=WORDS.index("room"),
        )
    ]


__all__ = ["BUFFERS", "pieces", "taken", "text"]
