"""Derivatives of operations: how the cotangent of a result becomes those of the operands.

An operation's `gradient` states rules by operand, `{"a": lambda cotangent, b: cotangent @ b.mT}`; the names of a rule's
parameters say what it reads and so what is kept for it: `cotangent` (of the first result), `cotangents` (of each that
holds floats), `result`, `results`, operands, attributes, and `inputs`, the layouts of the operands. A rule for several
operands at once stands under the tuple of their names and gives a tuple, with None for those that are not `wanted`, the
names asked for; None in the place of a rule says that an operand's derivative is 0 everywhere.

Where an operation that is declared by an expression states none, the rule follows from the expression by reverse mode
(hologram.atlas.derivatives.adjoint). Rules that such operations state are expressions too, so that each derivative is
one kernel, and derivatives of any order follow; but one that reads `inputs` is of tensors, like the rules of all other
operations.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from hologram.atlas.builder import Builder, Value
from hologram.atlas.derivatives.adjoint import adjoint
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Instruction
from hologram.atlas.ssa import sources
from hologram.foundation.errors import GradientError, ProgramError
from hologram.foundation.frozen import frozen
from hologram.machine.axes import broadcast
from hologram.machine.layout import Layout
from hologram.opset.forms import types
from hologram.opset.forms.expression import Expression, Static
from hologram.opset.forms.operation import Attributes, Inputs, Layouts, Operation
from hologram.opset.forms.row import Arrangement, Row, column, length


@frozen
class Rule:
    """The cotangents of some operands: `function`, of what it `reads` by name."""

    operands: tuple[str, ...]
    reads: tuple[str, ...]
    function: Callable[..., Any]

    def apply(self, known: Mapping[str, Any]) -> tuple[Any, ...]:
        """One cotangent for each operand; None where it is 0."""
        cotangents = self.function(**{name: known[name] for name in self.reads})
        return tuple(cotangents) if isinstance(cotangents, (tuple, list)) else (cotangents,)


def rules_of(
    operation: Operation, inputs: Inputs, results: Layouts, attributes: Attributes, wanted: Sequence[str]
) -> list[Rule]:
    """The rules for the wanted operands, each once; operands whose derivative is 0 everywhere have none.

    Raises:
        GradientError: the operation has no derivative.
    """
    if not any(r.dtype.is_inexact for r in results):
        return []
    if isinstance(operation, Expression):
        rules = (_derived(operation, inputs, attributes, name) for name in wanted)
        return [rule for rule in rules if rule is not None]
    return _stated(operation, operation.operand_names(len(inputs)), wanted)


def rule_of(operation: Operation, inputs: Inputs, result: Layout, wanted: str, **attributes: Any) -> Rule:
    """The rule of one operand of an operation, for the rules of those that are made of it."""
    (rule,) = rules_of(operation, inputs, (result,), {**operation.attributes, **attributes}, (wanted,))
    return rule


def _stated(operation: Operation, names: Sequence[str], wanted: Sequence[str]) -> list[Rule]:
    rules: dict[Any, Rule] = {}
    for name in wanted:
        # Operands in any number are known by the name of their sequence.
        declared = operation.operands[0] if names != operation.operands else name
        keys = [k for k in operation.gradient if k == declared or (isinstance(k, tuple) and declared in k)]
        if not keys:
            raise GradientError(
                f"{operation.name} has no derivative with respect to {name}: use hg.stop_gradient({name}) where none "
                "is wanted, or hg.custom_gradient to state one"
            )
        (key,) = keys
        function = operation.gradient[key]
        if function is not None:
            operands = key if isinstance(key, tuple) else (key,) if key in names else tuple(names)
            rules[key] = Rule(operands, tuple(inspect.signature(function).parameters), function)
    return list(rules.values())


# Rules of expressions.


def _derived(operation: Expression, inputs: Inputs, attributes: Attributes, wanted: str) -> Rule | None:
    """The rule of one operand of an operation that is declared by an expression."""
    stated = operation.gradient.get(wanted)
    if stated is not None and "inputs" in inspect.signature(stated).parameters:
        return _of_tensors(operation, inputs, attributes, wanted, stated)
    present = tuple(n for n, i in zip(operation.operands, inputs, strict=True) if i is not None)
    computing = operation.computing_types([i for i in inputs if i is not None], attributes)
    static, runtime = operation.split_attributes(operation.described(attributes))
    try:
        partial = partial_of(Use(operation, wanted, present, computing, static, tuple(runtime)))
    except ProgramError as error:
        raise GradientError(
            f"{operation.name} has no derivative with respect to {wanted}, as {error} and its declaration states none: "
            f"use hg.stop_gradient({wanted}) where none is wanted, or hg.custom_gradient to state one"
        ) from error
    if partial is None:
        return None

    shape = (
        broadcast([i.shape for i in inputs if isinstance(i, Layout)], operation.name)
        if _narrows(operation)
        else None
    )

    def apply(**known: Any) -> Any:
        if shape is not None:
            known["cotangent"] = _beside(operation, len(shape), attributes, known["cotangent"]).expand(shape)
            if "result" in known:
                known["result"] = _beside(operation, len(shape), attributes, known["result"])
        cotangent = known["cotangent"]
        if partial.operation is not None:
            cotangent = partial.operation(*known.values(), **attributes)
        return _collected(operation, inputs, attributes, present.index(wanted), cotangent)

    return Rule((wanted,), partial.reads, apply)


def _collected(
    operation: Expression, inputs: Inputs, attributes: Attributes, number: int, elements: Any
) -> Any:
    """Summed over the elements that an operand was broadcast to, where the operation says how operands lie in rows."""
    if not isinstance(operation, Row) or operation.arrange is None:
        return elements  # as NumPy broadcasts
    present = [i for i in inputs if i is not None]
    operand = present[number]
    if not isinstance(operand, Layout) or operand.shape == elements.shape:
        return elements
    lying = operation.arrange(present, (Layout.contiguous(elements.dtype, elements.shape),), attributes)
    along = lying.inputs[number]
    assert isinstance(along, Layout)
    axes = tuple(
        k for k, (n, s) in enumerate(zip(along.shape, along.strides, strict=True)) if n > 1 and not s
    )
    return elements.contiguous()._view(lying.outputs[0]).sum(axis=axes).reshape(operand.shape)


def _of_tensors(
    operation: Expression, inputs: Inputs, attributes: Attributes, wanted: str, function: Callable[..., Any]
) -> Rule:
    """A rule that is stated on tensors: cotangent and result broadcast with the operands."""
    ndim = max(i.ndim for i in inputs if isinstance(i, Layout))

    def apply(**known: Any) -> Any:
        if _narrows(operation):
            for name in {"cotangent", "result"} & known.keys():
                known[name] = _beside(operation, ndim, attributes, known[name])
        return function(**known)

    return Rule((wanted,), tuple(inspect.signature(function).parameters), apply)


def _narrows(operation: Expression) -> bool:
    return isinstance(operation, Row) and not operation.keeps_shape


def _beside(operation: Any, ndim: int, attributes: Attributes, x: Any) -> Any:
    """A tensor of a narrower result's shape, with the axes that it lost."""
    for axis in () if attributes.get("keepdims") else operation.axes(ndim, attributes):
        x = x.unsqueeze(axis)
    return x


