"""What is computed, a declaration each: inputs, the function, what it must give, and what has to move for it.

An operation must give what its own declaration says, in double precision; a function what NumPy makes of it there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hologram.benchmark import functions
from hologram.benchmark.functions import CLASSES, FEATURES, HEADS, HIDDEN, HIDDEN_UNITS, INPUTS, TENSORS
from hologram.benchmark.jobs import Call, Job, as_it_is, off
from hologram.benchmark.kernels.declared import KERNELS
from hologram.benchmark.models import numpy_gradients
from hologram.benchmark.models.declared import CHECKED_STEPS, MODELS, Arrays, Model, split
from hologram.benchmark.timing import NoTime
from hologram.foundation.frozen import frozen
from hologram.opset import OPERATIONS

Array = NDArray[np.float32]
Shape = tuple[int, ...]

COLUMNS = 1024  # of the matrices whose rows are reduced or sorted
CHECKED = 1 << 14  # elements of long results that are compared with the reference
ELEMENT_BYTES = 4
SUFFIXES = {"K": 1 << 10, "M": 1 << 20}
SIZES = {"1K": 1 << 10, "10K": 10 << 10, "100K": 100 << 10, "1M": 1 << 20, "10M": 10 << 20}
LARGE_SIZES = {"100M": 100 << 20}
ALL_SIZES = SIZES | LARGE_SIZES
SIDES = {"1K": 32, "10K": 96, "100K": 320, "1M": 1024, "10M": 3072, "100M": 10240}  # of square matrices


def parse_size(text: str) -> int:
    """Elements from '1K', '16M' or '512'. Raises ValueError."""
    scale = SUFFIXES.get(text[-1:].upper(), 1)
    return int(text[:-1] if scale > 1 else text) * scale


def format_size(size: int) -> str:
    """'1K', '16M' or '512'."""
    for suffix, scale in sorted(SUFFIXES.items(), key=lambda item: -item[1]):
        if size % scale == 0:
            return f"{size // scale}{suffix}"
    return str(size)


def _first(arrays: Arrays) -> Arrays:
    """The first elements, or rows; what has not as many axes as the first array is whole."""
    shape = next(iter(arrays.values())).shape
    count = max(CHECKED // math.prod(shape[1:]), 1)
    return {name: a[:count] if a.ndim == len(shape) else a for name, a in arrays.items()}


@frozen(eq=False)
class Work:
    """A function of random arrays of some size; `operation` is ours in its out-parameter form, where there is one.

    Errors are relative to the value, or to `scale` where that is more. `head` takes the part of the inputs that alone
    is checked, the first of the results along `axis`; None where every input goes into every result.
    """

    name: str
    shapes: Callable[[int], Mapping[str, Shape]] | None = None  # of random inputs
    given: Callable[[int, np.random.Generator], Arrays] | None = None  # other inputs
    function: Callable[..., Any] | None = None  # of a library's words, and the inputs
    operation: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)
    reduced: bool = False  # to one number
    lists: bool = (
        False  # the inputs are lists of tensors, a row each, all but the last replaced by the results
    )
    model: Model | None = None
    trained: bool = False
    tolerance: float = 1e-5
    scale: Callable[[Arrays], float] = lambda arrays: 1.0
    head: Callable[[Arrays], Arrays] | None = _first
    axis: int = 0
    label: Callable[[int], str] = format_size  # of a size, as people write it
    sizes: Mapping[str, int] = field(default_factory=lambda: ALL_SIZES)  # of the matrix
    products: Callable[[int], int] = lambda size: 0  # multiply-adds, of what is bound by them
    arithmetic: float = 1.0  # of an element, about: where it stands beside the roofs of memory and arithmetic

    def inputs(self, size: int) -> Arrays:
        """The same random arrays in every process."""
        if self.shapes:
            return _random(self.shapes, size)
        assert self.given
        return self.given(size, np.random.default_rng(size))

    def result(self, inputs: Arrays) -> Shape:
        """The shape of an operation's result."""
        return () if self.reduced else next(iter(inputs.values())).shape

    def elements(self, size: int) -> int:
        """Of the first operand."""
        assert self.shapes
        return math.prod(next(iter(self.shapes(size).values())))

    def bytes(self, size: int) -> int:
        """What must be read and written at the least."""
        assert self.shapes
        given = sum(map(math.prod, self.shapes(size).values()))
        return ELEMENT_BYTES * (given + (1 if self.reduced else self.elements(size)))

    def flops(self, size: int) -> int:
        """Multiplications and additions; 0 for what is bound by memory."""
        return 2 * self.products(size)

    def job(self, contender: Contender, size: int) -> Job:
        """The work as somebody does it, who is checked; NoTime where they have no such operation."""
        inputs = self.inputs(size)
        job = contender.prepare(self, inputs)
        if job is None:
            raise NoTime("no such operation")
        return replace(job, problem=lambda result: self.problem(size, inputs, result))

    def problem(self, size: int, inputs: Arrays, result: NDArray[Any]) -> str:
        """What is wrong with a result, nothing if it is right. Of long results the first elements are looked at."""
        wanted = (
            _of_model(self, size)
            if self.model
            else self.reference(self.head(inputs) if self.head else inputs)
        )
        if self.head and result.ndim == wanted.ndim:
            if self.operation and result.shape != self.result(inputs):
                return f"its shape is {result.shape}, not {self.result(inputs)}"
            result = np.moveaxis(np.moveaxis(result, self.axis, 0)[: wanted.shape[self.axis]], 0, self.axis)
        return off(result, wanted, self.tolerance, self.scale(inputs))

    def reference(self, inputs: Arrays) -> NDArray[np.float64]:
        """What is right, in double precision."""
        wide = {n: a.astype(np.float64) if a.dtype.kind == "f" else a for n, a in inputs.items()}
        if self.model and self.trained:
            step = numpy_gradients.trained(self.model, inputs, np.float64)
            return np.array([float(step()) for _ in range(CHECKED_STEPS)])
        if self.model:
            x, _, parameters = split(wide)
            return self.model.forward(numpy_gradients.WORDS, parameters, x)
        if self.operation:
            return np.asarray(OPERATIONS[self.operation].reference(*wide.values(), **self.attributes))
        assert self.function
        result = self.function(
            numpy_gradients.WORDS, *(map(list, wide.values()) if self.lists else wide.values())
        )
        if self.lists:
            return np.array(result)
        return functions.flat(result) if isinstance(result, tuple) else result


