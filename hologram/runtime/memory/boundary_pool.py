"""The boundary pool: 96 classes of 48 pages of 256 bytes in one allocation, for named regions and small buffers.

Named regions (`allocate`) are placed first-fit within the class asked for. Ordinary small buffers (`take_any`) fill the
classes from the highest down, so that they meet named regions, which people number from 0, only when the pool is nearly
full. A page belongs to one holder at a time; freed pages are free for either use.
"""

from __future__ import annotations

from typing import Any

from hologram.foundation.errors import OutOfMemory, ShapeError
from hologram.runtime.memory.blocks import Block, BlockPool
from hologram.runtime.memory.memory_pool import Pool

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

    __slots__ = ("class_", "page", "pages")

    def __init__(
        self, pool: BlockPool, whole: Block, class_: int, page: int, pages: int, free_list: list[Any]
    ) -> None:
        first = linear_offset(class_, page)
        place = whole.place + first
        super().__init__(pool, whole.memory, whole.offset + first, pages * PAGE_BYTES, free_list, place)
        self.class_ = class_
        self.page = page
        self.pages = pages

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


class BoundaryPool(BlockPool):
    """The regions of one executor, in one block of its pool, taken on first use. Any thread may call."""

    def __init__(self, pool: Pool) -> None:
        super().__init__()
        self.pool = pool
        self._block: Block | None = None
        self._used = [0] * CLASSES  # one bit a page
        self._marked = 0  # regions whose bits are set
        # By pages: what small buffers gave back. Their bits are still set.
        self._free_lists: tuple[list[Region], ...] = tuple([] for _ in range(PAGES + 1))
        self._returned: list[Region] = []  # named regions that were given back
        self._highest = [CLASSES - 1] * (PAGES + 1)  # by pages: no class above has room for so many

    @property
    def memory(self) -> Any:
        """The device's memory of the whole pool, for programs that address it as `[class, page, byte]`."""
        return self._whole.memory

    @property
    def _whole(self) -> Block:
        with self.lock:
            if self._block is None:
                self._block = self.pool.take(TOTAL_BYTES)
                self.pool.divide(self._block, self)
            return self._block

    @property
    def allocated(self) -> int:
        """Bytes in use."""
        with self.lock:
            self._collect()
            idle = sum(pages * len(free_list) for pages, free_list in enumerate(self._free_lists))
            self.issued_bytes = (sum(used.bit_count() for used in self._used) - idle) * PAGE_BYTES
            return self.issued_bytes

    @property
    def count(self) -> int:
        """Regions in use."""
        with self.lock:
            self._collect()
            return self._marked - sum(map(len, self._free_lists))

    def free_list(self, nbytes: int) -> list[Region]:
        """Where regions for that many bytes wait, at most those of a class; who pops one must `issue` it."""
        return self._free_lists[-(-nbytes // PAGE_BYTES) or 1]

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
        with self.lock:
            self._collect()
            self._settle()
            page = _first_fit(self._used[class_], pages)
            if page is None:
                free = PAGES - self._used[class_].bit_count()
                raise OutOfMemory(
                    f"allocate_boundary: class {class_} has no {pages} free pages in a row; {free} of {PAGES} are free"
                )
            region = self._mark(class_, page, pages)
            region.free_list = self._returned
            return region

    def take_any(self, nbytes: int) -> Region | None:
        """A region of at least `nbytes` bytes, wherever there is room; None when the pool is full or it is too much."""
        if nbytes > CLASS_BYTES:
            return None
        pages = -(-nbytes // PAGE_BYTES) or 1
        try:
            region = self._free_lists[pages].pop()
        except IndexError:
            pass
        else:
            self.issue(region)
            return region
        with self.lock:
            self._collect()
            region = self._search(pages)
            if region is None and self._settle():
                region = self._search(pages)
            return region

    def free(self) -> None:
        """See close; what a pool does that holds a block of another."""
        self.close()

    def reclaim(self) -> None:
        with self.lock:
            if self._block is not None and not self.count:
                block, self._block = self._block, None
                self.pool.rejoin(block)

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
        self._marked += 1
        region: Any = self._blocks.get((class_, page, pages))  # one asked for again keeps its token
        if region is None:
            region = Region(self, self._whole, class_, page, pages, self._free_lists[pages])
            self._blocks[class_, page, pages] = region
        self.issue(region)
        return region

    def _collect(self) -> None:
        """Takes in the named regions that were given back."""
        while self._returned:
            region = self._returned.pop()
            region.free_list = self._free_lists[region.pages]
            self._clear(region)

    def _settle(self) -> bool:
        """Clears the pages of idle regions, so that they can be cut anew; True if there were any."""
        settled = False
        for free_list in self._free_lists:
            while free_list:
                try:
                    region = free_list.pop()
                except IndexError:  # another thread has taken it
                    break
                self._clear(region)
                settled = True
        return settled

    def _clear(self, region: Region) -> None:
        self._marked -= 1
        self._used[region.class_] &= ~((1 << region.pages) - 1 << region.page)
        self._highest = [max(class_, region.class_) for class_ in self._highest]