@frozen
class Partial:
    """The operation that takes what it reads to an operand's cotangent; None where that is the cotangent itself."""

    operation: Expression | None = None
    reads: tuple[str, ...] = ("cotangent",)


@frozen
class Use:
    """All that the derivative of an expression with respect to one operand depends on."""

    operation: Expression
    wanted: str
    present: tuple[str, ...]  # operands that are given
    computing: types.Types
    static: Static
    runtime: tuple[str, ...]  # attributes that are passed at launch


@lru_cache(maxsize=4096)
def partial_of(use: Use) -> Partial | None:
    """How an operand's cotangent follows from the result's; None where the derivative is 0."""
    fragment = _fragment(use)
    if fragment is None:
        return None
    if not fragment.instructions:
        return Partial()
    operation, present, computing, runtime = use.operation, use.present, use.computing, use.runtime
    computed, result = computing
    kinds = {"cotangent": result.computed, "result": result.computed}
    kinds |= zip(present, computed, strict=True)
    own = kinds[use.wanted]
    given = own if own.is_complex != result.is_complex else result
    arranged = isinstance(operation, Row) and operation.arrange is not None
    # How rows lie follows from all the operands.
    reads = tuple(n for n in kinds if n in fragment.reads or n == "cotangent" or (arranged and n in present))
    facts: dict[str, Any] = {}
    if isinstance(operation, Row):
        facts = {"keeps_shape": True, "arrange": _arranging(operation, reads) if arranged else None}
    derivative = replace(
        operation,
        name=f"{operation.name}_gradient_{use.wanted}",
        function=_function(operation, fragment, reads),
        samples=lambda rng, dtype: (),
        types=lambda who, operands: (tuple(kinds[n] for n in reads), given),
        scalars={n: operation.runtime_scalars()[n] or operation.attribute_dtype(computing) for n in runtime},
        gradient={},
        parts=None,
        aten=(),
        out_names=(),
        derivation=use,
        **facts,
    )
    return Partial(derivative, reads)


