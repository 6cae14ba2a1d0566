"""`@hg.kernel`: functions that run once for each point of a grid, on the device where their arrays are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, update_wrapper
from types import FunctionType
from typing import Any, cast, overload

import numpy as np

from hologram.atlas.derivatives.replayed import NoDerivative
from hologram.atlas.program import Access, Program
from hologram.foundation import dtypes
from hologram.foundation.config import config
from hologram.foundation.errors import GradientError, KernelError, TraceError
from hologram.foundation.frozen import frozen
from hologram.frontend import kernel_arguments
from hologram.frontend.gradient.launches import stated
from hologram.frontend.gradient.tape import Tape
from hologram.frontend.jit.number import TracedNumber
from hologram.frontend.transforms.forward import Forward
from hologram.kernels import python_form
from hologram.kernels import shapes as kernel_shapes
from hologram.kernels.bounds import WORDS, refusal
from hologram.kernels.compiling import Compiled, Parameter, compiled, parameters_of, settled
from hologram.kernels.grid import lanes
from hologram.kernels.prints import FIRST, ROOM, lines
from hologram.kernels.source import read
from hologram.machine.layout import Layout
from hologram.machine.plan import Given, Plan, Step
from hologram.runtime.dispatch import Dispatch, tracing
from hologram.runtime.engine import Engine
from hologram.runtime.launches import checks, recognition
from hologram.runtime.launches.launcher import Structure
from hologram.runtime.launches.recording import Recording, launching
from hologram.runtime.launches.validation import cache_key, sizes
from hologram.runtime.memory.buffer import Buffer
from hologram.runtime.memory.view import LARGE, LINE, View, overlaps

NOTHING: Mapping[str, Any] = {}
_recordings, _tracers = Recording.open, Dispatch.tracers


class Kernel:
    """A function as a kernel; `kernel[shape](*arguments)` runs it once for each point of a grid of that shape.

    Arrays are Tensors or Buffers of one executor, with the dtype and the number of axes that the annotations say;
    numbers are Python's. What two points of the grid write to one element, one of them wins.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        around: Mapping[str, Any] = NOTHING,
        workgroup: tuple[int, ...] | None = None,
        disjoint: bool = False,
    ) -> None:
        if not isinstance(function, FunctionType):
            raise KernelError(f"a kernel must be a function, got {type(function).__name__}")
        update_wrapper(self, function)
        # Annotations that are kept as text are read now, while the names around the function are known.
        self.annotations = settled(function, around)
        self.function: Any = function
        self.workgroup = workgroup
        self.disjoint = disjoint
        self.name: str = getattr(function, "__name__", "kernel")
        self.rule: Callable[..., Any] | None = None
        self._compiled: dict[tuple[int, bool], Compiled] = {}
        self._launchers: dict[Any, Launcher] = {}
        self.shaped: dict[tuple[Any, ...], Program] = {}  # for arrays of the grid's own lengths

    @property
    def python(self) -> PythonForm:
        """The function itself: `kernel.python[shape](*arguments)` runs it point by point, with bounds checked.

        Breakpoints and prints work in it. Arrays are Tensors, Buffers or NumPy's, and are changed in place.
        """
        return PythonForm(self)

    def gradient(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """States the kernel's gradient, in the place of the one that follows from its lines.

            @step.gradient
            def backwards(u, out, dt, cotangent):
                return dt * cotangent, None, None

        Args:
            rule: takes the arguments as they were before the kernel ran, then the cotangent of each array of floats
                that it writes, in order. It returns a cotangent for each argument, None where that is 0.
        """
        self.rule = rule
        return rule

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        """What each argument is, by its annotation; raises KernelError."""
        return parameters_of(read(self.function), self.annotations)

    def compiled(self, rank: int, *, checked: bool = False) -> Compiled:
        """The kernel for grids of `rank` axes; raises KernelError, which names the line."""
        known = self._compiled.get((rank, checked))
        if known is None:
            known = compiled(
                self.function, self.parameters, rank, self.workgroup, checked=checked, disjoint=self.disjoint
            )
            self._compiled[rank, checked] = known
        return known

    def program(self, rank: int = 1) -> Program:
        """The Atlas program for grids of `rank` axes."""
        return self.compiled(rank).program

    def __getitem__(self, shape: int | Sequence[int]) -> Launcher:
        """The kernel on a grid: a number of points, or one for each axis."""
        launcher = self._launchers.get(shape) if type(shape) in (int, tuple) else None
        if launcher is None:
            grid = kernel_arguments.checked_grid(self.name, shape)
            kind = CheckedLauncher if config.bounds else Launcher
            kind = PythonLauncher if config.kernels == "python" else kind
            launcher = self._launchers.setdefault(grid, kind(self, grid))
            if len(self._launchers) > 256:
                self._launchers.clear()
            if type(shape) in (int, tuple):
                self._launchers[shape] = launcher
        return launcher

    def __call__(self, *arguments: Any) -> Any:
        raise KernelError(
            f"{self.name}: a kernel runs on a grid: write {self.name}[shape](...); a function that kernels "
            "call stands under @hg.func"
        )

    def __reduce__(self) -> str:
        return self.function.__qualname__  # by its name, as functions are

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"


@overload
def kernel(function: Callable[..., Any]) -> Kernel: ...
@overload
def kernel(
    *, workgroup: int | tuple[int, ...] | None = None, disjoint: bool = False
) -> Callable[[Callable[..., Any]], Kernel]: ...


def kernel(function: Any = None, *, workgroup: Any = None, disjoint: bool = False) -> Any:
    """Makes a function a kernel, which runs once for each point of a grid: `step[u.shape](u, out, 0.1)`.

    Every argument has an annotation: `hg.Array[hg.f32, 2]` of an array with two axes, a dtype of a number. The body
    is Python: see the tutorial, docs/kernels.md. It is read when the kernel first runs; what it takes from around the
    function is constant from then on.

    `workgroup` is how many points of the grid, along each axis, make a workgroup, whose lanes share memory and wait
    for one another: `@hg.kernel(workgroup=(16, 16))`. `disjoint` says that no two points store into one element, where
    a gradient needs to know and cannot see.
    """
    around = sys._getframe(1).f_locals
    if function is not None:
        return Kernel(function, around)
    sized = sizes(workgroup, "kernel: workgroup") if workgroup is not None else None
    if sized is not None and not (1 <= len(sized) <= 3 and all(sized)):
        raise KernelError(f"kernel: a workgroup has 1 to 3 axes of at least 1, got {workgroup}")
    return lambda one: Kernel(one, around, sized, disjoint)


class Launcher:
    """A kernel on a grid of one shape."""

    __slots__ = ("__weakref__", "grid", "kernel", "written")

    def __init__(self, kernel: Kernel, grid: tuple[int, ...]) -> None:
        self.kernel = kernel
        self.grid = grid
        self.written: tuple[int, ...] | None = None  # the arguments that it writes, once it is compiled

    def __call__(self, *arguments: Any) -> None:
        """Runs the kernel; raises KernelError, ShapeError, UnsupportedDType, BufferFreed."""
        for first in arguments:
            if isinstance(first, (View, Buffer)):
                if _tracers or self.written is None:
                    break
                places: list[Any] = []
                engine: Any = first.executor
                structure = self._known(engine, arguments, places)
                if structure is None:
                    break
                if not _recordings or launching(structure, places):
                    structure.launch(places)
                return
        self._run(arguments)

    def _known(self, engine: Engine, arguments: Sequence[Any], places: list[Any]) -> Structure | None:
        """What is kept for arguments that lie like these; puts where they lie into a list."""
        key = self._key(engine, arguments, places)
        structure = None if key is None else engine.structures.get(key)
        return (
            engine.of_numbers(structure, places) if structure is not None and structure.values else structure
        )

    def _run(self, arguments: Sequence[Any]) -> None:
        """A call that nothing is known about yet."""
        made = self.kernel.compiled(len(self.grid))
        if tracing() is not None:
            return self._followed(made, arguments)
        self.written = tuple(
            k for k, b in zip(made.buffers, made.program.buffers, strict=True) if b.access is not Access.READ
        )
        engine, given = self._checked(arguments)
        views = [given[k] for k in made.buffers]
        staged = engine._staged(made.program, views)
        checks.check_apart(made.program, views)
        for k, view in zip(made.buffers, staged, strict=True):
            given[k] = view
        places: list[Any] = []
        structure = self._known(engine, given, places)
        if structure is None:
            structure = self._prepared(engine, made, given)
            places = []
            engine.described(given, [], places)
        if not _recordings or launching(structure, places):
            structure.launch(places)
        if staged is not views:
            engine._written_back(made.program, staged, views)

    def _followed(self, made: Compiled, arguments: Sequence[Any]) -> None:
        """A call while a function is traced or differentiated: whoever follows it has the launch."""
        engine, given = self._checked([x.known if isinstance(x, TracedNumber) else x for x in arguments])
        made.check(engine.limits.shared_bytes, engine.limits.max_workgroup_threads)
        told = [y if isinstance(y, TracedNumber) else x for x, y in zip(given, arguments, strict=True)]
        tape, rule = tracing(), self.kernel.rule
        if rule is not None and isinstance(tape, Tape) and any(map(tape.follows, given)):
            pairs = zip(made.buffers, made.program.buffers, strict=True)
            written = [k for k, b in pairs if b.access is not Access.READ]
            return stated(tape, self.kernel.name, told, written, self, rule)
        if rule is not None and isinstance(tape, Forward) and any(tape.tangent(x) is not None for x in given):
            raise GradientError(
                f"{self.kernel.name} states a gradient, for reverse mode; there is no tangent of it"
            )
        scalars = [self._scalar(told, argument, axis) for argument, axis in made.scalars]
        try:
            engine.launch(
                made.program, [given[k] for k in made.buffers], scalars, lanes(self.grid, made.workgroup)
            )
        except NoDerivative as error:
            raise made.located(error) from None

    def _checked(self, arguments: Sequence[Any]) -> tuple[Engine, list[Any]]:
        """Whose memory the arguments are, and arguments as the annotations say: views, and Python's numbers."""
        name, parameters = self.kernel.name, self.kernel.parameters
        kernel_arguments.counted(name, parameters, arguments)
        engine: Any = next((x.executor for x in arguments if isinstance(x, (View, Buffer))), None)
        given = [
            kernel_arguments.checked_argument(engine, f"{name}, {label}", parameter, x)
            for (label, parameter), x in zip(parameters.items(), arguments, strict=True)
        ]
        if engine is None:
            raise TypeError(f"{name}: an array must be among the arguments, it says where to run")
        return engine, given

    def _prepared(self, engine: Engine, made: Compiled, given: Sequence[Any]) -> Structure:
        """Prepares a launch, and keeps it for arguments that lie alike.

        Floats are told at each call where the device takes them so; each other number is part of the launch.
        """
        parameters = [*self.kernel.parameters.values()]
        views = [given[k] for k in made.buffers]
        made.check(engine.limits.shared_bytes, engine.limits.max_workgroup_threads)
        told = engine.bound.told
        floats = {k for k, x in enumerate(given) if type(x) is float and parameters[k] in told}
        scalars = []
        for argument, axis in made.scalars:
            x = self._scalar(given, argument, axis)
            scalars.append(Given.of(x, argument or 0) if axis is None and argument in floats else x)
        grid = lanes(self.grid, made.workgroup)
        step = Step(made.program, tuple(range(len(views))), tuple(scalars), grid)
        plan = Plan((step,))
        if not any(type(x) is Given for x in scalars):  # a tuned kernel knows no number that changes
            apart = not any(overlaps(a, b) for k, a in enumerate(views) for b in views[:k])
            plan = recognition.chosen(step, [v.size for v in views], engine.target, apart)
        if plan.steps == (step,):
            shapes = [getattr(x, "shape", ()) for x in given]
            program, kept = kernel_shapes.specialised(made, shapes, self.grid, self.kernel.shaped)
            plan = Plan((replace(step, kernel=program, scalars=tuple(scalars[k] for k in kept)),))
        layouts = [x.layout.placed(engine._alignment)[0] if isinstance(x, View) else None for x in given]
        values = tuple(k for k, x in enumerate(given) if type(x) in (bool, float) and k not in floats)
        plan = kernel_arguments.renumbered(plan, made.buffers, len(given))
        structure = engine.bound.structure(plan, engine._nbytes(layouts), (), values)
        known: Any = self._key(engine, given, [])
        if known is not None and values:
            first = engine.structures.get(known)
            if first is None or first.values != values:
                first = engine.structures.keep(known, structure)
            known = (first, *[cache_key(given[k]) for k in values])
        return structure if known is None else engine.structures.keep(known, structure)

    def _scalar(self, given: Sequence[Any], argument: int | None, axis: int | None) -> Any:
        """What a scalar of the program is: a size of the grid, the length of an axis, or an argument."""
        if argument is None:
            return self.grid[axis or 0]
        return given[argument] if axis is None else given[argument].shape[axis]

    def _key(self, engine: Engine, arguments: Sequence[Any], places: list[Any]) -> tuple[Any, ...] | None:
        """What a launch depends on of its arguments; None where they cannot be launched, or not without a check."""
        key: list[Any] = [self]
        if not engine.described(arguments, key, places):
            return None
        for j in self.written or ():
            if j >= len(places):  # too few arguments
                return None
            layout, place = key[j + 1], places[j]
            if type(layout) is not Layout:
                return None
            nbytes = layout.reach_bytes
            if nbytes >= LARGE:
                key.append(place % LINE)
            for k in range(len(places)):
                other = key[k + 1]
                if k != j and type(other) is Layout and -nbytes < place - places[k] < other.reach_bytes:
                    if other is not layout or places[k] != place:
                        return None
                    key.append((j, k))
        return tuple(key)


class CheckedLauncher(Launcher):
    """A kernel on a grid of one shape, whose indices and assertions are checked on the device, and which prints."""

    __slots__ = ()

    def __call__(self, *arguments: Any) -> None:
        """Runs the kernel, and waits; raises BoundsError and AssertionFailed for what fails, naming the line."""
        kernel, rank = self.kernel, len(self.grid)
        if tracing() is not None:
            raise TraceError(
                f"{kernel.name}: HOLOGRAM_BOUNDS=1 waits for what a kernel found, and a function is traced"
            )
        made = kernel.compiled(rank, checked=True)
        engine, given = self._checked(arguments)
        made.check(engine.limits.shared_bytes, engine.limits.max_workgroup_threads)
        found = engine.allocate(FIRST + ROOM if made.prints else WORDS, dtypes.i32)
        found.fill(0)
        scalars = [self._scalar(given, argument, axis) for argument, axis in made.scalars]
        views = [given[k] for k in made.buffers]
        engine.launch(made.program, [*views, found], scalars, lanes(self.grid, made.workgroup))
        words = found.to_numpy()
        if made.prints:
            sys.stdout.write(lines(words, made.prints, rank))
        error = refusal(words[:WORDS].tolist(), made.sites, rank)
        if error is not None:
            raise error


@frozen
class PythonForm:
    """A kernel as the function that it is."""

    kernel: Kernel

    def __getitem__(self, shape: int | Sequence[int]) -> PythonLauncher:
        return PythonLauncher(self.kernel, kernel_arguments.checked_grid(self.kernel.name, shape))


class PythonLauncher(Launcher):
    """A kernel as the function that it is, on a grid of one shape."""

    __slots__ = ()

    def __call__(self, *arguments: Any) -> None:
        """Runs the function for each point in row-major order; raises BoundsError and what the function raises."""
        kernel = self.kernel
        if tracing() is not None:
            raise TraceError(
                f"{kernel.name}: the Python form of a kernel reads elements, and a function is traced: call it "
                "outside, without hg.jit and hg.grad"
            )
        kernel_arguments.counted(kernel.name, kernel.parameters, arguments)
        held: list[Any] = []
        copies: dict[Any, np.ndarray] = {}  # one of the same elements
        for (label, parameter), x in zip(kernel.parameters.items(), arguments, strict=True):
            who = f"{kernel.name}, {label}"
            given = x
            if isinstance(x, np.ndarray):
                kernel_arguments.check_host(who, parameter, x)
            else:
                given = kernel_arguments.checked_argument(getattr(x, "executor", None), who, parameter, x)
            if isinstance(given, View):
                given = copies.setdefault(given.key, np.array(cast(Any, x).to_numpy()))
            held.append(given)
        as_given = [x.tobytes() if isinstance(x, np.ndarray) else b"" for x in held]
        python_form.run(kernel.function, kernel.parameters, self.grid, kernel.workgroup, held)
        for before, now, was in zip(arguments, held, as_given, strict=True):
            if isinstance(before, (View, Buffer)) and now.tobytes() != was:  # an expanded view may be read
                executor: Any = before.executor
                whole = before if isinstance(before, View) else executor.as_tensor(before)
                executor.copy(executor.tensor(now), whole)
