"""Kernels: what runs when PyTorch calls an operator on tensors of the device.

A kernel is a function of hologram's tensors. What its results are like (dtype, shape, strides), and which arguments are
refused, PyTorch's own kernels for the device "meta" say, once for each signature: layouts of tensors, types of numbers,
values of all else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from hologram.foundation.bounded_caches import FIFOCache
from hologram.foundation.dtypes import DType
from hologram.foundation.errors import HologramError, UnsupportedDType
from hologram.foundation.frozen import frozen
from hologram.frontend.tensor import Tensor
from hologram.machine.layout import Layout
from hologram_torch.kernels import refusals, strides
from hologram_torch.kernels.errors import refusal
from hologram_torch.kernels.numbers import converted, is_within
from hologram_torch.kernels.operators import is_output, name_of
from hologram_torch.kernels.placement import move_to_device_of, on_device, under_a_mask
from hologram_torch.kernels.promotion import Promotion, promoted
from hologram_torch.kernels.results import own, placed, traced_result
from hologram_torch.kernels.taken import Taken
from hologram_torch.tensors.dtypes import DTYPES, INTEGERS, NARROW, dtype_of, torch_dtype
from hologram_torch.tensors.formats import is_channels_last
from hologram_torch.tensors.memory import is_ours, torch_tensor

MAX_SIGNATURES = 4096  # of one operator
# Of dtypes, in PyTorch's messages; the others' are NumPy's.
_SPOKEN = {
    "f32": "Float", "f16": "Half", "bf16": "BFloat16", "f64": "Double", "i8": "Char", "i16": "Short", "i32": "Int",
    "i64": "Long", "u8": "Byte", "u16": "UInt16", "u32": "UInt32", "u64": "UInt64", "c64": "ComplexFloat",
    "c128": "ComplexDouble",
}  # fmt: skip
NAMES = {theirs: _SPOKEN.get(d.name) or d.numpy_name.capitalize() for theirs, d in DTYPES.items()}


@frozen
class Expected:
    """What a signature's results are like, and the dtype that each operand is converted to before."""

    results: tuple[Layout | None, ...]
    casts: tuple[DType | None, ...]
    wraps: DType | None = None  # the dtype of integers that numbers among them wrap round in
    dtype: DType | None = None  # the one of what is computed, or of the first result


NOTHING = Expected((), ())
_SIZES = re.compile(r"SymInt(?:\[\d*\])?\??(?:\[\d*\])?\??\s+(\w+)")  # in a schema as PyTorch writes it
_NO_COUNTS = ("dim", "dims", "dtype", "layout", "memory_format")  # though they are numbers to PyTorch


def counts(overload: OpOverload) -> bool:
    """Whether an operator is given integers that count something: places, or elements."""
    arguments = [a for a in overload._schema.arguments if a.name not in _NO_COUNTS]
    return any(re.search(r"\b(int|SymInt)\b", str(a.type)) for a in arguments)


@frozen
class Promotes:
    """How operands of different dtypes are brought to one: PyTorch's kind of it, for operands from a position on."""

    kind: Promotion
    first: int = 0
    wraps: bool = True  # whether numbers wrap round where the dtype is of integers