@frozen
class Fragment:
    """Instructions that compute one value from scalars, which stand for operands and attributes by name."""

    instructions: tuple[Instruction, ...]
    result: int

    @property
    def reads(self) -> frozenset[str]:
        """Names of the operands and attributes."""
        return frozenset(str(i.attribute) for i in self.instructions if i.opcode is Opcode.SCALAR)

    def write(self, values: Mapping[str, Value]) -> Value:
        """The value, written into the program that these values belong to."""
        known: dict[int, Value] = {}
        anyone = next(iter(values.values()))
        for i in self.instructions:
            if i.opcode is Opcode.SCALAR:
                known[i.result] = values[str(i.attribute)]
            elif i.opcode is Opcode.COORDINATE:
                known[i.result] = column(anyone)
            elif i.opcode is Opcode.EXTENT:
                known[i.result] = length(anyone)
            else:
                operands = [known[n] for n in i.operands]
                known[i.result] = anyone.builder.emit(i.opcode, i.type, *operands, attribute=i.attribute)
        return known[self.result]


def _fragment(use: Use) -> Fragment | None:
    """An operand's cotangent as instructions, by the stated rule or by reverse mode; none where it is the result's."""
    operation, wanted, computing = use.operation, use.wanted, use.computing
    computed, result = computing
    along = int(isinstance(operation, Row))
    builder = Builder(f"{operation.name}_gradient_{wanted}", rank=along, reduced=along)
    operands: dict[str, Any] = dict.fromkeys(operation.operands)
    operands |= {n: builder.scalar(n, d) for n, d in zip(use.present, computed, strict=True)}
    attributes = operation.scalar_values(
        builder, use.static, operation.attribute_dtype(computing), use.runtime
    )
    cotangent, known = (builder.scalar(n, result.computed) for n in ("cotangent", "result"))
    if wanted in operation.gradient:
        rule = operation.gradient[wanted]
        given = {"cotangent": cotangent, "result": known, **operands, **attributes}
        gradient = rule and rule(**{n: given[n] for n in inspect.signature(rule).parameters})
        _without_loops(builder)
    else:
        value = operation.function(*operands.values(), **attributes)
        _without_loops(builder)
        if not isinstance(value, Value) or value.dtype != cotangent.dtype:
            return None  # a constant, or no float
        shaped = not isinstance(operation, Row) or operation.keeps_shape
        elements = [x for x in operands.values() if x is not None]
        gradient = adjoint(value, cotangent, operands[wanted], known=known, elements=elements, along=shaped)
    if gradient is None:
        return None
    passed = gradient.id == cotangent.id
    return Fragment(() if passed else sources(tuple(builder.written), (gradient.id,)), gradient.id)


def _without_loops(builder: Builder) -> None:
    if any(i.blocks for i in builder.written):
        raise ProgramError("it has loops or branches, which reverse mode does not follow")


def _function(operation: Expression, fragment: Fragment, reads: Sequence[str]) -> Callable[..., Any]:
    """A declaration that writes a fragment, with the signature that its operands and attributes are known by."""

    def gradient(*operands: Value, **attributes: Any) -> Value:
        return fragment.write(dict(zip(reads, operands, strict=True)) | attributes)

    before = operation.signature.parameters
    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    # Those of a derivative's derivative are others: operands must not be called as what rules read.
    own = (n.rpartition("_") for n in operation.operands)
    order = 1 + max((int(k) for name, _, k in own if name in ("cotangent", "result")), default=-1)
    names = [
        inspect.Parameter(f"{n}_{order}" if n in ("cotangent", "result") else n, positional) for n in reads
    ]
    settings = [before[n] for n in operation.attributes]
    gradient.__signature__ = inspect.Signature([*names, *settings])  # type: ignore[attr-defined]
    gradient.__doc__ = f"The cotangent of an operand of {operation.name}."
    return gradient


def _arranging(operation: Row, reads: Sequence[str]) -> Callable[..., Arrangement]:
    """How rows lie for the derivative of an operation that says so itself: its cotangent and result like results."""
    shaped = sum(n in ("cotangent", "result") for n in reads)

    def arrange(inputs: Any, outputs: Any, attributes: Any) -> Arrangement:
        assert operation.arrange is not None
        arrangement = operation.arrange(inputs[shaped:], (*outputs, *inputs[:shaped]), attributes)
        own = arrangement.outputs[: len(outputs)]
        return Arrangement(
            (*arrangement.outputs[len(outputs) :], *arrangement.inputs), own, arrangement.reduced
        )

    return arrange
