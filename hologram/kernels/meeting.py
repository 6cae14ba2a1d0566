"""The lanes of a workgroup in the Python form of a kernel: each is a thread, and one runs at a time, in order.

A lane runs until it comes to a barrier, then the next one does; when all have come, the first goes on.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any


class _Abandoned(BaseException):
    """Another lane of the workgroup failed."""


class Meeting:
    """A workgroup: what its lanes share, and their turns."""

    def __init__(self, sizes: Sequence[int] = (1,)) -> None:
        self.sizes = tuple(sizes)
        self.arrays: list[Any] = []
        self._handed: dict[int, Any] = {}  # by number of the thread
        self._back = threading.Semaphore(0)
        self._turns: dict[int, threading.Semaphore] = {}  # by thread
        self._error: BaseException | None = None

    def wait(self) -> None:
        """Lets the others come to the barrier."""
        turn = self._turns[threading.get_ident()]
        self._back.release()
        turn.acquire()
        if self._error is not None:
            raise _Abandoned

    @property
    def threads(self) -> int:
        return math.prod(self.sizes)

    def number(self, thread: Sequence[int]) -> int:
        """Of a thread, in row-major order."""
        found = 0
        for k, n in zip(thread, self.sizes, strict=True):
            found = found * n + k
        return found

    def handed(self, number: int, x: Any) -> dict[int, Any]:
        """What every thread has, by its number, once all have come."""
        self._handed[number] = x
        self.wait()
        found = dict(self._handed)
        self.wait()
        self._handed.pop(number, None)
        self.wait()
        return found

    def run(self, bodies: Sequence[Callable[[], None]]) -> None:
        """Runs lanes to their end; raises what the first of them raises."""
        living: list[tuple[threading.Thread, threading.Semaphore]] = []
        for body in bodies:
            turn = threading.Semaphore(0)
            thread = threading.Thread(target=self._lane, args=(body, turn), daemon=True)
            thread.start()
            living.append((thread, turn))
        while living:
            for _, turn in living:
                turn.release()
                self._back.acquire()
            going = [(thread, turn) for thread, turn in living if thread.ident in self._turns]
            for thread, turn in living:
                if (thread, turn) not in going:
                    thread.join()
            living = going
        if self._error is not None:
            raise self._error

    def _lane(self, body: Callable[[], None], turn: threading.Semaphore) -> None:
        turn.acquire()
        self._turns[threading.get_ident()] = turn
        try:
            if self._error is None:
                body()
        except _Abandoned:
            pass
        except BaseException as error:  # noqa: BLE001  (it is raised where the kernel was called)
            self._error = self._error or error
        finally:
            del self._turns[threading.get_ident()]
            self._back.release()
