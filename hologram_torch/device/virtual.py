"""Functions of PyTorch's objects of C++ that stand behind a table: where headers have them, and ours in their places.

What an installation brings says it: headers, in which functions are declared in the order of the table (the C++ ABI of
Itanium, which GCC and Clang follow).
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping

AHEAD = 2  # words before a table's first function: offset to the whole object, type
DELETES = 2  # functions that a destructor takes
WORD = ctypes.sizeof(ctypes.c_size_t)

_kept: list[ctypes.Array[ctypes.c_size_t]] = []  # tables that objects have


def slots(header: str, structure: str) -> dict[str, int]:
    """The place of each function that a structure declares `virtual`, after those of what it is made of."""
    body = re.sub(r"//[^\n]*|/\*.*?\*/", "", header, flags=re.S)
    body = re.split(rf"\bstruct \w+ {structure}\b[^{{;]*{{", body, maxsplit=1)[-1].partition("\n};")[0]
    places: dict[str, int] = {}
    place = 0
    for name in re.findall(r"\bvirtual\b[^(~;]*?(~?\w+)\(", body):
        places[name] = place
        place += DELETES if name.startswith("~") else 1
    return places


def words(places: Mapping[str, int]) -> int:
    """How many places a structure's functions take."""
    last = list(places)[-1]
    return places[last] + (DELETES if last.startswith("~") else 1)


def substitute(target: int, source: int, size: int, functions: Mapping[int, int]) -> None:
    """Gives the object at `target` a copy of the table of the one at `source`, with our `functions` by their places.

    `size` is how many functions the table has. Objects of the same address change.
    """
    start = ctypes.c_size_t.from_address(source).value - AHEAD * WORD
    count = AHEAD + size
    table = (ctypes.c_size_t * count).from_buffer_copy(ctypes.string_at(start, count * WORD))
    for place, address in functions.items():
        table[AHEAD + place] = address
    _kept.append(table)
    ctypes.c_size_t.from_address(target).value = ctypes.addressof(table) + AHEAD * WORD
