"""hg.jit: calls of a function of Tensors become replays of what it did the first time."""

from __future__ import annotations

import functools
import sys
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from hologram.foundation import lazy
from hologram.foundation.errors import TraceError
from hologram.foundation.frozen import frozen
from hologram.frontend.jit.compiled import Compiled, compile_traced
from hologram.frontend.jit.number import Unfit
from hologram.frontend.jit.retraces import Retraces
from hologram.frontend.jit.signature import Call, call_of, layout_of, tensors_of
from hologram.frontend.tensor import Tensor
from hologram.runtime.dispatch import Dispatch
from hologram.runtime.launches.validation import cache_key

if TYPE_CHECKING:
    from hologram.frontend.jit import differentiated, explain
    from hologram.frontend.jit.explain import Explanation
else:  # needed by who asks, not by who calls
    differentiated = lazy.module("hologram.frontend.jit.differentiated")
    explain = lazy.module("hologram.frontend.jit.explain")

tracers = Dispatch.tracers
PLAIN = {Tensor}
MAX_SIGNATURES = 256  # that one function is kept compiled for; then the one not called for longest goes
IN_ORDER = MAX_SIGNATURES // 2  # from how many on it is noted which was called last
MAX_PULLBACKS = 16  # by which arguments are differentiated
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
        # By signature what a call runs (Compiled); or, where values of numbers have a say, of which (Asked): what runs
        # is then found by signature and values.
        self._compiled: OrderedDict[Any, Any] = OrderedDict()
        self._pullbacks: OrderedDict[tuple[bool, ...], Jitted] = OrderedDict()
        self._retraces = Retraces(self.who)

    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    else:

        def __call__(self, *args, **kwargs):
            if not kwargs and not tracers and set(map(type, args)) == PLAIN:
                key = (args[0].buffer.executor, *map(layout_of, args))  # the signature of plain tensors
                met = self._compiled.get(key)
                if met is not None:
                    if len(self._compiled) > IN_ORDER:
                        self._touch(key)
                    return met(args)
            return self._sorted_out(args, kwargs)

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
        call = call_of(self.who, args, kwargs)
        if call.traced:
            return self._traced(args, kwargs)
        try:
            return self._of(call, args, kwargs)(call.tensors, call.numbers)
        except Unfit as unfit:
            return self._of(call, args, kwargs, unfit.numbers)(call.tensors, call.numbers)

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
        pullback = self._pullbacks.get(followed)
        if pullback is None:
            back = differentiated.pullback(self.function, followed)
            pullback = self._pullbacks[followed] = Jitted(back, fast_math=self.fast_math)
            _drop_oldest(self._pullbacks, MAX_PULLBACKS)
        return pullback

    def compiled(self, *args: Any, **kwargs: Any) -> Compiled:
        """What a call with these arguments runs, compiled if it was not yet; nothing is computed."""
        return self._compiled_for(call_of(self.who, args, kwargs), args, kwargs)

    def _compiled_for(self, call: Call, args: Any, kwargs: Any) -> Compiled:
        try:
            return self._of(call, args, kwargs)
        except Unfit as unfit:
            return self._of(call, args, kwargs, unfit.numbers)

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
        compiled = self._compiled_for(call, args, kwargs)
        return explain.explained(compiled, call.executor, self.fast_math)

    def _of(self, call: Call, args: Any, kwargs: Any, unfit: Collection[int] = frozenset()) -> Compiled:
        """What a call runs; the values of numbers that are `unfit` to be data have a say, at this call alone."""
        key = call.signature
        compiled = self._compiled.get(key)
        if type(compiled) is Asked or unfit:
            if compiled is not None:
                self._touch(key)
            fixed = {*(compiled.numbers if type(compiled) is Asked else ()), *unfit}
            key = _valued(key, call, fixed)
            compiled = self._compiled.get(key)
        else:
            fixed = unfit
        if compiled is None:
            return self._trace(call, args, kwargs, fixed, unfit)
        if len(self._compiled) > IN_ORDER:
            self._touch(key)
        return compiled

    def _trace(
        self, call: Call, args: Any, kwargs: Any, fixed: Collection[int], unfit: Collection[int]
    ) -> Compiled:
        """What a new call runs, kept by the values of those numbers that this trace or an earlier one asked for."""
        donated = self._donated(args)
        compiled = compile_traced(self.function, self.who, args, kwargs, call, donated, fixed, self.fast_math)
        kept = self._compiled
        before = kept.get(call.signature)  # which another thread may have made
        asked = {**compiled.asked, **(before.numbers if type(before) is Asked else {})}
        lasting = {k: where for k, where in asked.items() if k not in unfit}
        if lasting:
            kept[call.signature] = Asked(lasting)
        kept[_valued(call.signature, call, asked)] = compiled
        _drop_oldest(kept, MAX_SIGNATURES)
        self._retraces.note(self.function, args, kwargs, call, asked)
        return compiled

    def _touch(self, key: Any) -> None:
        with suppress(KeyError):  # another thread may have dropped it
            self._compiled.move_to_end(key)

    def _donated(self, args: Sequence[Any]) -> list[int]:
        """Numbers of the tensors in the arguments that are given away."""
        numbers: list[int] = []
        for argument in self.donate:
            if not 0 <= argument < len(args):
                raise TraceError(
                    f"{self.who}: donate names argument {argument}, got {len(args)} positional ones"
                )
            numbers += tensors_of(args, argument)
        return numbers

    def __repr__(self) -> str:
        return f"<jitted {self.who}>"


@frozen
class Asked:
    """Instead of what a signature runs: the numbers whose values tell its calls apart too, and who asked for them."""

    numbers: Mapping[int, str]


def _valued(signature: tuple[Any, ...], call: Call, fixed: Collection[int]) -> tuple[Any, ...]:
    """A signature together with the values of numbers that are fixed, where there are any."""
    if not fixed:
        return signature
    return (signature, *[(k, cache_key(call.numbers[k])) for k in sorted(fixed)])


def _drop_oldest(kept: OrderedDict[Any, Any], most: int) -> None:
    while len(kept) > most:
        with suppress(KeyError):  # another thread dropped the last
            kept.popitem(last=False)


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
    results may be any nesting of tuples, lists and dicts. Tensors and NumPy arrays that the function closes over
    count with what they hold when it is called.

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
