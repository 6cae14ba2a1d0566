"""What an operation is: one record, from which functions, methods, tests, benchmarks and documents are derived."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from hologram.atlas.builder import Builder, Value
from hologram.atlas.program import Program
from hologram.foundation.dtypes import FLOATS, DType, Number
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.plan import Plan, Target
from hologram.opset.forms.accuracy import Loss
from hologram.opset.forms.applicable import answers, outranks
from hologram.opset.forms.default import Default, filled
from hologram.opset.forms.further import FURTHER, further
from hologram.opset.forms.pieces import Pieces
from hologram.opset.forms.places import Arguments, arranged, named, places, settles
from hologram.opset.forms.public import PublicSignature, PublicText

Input = Layout | Number  # what an operation sees of an operand: a tensor's layout or a Python number
Inputs = Sequence[Input | None]
ARRAYS = (np.ndarray, np.generic, list, tuple)  # of the host, that become tensors
NUMBERS = (bool, int, float, complex)  # Python's, that become tensors where there is none beside them
Layouts = Sequence[Layout]
Elements = Sequence[Value | Number | None]  # of operands, at one place
Attributes = Mapping[str, Any]


# What ATen calls attributes that it does not call the same. Reductions of losses it numbers: none, mean, sum.
ATEN_WORDS: Mapping[str, tuple[str, ...]] = {
    "axes": ("dims",), "axis": ("dim", "dims"), "causal": ("is_causal",), "k": ("diagonal",), "keepdims": ("keepdim",),
    "repetitions": ("repeats",), "shape": ("size",), "shift": ("shifts",), "value": ("fill_value",),
}  # fmt: skip


@frozen
class Sample:
    """Arguments of one call in a test: NumPy arrays or numbers, and attributes."""

    operands: tuple[Any, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


@frozen(eq=False, repr=False)
class Operation:
    """An operation and everything known about it.

    `function` is the declaration; `reference` computes the same in NumPy, from float64 where floats come in;
    `samples` makes test arguments of a dtype; `ulp` bounds the error of float results, in units in the last place of
    the result's dtype, on devices that lack nothing; `looser` are the reasons why it is larger on others.
    """

    name: str
    function: Callable[..., Any]
    reference: Callable[..., Any]
    samples: Callable[[np.random.Generator, DType], Iterable[Sample]]
    dtypes: tuple[DType, ...] = FLOATS
    widened: bool = True  # whether the reference is given floats as float64, or as they are
    ulp: float = 0.0
    looser: tuple[Loss, ...] = ()
    # Error allowed beside `ulp`: epsilons of the result's dtype times the largest operand times the number of elements
    # behind each result (at most 2048).
    absolute: float = 0.0
    beyond: float = 0.0  # likewise for each of the elements beyond 2048, of sums
    each: float = 0.0  # units in the last place for each element behind a result, of products
    # Of complex numbers: the bound in units in the last place of the larger part, of each part.
    parts_ulp: float = 8.0
    complex_results: bool = False  # of real operands
    # Operators of PyTorch's ATen that are this operation. Attributes go by name (ATEN_WORDS), or not at all if None;
    # operands are the operator's other arguments, in its order; what is left of these stays at its default (False or
    # None if it has none), and so do attributes that the operator has not.
    aten: tuple[str, ...] = ()
    aten_defaults: Mapping[str, Any] = field(default_factory=dict)  # of attributes, where ATen has others
    # See gradient.py.
    gradient: Mapping[str | tuple[str, ...], Callable[..., Any] | None] = field(default_factory=dict)
    # The same in terms of smaller operations, which a compiler then fuses as it sees fit; for operations that fuse some
    # themselves: `parts(operation, *operands, **attributes)`. It gives None where nothing is left to take apart.
    parts: Callable[..., Any] | None = None
    # Of which operands the result consists, if it does: `pieces(inputs, attributes)`; see pieces.py.
    pieces: Callable[..., Pieces | None] | None = None
    # What computes with NumPy's further arguments: `further(operation, operands, attributes, **given)`; see further.py.
    further: Callable[..., Any] | None = None
    out_names: tuple[str, ...] = ()  # names of the out-parameter form, where not the operation's own
    methods: bool = True  # whether Tensor has it as a method
    derivation: Any = (
        None  # of a derivative: what it is made of (gradient.Use), and is made of again elsewhere
    )

    __signature__ = PublicSignature()

    def __init_subclass__(cls) -> None:
        cls.__doc__ = PublicText(cls.__doc__)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        # As a function has them.
        vars(self).update(__module__="hologram", __name__=self.name, __qualname__=self.name)

    def ulp_on(self, limits: Limits) -> float:
        """The bound `ulp` on a device of these limits."""
        return self.ulp + sum(loss.ulp for loss in self.looser if not loss.spared(limits))

    @cached_property
    def signature(self) -> inspect.Signature:
        """The public signature: operands, then attributes."""
        return inspect.signature(self.function)

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """Names of the operands, in order."""
        return tuple(
            p.name
            for p in self.signature.parameters.values()
            if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        )

    def operand_names(self, count: int) -> tuple[str, ...]:
        """Names of `count` operands, where their number varies."""
        return self.operands

    @cached_property
    def optional(self) -> frozenset[str]:
        """Operands that may be None, because their declaration says `= None`."""
        return frozenset(n for n in self.operands if self.signature.parameters[n].default is None)

    @cached_property
    def attributes(self) -> dict[str, Any]:
        """Attributes with their defaults (`inspect.Parameter.empty` where they must be given)."""
        return {
            p.name: p.default
            for p in self.signature.parameters.values()
            if p.kind is inspect.Parameter.KEYWORD_ONLY
        }

    @cached_property
    def takes_complex(self) -> bool:
        """Whether complex numbers may be among its operands or results."""
        return self.complex_results or any(d.is_complex for d in self.dtypes)

    @property
    def composite(self) -> bool:
        """Whether it is a sequence of other operations, and so has no plan of its own."""
        return False

    @property
    def in_place(self) -> bool:
        """Whether an output may be an input: each element is read only to compute the one stored in its place."""
        return False

    @property
    def hands_numbers_on(self) -> bool:
        """Whether its plans only hand operands that are numbers on to kernels (plan.Given)."""
        return False

    @property
    def pointwise(self) -> bool:
        """Whether each element of the result depends on the operands at the same place alone; see `fused`."""
        return False

    def fused(
        self, builder: Builder, operands: Elements, inputs: Inputs, attributes: Attributes
    ) -> tuple[Value, ...]:
        """The operation at one place as part of a larger program: its results, in their dtypes.

        `operands` are the elements there, `inputs` what the operation sees of its operands. Only operations that are
        `pointwise`, and reductions, can be written like this.
        """
        raise NotImplementedError

    @property
    def placed(self) -> bool:
        """Whether an element is made of its coordinates and of operands read where it likes; see `made_at`."""
        return False

    def made_at(
        self,
        builder: Builder,
        at: Sequence[Value],
        operands: Sequence[Any],
        result: DType,
        attributes: Attributes,
    ) -> Value:
        """The element at coordinates as part of a larger program; operands are read by their `at`, as in a declaration.

        Only operations that are `placed` can be written like this.
        """
        raise NotImplementedError

    def taken(self, inputs: Inputs, attributes: Attributes) -> Mapping[str, DType]:
        """The dtypes that numbers are taken in, by the names of operands and attributes: those that `fused` writes."""
        return {}

    def updates(self, inputs: Inputs) -> int | None:
        """The operand that the result is a copy of, but for what is written into it then; None if there is none."""
        return None

    def update_plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        """The plan where the output is that operand already: what is written into it alone."""
        raise NotImplementedError

    def written_over(self, inputs: Inputs) -> tuple[int, ...] | None:
        """The shape of what is written where the output is that operand already, if `write_at` writes each element."""
        return None

    def write_at(
        self, builder: Builder, at: Sequence[Value], out: Any, operands: Sequence[Any], attributes: Attributes
    ) -> None:
        """Writes an element of `written_over` into `out`, as part of a larger program; operands as in `made_at`."""
        raise NotImplementedError

    def as_rows(
        self, inputs: Inputs, result: Layout, limits: Limits
    ) -> tuple[Operation, Inputs, Attributes] | None:
        """The same as a reduction, which fuses with what comes before and after; None where it is slower as one.

        The reduction has as many operands, laid out as given, and the same result.
        """
        return None

    def as_map(self) -> tuple[Operation, frozenset[int]] | None:
        """The same as an operation that is `pointwise`, and which operands that reads; None where there is none."""
        return None

    def matrix(self, inputs: Inputs, result: Layout) -> Layout | None:
        """The result as the matrix that an epilogue sees: its columns are the last axis, its rows the axes before.

        None where its kernels cannot pass each element through a program before they store it; see `finished`.
        """
        return None

    def finished(
        self, inputs: Inputs, out: Layout, attributes: Attributes, target: Target, epilogue: Program
    ) -> Plan:
        """The plan with an epilogue, over the inputs that are tensors, what the epilogue reads, and the output."""
        raise NotImplementedError

    @property
    def results(self) -> int:
        """How many outputs it has."""
        return 1

    def here(self, limits: Limits, operands: Sequence[Any] = ()) -> bool:
        """Whether a device of these limits computes it, on operands; elsewhere the host, where a user lets it."""
        return True

    @property
    def takes_numbers(self) -> bool:
        """Whether operands may be numbers; those of others become tensors without axes."""
        return True

    def infer(self, inputs: Inputs, attributes: Attributes) -> tuple[Layout, ...]:
        """Layouts of new outputs; raises ShapeError or UnsupportedDType for inputs that do not fit."""
        raise NotImplementedError

    def plan(self, inputs: Inputs, outputs: Layouts, attributes: Attributes, target: Target) -> Plan:
        """What to run. Depends on nothing but its arguments, so it is computed once per signature."""
        raise NotImplementedError

    def check_outputs(self, expected: Sequence[Layout], outputs: Layouts) -> None:
        """Refuses given outputs whose dtype or shape is not the operation's."""
        for wanted, given in zip(expected, outputs, strict=True):
            if wanted.dtype != given.dtype:
                raise UnsupportedDType(f"{self.name}: the output must be {wanted.dtype}, got {given.dtype}")
            if wanted.shape != given.shape:
                raise ShapeError(f"{self.name}: the output must have shape {wanted.shape}, got {given.shape}")

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
        """Arguments sorted into operands and attributes; attributes may be given by place, after the operands."""
        if not kwargs and len(args) == len(self.operands) and not self._required:
            return args, self.attributes
        if len(args) == len(self.operands) and self._required <= kwargs.keys():
            attributes = {**self.attributes, **kwargs}
            if len(attributes) == len(self.attributes) and all(map(settles, kwargs.values())):
                return args, attributes
        if len(args) > self.by_place:
            args, kwargs = self.by_name(args, kwargs)
        return arranged(self, args, kwargs)

    def by_name(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
        """The operands by place, and all else by name."""
        return named(self, args, kwargs) if len(args) > len(self.operands) else (args, dict(kwargs))

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """Of arguments that may be left out."""
        names, empty = (*self.operands, *self.attributes), inspect.Parameter.empty
        given = ((n, self.signature.parameters[n].default) for n in names)
        return {n: default for n, default in given if default is not empty}

    @cached_property
    def by_place(self) -> int:
        """How many arguments by place are operands, whatever they are."""
        return len(self.operands)

    @cached_property
    def argument_order(self) -> tuple[str, ...]:
        """What arguments given by place are: as in NumPy, where NumPy has a function of the name."""
        return places(self.name, self.operands, tuple(self.attributes))

    @cached_property
    def _required(self) -> frozenset[str]:
        """Attributes that must be given."""
        return frozenset(n for n, d in self.attributes.items() if d is inspect.Parameter.empty)

    @cached_property
    def _own(self) -> frozenset[str]:
        """The names of its arguments."""
        return frozenset((*self.operands, *self.attributes))

    @cached_property
    def common(self) -> tuple[int, dict[str, Any]]:
        """How many arguments are operands and all that it needs, and the attributes then; -1 where `bind` must look."""
        looks = self._required or not self.operands or type(self).bind is not Operation.bind
        looks = looks or self.by_place < len(self.operands)
        return (-1 if looks else len(self.operands), self.attributes)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Computes on tensors (see the declaration for the arguments); on Values it writes itself into a program.

        Arrays and numbers without a tensor beside them become tensors of the default executor. An operation without
        operands (random numbers) takes an executor first, `hg.random_uniform(ex, (3,))`, or a `device`, or runs on the
        default.
        """
        count, attributes = self.common
        operands = args
        if kwargs or len(args) != count:
            if len(args) > self.by_place and self.operands:
                args, kwargs = self.by_name(args, kwargs)
            if not FURTHER.isdisjoint(kwargs) and not FURTHER.isdisjoint(kwargs.keys() - self._own):
                return further(self, args, kwargs)
            if not self.operands:
                device = kwargs.pop("device", None)
                if args and hasattr(args[0], "apply"):
                    device, args = args[0], args[1:]
                return Default.executor(device).apply(self, *self.bind(args, kwargs))
            operands, attributes = self.bind(args, kwargs)
        chosen: Any = None
        highest: Any = None
        for operand in operands:
            # As with Python's operators, the most derived class answers: a traced tensor before the others.
            kind = type(operand)
            if kind is not highest and answers(kind) and (highest is None or outranks(kind, highest)):
                chosen, highest = operand, kind
        if chosen is not None:
            return chosen.__apply__(self, operands, attributes)
        if any(isinstance(operand, Value) for operand in operands):
            return self.function(*operands, **attributes)
        if any(isinstance(o, ARRAYS) for o in operands):
            executor = Default.executor(None)
            made = [executor.tensor(o) if isinstance(o, ARRAYS) else o for o in operands]
            return executor.apply(self, made, attributes)
        first = next((k for k, o in enumerate(operands) if isinstance(o, NUMBERS)), None)
        if first is not None:  # the others have its dtype, as numbers beside a tensor have
            executor = Default.executor(None)
            made = [filled(executor, o) if k == first else o for k, o in enumerate(operands)]
            return executor.apply(self, made, attributes)
        kinds = ", ".join(type(o).__name__ for o in operands) or "nothing"
        raise TypeError(f"{self.name}: at least one operand must be a Tensor, got {kinds}")

    def __repr__(self) -> str:
        return f"<operation {self.name}>"

    def __reduce__(self) -> Any:
        """To pickles and copies it is the declared one, which a function of hologram's may hide by its name."""
        return (declared_as, (self.name,)) if OPERATIONS.get(self.name) is self else self.name


OPERATIONS: dict[str, Operation] = {}


def declared_as(name: str) -> Operation:
    """The operation of a name, for pickles: in a process that has not loaded the declarations, too."""
    return import_module("hologram.opset").OPERATIONS[name]


_owners: dict[str, Operation] = {}  # by each of an operation's names


def register(operation: Operation) -> Operation:
    """Adds an operation to the set; its names must be new."""
    for name in (operation.name, *operation.out_names):
        owner = _owners.setdefault(name, operation)
        if owner is not operation:
            raise ValueError(f"{operation.name} has a name of the operation {owner.name}")
    OPERATIONS[operation.name] = operation
    return operation


def declared(form: type[Operation], /, **facts: Any) -> Callable[[Callable[..., Any]], Operation]:
    """Declares an operation of that form, with its function's name, and what is known about it."""
    return lambda function: register(form(name=function.__name__.rstrip("_"), function=function, **facts))
