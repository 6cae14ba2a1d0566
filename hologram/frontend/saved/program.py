"""A saved program, loaded: a callable like the function, of the arguments that the file was made for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, is_
from typing import Any

import numpy as np

from hologram.compiler.fusion.control import parts_of
from hologram.foundation.display import size
from hologram.foundation.errors import FormatError, HologramError, ProgramError, ShapeError
from hologram.frontend.control.primitives import evaluated
from hologram.frontend.jit.compiled import Compiled, ready
from hologram.frontend.jit.explain import Explanation, explained, explained_elsewhere
from hologram.frontend.saved.container import WRONG
from hologram.frontend.saved.contents import Contents, Entry, Signature
from hologram.frontend.saved.forms import Unlike, making
from hologram.frontend.saved.graphs import used_dtypes
from hologram.frontend.tensor import Tensor
from hologram.machine.layout import Layout
from hologram.runtime.dispatch import Dispatch
from hologram.runtime.launches import checks

layout_of = attrgetter("layout")
tracers = Dispatch.tracers
PLAIN = {Tensor}
MOST_MET = 256  # layouts of plain tensors that calls are looked up by


class SavedProgram:
    """A function that was saved, on one executor: `program(*arguments)` gives what the function did.

    Arguments are tensors of the executor or NumPy's arrays, results are tensors. Functions of hg.jit may call it, and
    hg.grad, hg.vmap and hg.jvp go through it. `weights` are tensors, by their line in the file.
    """

    def __init__(self, path: str | os.PathLike[str], executor: Any) -> None:
        contents = Contents(path, executor)
        self.executor = executor
        self.path = os.fspath(path)
        self.name, self.version, self.fast_math = contents.name, contents.version, contents.fast_math
        self.weights = contents.weights
        self._entries = contents.entries
        self._compiled: dict[int, Compiled] = {}
        self._met: dict[Any, Compiled] = {}
        self._lock = threading.Lock()
        for entry in self._entries:
            for operation, dtype in used_dtypes(entry.trace.graph):
                checks.check_dtype(executor, operation, dtype)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results; raises ShapeError where the file has no program for such arguments."""
        if not kwargs and not tracers and set(map(type, args)) == PLAIN:
            met = self._met.get(tuple(map(layout_of, args)))
            if met is not None:
                return met(args)  # which refuses tensors of another executor
        return self._sorted_out(args, kwargs)

    def _sorted_out(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        number, given, numbers = self._chosen(args, kwargs)
        entry = self._entries[number]
        tensors = [self._own(x) for x in given]
        if (tracers and self.executor.tracer is not None) or not PLAIN.issuperset(map(type, tensors)):
            return self._followed(entry, tensors, numbers)
        placed = [x if x.layout is at else x.clone() for x, at in zip(tensors, entry.layouts, strict=True)]
        compiled = self._compiled.get(number) or self._ready(number)
        result = compiled(placed, numbers)
        for k in compiled.donated:
            if isinstance(given[k], Tensor) and given[k].buffer.block is not None:
                given[k].buffer.free()  # of what was copied to be donated
        plain = not kwargs and len(args) == len(placed) and all(map(is_, args, placed))
        if plain and args and len(self._met) < MOST_MET:
            self._met[tuple(map(layout_of, args))] = compiled
        return result

    def _chosen(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, list[Any], list[Any]]:
        """Which signature a call has, its tensors and its numbers."""
        reasons = []
        for number, entry in enumerate(self._entries):
            try:
                return (number, *entry.signature.arguments(args, kwargs))
            except Unlike as unlike:
                reasons.append(str(unlike))
        if len(reasons) == 1:
            raise ShapeError(f"{self.name}: {reasons[0]}; the file takes {self._entries[0].signature}")
        taken = "".join(
            f"\n  {e.signature}, but {why}" for e, why in zip(self._entries, reasons, strict=True)
        )
        raise ShapeError(f"{self.name}: the file takes one of{taken}")

    def _own(self, x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return self.executor.tensor(x)
        if x.executor is not self.executor:
            raise ShapeError(f"{self.name}: it was loaded on {self.executor}, got a tensor of {x.executor}")
        return x

    def _ready(self, number: int) -> Compiled:
        with self._lock:
            if number not in self._compiled:
                self._compiled[number] = self._made(self._entries[number])
            return self._compiled[number]

    def _made(self, entry: Entry) -> Compiled:
        make = making(entry.signature.results)
        try:
            return ready(entry.trace, self.executor, entry.given, make, self.fast_math)
        except WRONG as error:
            if isinstance(error, HologramError) and not isinstance(error, (ShapeError, ProgramError)):
                raise  # the device has not what it needs
            said = f"it says what cannot be: {error}"
            raise FormatError(self.path, *entry.place, said) from error

    def _followed(self, entry: Entry, tensors: Sequence[Any], numbers: Sequence[Any]) -> Any:
        """A call under a trace or a derivative: operation by operation."""
        formulas = entry.trace.formulas
        places = formulas.places(numbers)
        held = [
            self.executor.tensor(np.frombuffer(formulas.memory(dtype, places), dtype.numpy))
            for dtype in formulas.wanted
        ]
        weights = [_memory(x) for x in entry.trace.captured]
        outputs = evaluated(entry.trace.graph, [*tensors, *weights, *held], self.executor)
        made = [*outputs, *(places[n.place] for n in formulas.returned)]
        return making(entry.signature.results, _viewed)(made)

    # What it is.

    @property
    def signatures(self) -> tuple[Signature, ...]:
        """What it takes and gives, once for each example that it was saved for."""
        return tuple(entry.signature for entry in self._entries)

    def dispatches(self, signature: int = 0) -> int:
        """Kernels that a call of a signature launches."""
        return self._ready(signature).dispatches

    def explain(self, signature: int = 0, backend: str | None = None) -> Explanation:
        """What a call of a signature runs here, or would on a backend, and why; nothing is computed. Print it."""
        compiled = self._ready(signature)
        if backend is not None:
            return explained_elsewhere(compiled, backend, self.fast_math)
        return explained(compiled, self.executor, self.fast_math)

    def __str__(self) -> str:
        """What is in the file."""
        total = sum(w.nbytes for w in self.weights.values())
        lines = [
            f"{self.name}, saved by hologram {self.version}",
            f"weights {len(self.weights)}, {size(total)}",
        ]
        for entry in self._entries:
            operations = sum(len(part.nodes) for part in parts_of(entry.trace.graph))
            lines.append(f"{self.name}{entry.signature}, {operations} operations")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<saved program {self.name} on {self.executor}>"


def _memory(x: Tensor) -> Tensor:
    """All elements of a tensor's memory in a row: what layouts over it are views of."""
    return Tensor(x.buffer, Layout.contiguous(x.dtype, (x.buffer.size,)))


def _viewed(output: int, layout: Layout) -> Callable[[Sequence[Any]], Any]:
    """A tensor of the result: one that is given, seen through a layout."""
    return lambda outputs: outputs[output]._view(layout)
