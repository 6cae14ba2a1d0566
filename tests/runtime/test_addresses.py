"""Which memory an address lies in: adopted memory may lie within other memory."""

from __future__ import annotations

import random

import pytest

from hologram.runtime.memory.addresses import Addresses
from hologram.runtime.memory.blocks import Chunk


def test_as_looking_at_all_of_them() -> None:
    generator = random.Random(0)
    for _ in range(100):
        addresses, there = Addresses(), list[Chunk]()
        for k in range(6):  # the device's own lie apart
            there.append(Chunk(object(), 1000, 2000 * k))
            addresses.add(there[-1], adopted=False)
        for _ in range(12):  # others' lie within one of these, or in each other behind them
            start = generator.randrange(20_000)
            size = (
                generator.randrange(1, 1000 - start % 2000) if start < 12_000 and start % 2000 < 999 else 900
            )
            if start < 12_000 and start % 2000 >= 999:
                continue
            there.append(Chunk(object(), size, start))
            addresses.add(there[-1], adopted=True)
        for chunk in generator.sample(there, 5):
            addresses.remove(chunk)
            addresses.remove(chunk)
            there.remove(chunk)
        for address in range(0, 21_000, 13):
            ends = [c.place + c.nbytes for c in there if c.place <= address < c.place + c.nbytes]
            if not ends:
                with pytest.raises(KeyError):
                    addresses.find(address)
                continue
            found = addresses.find(address)
            assert found in there
            assert found.place + found.nbytes == max(ends)