class Contender(Protocol):
    """A library on a device. Its module's `open_contender(name, where)` makes it; ImportError: it is not installed."""

    @property
    def device(self) -> Any: ...

    def prepare(self, work: Work, inputs: Arrays) -> Job | None:
        """The job, compiled and with its output allocated, or None where the library has no such operation."""
        ...


Part = Callable[[Model, Arrays], Call]


def model_job(
    work: Work,
    inputs: Arrays,
    forward: Part,
    trained: Part,
    read: Callable[[Any], NDArray[Any]] = np.asarray,
    waited: Callable[[Call], Call] = as_it_is,
) -> Job:
    """A model's forward pass, or its steps, whose result is the first losses."""
    assert work.model is not None
    if not work.trained:
        call = forward(work.model, inputs)
        return Job(waited(call), lambda: read(call()))
    step = trained(work.model, inputs)
    losses = np.array([float(read(step())) for _ in range(CHECKED_STEPS)])
    return Job(waited(step), lambda: losses)


@lru_cache(maxsize=2)  # operations of the same operands follow one another
def _random(shapes: Callable[[int], Mapping[str, Shape]], size: int) -> Arrays:
    rng = np.random.default_rng(size)
    return {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes(size).items()}


@lru_cache(maxsize=16)
def _of_model(work: Work, size: int) -> NDArray[np.float64]:
    return work.reference(work.inputs(size))


def _one(size: int) -> dict[str, Shape]:
    return {"x": (size,)}


def _two(size: int) -> dict[str, Shape]:
    return {"x": (size,), "y": (size,)}


