"""Executor: an open device with its memory, its compiled kernels and its cached launches."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hologram.atlas.program import Program
from hologram.foundation import dtypes, lazy
from hologram.foundation.conduct import CONDUCT, IEEE
from hologram.foundation.config import PRECISIONS, config
from hologram.foundation.errors import BackendUnavailable, ShapeError
from hologram.foundation.handles import Handle
from hologram.frontend import tensor as tensors
from hologram.frontend.profile import Profile
from hologram.frontend.stream import Event, Stream
from hologram.frontend.tensor import Tensor
from hologram.machine.choices import untuned
from hologram.machine.device import Device, DeviceInfo
from hologram.machine.limits import Limits
from hologram.runtime import selector
from hologram.runtime.engine import Engine
from hologram.runtime.interchange import adoption as interchange
from hologram.runtime.launches.validation import same_names, sizes
from hologram.runtime.memory.buffer import Buffer
from hologram.tuning.winners import Winners

if TYPE_CHECKING:
    from hologram.atlas import text, verify
    from hologram.opset.forms.operation import Operation
    from hologram.tuning import tuner
else:  # needed to compute, not to open
    text, verify = lazy.module("hologram.atlas.text"), lazy.module("hologram.atlas.verify")
    tuner = lazy.module("hologram.tuning.tuner")


_numbers = itertools.count(1)


def _reproduced(device: Device) -> Limits:
    """A device's limits for the same bits everywhere; closes it and raises BackendUnavailable where it cannot."""
    limits = device.limits
    for word in IEEE:
        if not limits.keeps(word):
            device.close()
            raise BackendUnavailable(
                f"{device.info.backend}: {device.info.name} cannot be reproducible: "
                f"its driver would have to keep that {CONDUCT[word].kept}"
            )
    return limits.reproduced()


