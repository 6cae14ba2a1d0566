"""What tracers have in common that work with tensors from beneath and something beside each: a tangent, a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from hologram.compiler.fusion.graph import Choice, Loop
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import GradientError, TraceError
from hologram.frontend import tensor as tensors
from hologram.frontend.control.primitives import run, settled
from hologram.frontend.gradient.tape import detached
from hologram.frontend.inside import Held, Inside
from hologram.frontend.tensor import Tensor
from hologram.frontend.transforms.launches import Call, launch
from hologram.frontend.tree import mapped
from hologram.machine.layout import Layout
from hologram.opset.forms.operation import Operation
from hologram.opset.movement import cast, overwrite
from hologram.runtime.dispatch import Request, Tracer, traced_by
from hologram.runtime.engine import Engine


class Cell(Held):
    """What a lifted tensor has for a buffer: a tensor from beneath, without gaps, and what is beside it.

    `layout` is that of all elements as the function sees them.
    """

    __slots__ = ("beside", "layout", "tensor", "tracer")
    error = TraceError
    kept = "following"

    def __init__(self, tracer: Lifting, tensor: Tensor, layout: Layout, beside: Any) -> None:
        super().__init__(tensor.executor, tracer.who)
        self.tracer = tracer
        self.tensor = tensor
        self.layout = layout
        self.beside = beside

    @property
    def asked(self) -> str:  # type: ignore[override]
        """Whose memory it is."""
        return self.tracer.what


class Lifted(Inside):
    """A tensor inside a function that such a tracer follows."""

    __slots__ = ()
    buffer: Cell  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Tensor({self.buffer.tracer.what}, shape={self.shape}, dtype={self.dtype})"

    def _read(self, what: str) -> Any:
        tracer = self.buffer.tracer
        with traced_by(tracer.outer):
            return getattr(tracer.known(self, what), what)()

    def to_numpy(self, *, copy: bool = True, out: Any = None) -> Any:
        tracer = self.buffer.tracer
        with traced_by(tracer.outer):
            return tracer.known(self, "to_numpy").to_numpy(copy=copy, out=out)

    def _item(self) -> bool | int | float:
        return self._read("item")

    def __bool__(self) -> bool:
        return bool(self._read("__bool__"))

    def __int__(self) -> int:
        return int(self._read("__int__"))

    def __float__(self) -> float:
        return float(self._read("item"))

    def __index__(self) -> int:
        return self._read("__index__")


class Lifting:
    """Takes the requests of a thread, follows those that FOLLOWED names, and passes on all others."""

    what: ClassVar[str]  # its tensors

    def __init__(self, who: str, outer: Tracer | None, executor: Engine) -> None:
        self.who = who
        self.outer = outer
        self.executor = executor

    @property
    def root(self) -> Tracer | None:
        """Who takes requests beneath all such tracers: the recorder of a trace, or nobody."""
        return None if self.outer is None else self.outer.root

    def take(self, request: Request, action: str, arguments: tuple[Any, ...]) -> Any:
        """See hologram.runtime.dispatch."""
        follow = FOLLOWED.get(request)
        if follow is not None:
            return follow(self, *arguments)
        return self.below(request, action, *(self._plain(x, action) for x in arguments))

    def below(self, request: Request, action: str, *arguments: Any) -> Any:
        """What a request gives where this tracer does not listen."""
        with traced_by(self.outer):
            return request(*arguments) if self.outer is None else self.outer.take(request, action, arguments)

    def _plain(self, x: Any, action: str) -> Any:
        if self.owns(x):
            return self.known(x, action)
        return type(x)(self._plain(each, action) for each in x) if isinstance(x, (list, tuple)) else x

    def owns(self, x: Any) -> bool:
        return isinstance(x, Lifted) and x.buffer.tracer is self

    def lifted(self, tensor: Tensor, layout: Layout, beside: Any = None) -> Lifted:
        """A tensor from beneath, as the function sees it."""
        with traced_by(self.outer):
            return Lifted(Cell(self, settled(tensor), layout, beside), layout)

    def constant(self, tensor: Tensor) -> Lifted:
        """A tensor from beneath that nothing is beside."""
        return self.lifted(tensor, Layout.contiguous(tensor.dtype, tensor.shape))

    def beneath(self, tree: Any) -> Any:
        """Its tensors as those beneath; those that something is beside may not be among them."""
        return mapped(tree, lambda x: self.known(x, "a constant") if self.owns(x) else x)

    # What a kind of tracer says.

    def known(self, x: Lifted, what: str) -> Tensor:
        """A tensor's elements, beneath; raises where there are none to give."""
        raise NotImplementedError

    def apply(
        self, engine: Engine, operation: Operation, operands: Sequence[Any], attributes: Mapping[str, Any]
    ) -> Any:
        """New tensors with an operation's results."""
        raise NotImplementedError

    def control(self, engine: Engine, control: Loop | Choice, operands: Sequence[Any]) -> tuple[Any, ...]:
        """New tensors with the results of a loop or a choice."""
        raise NotImplementedError

    def detach(self, engine: Engine, x: Any) -> Any:
        """A tensor as a constant of derivatives."""
        raise NotImplementedError

    def launched(self, call: Call) -> Sequence[Lifted]:
        """What a program of one's own stores into, afterwards."""
        raise NotImplementedError

    # Requests that are followed alike.

    def empty(self, engine: Engine, shape: tuple[int, ...], dtype: DType) -> Lifted:
        return self.constant(self.below(tensors.make_empty, "empty", engine, shape, dtype))

    def full(self, engine: Engine, shape: tuple[int, ...], value: Any, dtype: DType) -> Lifted:
        return self.constant(self.below(tensors.make_full, "full", engine, shape, value, dtype))

    def array(self, engine: Engine, values: np.ndarray, source: Any = None) -> Lifted:
        return self.constant(self.below(tensors.make_constant, "tensor", engine, values, source))

    def copy(self, engine: Engine, source: Any, target: Any) -> None:
        """Writes a tensor into another, which has another value from now on."""
        if not self.owns(target):
            raise GradientError(
                f"{self.who}: a tensor of shape {target.shape} that it closes over is written to; return the new value"
            )
        cell, layout = target.buffer, target.layout
        shown = source.expand(layout.shape)
        if layout == cell.layout:
            new = self.apply(engine, cast, [shown], {"dtype": layout.dtype.name})
        else:
            new = self.apply(engine, overwrite, [Lifted(cell, cell.layout), shown], {"part": layout})
        cell.tensor, cell.beside = new.buffer.tensor, new.buffer.beside


FOLLOWED: Mapping[Request, Callable[..., Any]] = {
    tensors.make_empty: lambda tracer, *given: tracer.empty(*given),
    tensors.make_full: lambda tracer, *given: tracer.full(*given),
    tensors.make_constant: lambda tracer, *given: tracer.array(*given),
    tensors.evaluated: lambda tracer, *given: tracer.apply(*given),
    Engine._copy_elements: lambda tracer, *given: tracer.copy(*given),
    Engine._launch: launch,
    detached: lambda tracer, *given: tracer.detach(*given),
    run: lambda tracer, *given: tracer.control(*given),
}
