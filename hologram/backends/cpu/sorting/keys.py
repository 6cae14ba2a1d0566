"""Numbers as keys whose unsigned order is theirs, and back, as IR: radix_sort.py's `key_of` and `value_of`."""

from __future__ import annotations

from hologram.backends.cpu.llvm.writer import Writer
from hologram.foundation.dtypes import DType
from hologram.foundation.frozen import frozen


@frozen
class Keys:
    """Elements of 32 or 64 bits that are put in order; of u32 and u64 the key is the number itself."""

    dtype: DType
    descending: bool = False

    @property
    def type(self) -> str:
        return f"i{self.dtype.bits}"

    @property
    def plain(self) -> bool:
        """Whether keys are the numbers themselves."""
        return self.dtype.kind == "uint" and not self.descending

    def key(self, w: Writer, x: str, lanes: int = 0) -> str:
        """The key of a number, as its bits, or of a vector of them; the last one for every NaN."""
        t, top = self._of(self.type, lanes), 1 << (self.dtype.bits - 1)
        if self.dtype.is_float:
            signs = w(f"ashr {t} {x}, {self._all(self.dtype.bits - 1, lanes)}")
            ordered = w(f"xor {t} {x}, {w(f'or {t} {signs}, {self._all(top, lanes)}')}")
            magnitude = w(f"and {t} {x}, {self._all(top - 1, lanes)}")
            is_nan = w(f"icmp ugt {t} {magnitude}, {self._all(self.dtype.infinity, lanes)}")
            x = w(f"select {self._of('i1', lanes)} {is_nan}, {t} {self._all(-1, lanes)}, {t} {ordered}")
        elif self.dtype.is_signed:
            x = w(f"xor {t} {x}, {self._all(top, lanes)}")
        return w(f"xor {t} {x}, {self._all(-1, lanes)}") if self.descending else x

    def value(self, w: Writer, key: str, lanes: int = 0) -> str:
        """The number of a key."""
        t, top = self._of(self.type, lanes), 1 << (self.dtype.bits - 1)
        if self.descending:
            key = w(f"xor {t} {key}, {self._all(-1, lanes)}")
        if self.dtype.is_float:
            signs = w(
                f"ashr {t} {w(f'xor {t} {key}, {self._all(-1, lanes)}')}, {self._all(self.dtype.bits - 1, lanes)}"
            )
            return w(f"xor {t} {key}, {w(f'or {t} {signs}, {self._all(top, lanes)}')}")
        return w(f"xor {t} {key}, {self._all(top, lanes)}") if self.dtype.is_signed else key

    def _of(self, type_: str, lanes: int) -> str:
        return f"<{lanes} x {type_}>" if lanes else type_

    def _all(self, number: int, lanes: int) -> str:
        return f"<{', '.join([f'{self.type} {number}'] * lanes)}>" if lanes else str(number)
