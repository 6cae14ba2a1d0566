"""The boundary pool: 96 classes of 48 pages of 256 bytes in one allocation, for named regions and small buffers.

Named regions (`allocate`) are placed first-fit within the class asked for. Ordinary small buffers (`take_any`) fill the
classes from the highest down, so that they meet named regions, which people number from 0, only when the pool is nearly
full. A page belongs to one holder at a time; freed pages are free for either use.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from hologram.errors import OutOfMemory, ShapeError
from hologram.runtime.pool import Block, Home, Pool

CLASSES = 96
PAGES = 48  # per class
PAGE_BYTES = 256
CLASS_BYTES = PAGES * PAGE_BYTES
TOTAL_BYTES = CLASSES * CLASS_BYTES

_ALL_PAGES = (1 << PAGES) - 1


def linear_offset(class_: int, page: int, byte: int = 0) -> int:
    """The offset in the pool, in bytes, of `[class, page, byte]`; raises ShapeError outside of the address space."""
    for name, value, end in (("class", class_, CLASSES), ("page", page, PAGES), ("byte", byte, PAGE_BYTES)):
        if not 0 <= value < end:
            raise ShapeError(f"boundary address: {name} must be in 0..{end - 1}, got {value}")
    return (class_ * PAGES + page) * PAGE_BYTES + byte


def coordinates(offset: int) -> tuple[int, int, int]:
    """The `(class, page, byte)` of an offset in the pool; raises ShapeError outside of it."""
    if not 0 <= offset < TOTAL_BYTES:
        raise ShapeError(f"boundary address: offset must be in 0..{TOTAL_BYTES - 1}, got {offset}")
    page, byte = divmod(offset, PAGE_BYTES)
    return *divmod(page, PAGES), byte


class Region(Block):
    """Contiguous pages of one class."""

    __slots__ = ("class_", "named", "page", "pages")

    def __init__(self, home: Home, memory: Any, class_: int, page: int, pages: int) -> None:
        super().__init__(home, memory, linear_offset(class_, page), pages * PAGE_BYTES)
        self.class_ = class_
        self.page = page
        self.pages = pages
        self.named = False

    def __repr__(self) -> str:
        return f"Region(class={self.class_}, page={self.page}, pages={self.pages}, token={self.token})"


def _first_fit(used: int, pages: int) -> int | None:
    """The first of `pages` contiguous clear bits of `used`, or None."""
    starts = ~used & _ALL_PAGES
    have = 1
    while have < pages and starts:  # bit i of `starts`: the pages i .. i + have - 1 are free
        step = min(have, pages - have)
        starts &= starts >> step
        have += step
    return (starts & -starts).bit_length() - 1 if starts else None


class BoundaryPool:
    """The regions of one executor, in one block of its pool, taken on first use. Any thread may call."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self._block: Block | None = None
        self._lock = threading.RLock()
        self._used = [0] * CLASSES  # one bit a page
        self._regions: dict[tuple[int, int, int], Region] = {}  # a region asked for again keeps its token
        self._idle: dict[
            int, list[Region]
        ] = {}  # given back by small buffers, by pages; their bits are still set
        self._highest = [CLASSES - 1] * (PAGES + 1)  # by pages: no class above has room for so many
        self._returned: deque[Region] = deque()  # appended to without the lock
        self._lent: dict[int, Region] = {}  # by token
        self._freed = False

    @property
    def memory(self) -> Any:
        """The device's memory of the whole pool, for programs that address it as `[class, page, byte]`."""
        with self._lock:
            if self._block is None:
                self._block = self.pool.take(TOTAL_BYTES)
                self.pool.divide(self._block, self)
            return self._block.memory

    @property
    def allocated(self) -> int:
        """Bytes in use."""
        with self._lock:
            self._collect()
            return sum(region.nbytes for region in self._lent.values())

    @property
    def count(self) -> int:
        """Regions in use."""
        with self._lock:
            self._collect()
            return len(self._lent)

    def allocate(self, class_: int, pages: int) -> Region:
        """The first free run of `pages` pages in a class.

        Raises ShapeError for a class or a number of pages that does not exist, OutOfMemory when the class has no
        such run.
        """
        for name, value in (("class", class_), ("pages", pages)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"allocate_boundary: {name} must be an integer, got {value!r}")
        if not 0 <= class_ < CLASSES:
            raise ShapeError(f"allocate_boundary: class must be in 0..{CLASSES - 1}, got {class_}")
        if not 1 <= pages <= PAGES:
            raise ShapeError(f"allocate_boundary: pages must be in 1..{PAGES}, got {pages}")
        with self._lock:
            self._collect()
            self._settle()
            page = _first_fit(self._used[class_], pages)
            if page is None:
                free = PAGES - self._used[class_].bit_count()
                raise OutOfMemory(
                    f"allocate_boundary: class {class_} has no {pages} free pages in a row; {free} of {PAGES} are free"
                )
            region = self._mark(class_, page, pages)
            region.named = True
            return region

    def take_any(self, nbytes: int) -> Region | None:
        """A region of at least `nbytes` bytes, wherever there is room; None when the pool is full or it is too much."""
        if nbytes > CLASS_BYTES:
            return None
        pages = -(-nbytes // PAGE_BYTES) or 1
        with self._lock:
            if self._returned:
                self._collect()
            idle = self._idle.get(pages)
            if idle:
                region = idle.pop()
                self._lent[region.token] = region
                return region
            region = self._search(pages)
            if region is None and self._settle():
                region = self._search(pages)
            return region

    def give(self, block: Block) -> None:
        """Takes a region back; its holder must not touch it again."""
        assert isinstance(block, Region)
        self._returned.append(block)
        if self._freed:
            self._leave()

    def free(self) -> None:
        """Frees the buffers that hold regions and gives the block back; while a view uses a region, with the view."""
        with self._lock:
            holders = [region.holder for region in self._lent.values() if region.holder is not None]
        for holder in holders:
            buffer = holder()
            if buffer is not None:
                buffer.free()
        self._freed = True
        self._leave()

    def _leave(self) -> None:
        with self._lock:
            self._collect()
            if self._block is not None and not self._lent:
                block, self._block = self._block, None
                self.pool.give(block)

    def _search(self, pages: int) -> Region | None:
        for class_ in range(self._highest[pages], -1, -1):
            page = _first_fit(self._used[class_], pages)
            if page is not None:
                self._highest[pages] = class_
                return self._mark(class_, page, pages)
        self._highest[pages] = -1
        return None

    def _mark(self, class_: int, page: int, pages: int) -> Region:
        self._used[class_] |= (1 << pages) - 1 << page
        region = self._regions.get((class_, page, pages))
        if region is None:
            region = self._regions[class_, page, pages] = Region(self, self.memory, class_, page, pages)
        self._lent[region.token] = region
        return region

    def _collect(self) -> None:
        """Takes in what was given back. Regions of small buffers are kept, to be handed out again as they are."""
        while self._returned:
            region = self._returned.popleft()
            region.holder = None
            del self._lent[region.token]
            if region.named:
                region.named = False
                self._clear(region)
            else:
                self._idle.setdefault(region.pages, []).append(region)

    def _settle(self) -> bool:
        """Clears the pages of idle regions, so that they can be cut anew; True if there were any."""
        idle = [region for regions in self._idle.values() for region in regions]
        self._idle.clear()
        for region in idle:
            self._clear(region)
        return bool(idle)

    def _clear(self, region: Region) -> None:
        self._used[region.class_] &= ~((1 << region.pages) - 1 << region.page)
        self._highest = [max(class_, region.class_) for class_ in self._highest]
