"""Matrices of some size by compiled code of our own, where that takes less time than LAPACK's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from hologram.backends.cpu import interrupts
from hologram.backends.cpu.image import ADDRESS, Patch, Piece, Step
from hologram.backends.cpu.kernel import Host
from hologram.backends.cpu.linear_algebra import eigen, orthogonal, rotations, singular, triangles
from hologram.backends.cpu.linear_algebra.desk import LISTS, REALS, WORDS, Kind, Unit, module
from hologram.backends.cpu.linear_algebra.sweeps import Sweeps
from hologram.compiled.machine_code.engine import Code, Engine
from hologram.compiled.machine_code.objects import kept_code
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen

FEW = 8  # lanes that small matrices do with
LEAST = 1024  # elements: less is no sooner done here than LAPACK is called, and the code is made first
_SHARED_NS = 12_000  # of a launch that is worth several threads
_ASKS_NS = 100_000  # of the matrices after which a thread asks for interrupts
_ROOM = 256 << 10  # bytes of a slice, of which a thread may have several


@frozen
class Way:
    """How a stem is computed: the unit, by its flag, up to how many rows and columns, and its time by these."""

    unit: Callable[[bool], Unit]
    most: int
    square_ns: float  # of a matrix of n x n, over n^2, where n is small
    lists: bool = False  # whether it wants a second matrix, of lists


WAYS: Mapping[str, Way] = {
    "cholesky": Way(triangles.cholesky, 128, 1.0),
    "solve": Way(lambda _: triangles.solve, 128, 3.0),
    "qr": Way(lambda _: orthogonal.qr, 192, 3.0, lists=True),
    "eigh": Way(eigen.eigh, 160, 20.0, lists=True),
    "eigvalsh": Way(eigen.eigvalsh, 160, 20.0, lists=True),
    "svd": Way(singular.svd, 128, 40.0, lists=True),
}


def text(kind: Kind) -> str:
    """The module's."""
    sweeps = Sweeps(kind.dtype, kind.lanes)
    functions = sweeps.text()
    if kind.stem in ("eigh", "svd"):
        functions.append(sweeps.function("rotated", rotations.ROTATED, rotations.rotated))
    return module(sweeps, functions, WAYS[kind.stem].unit(kind.flag))


@functools.lru_cache(maxsize=64)
def _code(engine: Engine, kind: Kind) -> Code:
    interrupts.known()
    written = text(kind)
    return kept_code(engine, f"linalg_{kind.stem}", written, lambda: (written, ("each",)))


def taken(stem: str, count: int, sizes: Mapping[str, int]) -> bool:
    """Whether so many matrices are computed here."""
    way = WAYS.get(stem)
    if way is None or not min(sizes["m"], sizes["n"]):
        return False
    most = max(sizes["m"], sizes["n"], sizes["right"])
    return most <= way.most and count * most**2 >= LEAST


def kind_of(stem: str, dtype: DType, most: int, vector_bits: int, flag: bool) -> Kind:
    """The module for matrices of so many rows and columns at most."""
    lanes = vector_bits // dtype.part.bits
    return Kind(stem, dtype, min(lanes, FEW) if most <= FEW else lanes, flag)


def source(host: Host, stem: str, dtype: DType, sizes: Mapping[str, int], flag: bool) -> str:
    """The LLVM IR of a launch."""
    sizes, flag = _upright(stem, sizes, flag)
    return text(kind_of(stem, dtype, max(sizes["m"], sizes["n"]), host.engine().vector_bits, flag))


def _upright(stem: str, sizes: Mapping[str, int], flag: bool) -> tuple[Mapping[str, int], bool]:
    """Sizes of the adjoint, where singular values are taken from that."""
    if stem != "svd" or sizes["m"] >= sizes["n"]:
        return sizes, flag
    return {**sizes, "m": sizes["n"], "n": sizes["m"], "width": sizes["height"]}, True


def pieces(
    host: Host, stem: str, dtype: DType, count: int, sizes: Mapping[str, int], flag: bool, buffers: int
) -> list[Piece]:
    """A unit for each of so many matrices."""
    engine, way = host.engine(), WAYS[stem]
    sizes, flag = _upright(stem, sizes, flag)
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
    third = second + (list_ * most if way.lists else 0)
    lists = third + (list_ * sizes["n"] if stem == "svd" else 0)
    plane = lists + LISTS * list_
    reals = plane * (2 if dtype.is_complex else 1)
    room_bytes = (reals + REALS * list_) * dtype.part.itemsize + 64
    shared = host.threads > 1 and count * most**2 * way.square_ns > _SHARED_NS
    slices = min(count, host.threads * (4 if room_bytes <= _ROOM else 1)) if shared else 1
    slice_ = -(-count // slices)
    apart = max(1, int(_ASKS_NS / (most**2 * way.square_ns)))
    known = {
        **sizes, "row": row, "list": list_, "plane": plane, "second": second, "third": third, "lists": lists,
        "reals": reals, "room_bytes": room_bytes, "slice": slice_,
        "apart": apart,
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
