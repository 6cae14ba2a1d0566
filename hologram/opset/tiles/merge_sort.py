"""Orders of rows by the tile `sort`: blocks are sorted in workgroup memory, then runs merged, two at a time.

Merge path (Odeh, Green, Mwassi, Shmueli and Birk 2012) gives every workgroup, and every thread, equally much to merge.
"""

from __future__ import annotations

from hologram.foundation.dtypes import u32
from hologram.foundation.sizes import fixed_range
from hologram.machine.limits import Limits
from hologram.machine.plan import Step, Tile, reading, told, writing
from hologram.opset.forms.steps import Place, Steps

ITEMS = 4  # elements of a thread, in a row
THREADS = (64, 128, 256)  # of a workgroup: the fewest that take a row at once, else the most
SCALARS = told(u32, "n", "first_row", "run")


def _tile(threads: int, merges: bool) -> Tile:
    return Tile(
        stem="sort",
        buffers=(*reading(u32, "keys", "order"), *writing(u32, "next_keys", "next_order")),
        scalars=SCALARS,
        constants=(("MERGES", merges),),
        workgroup=(threads, 1, 1),
    )


def _threads(n: int) -> int:
    return next((t for t in THREADS if ITEMS * t >= n), THREADS[-1])


def merges(keys: Place, limits: Limits) -> bool:
    """Whether the tile takes these keys (rows, n): u32, on a GPU, and few enough to be seen and counted at once."""
    threads = _threads(keys.layout.shape[1])
    block = ITEMS * threads
    fits = threads <= limits.max_workgroup_threads and 2 * u32.itemsize * block <= limits.shared_bytes
    seen = keys.layout.size * u32.itemsize <= min(limits.max_binding_bytes, 1 << 32)
    counted = -(-keys.layout.shape[1] // block) <= limits.max_workgroups
    there = limits.workgroup_memory and bool(limits.tile_dtypes)
    return there and keys.layout.dtype is u32 and fits and seen and counted


def merge_steps(steps: Steps, keys: Place, limits: Limits) -> Place:
    """Appends the stable order (u32, of the same shape) of keys (rows, n), which are overwritten."""
    rows, n = keys.layout.shape
    threads = _threads(n)
    block = ITEMS * threads
    order, next_keys, next_order = (steps.place(u32, (rows, n)) for _ in range(3))
    run = 0  # length of the sorted runs; 0: none are yet, and the order is not read
    while run < n:
        for first in fixed_range(0, rows, limits.max_workgroups):
            grid = (-(-n // block), min(rows - first, limits.max_workgroups), 1)
            step = Step(_tile(threads, run > 0), (0, 1, 2, 3), (n, first, run), grid)
            steps.add(step, [p.position for p in (keys, order, next_keys, next_order)])
        keys, order, next_keys, next_order = next_keys, next_order, keys, order
        run = 2 * run or block
    return order
