"""hg.jit: calls of a function of Tensors become replays of what it did the first time."""

from __future__ import annotations

import functools
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from hologram import lazy
from hologram.errors import TraceError
from hologram.frontend.jit.compiled import Compiled, compile_traced
from hologram.frontend.jit.signature import Call, call_of, known_tree
from hologram.frontend.tensor import Tensor
from hologram.records import frozen
from hologram.runtime.dispatch import Dispatch
from hologram.runtime.validation import exactly

if TYPE_CHECKING:
    from hologram.frontend.jit import differentiated, explain
    from hologram.frontend.jit.explain import Explanation
else:  # needed by who asks, not by who calls
    differentiated = lazy.module("hologram.frontend.jit.differentiated")
    explain = lazy.module("hologram.frontend.jit.explain")

tracers = Dispatch.tracers
layout_of = attrgetter("layout")
MAX_SIGNATURES = 256  # that one function is kept compiled for
P = ParamSpec("P")  # of the function, as is
R = TypeVar("R")


class Jitted(Generic[P, R]):
    """A function that is traced once for each signature of its arguments, and replayed after that."""

    def __init__(
        self, function: Callable[P, R], donate: int | Sequence[int] = (), fast_math: bool = False
    ) -> None:
        if not callable(function):
            raise TypeError(f"jit: a function is needed, got {type(function).__name__}")
        functools.update_wrapper(self, function)
        self.function = function
        self.donate = (donate,) if isinstance(donate, int) else tuple(donate)
        if any(isinstance(k, bool) or not isinstance(k, int) for k in self.donate):
            raise TypeError(f"jit: donate must be numbers of positional arguments, got {donate!r}")
        self.fast_math = fast_math
        self.who = getattr(function, "__name__", None) or getattr(function, "name", type(function).__name__)
        self._compiled: OrderedDict[Any, Compiled] = OrderedDict()
        self._asked: dict[Any, Sequence[int]] = {}  # by signature, the floats whose values tell calls apart
        self._pullbacks: dict[
            tuple[bool, ...], Jitted
        ] = {}  # by which leaves of arguments are differentiated
        self._met: dict[
            Any, Compiled
        ] = {}  # for calls with nothing but tensors or trees of them, by their layouts

    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    else:

        def __call__(self, *args, **kwargs):
            try:
                met = None if kwargs else self._met.get((args[0].buffer.executor, *map(layout_of, args)))
            except (AttributeError, IndexError):  # an argument is no tensor, or there is none
                met = None
            return self._sorted_out(args, kwargs) if met is None or tracers else met(args)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Jitted[P, R]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Bound: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """The method of an instance, which is then the first argument and, if no tree, a static one."""
        return self if instance is None else Bound(self, instance)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickled by name, as Python's own functions are, where it has one; what was compiled stays behind."""
        name = getattr(self, "__qualname__", "")
        module = sys.modules.get(getattr(self, "__module__", ""))
        try:
            named = functools.reduce(getattr, name.split("."), module)
        except AttributeError:
            named = None
        return name if named is self else (Jitted, (self.function, self.donate, self.fast_math))

    def _sorted_out(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The general path: any arguments, a signature that may be new."""
        tensors: list[Tensor] = []
        key = None if kwargs or tracers else known_tree(args, tensors)
        met = self._met.get(key) if key is not None else None
        if met is not None:
            return met(tensors)
        call = call_of(self.who, args, kwargs)
        if call.traced:
            return self._traced(args, kwargs)
        compiled = self._of(call, args, kwargs)
        if key is not None:
            if len(self._met) >= MAX_SIGNATURES:
                self._met.clear()
            plain = all(type(a) is Tensor for a in args)
            self._met[(args[0].executor, *map(layout_of, args)) if plain else key] = compiled
        return compiled(call.tensors, call.numbers)

    def _traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call while another function is traced: its operations, or compiled where that is only differentiated."""
        tape = differentiated.followed_alone()
        if tape is None:
            return self.function(*args, **kwargs)
        # What is given away would be missed on the way back.
        run = Jitted(self.function, fast_math=self.fast_math) if self.donate else self
        try:
            return differentiated.differentiated(tape, run, self.who, self._pullback, args, kwargs)
        except differentiated.ClosedOver:  # it depends on the tape by more than its arguments
            return self.function(*args, **kwargs)

    def _pullback(self, followed: tuple[bool, ...]) -> Jitted:
        found = self._pullbacks.get(followed)
        if found is None:
            back = differentiated.pullback(self.function, followed)
            found = self._pullbacks[followed] = Jitted(back, fast_math=self.fast_math)
        return found

    def compiled(self, *args: Any, **kwargs: Any) -> Compiled:
        """What a call with these arguments runs, compiled if it was not yet; nothing is computed."""
        return self._of(call_of(self.who, args, kwargs), args, kwargs)

    def dispatches(self, *args: Any, **kwargs: Any) -> int:
        """Kernels that a call with these arguments launches."""
        return self.compiled(*args, **kwargs).dispatches

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """What a call with these arguments runs, and why like this; nothing is computed. Print it."""
        call = call_of(self.who, args, kwargs)
        if call.traced:
            raise TraceError(
                f"{self.who}: explain is called while another function is traced; call it outside"
            )
        return explain.explained(self._of(call, args, kwargs), call.tensors[0].executor)

    def _of(self, call: Call, args: Any, kwargs: Any) -> Compiled:
        executor = call.tensors[0].executor
        signature = (executor, call.structure, *map(layout_of, call.tensors))
        fixed = self._asked.get(signature, ()) if call.numbers else ()
        key = _key(signature, call, fixed)
        found = self._compiled.get(key)
        if found is not None:
            with suppress(KeyError):  # another thread may have evicted it
                self._compiled.move_to_end(key)
        else:
            donated = self._donated(call, args)
            found = compile_traced(
                self.function, self.who, args, kwargs, call, donated, fixed, self.fast_math
            )
            # Other traces, also those of other threads, may have asked for others: all of them tell calls apart.
            asked = sorted(found.asked.union(self._asked.get(signature, ())))
            self._asked[signature] = asked
            self._compiled[_key(signature, call, asked)] = found
            if len(self._compiled) > MAX_SIGNATURES:
                self._compiled.popitem(last=False)
                self._met.clear()
            if len(self._asked) > MAX_SIGNATURES:
                self._asked.clear()
        return found

    def _donated(self, call: Call, args: Sequence[Any]) -> list[int]:
        """Numbers of the tensors in the arguments that are given away."""
        found: list[int] = []
        for argument in self.donate:
            if not 0 <= argument < len(args):
                raise TraceError(
                    f"{self.who}: donate names argument {argument}, got {len(args)} positional ones"
                )
            found += range(call.firsts[argument], call.firsts[argument + 1])
        return found

    def __repr__(self) -> str:
        return f"<jitted {self.who}>"


def _key(signature: Any, call: Call, asked: Sequence[int]) -> Any:
    """What tells calls apart: also which floats a trace asks for, and their values."""
    return (signature, *[(k, exactly(call.numbers[k])) for k in asked])


@frozen
class Bound:
    """A jitted function as the method of an instance."""

    jitted: Jitted
    instance: Any

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.jitted(self.instance, *args, **kwargs)

    def compiled(self, *args: Any, **kwargs: Any) -> Compiled:
        """See Jitted.compiled."""
        return self.jitted.compiled(self.instance, *args, **kwargs)

    def dispatches(self, *args: Any, **kwargs: Any) -> int:
        """See Jitted.dispatches."""
        return self.jitted.dispatches(self.instance, *args, **kwargs)

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """See Jitted.explain."""
        return self.jitted.explain(self.instance, *args, **kwargs)


@overload
def jit(
    function: Callable[P, R], *, donate: int | Sequence[int] = (), fast_math: bool = False
) -> Jitted[P, R]: ...
@overload
def jit(
    *, donate: int | Sequence[int] = (), fast_math: bool = False
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...
def jit(
    function: Callable[..., Any] | None = None, *, donate: int | Sequence[int] = (), fast_math: bool = False
) -> Any:
    """Compiles a function of Tensors: its operations run fused, in as few kernels as they fit into.

        @hg.jit
        def step(x, weight, bias):
            return hg.softmax(hg.gelu(x @ weight + bias), dim=-1)

    The function is called once for each signature of its arguments (structure, shapes, dtypes and strides of tensors,
    values of everything else) with tensors that record what is done to them. After that a call runs the recording, not
    the function: what depends on Python values is fixed per signature, and side effects happen once. Arguments and
    results may be any nesting of tuples, lists and dicts. Tensors that the function closes over count with what
    they hold when it is called.

    A method's instance is an argument like any other: tensors of a named tuple are found, those that another object
    holds are closed over, and which object holds which tensors is fixed when the method is traced. What changes between
    calls, such as weights under training, is better passed and returned.

    Args:
        function: what to compile; it must not write to its arguments.
        donate: numbers of positional arguments whose memory results may take. Their tensors are freed by the call.
        fast_math: allows results to differ in rounding and for NaN and infinities; see compiler/canonical/form.py.

    Raises:
        TraceError: the function asks for the elements of a tensor while it is traced (`if`, `float`, NumPy).
    """
    if function is None:
        return functools.partial(jit, donate=donate, fast_math=fast_math)
    return Jitted(function, donate, fast_math)
