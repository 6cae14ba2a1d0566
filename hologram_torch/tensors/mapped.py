"""Memory that files are mapped into: what was copied from there need not stay in the process."""

from __future__ import annotations

import ctypes
import mmap
import sys

import numpy as np

LEAST = 1 << 18  # bytes that are worth asking about
PAGE = mmap.PAGESIZE
# Of an entry of /proc/self/pagemap (Linux' Documentation/admin-guide/mm/pagemap.rst).
PRESENT, SWAPPED, OF_A_FILE = (np.uint64(1 << bit) for bit in (63, 62, 61))


def release(array: np.ndarray) -> None:
    """Lets go of whole pages below an array that are a file's as they are; they are read again when they are asked for.

    Weights are loaded by mapping files and copying from there, and each page stays beside its copy until the file is
    closed. A page that was written to is the process' own, and then nothing is let go of.
    """
    if sys.platform != "linux" or array.nbytes < LEAST or not array.flags.c_contiguous:
        return
    first = -(-array.ctypes.data // PAGE)
    count = (array.ctypes.data + array.nbytes) // PAGE - first
    if _unwritten(first, 1) and _unwritten(first, count):
        ctypes.CDLL(None).madvise(
            ctypes.c_void_p(first * PAGE), ctypes.c_size_t(count * PAGE), mmap.MADV_DONTNEED
        )


def _unwritten(first: int, count: int) -> bool:
    """Whether so many pages from one on are a file's, as far as they are in memory."""
    try:
        with open("/proc/self/pagemap", "rb", buffering=0) as file:
            file.seek(first * 8)
            entries = np.frombuffer(file.read(count * 8), np.uint64)
    except OSError:  # not for us to see
        return False
    here = (entries & (PRESENT | SWAPPED)) != 0
    return len(entries) == count and bool(((entries & OF_A_FILE) != 0)[here].all())
