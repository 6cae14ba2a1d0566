"""A device's context and the one stream that everything of an executor is ordered by.

The context is the device's primary one, which other libraries of the process share (PyTorch, CuPy). It is made current
for the length of a call and then given back, since they may work on another device. Launches need no current context:
a kernel of a library (cuLibraryGetKernel) runs in that of its stream.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterable
from typing import Any

from hologram.backends.cuda.library import Library
from hologram.foundation import forks
from hologram.foundation.errors import BackendUnavailable, DeviceLost, HologramError

MANY_LEAVING = 256  # handles that wait for the device to be given back
OUTLIVING = ("cuLibraryUnload",)  # give back what is the process's, not the context's
Owned = tuple[str, int]  # the function that gives a handle back, and the handle


class Context:
    """An open device. `unusable`: why nothing can be enqueued any more."""

    def __init__(self, library: Library, ordinal: int, name: str) -> None:
        self.library = library
        self.driver = driver = library.driver
        self.ordinal = ordinal
        self.name = name
        self.lock = threading.RLock()
        # Who moves bytes from or to the host, which may wait for the device, holds this instead, and asks for it first.
        self.transferring = threading.RLock()
        self.unusable: HologramError | None = None
        self.forked = False
        self.owned: dict[Owned, tuple[Any, tuple[Any, ...]]] = {}  # in the order they came
        self._leaving: deque[Owned] = deque()
        self.device: Any = library.call(driver.cuDeviceGet, ordinal)
        with _opening:
            self.handle: Any = library.call(driver.cuDevicePrimaryCtxRetain, self.device)
            try:
                self._revive()
                with self.current():
                    flags = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
                    self.stream = library.call(driver.cuStreamCreate, flags)
            except BaseException:
                if self.handle is not None:  # others' holds are not ours to give back
                    driver.cuDevicePrimaryCtxRelease(self.device)
                raise
            _open.add(self)
            forks.watch(self)

    def _revive(self) -> None:
        """Replaces a context in which a kernel has crashed before: nothing else in the process can use it either.

        Streams and memory of it go with it, and whoever named one of them would reach for what is not there: so other
        executors of the device are told before.
        """
        call, driver = self.library.call, self.driver
        try:
            with self.current():
                call(driver.cuCtxSynchronize)
        except DeviceLost as error:
            for other in tuple(_open):
                if other.library is self.library and other.ordinal == self.ordinal:
                    other.lose(error)
            call(driver.cuDevicePrimaryCtxReset, self.device)
            driver.cuDevicePrimaryCtxRelease(self.device)
            self.handle = None
            try:
                self.handle = call(driver.cuDevicePrimaryCtxRetain, self.device)
                with self.current():
                    call(driver.cuCtxSynchronize)
            except HologramError:
                what = f"{self.library.name}: {self.name} does not recover in this process: {error}"
                raise BackendUnavailable(f"{what}; start a new one") from None

    def current(self) -> Current:
        """The calling thread's current context is this one for a while."""
        return Current(self)

    def check(self) -> None:
        """Raises why the device cannot be used any more."""
        if self.unusable is not None:
            raise self.unusable

    def call(self, function: Any, *arguments: Any) -> Any:
        """As Library.call, in this context; a lost device stays lost."""
        status, *values = self.asked(function, *arguments)
        if status:
            raise self.failed(status, function.__name__)
        return values[0] if len(values) == 1 else tuple(values)

    def asked(self, function: Any, *arguments: Any) -> tuple[Any, ...]:
        """What the driver answers in this context, its status first."""
        self.check()
        status, *_ = self.driver.cuCtxPushCurrent(self.handle)
        if status:
            raise self.failed(status, "cuCtxPushCurrent")
        try:
            return function(*arguments)
        finally:
            self.driver.cuCtxPopCurrent()

    def failed(self, status: Any, function: str) -> HologramError:
        """The exception for what the driver answered, noted where it is the end of the device."""
        error = self.library.error(status, function)
        if not isinstance(error, DeviceLost):
            return error
        self.lose(error)
        return self.unusable or error

    def lose(self, error: DeviceLost) -> None:
        """Notes that the context is no more, and all that was in it."""
        with self.lock:
            lost = DeviceLost(f"{self.library.name}: {self.name} was lost: {error}")
            self.unusable = self.unusable or lost

    # What is given back.

    def own(self, destroy: Any, handle: Any, *more: Any) -> Owned:
        """Notes that `destroy` gives a handle back: when it is let go of, or else when the device is closed."""
        key = (destroy.__name__, int(handle))
        self.owned[key] = (destroy, (handle, *more))
        return key

    def give_back(self, owned: Owned) -> None:
        """Gives something back now."""
        destroy, arguments = self.owned.pop(owned)
        self.call(destroy, *arguments)

    def let_go(self, owned: Owned) -> None:
        """Has something given back once the device is done with it. Finalizers may call it: it takes no lock."""
        self._leaving.append(owned)

    def synchronize(self) -> None:
        """Waits until everything enqueued is done."""
        with self.lock:
            leaving = [self._leaving.popleft() for _ in range(len(self._leaving))]
        # Not under the lock: others may enqueue meanwhile.
        self.call(self.driver.cuStreamSynchronize, self.stream)
        if leaving:
            with self.current():
                self._give_back(leaving)

    def tidy(self) -> None:
        """Waits for the device where a lot waits for that."""
        if len(self._leaving) > MANY_LEAVING:
            self.synchronize()

    def _give_back(self, owned: Iterable[Owned]) -> None:
        """Gives back what the device is done with, whatever the driver says to it."""
        for key in owned:
            destroy, arguments = self.owned.pop(key)
            destroy(*arguments)

    def abandon(self) -> None:
        """In a forked child: nothing may be called there, and the parent's lock may be held for ever."""
        self.lock, self.transferring = threading.RLock(), threading.RLock()
        self.forked = True
        self.unusable = forks.unavailable(self.library.name)
        self.owned.clear()

    def close(self) -> None:
        """Waits, and gives everything back, the latest first; later calls raise DeviceLost.

        Of a lost device that is what outlives its context, the rest went with it.
        """
        with self.lock:
            if self.forked or self.device is None:
                return
            lost = self.unusable is not None
            self.unusable = self.unusable or DeviceLost(
                f"{self.library.name}: the device {self.name} was closed"
            )
            device, self.device = self.device, None
            pushed, *_ = self.driver.cuCtxPushCurrent(self.handle)
            if lost or pushed:
                self._give_back([key for key in self.owned if key[0] in OUTLIVING])
            else:
                self.driver.cuStreamSynchronize(self.stream)
                self._give_back(reversed(tuple(self.owned)))
                self.driver.cuStreamDestroy(self.stream)
            if not pushed:
                self.driver.cuCtxPopCurrent()
            self.driver.cuDevicePrimaryCtxRelease(device)

    def __del__(self) -> None:
        # At exit the driver takes all along.
        if not getattr(self, "forked", True) and hasattr(self, "stream") and not sys.is_finalizing():
            self.close()


class Current:
    """For as long as it is entered, a context is the thread's own. No generator: libraries' launches enter it."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    def __enter__(self) -> None:
        context = self._context
        context.library.call(context.driver.cuCtxPushCurrent, context.handle)

    def __exit__(self, *_: object) -> None:
        self._context.driver.cuCtxPopCurrent()


_open: weakref.WeakSet[Context] = weakref.WeakSet()
_opening = threading.Lock()  # one finds a crashed context, and replaces it, at a time
