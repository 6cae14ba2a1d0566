"""Products of our own as launches: which way they go (panels.py), how they are cut, and where the pieces lie."""

from __future__ import annotations

import functools

from hologram.backends.cpu.image import ADDRESS, Patch, Piece, Step
from hologram.backends.cpu.kernel import Host
from hologram.backends.cpu.products import panels
from hologram.backends.cpu.products.cut import Plane, Product
from hologram.backends.cpu.products.packing import EVERY, Ways, added_as
from hologram.backends.cpu.products.pairs import PairedProducts
from hologram.compiled.machine_code.engine import Code, Engine
from hologram.compiled.machine_code.objects import kept_code
from hologram.foundation.dtypes import DType, bf16
from hologram.foundation.frozen import frozen
from hologram.foundation.sizes import whole

_MOST_DOTS = 16  # rows up to which converting b in registers again for each two rows beats packing it
_COLUMNS = 256
_MULTIPLY_NS = 0.025  # of a multiply-add, estimated; and of an element that is converted
_CONVERT_NS = 0.2
_SHORTEST_NS = 4_000  # no slice is made shorter
_SLICES = 2  # for each thread, so that one that is held up leaves some of its work to the others
_LINE = 64  # bytes


def _kind(engine: Engine, dtype: DType) -> type[panels.Products]:
    return PairedProducts if dtype == bf16 and engine.multiplies_pairs else panels.Products


@functools.lru_cache(maxsize=64)
def _code(engine: Engine, dtype: DType, stored: DType, function: str, ways: Ways) -> Code:
    text = _kind(engine, dtype)(dtype, stored, engine.vector_bits, ways).text(function)
    return kept_code(engine, function, text, lambda: (text, (function,)))


@frozen
class Units:
    """A batch of products in units of so many rows and columns, and slices of so many units."""

    rows: int
    columns: int
    row_blocks: int
    column_blocks: int
    total: int
    slice: int


def units(sizes: tuple[int, int, int, int], step: int, most_rows: int, threads: int) -> Units:
    """The cut of a batch of products (batch, m, n, k), in columns by multiples of `step`."""
    batch, m, n, k = sizes
    row_blocks = -(-m // most_rows)
    each_ns = k * (m * n * _MULTIPLY_NS + (m + n * row_blocks) * _CONVERT_NS)
    slices = max(1, min(whole(batch * each_ns / _SHORTEST_NS), threads * _SLICES))
    wanted = -(-slices // (batch * row_blocks))  # blocks of columns
    columns = min(_COLUMNS, -(-n // (wanted * step)) * step)
    column_blocks = -(-n // columns)
    rows = -(-m // row_blocks)
    total = batch * row_blocks * column_blocks
    return Units(rows, columns, row_blocks, column_blocks, total, -(-total // slices))


def _ways(product: Product, stored: DType, cut: Units, micro_rows: int) -> Ways:
    """The ways in which a product's operands lie, and whether it has many rows: what its code must know."""
    a, b, out = product.a, product.b, product.out
    packed = {_way(a.strides[1], a.strides[2], a.itemsize), _way(b.strides[1], b.strides[2], b.itemsize)}
    written = "along" if out.strides[2] == stored.itemsize else "other"
    last = product.sizes[0] - (cut.row_blocks - 1) * cut.rows
    tall = [-(-rows // -(-rows // micro_rows)) for rows in (cut.rows, last)]
    order = (way for way in EVERY.packed if way in packed)
    return Ways(tuple(order), (written,), all(rows == micro_rows for rows in tall))


def _way(row: int, column: int, itemsize: int) -> str:
    return "along" if column == itemsize else "turned" if row == itemsize else "other"


def reads_along_k(product: Product) -> bool:
    """Whether neighbours in memory of both operands are multiplied and added up."""
    return product.a.strides[2] == product.b.strides[1] == product.a.itemsize


def blocked_pieces(product: Product, dtype: DType, stored: DType, host: Host) -> list[Piece]:
    """A launch of a product of floats; `out`, of their dtype or what they are added up as, shares no memory with them.

    Its arguments 0, 1 and 2 are the addresses of a, b and out; the planes only show how they lie.
    """
    m, n, k = product.sizes
    if not product.out.size or not k:
        return []
    engine = host.engine()
    width = panels.panel_columns(dtype, engine.vector_bits)
    batch = product.out.shape[0]
    few = reads_along_k(product) and min(m, n) <= _MOST_DOTS and max(m, n) >= panels.DOT_COLUMNS
    turned = n < m and (few or n < width)
    if turned:
        product, m, n = product.transposed, n, m
    most_rows = m if few else _kind(engine, dtype).block_rows
    cut = units((batch, m, n, k), panels.DOT_COLUMNS if few else width, most_rows, host.threads)
    room_bytes = 0 if few else _room_bytes(cut, width, added_as(dtype).itemsize)
    kind = _kind(engine, dtype)
    by_ways = kind.goes_by_ways and not few
    ways = _ways(product, stored, cut, kind.micro_rows) if by_ways else EVERY
    code = _code(engine, dtype, stored, "dots" if few else "blocks", ways)
    numbers = {
        "m": m,
        "n": n,
        "k": k,
        **_steps("a", product.a),
        **_steps("b", product.b),
        **_steps("out", product.out),
        **{x: getattr(cut, x) for x in ("rows", "columns", "row_blocks", "column_blocks")},
        "rooms": host.threads,
        "room_bytes": room_bytes,
    }
    words = [numbers.get(name, 0) for name in panels.WORDS]
    operands = (1, 0, 2) if turned else (0, 1, 2)
    patches = tuple(Patch(word, ADDRESS, argument) for word, argument in enumerate(operands))
    step = Step(code.addresses[0], cut.total, cut.slice)
    if few:
        return [Piece((step,), words, patches, owner=code)]
    flags, room = (panels.WORDS.index(name) for name in ("flags", "room"))
    count = (host.threads * room_bytes + _LINE) // 8
    return [Piece((step,), words, patches, host.threads, flags, code, count, room)]


def _room_bytes(cut: Units, width: int, itemsize: int) -> int:
    """The block of a, a panel of b, and the sums."""
    elements = cut.rows * panels.DEPTH + panels.DEPTH * width + cut.rows * cut.columns
    return -(-elements * itemsize // _LINE) * _LINE


def _steps(name: str, view: Plane) -> dict[str, int]:
    return {
        f"{name}_{axis}": step for axis, step in zip(("batch", "row", "column"), view.strides, strict=True)
    }