class Executor(Engine, Handle):
    """Runs operations on one device. A context manager; any thread may use it.

    `backend` is 'auto' or one that `hg.backends()` lists; `device` a number or part of a device's name. Raises
    BackendUnavailable, with the reason and the remedy, if that cannot be had; nothing falls back silently.

    `matmul_precision` is that of products of f32, for as long as the executor lives. 'highest' is f32 throughout.
    'high' lets a device that can round operands to tf32 (a fraction of 10 bits, ties away from zero) and add up in
    f32: an error of 2^-10 of the sum of the products' magnitudes, beside that of the sum; others compute as before.
    None: what HOLOGRAM_MATMUL_PRECISION says, else 'highest'. Raises ValueError for another word.

    `reproducible` gives the same bits on every backend (docs/reproducible.md); None: what HOLOGRAM_REPRODUCIBLE says,
    else not. Raises BackendUnavailable for a device whose arithmetic has not what that takes.
    """

    _elsewhere = "open one where it is needed, hg.Executor(backend, device)"

    def __init__(
        self,
        backend: str = "auto",
        device: int | str | None = None,
        *,
        matmul_precision: str | None = None,
        reproducible: bool | None = None,
    ) -> None:
        precision = config.matmul_precision if matmul_precision is None else matmul_precision
        if precision not in PRECISIONS:
            wanted = " or ".join(map(repr, PRECISIONS))
            raise ValueError(f"Executor: matmul_precision must be {wanted}, got {precision!r}")
        opened = selector.opened(backend, device)
        if precision == "high":  # plans, tuners and what explains them see a device that can
            opened.info = replace(opened.info, limits=opened.info.limits.rounding())
        self.reproducible = config.reproducible if reproducible is None else reproducible
        if self.reproducible:
            opened.describe(replace(opened.info, limits=_reproduced(opened)))
        self.matmul_precision = precision
        self._tuner: tuner.Background | None = None
        self._number = next(_numbers)  # tells apart executors of one device
        super().__init__(opened, untuned if self.reproducible else self._tuned(opened.info))

    # Tensors.

    def empty(self, shape: int | Sequence[int], dtype: Any = dtypes.f32) -> Tensor:
        """A Tensor with undefined contents."""
        return tensors.empty(self, shape, dtype)

    def tensor(self, array: Any, dtype: Any = None) -> Tensor:
        """A Tensor with the elements of a NumPy array, or of anything NumPy makes one from.

        Arrays keep their dtype; Python floats become f32, integers i64. With a `dtype`, arrays are converted as by
        `astype`; Python's numbers must fit, as in `full`: UnsupportedDType for 300 as u8 or 1.7 as i32.
        """
        return tensors.constant(self, array, dtype)

    def full(self, shape: int | Sequence[int], value: complex, dtype: Any = dtypes.f32) -> Tensor:
        """A Tensor filled with a number."""
        return tensors.full(self, shape, value, dtype)

    def zeros(self, shape: int | Sequence[int], dtype: Any = dtypes.f32) -> Tensor:
        """A Tensor of zeros."""
        return tensors.full(self, shape, 0, dtype, "zeros")

    def ones(self, shape: int | Sequence[int], dtype: Any = dtypes.f32) -> Tensor:
        """A Tensor of ones."""
        return tensors.full(self, shape, 1, dtype, "ones")

    def from_dlpack(self, source: Any, *, copy: bool | None = None) -> Tensor:
        """A Tensor of another library's array: over its memory where the device can use it, else with one copy.

        Raises InteropError for `copy=False` where a copy is needed, UnsupportedDType.
        """
        if isinstance(source, Tensor) and source.executor is self and not copy:
            return source
        self.check_open()
        view = self.dispatch(interchange.from_dlpack, "from_dlpack", self, source, copy)
        return Tensor(view.buffer, view.layout)

    @staticmethod
    def as_tensor(buffer: Buffer) -> Tensor:
        """The whole buffer as a tensor."""
        return tensors.as_tensor(buffer)

    def apply(self, operation: Operation, operands: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """New tensors with an operation's results."""
        return tensors.apply(self, operation, operands, attributes)

    def run(
        self,
        program: Program | str,
        buffers: Mapping[str, Buffer | Tensor],
        *,
        lanes: int | Sequence[int],
        **scalars: bool | int | float,
    ) -> None:
        """Runs an Atlas program (or its text) once per lane of a grid of size `lanes` (a number, or one per axis).

        Buffers and scalars go by the program's names; a view of a tensor is a buffer of the view's elements. Raises
        ProgramError for a program that breaks a rule, UnsupportedDType, ShapeError, BufferFreed.
        """
        program = text.parse_program(program) if isinstance(program, str) else program
        if not isinstance(program, Program):
            raise TypeError(f"run: a Program or its text is needed, got {type(program).__name__}")
        verify.verify(program)
        grid = sizes(lanes, f"{program.name}: lanes")
        if len(grid) != program.rank:
            raise ShapeError(f"{program.name}: its grid has {program.rank} axes, got lanes={lanes}")
        same_names(program.name, "buffers", [b.name for b in program.buffers], buffers)
        same_names(program.name, "scalars", [s.name for s in program.scalars], scalars)
        self.launch(
            program,
            [buffers[b.name] for b in program.buffers],
            [scalars[s.name] for s in program.scalars],
            grid,
        )

    # Order and time.

    def synchronize(self) -> None:
        """Waits until everything enqueued is done."""
        self.dispatch(Engine.synchronize, "synchronize", self)

    def empty_cache(self) -> None:
        """Hands cached memory back to the device."""
        self.dispatch(Engine.empty_cache, "empty_cache", self)

    def stream(self, other: Any = None) -> Stream:
        """The executor's queue, in which everything runs in order.

        `with ex.stream(other):` orders it with a queue of another library on the same device: on CUDA a stream of
        PyTorch, CuPy or cuda.core (`__cuda_stream__`), or its handle. Nothing waits on the host. Entering raises
        InteropError for a stream of another device, and where the device knows none. `ex.stream()` itself is one that
        those libraries take (`__cuda_stream__`).
        """
        return Stream(self, other)

    def event(self) -> Event:
        """A mark to record in the queue, to wait for and to measure time between."""
        return self.dispatch(Event, "event", self)

    def profile(self) -> Profile:
        """A context manager that times every launch inside it, by the device's clock if it has one; see Profile."""
        return self.dispatch(Profile, "profile", self)

    def close(self) -> None:
        """Waits, then releases the device and all its memory; buffers of the executor are freed."""
        if self._tuner is not None:
            self._tuner.close()
        super().close()

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"Executor({self.backend!r}, {self.device.info.name!r}, number {self._number}{state})"

    def _tuned(self, info: DeviceInfo) -> Winners:
        """The choices measured on the device; more are measured in the background where HOLOGRAM_TUNE asks for it."""
        winners = Winners(info)
        if config.tune:
            opened = functools.partial(
                Executor, info.backend, info.index, matmul_precision=self.matmul_precision
            )
            self._tuner = winners.missed = tuner.Background(opened, weakref.ref(winners))
            weakref.finalize(winners, self._tuner.stop)  # of an executor that nobody closed
        return winners
