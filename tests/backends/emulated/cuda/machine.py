"""The emulated machine: its cards, their contexts, and the handles by which a program names things."""

from __future__ import annotations

import itertools
import threading
from types import SimpleNamespace
from typing import Any

from cuda.bindings import driver as real  # pyright: ignore[reportAttributeAccessIssue]

from tests.backends.emulated.cuda.memory import Memory, Misuse
from tests.backends.emulated.cuda.streams import Context, Stream

S = real.CUresult
OK = (S.CUDA_SUCCESS,)
CARD_BYTES = 1 << 30
PINNED_BYTES = 1 << 30
ATTRIBUTES = {
    "COMPUTE_CAPABILITY_MAJOR": 9,
    "COMPUTE_CAPABILITY_MINOR": 0,
    "MAX_GRID_DIM_X": 2**31 - 1,
    "MAX_GRID_DIM_Y": 65535,
    "MAX_GRID_DIM_Z": 65535,
    "MAX_THREADS_PER_BLOCK": 1024,
    "MAX_SHARED_MEMORY_PER_BLOCK": 48 << 10,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 227 << 10,
    "WARP_SIZE": 32,
    "MULTIPROCESSOR_COUNT": 132,
}


class Machine:
    """Cards, and the handles that were given out. `version` is what the driver says of itself."""

    def __init__(self, cards: int = 2, version: int = 13000, architecture: int = 90, pools: int = 1) -> None:
        self.attributes = ATTRIBUTES | {
            "COMPUTE_CAPABILITY_MAJOR": architecture // 10,
            "COMPUTE_CAPABILITY_MINOR": architecture % 10,
            "MEMORY_POOLS_SUPPORTED": pools,
        }
        self.version = version
        self.started = False
        self.calls = 0
        self.lock = threading.RLock()
        self.current = threading.local()  # .stack: the contexts of a thread
        self.cards = [Memory(CARD_BYTES) for _ in range(cards)]
        self.contexts = [Context(k) for k in range(cards)]
        self.peers = set(range(cards))  # cards that reach each other's memory
        self.pinned = Memory(PINNED_BYTES)
        self.handles: dict[int, Any] = {}
        self.tensor_maps: dict[bytes, Any] = {}  # that were made, and the memory they reach
        self._numbers = itertools.count(0x1000, 16)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("CU", "cuuint")):  # types
            return getattr(real, name)
        raise AttributeError(f"the emulated driver has no {name}")

    # Handles are integers here; the real ones are made of integers.
    CUfunction = CUkernel = int
    CUDA_KERNEL_NODE_PARAMS = SimpleNamespace

    def _new(self, thing: Any) -> int:
        number = next(self._numbers)
        self.handles[number] = thing
        return number

    def _get(self, handle: Any, kind: type, who: str) -> Any:
        found = self.handles.get(int(handle))
        if not isinstance(found, kind):
            raise Misuse(f"{who}: there is no {kind.__name__} {int(handle):#x}, or no more")
        return found

    def _pop(self, handle: Any, kind: type, who: str) -> Any:
        self._get(handle, kind, who)
        return self.handles.pop(int(handle))

    def current_context(self, who: str) -> Context:
        """The calling thread's."""
        if not getattr(self.current, "stack", None):
            raise Misuse(f"{who}: the thread has no current context")
        return self.current.stack[-1]

    def stream_of(self, handle: Any, who: str, current: bool = True) -> Stream:
        """A stream, of the current context where that counts; 1 and 2 are default streams of that one."""
        if int(handle) in (1, 2):
            context = self.current_context(who)
            return context.defaults.setdefault(int(handle), Stream(context))
        stream = self._get(handle, Stream, who)
        if current and self.current_context(who) is not stream.context:
            raise Misuse(f"{who}: the stream is of another context than the current one")
        return stream

    def _drain(self, stream: Stream, until: int | None = None) -> None:
        with self.lock:
            stream.drain(until)

    def _status(self, context: Context) -> Any:
        return (getattr(S, context.error),) if context.error else OK