def _rows(size: int) -> dict[str, Shape]:
    return {"x": (size // COLUMNS, COLUMNS)}


def _weighted(size: int) -> dict[str, Shape]:
    return {**_rows(size), "weight": (COLUMNS,), "bias": (COLUMNS,)}


def _squares(side: int) -> dict[str, Shape]:
    return {"a": (side, side), "b": (side, side)}


def _heads(length: int) -> dict[str, Shape]:
    return dict.fromkeys(("q", "k", "v"), (HEADS, length, FEATURES))


def _first_rows(arrays: Arrays) -> Arrays:
    """Of a product's first operand."""
    return {**arrays, "a": arrays["a"][: CHECKED // COLUMNS]}


def _first_columns(arrays: Arrays) -> Arrays:
    return {name: a[:, : CHECKED // TENSORS] for name, a in arrays.items()}


def _operation(name: str, shapes: Any, function: Any = None, **more: Any) -> Work:
    return Work(name, shapes, function=function, operation=name, **more)


def _length(arrays: Arrays) -> float:
    """What one serial sum over random signs may be off by: every order of adding is right."""
    return math.sqrt(next(iter(arrays.values())).shape[-1])


_OPERATIONS = (
    _operation("add", _two, lambda w, x, y: x + y),
    _operation("multiply", _two, lambda w, x, y: x * y),
    _operation("relu", _one, lambda w, x: w.relu(x)),
    _operation("exp", _one, lambda w, x: w.xp.exp(x), arithmetic=10),
    _operation("tanh", _one, lambda w, x: w.xp.tanh(x), arithmetic=16),
    _operation("gelu", _one, lambda w, x: w.gelu(x), arithmetic=24),
    _operation(
        "sum", _one, lambda w, x: w.xp.sum(x), reduced=True, head=None, tolerance=1e-3, scale=_length
    ),
    _operation("softmax", _rows, lambda w, x: w.softmax(x), arithmetic=14),
    _operation("layer_norm", _weighted, lambda w, *given: w.layer_norm(*given), arithmetic=7, tolerance=1e-4),
    _operation("cumsum", _rows, arithmetic=1.5, tolerance=1e-4, attributes={"axis": 1}, scale=_length),
    _operation("sort", _rows, arithmetic=50),
    _operation(
        "matmul", _squares, lambda w, a, b: a @ b, head=_first_rows, tolerance=1e-4, scale=_length,
        label=str, sizes=SIDES, products=lambda side: side**3,
    ),
)  # fmt: skip
_FUNCTIONS = (
    Work("chain", lambda size: {"a": (size,), "b": (size,)}, function=functions.chain),
    Work(
        "mlp", given=functions.two_layers, function=functions.mlp, tolerance=1e-4, head=None,
        label=lambda side: f"{side}x{HIDDEN}x{side}",
    ),
    Work(
        "attention", _heads, function=lambda w, q, k, v: w.attention(q, k, v), tolerance=1e-4, head=None,
        label=lambda length: f"{HEADS}x{length}x{FEATURES}",
    ),
    Work(
        "adam", given=functions.parameters, function=functions.adam, lists=True, head=_first_columns, axis=-1,
        label=lambda size: f"{TENSORS}x{format_size(size)}",
    ),
    Work(
        "training_step", given=functions.examples, tolerance=1e-4, head=None,
        function=lambda w, *given: functions.training_step(w.xp, *given),
        label=lambda batch: f"{batch}x{INPUTS}-{HIDDEN_UNITS}-{CLASSES}",
    ),
)  # fmt: skip


def _of(name: str, model: Model, trained: bool) -> Work:
    return Work(
        f"{name}_{'step' if trained else 'forward'}", given=model.inputs, model=model, trained=trained,
        tolerance=1e-3, head=None, label=lambda size: f"{size}x{model.label}",
    )  # fmt: skip


_MODELS = tuple(_of(name, model, trained) for name, model in MODELS.items() for trained in (False, True))
_KERNELS = tuple(
    Work(
        name, given=kernel.inputs, function=lambda w, *given, of=kernel.reference: of(*given), head=None,
        tolerance=kernel.tolerance, scale=kernel.scale, label=kernel.label,
    )
    for name, kernel in KERNELS.items()
)  # fmt: skip
WORKS = {work.name: work for work in (*_OPERATIONS, *_FUNCTIONS, *_MODELS, *_KERNELS)}
WORKS["mul"] = WORKS["multiply"]  # as peers' rows call it
ROWS = {work.name: work for work in _OPERATIONS}  # of the matrix
