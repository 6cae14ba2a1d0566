"""Which memory an address lies in, for devices whose launches are told addresses."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from hologram.runtime.memory.blocks import Chunk


class Addresses:
    """Chunks by the addresses they begin at.

    The device's own lie apart. Those that are adopted may lie within one of them, or in each other.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []  # in ascending order, each once
        self._chunks: dict[int, list[tuple[Chunk, bool]]] = {}  # and whether it is adopted

    def add(self, chunk: Chunk, adopted: bool) -> None:
        there = self._chunks.setdefault(chunk.place, [])
        if not there:
            self._starts.insert(bisect_left(self._starts, chunk.place), chunk.place)
        there.append((chunk, adopted))

    def remove(self, chunk: Chunk) -> None:
        """Nothing where it is not there."""
        there = [entry for entry in self._chunks.get(chunk.place, ()) if entry[0] is not chunk]
        if there:
            self._chunks[chunk.place] = there
        elif self._chunks.pop(chunk.place, None):
            del self._starts[bisect_left(self._starts, chunk.place)]

    def find(self, address: int) -> Chunk:
        """The chunk that reaches farthest of those around an address; KeyError where there is none."""
        found: Chunk | None = None
        for k in range(bisect_right(self._starts, address) - 1, -1, -1):
            there = self._chunks[self._starts[k]]
            for chunk, _ in there:
                end = chunk.place + chunk.nbytes
                if end > address and (found is None or end > found.place + found.nbytes):
                    found = chunk
            if not all(adopted for _, adopted in there):
                break
        if found is None:
            raise KeyError(address)
        return found
