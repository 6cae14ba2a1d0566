"""Launches of programs of one's own, `ex.run` and `@hg.kernel`, as nodes of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hologram.atlas.opcodes import MEETINGS
from hologram.atlas.program import Access, Program
from hologram.compiler.fusion.graph import Node
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import TraceError
from hologram.frontend import tensor as tensors
from hologram.frontend.jit.launched import Launch, Slot, launched, slots_of, with_data
from hologram.frontend.jit.number import Formulas, TracedNumber, plain
from hologram.frontend.jit.traced import Traced
from hologram.frontend.tensor import Tensor
from hologram.machine.layout import Layout
from hologram.opset.creation import fill
from hologram.opset.forms.operation import Operation
from hologram.runtime.engine import Engine
from hologram.runtime.launches import checks
from hologram.runtime.launches.validation import sizes


class Launching:
    """What a Recorder does with launches."""

    executor: Engine
    who: str
    nodes: list[Node]
    formulas: Formulas

    def copy(self, source: Any, target: Tensor) -> None:
        raise NotImplementedError  # of Recorder, and so is all up to `launch`

    def foreign(self, operand: Any) -> bool:
        raise NotImplementedError

    def capture(self, tensor: Tensor) -> Traced:
        raise NotImplementedError

    def _value(self, tensor: Traced) -> int:
        raise NotImplementedError

    def _readable(self, number: TracedNumber, dtype: DType | None) -> bool:
        raise NotImplementedError

    def _number(self, dtype: DType, layout: Layout) -> Traced:
        raise NotImplementedError

    def _record(
        self, operation: Operation, operands: Sequence[Any], attributes: Any, layouts: Sequence[Layout]
    ) -> list[Traced]:
        raise NotImplementedError

    def launch(self, kernel: Any, buffers: Sequence[Any], scalars: Sequence[Any], grid: Any) -> None:
        """What a program stores into has another value from now on."""
        if kernel.stem:
            raise TraceError(
                f"{self.who}: {kernel.name}, which is written by hand, is launched while it is traced"
            )
        kernel, buffers, scalars = self._with_data(kernel, buffers, scalars)
        views, numbers = checks.of_kernel(self.executor, kernel, buffers, plain(list(scalars)), self._bound)
        sized = sizes(plain(grid), f"{kernel.name}: grid")
        if 0 in sized[: len(sized) - kernel.reduced]:
            return
        seen, places, stored = slots_of(kernel, views)
        slots = []
        for k, view in enumerate(seen):
            ways = {b.access for b, place in zip(kernel.buffers, places, strict=True) if place == k}
            slots.append(self._slot(view, stored[k], unread=ways == {Access.WRITE}))
        operation = launched(Launch(kernel, tuple(s for s, _ in slots), places, numbers, sized))
        layouts = operation.infer([s.layout for s, _ in slots], {})
        made = iter(self._record(operation, [operand for _, operand in slots], {}, layouts))
        for view in (view for view, is_stored in zip(seen, stored, strict=True) if is_stored):
            new, storage = next(made), view.buffer
            if view.layout.is_contiguous and view.size == storage.size and not view.layout.offset:
                storage.value = new.buffer.value
            else:
                self.copy(new, view)

    def _with_data(
        self, kernel: Program, buffers: Sequence[Any], scalars: Sequence[Any]
    ) -> tuple[Program, list[Any], list[Any]]:
        """The launch with numbers of a call as data, which may be others at the next; a program with barriers has none.

        What is loaded may differ from lane to lane, for all that a program says, and barriers may not depend on that.
        """
        read = {
            s: x
            for s, x in zip(kernel.scalars, scalars, strict=False)
            if isinstance(x, TracedNumber) and self._readable(x, s.dtype)
        }
        kinds = dict.fromkeys(s.dtype for s in read)
        few = len(kernel.buffers) + len(kinds) <= self.executor.limits.max_bindings
        if not read or not few or kernel.opcodes & MEETINGS:
            return kernel, [*buffers], [*scalars]
        places = {s.name: self.formulas.offset(x, s.dtype) for s, x in read.items()}
        held = [self._number(d, Layout.contiguous(d, (len(self.formulas.wanted[d]),))) for d in kinds]
        pairs = zip(kernel.scalars, scalars, strict=True)
        return with_data(kernel, places, kinds), [*buffers, *held], [x for s, x in pairs if s not in read]

    def _bound(self, buffer: Any, written: bool) -> Traced:
        """A buffer of a launch as a tensor of this trace."""
        given = buffer if isinstance(buffer, Tensor) else tensors.as_tensor(buffer)
        if written:
            return self._writable(given)
        return self.capture(given) if self.foreign(given) else self._own(given)

    def _slot(self, view: Traced, stored: bool, *, unread: bool) -> tuple[Slot, Traced | None]:
        """What a launch finds in a tensor: its value, or, where nobody has seen it yet, what it is filled with."""
        storage = view.buffer
        whole = view.layout.is_contiguous and view.size == storage.size
        if stored and whole and unread and storage.value is None:
            return Slot(view.layout, stored), None
        value = self._value(view)
        maker = next((node for node in reversed(self.nodes) if value in node.results), None)
        if stored and whole and maker is not None and maker.operation is fill:
            return Slot(view.layout, stored, maker.attributes["value"]), None
        return Slot(view.layout, stored), view

    def _own(self, tensor: Any) -> Traced:
        if not isinstance(tensor, Traced) or tensor.buffer.trace is not self:
            raise TraceError(f"{self.who}: a tensor of another trace is used")
        return tensor

    def _writable(self, target: Tensor) -> Traced:
        if not isinstance(target, Traced) or target.buffer.trace is not self:
            raise TraceError(
                f"{self.who}: a tensor of shape {target.shape} that it closes over is written to; return the new value"
            )
        storage = target.buffer
        storage.check_writable(
            storage.is_input,
            "return the new value instead, and name the argument in `donate` to use its memory again",
        )
        return target