class Kernel:
    """An operator that computes new results."""

    def __init__(
        self,
        overload: OpOverload,
        compute: Callable[..., Any],
        promotes: Promotes | None = None,
        inferred: bool = True,
        base: OpOverload | None = None,
        refuses: Callable[..., str | None] | None = None,
        asked: OpOverload | None = None,
        wider: frozenset[torch.dtype] = frozenset(),
        by_class: bool = False,
        like: Callable[..., Any] | None = None,
    ) -> None:
        self.overload = overload
        self.asked = asked or overload  # what the CPU is asked about; see refusals.py
        self.wider = wider  # dtypes that it refuses and other devices of PyTorch's take
        self.base = base or overload  # the form with new results, which refuses what other forms may not
        self.like = (
            like or self.base
        )  # what says of tensors without elements how new results lie; see strides.py
        self.name = name_of(overload)
        self.compute = compute
        self.refuses = refuses  # what PyTorch refuses besides, in words
        self.promotes = promotes
        self.inferred = inferred  # whether PyTorch knows the results without the elements
        arguments = overload._schema.arguments
        # Whether which sizes are 0, 1 or equal is all that shapes of results, and refusals, follow from.
        self.by_class = by_class or (promotes is not None and not counts(overload))
        self.sizes = frozenset(_SIZES.findall(str(overload._schema)))  # arguments that are some
        self.names = tuple(a.name for a in arguments)
        self._numbers = frozenset(k for k, a in enumerate(arguments) if "number" in str(a.type))
        # Those that promotion is about; an axis or a diagonal is not.
        self._promoted = frozenset(
            k for k, a in enumerate(arguments) if "number" in str(a.type) or "Tensor" in str(a.type)
        )
        self._named_numbers = frozenset(a.name for a in arguments if "number" in str(a.type))
        # A list of positions, by axis, which may lie on the host.
        self._positions = next(
            (k for k, a in enumerate(arguments) if str(a.type) == "List[Optional[Tensor]]"), None
        )
        self._outputs = tuple(a.name for a in arguments if is_output(a))
        self._known: FIFOCache[Any, Expected] = FIFOCache(MAX_SIGNATURES)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.run(args, kwargs)[0]

    def run(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, Expected]:
        """A call's results, and what was expected of it."""
        args, operands, named, taken = self._taken(args, kwargs, Taken(self.name))
        expected = self.expected(taken, args, kwargs)
        results = self._computed(expected, args, kwargs, operands, named)
        return self.deliver(results, expected, taken, [kwargs[name] for name in self._outputs]), expected

    def promised(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Expected:
        """What is expected of a call, which is not computed; raises what PyTorch raises."""
        args, _, _, taken = self._taken(args, kwargs, Taken(self.name))
        expected = self.expected(taken, args, kwargs)
        self._refuse_numbers(expected.dtype, args, kwargs)
        return expected

    def traced(
        self, args: Sequence[Any], kwargs: dict[str, Any], known: Mapping[int, Tensor], expected: Expected
    ) -> Any:
        """A call's results, of hologram's tensors in the place of those with an `id`; see templates.py."""
        args, operands, named, taken = self._taken(args, kwargs, Taken(self.name, known))
        results = self._computed(expected, args, kwargs, operands, named)
        return self.deliver(results, expected, taken, [kwargs[name] for name in self._outputs])

    def _taken(
        self, args: Sequence[Any], kwargs: dict[str, Any], taken: Taken
    ) -> tuple[Sequence[Any], list[Any], dict[str, Any], Taken]:
        """The arguments as they are computed with, and taken apart: by position and by name."""
        if self._positions is not None and is_ours(args[0]):
            args = under_a_mask(args) if len(args) > self._positions + 1 else args
            args = [move_to_device_of(args[0], x, k == self._positions) for k, x in enumerate(args)]
        if self.promotes is None:
            args = on_device(args)
        operands = [taken.of(a, k in self._numbers) for k, a in enumerate(args)]
        named: dict[str, Any] = {}
        if kwargs:
            taken.key.append(tuple(kwargs))
            for name, a in kwargs.items():
                if name in self._outputs:
                    taken.written(a)
                else:
                    named[name] = taken.of(a, name in self._named_numbers)
        return args, operands, named, taken

    def _computed(
        self,
        expected: Expected,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        operands: list[Any],
        named: dict[str, Any],
    ) -> Any:
        """What the kernel's function makes of its operands."""
        for position, cast in enumerate(expected.casts):
            if cast is not None and isinstance(operands[position], Tensor):
                operands[position] = operands[position].astype(cast, copy=False)
        self._refuse_numbers(expected.dtype, args, kwargs)
        if expected.wraps is not None:
            operands = [
                converted(x, expected.wraps) if type(x) is int and k in self._promoted else x
                for k, x in enumerate(operands)
            ]
        try:
            return self.compute(*operands, **named)
        except UnsupportedDType as error:
            self._ask(refusals.of_arguments(self.asked, args, kwargs))
            raise self.refusal(error) from error
        except HologramError as error:
            raise self.refusal(error) from error

    def _refuse_numbers(self, dtype: DType | None, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Raises where PyTorch finds that a dtype does not hold a number; operands of arithmetic may wrap round."""
        if dtype is None or not (self._numbers or self._named_numbers):
            return
        numbers = [x for k, x in enumerate(args) if k in self._numbers]
        numbers += [x for name, x in kwargs.items() if name in self._named_numbers]
        if all(is_within(x, dtype) for x in numbers if isinstance(x, (int, float))):
            return
        self._ask(refusals.of_numbers(self.asked, args, kwargs, self._named_numbers))

    def expected(self, taken: Taken, args: Sequence[Any], kwargs: dict[str, Any]) -> Expected:
        """What PyTorch says of a call; raises what it raises."""
        key = tuple(taken.key)
        expected = self._known.get(key)
        if expected is None:
            expected = self._learned(args, kwargs) if self.inferred else NOTHING
            if not self.wider or args[0].dtype not in self.wider:
                self._ask(refusals.of_signature(self.asked, args, kwargs, mixed=self.by_class))
            if self._outputs and self._plain(args, kwargs) != [kwargs[name].dtype for name in self._outputs]:
                self._ask(refusals.of_outputs(self.overload, self.base, args, kwargs, self._outputs))
            self._known.keep(key, expected)
        return expected

    def _learned(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Expected:
        given = {n: _meta(a) for n, a in kwargs.items()}
        reason = None if self.refuses is None else self.refuses(*args)
        if reason is not None:
            raise self.refusal(RuntimeError(reason))
        made = None
        try:
            if self.base is not self.overload:
                made = self.like(
                    *map(_meta, refusals.with_tensors(self.overload, args)),
                    **{n: a for n, a in given.items() if n not in self._outputs},
                )
            call = self.like if self.base is self.overload else self.overload
            try:
                results = call(*map(_meta, args), **given)
            except RuntimeError:  # of some operators' forms with tensors, which take no numbers
                results = call(*map(_meta, refusals.with_tensors(self.overload, args)), **given)
        except refusals.REFUSALS as error:
            # Those of the CPU, which may take what "meta" does not.
            results = refusals.results(self.asked, args, kwargs)
            if results is None or isinstance(results, Exception):
                raise self.refusal(results or error) from None
        results = results if isinstance(results, (tuple, list)) else (results,)
        if self._outputs and made is not None and self.name not in strides.COPIED:
            results = _outputs_as(made if isinstance(made, (tuple, list)) else (made,), results)
        casts, dtype = self._casts(args, kwargs)
        wraps = self.promotes is not None and self.promotes.wraps and dtype is not None and dtype.is_integer
        layouts = tuple(map(_layout, results))
        first = layouts[0].dtype if layouts and layouts[0] is not None else None
        return Expected(layouts, casts, dtype if wraps else None, dtype or first)

    def _plain(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[torch.dtype] | None:
        """The dtypes of results that are written to no outputs, where PyTorch knows them without the elements."""
        if not self.inferred:
            return None
        rest = {n: _meta(a) for n, a in kwargs.items() if n not in self._outputs}
        results = self.base(*map(_meta, refusals.with_tensors(self.overload, args)), **rest)
        return [x.dtype for x in (results if isinstance(results, (tuple, list)) else (results,))]

    def _ask(self, error: Exception | None) -> None:
        """Raises a refusal, if there is one."""
        if error is not None:
            raise self.refusal(error) from None

    def _casts(
        self, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[tuple[DType | None, ...], DType | None]:
        """The dtype that each operand is converted to, where it has another, and the one of them all."""
        if self.promotes is None:
            return (), None
        first = self.promotes.first
        given = [
            a
            for k, a in enumerate(args)
            if k >= first
            and k in self._promoted
            and isinstance(a, (torch.Tensor, int, float, complex))
            and _takes_part(a)
        ]
        boolean = self.promotes.kind is Promotion.ALWAYS_BOOL
        kind = Promotion.DEFAULT if boolean else self.promotes.kind
        dtype = promoted(given, kind)
        for target in self._targets(args, kwargs):
            if not torch.can_cast(torch.bool if boolean else dtype, target.dtype):
                raise self.refusal(
                    RuntimeError(
                        f"result type {NAMES[dtype]} can't be cast to the desired output type {NAMES[target.dtype]}"
                    )
                )
        wanted = dtype_of(dtype)
        # Operations take integers into what they compute in, where a count is not beyond the largest of 16 bits.
        kept = {dtype, *(INTEGERS if dtype in NARROW and not boolean else ())}
        casts = (
            wanted if isinstance(a, torch.Tensor) and a.dtype not in kept else None for a in args[first:]
        )
        return ((None,) * first + tuple(casts), wanted)

    def _targets(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[torch.Tensor]:
        """The arguments that results are written to."""
        return [kwargs[name] for name in self._outputs]

    def deliver(self, results: Any, expected: Expected, taken: Taken, outputs: Sequence[torch.Tensor]) -> Any:
        """Results as PyTorch wants them, in memory of their own."""
        if not isinstance(results, (tuple, list)):
            results = (results,)
            single = True
        else:
            single = len(self.overload._schema.returns) == 1 and len(results) == 1
        wanted = expected.results or (None,) * len(results)
        self._refuse_fractions(results, wanted)
        delivered = [
            self._delivered(r, w, taken) if isinstance(r, Tensor) else r
            for r, w in zip(results, wanted, strict=True)
        ]
        return delivered[0] if single else tuple(delivered) if not self._lists else delivered

    def _refuse_fractions(self, results: Sequence[Any], wanted: Sequence[Layout | None]) -> None:
        """Refuses what PyTorch's kernels have for floats alone: they would give an integer where we have a float."""
        for result, layout in zip(results, wanted, strict=False):
            if (
                isinstance(result, Tensor)
                and layout is not None
                and result.dtype.is_float > layout.dtype.is_inexact
            ):
                name = NAMES[torch_dtype(layout.dtype)]
                raise self.refusal(UnsupportedDType(f"not implemented for '{name}'"))

    @property
    def _lists(self) -> bool:
        return str(self.overload._schema.returns[0].type).startswith("List")

    def _delivered(self, result: Tensor, wanted: Layout | None, taken: Taken) -> Any:
        if taken.known is not None:
            return traced_result(result, wanted, taken.tensors)
        if wanted is None:
            return torch_tensor(
                result if own(result, taken.tensors) else result.clone(),
                exact=is_channels_last(result.shape, result.layout.strides),
            )
        if result.shape != wanted.shape:
            result = result.reshape(wanted.shape) if result.size == wanted.size else result
            if result.shape != wanted.shape:
                raise RuntimeError(
                    f"hologram, {self.name}: a result of shape {wanted.shape} was expected, got {result.shape}"
                )
        if result.dtype is not wanted.dtype:
            result = result.astype(wanted.dtype)
        return torch_tensor(placed(result, wanted, taken.tensors), exact=True)

    def refusal(self, error: Exception) -> Exception:
        return refusal(self.name, error)


def _takes_part(x: Any) -> bool:
    return not isinstance(x, torch.Tensor) or x.dtype in DTYPES


def _meta(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")
    if isinstance(x, (list, tuple)):
        return [_meta(item) for item in x]
    if isinstance(x, torch.device):
        return torch.device("meta")
    return x


def _outputs_as(made: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
    """Outputs with the shapes and strides of new results, which empty ones come to have."""
    return [
        torch.empty_strided(x.shape, x.stride(), dtype=y.dtype, device="meta")
        for x, y in zip(made, outputs, strict=True)
    ]


def _layout(x: Any) -> Layout | None:
    if not isinstance(x, torch.Tensor):
        return None
    return Layout(dtype_of(x.dtype), tuple(x.shape), x.stride())
