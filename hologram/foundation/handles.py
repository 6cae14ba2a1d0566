"""Handles: objects that stand for something open in this process, such as a device or its queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

if TYPE_CHECKING:
    from typing_extensions import Self  # typing's own from Python 3.11 on


class Handle:
    """A copy of it is itself, as of a function or a class, so that what holds one can be copied. No pickle has it."""

    __slots__ = ()
    _elsewhere: ClassVar[str]  # what to do in its place in another process

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__}: it belongs to this process and cannot be pickled: {self._elsewhere}"
        )
