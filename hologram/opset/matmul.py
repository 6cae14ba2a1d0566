"""Matrix products: matmul, gemm, matvec, linear. One tile kernel reads both operands through strides, batched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from hologram.atlas import builder as atlas
from hologram.atlas.builder import Builder, reduce_add
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Access, Program
from hologram.dtypes import DType, u32
from hologram.errors import ShapeError, UnsupportedDType
from hologram.limits import Limits
from hologram.opset import types
from hologram.opset.activation import gelu, sigmoid, silu, tanh
from hologram.opset.form_map import copy_plan, indexed
from hologram.opset.layout import Layout, broadcast
from hologram.opset.math import NUMBERS
from hologram.opset.operation import Input, Operation, Sample, composite, register
from hologram.opset.plan import Plan, Scratch, Step, Tile
from hologram.opset.samples import array
from hologram.opset.steps import Place, Steps

ACTIVATIONS = {
    "none": lambda x: x,
    "relu": lambda x: atlas.maximum(x, 0.0),
    "gelu": gelu,
    "silu": silu,
    "sigmoid": sigmoid,
    "tanh": tanh,
}


@dataclass(frozen=True)
class Product:
    """A batch of matrix products, as the tile kernels see it: every operand with three strides."""

    batch: int
    m: int
    k: int
    n: int
    a: Layout  # (batch, m, k)
    b: Layout  # (batch, k, n)
    out: Layout  # (batch, m, n)

    @property
    def scalars(self) -> tuple[int, ...]:
        """Launch scalars, in the order of PRODUCT_SCALARS."""
        described = [self.m, self.k, self.n]
        for layout in (self.a, self.b, self.out):
            described += [layout.offset, *layout.strides]
        return tuple(described)


PRODUCT_SCALARS = (
    "m", "k", "n",
    "a_offset", "a_batch", "a_row", "a_column",
    "b_offset", "b_batch", "b_row", "b_column",
    "out_offset", "out_batch", "out_row", "out_column",
)  # fmt: skip


# The loops of a software adapter's thread may take 65,000 turns together; `matmul_register` takes four elements a turn.
SOFTWARE_DEPTH = 4 * 64_000
SKINNY = 4  # rows or columns up to which a product is a handful of dot products


def product_tile(
    product: Product, limits: Limits, epilogue: Program | None = None
) -> tuple[Tile, tuple[int, int, int]]:
    """The tile kernel for a product on a device, and its grid in workgroups.

    Every thread computes 8 x 8 results. Real GPUs bring the operands through workgroup memory: larger workgroups reuse
    more of it, smaller ones leave no compute unit idle. Adapters that a CPU plays have dear barriers and no use for
    workgroup memory: there every thread reads from global memory alone (`matmul_register`).
    """
    dtype = product.out.dtype
    constants: tuple[tuple[str, int], ...] = ()
    if limits.software:
        stem, threads = "matmul_register", (8, 8)
    else:
        stem, threads = "matmul", (16, 16) if product.batch * product.m * product.n >= 1 << 20 else (8, 8)
        constants = (("TILE_K", 16),)
    tile = Tile(
        stem=stem,
        entry=f"atlas_{stem}",
        buffers=(
            ("a", dtype, "read"),
            ("b", dtype, "read"),
            ("out", dtype, "write"),
            *_epilogue_reads(epilogue),
        ),
        scalars=tuple((name, u32) for name in PRODUCT_SCALARS),
        types=(("T", dtype), ("ACC", types.computing(dtype))),
        constants=constants,
        workgroup=(*threads, 1),
        epilogue=epilogue,
    )
    return tile, (-(-product.n // (8 * threads[0])), -(-product.m // (8 * threads[1])), product.batch)


def _is_skinny(a: Layout, b: Layout, out: Layout, limits: Limits) -> bool:
    """Whether dot products along memory beat tiles of 8 x 8 results: few rows or columns, both read along k.

    The CPU has BLAS for these too.
    """
    along_k = a.strides[-1] == 1 and b.strides[-2] == 1 and a.dtype == b.dtype == out.dtype
    return along_k and min(a.shape[-2], b.shape[-1]) <= SKINNY and not limits.spreads_rows


def _in_quads(layout: Layout) -> bool:
    """Whether `matmul_register` can read the rows of a (batch, rows, columns) layout by vec4."""
    batch, row, column = layout.strides
    return column == 1 and not (batch | row | layout.offset) % 4


def _batched(layout: Layout, batch: tuple[int, ...]) -> Layout | None:
    """A layout (..., r, c) as (batch, r, c), or None where the batch axes have no common stride."""
    full = layout.expand((*batch, *layout.shape[-2:]))
    one = Layout(full.dtype, full.shape[:-2], full.strides[:-2], full.offset).reshape(
        (-1,) if full.size else (0,)
    )
    if one is None:
        return None
    return Layout(full.dtype, (*one.shape, *full.shape[-2:]), (*one.strides, *full.strides[-2:]), full.offset)


@dataclass(frozen=True, eq=False)
class MatMul(Operation):
    """a (..., m, k) times b (..., k, n), batch axes broadcast; a 1-d operand is a row or a column that disappears."""

    def _checked(self, inputs: Sequence[Input | None]) -> tuple[Layout, Layout, DType]:
        a, b = inputs[:2]
        if not isinstance(a, Layout) or not isinstance(b, Layout) or not a.ndim or not b.ndim:
            raise ShapeError(f"{self.name}: both operands must have at least one axis")
        if a.shape[-1] != b.shape[0 if b.ndim == 1 else -2]:
            raise ShapeError(f"{self.name}: inner sizes must agree, got {a.shape} and {b.shape}")
        _, dtype = types.number(self.name, (a.dtype, b.dtype))
        return a, b, dtype

    def infer(self, inputs: Sequence[Input | None], attributes: Mapping[str, Any]) -> tuple[Layout, ...]:
        a, b, dtype = self._checked(inputs)
        batch = broadcast([a.shape[:-2], b.shape[:-2]], self.name)
        return (Layout.contiguous(dtype, (*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.ndim > 1 else ()))),)

    def plan(
        self,
        inputs: Sequence[Input | None],
        outputs: Sequence[Layout],
        attributes: Mapping[str, Any],
        limits: Limits,
    ) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        a, b, dtype = self._checked(inputs)
        out = outputs[0]
        if not out.size:
            return Plan(())
        if a.ndim == 1:
            a, out = a.unsqueeze(0), out.unsqueeze(out.ndim - (b.ndim > 1))
        if b.ndim == 1:
            b, out = b.unsqueeze(1), out.unsqueeze(out.ndim)
        return product_plan(a, b, out, dtype, limits)


def product_plan(
    a: Layout, b: Layout, out: Layout, dtype: DType, limits: Limits, epilogue: Program | None = None
) -> Plan:
    """Steps for out = a @ b, where operands 0 and 1 are a and b, then come what the epilogue reads, then out.

    What the tile kernels cannot read or write (other dtypes, batch axes without a common stride) goes through scratch;
    what they cannot compute (integers, no inner elements) is a reduction, with the epilogue as a program of its own.
    """
    inputs = 2 + len(_epilogue_reads(epilogue))
    used = dtype if dtype in limits.tile_dtypes else types.computing(dtype)
    deep = limits.software and a.shape[-1] > SOFTWARE_DEPTH
    if used not in limits.tile_dtypes or not a.shape[-1] or deep or _is_skinny(a, b, out, limits):
        return _reduced_plan(a, b, out, inputs, epilogue)
    batch = out.shape[:-2]
    scratch: list[Scratch] = []
    steps: list[Step] = []

    def place_of(layout: Layout, line: int) -> tuple[int, Layout]:
        """New scratch memory with rows of `line` elements, and the layout's place in it."""
        *lead, columns = layout.shape
        padded = Layout.contiguous(used, (*lead, line))
        scratch.append(Scratch(used, padded.size))
        return inputs + len(scratch), padded.narrow(len(lead), 0, columns)

    ready: list[tuple[int, Layout]] = []
    for position, layout in enumerate((a, b)):
        view = _batched(layout, batch) if layout.dtype == used else None
        if view is None or (limits.software and not _in_quads(view)):
            whole = (
                layout
                if _batched(Layout.contiguous(used, layout.shape), batch)
                else layout.expand((*batch, *layout.shape[-2:]))
            )
            place, copied = place_of(whole, -(-whole.shape[-1] // 4) * 4)
            steps += [replace(s, operands=(position, place)) for s in copy_plan(whole, copied).steps]
            view, position = _batched(copied, batch), place
        assert view is not None
        ready.append((position, view))
    target = _batched(out, batch) if dtype == used else None
    place = inputs
    if target is None:
        place, copied = place_of(out, out.shape[-1])
        target = _batched(copied, batch)
    assert target is not None
    product = Product(
        target.shape[0], out.shape[-2], a.shape[-1], out.shape[-1], ready[0][1], ready[1][1], target
    )
    tile, grid = product_tile(product, limits, epilogue)
    operands = (ready[0][0], ready[1][0], place, *range(2, inputs))
    steps.append(Step(tile, operands, product.scalars, grid))
    if place != inputs:
        steps += [
            replace(s, operands=(place, inputs))
            for s in copy_plan(Layout.contiguous(used, out.shape), out).steps
        ]
    return Plan(tuple(steps), tuple(scratch))


def _reduced_plan(a: Layout, b: Layout, out: Layout, inputs: int, epilogue: Program | None) -> Plan:
    """The product as a reduction; an epilogue follows as the element-wise program it is."""
    target = Place(inputs, out)
    steps = Steps(inputs + 1)
    if epilogue is None:
        steps.add(_naive_step(a, b, out), (0, 1, inputs))
        return steps.plan()
    product = steps.place(types.promoted((a.dtype, b.dtype)), out.shape)
    steps.add(_naive_step(a, b, product.layout), (0, 1, product.position))
    dtype = epilogue.buffer("value").dtype
    value = product if product.layout.dtype == dtype else steps.place(dtype, out.shape)
    result = target if out == value.layout else steps.place(dtype, out.shape)
    if value is not product:
        steps.copy(product, value)
    ends = {"value": value.position, "result": result.position}
    reads = iter(range(2, inputs))
    places = tuple(ends[p.name] if p.name in ends else next(reads) for p in epilogue.buffers)
    columns = out.shape[-1]
    steps.add(Step(epilogue, tuple(range(len(places))), (), (out.size // columns, columns)), places)
    if result is not target:
        steps.copy(result, target)
    return steps.plan()


def _naive_step(a: Layout, b: Layout, out: Layout) -> Step:
    """The product as a reduction: for integers, which no tile kernel has."""
    batch = out.shape[:-2]
    inputs = (a.expand((*batch, *a.shape[-2:])), b.expand((*batch, *b.shape[-2:])))
    limits: Any = None  # the form does not ask
    return product_by_reduction.plan(inputs, (out,), {}, limits).steps[0]


def _product_window(a, b):
    return (a.shape[-1],)


def _product_shape(a, b):
    return Layout.contiguous(types.promoted((a.dtype, b.dtype)), (*a.shape[:-1], b.shape[-1]))


def _product_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for batch, m, k, n in (((), 3, 4, 5), ((2,), 7, 1, 3), ((2, 3), 2, 5, 1)):
        yield Sample((array(rng, dtype, (*batch, m, k), -3, 3), array(rng, dtype, (*batch, k, n), -3, 3)))


@indexed(shape_of=_product_shape, window=_product_window, dtypes=NUMBERS, samples=_product_samples, reference=np.matmul,
         ulp=4, absolute=64.0, methods=False)  # fmt: skip
def product_by_reduction(at, window, a, b):
    """The matrix product of operands with equal batch axes, written as the sum it is."""
    *batch, i, j = at
    dtype = types.promoted((a.computed, b.computed))
    return reduce_add(a.at(*batch, i, *window).to(dtype) * b.at(*batch, *window, j).to(dtype))


def _matmul_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    cases = [
        ((3, 4), (4, 5)),
        ((1, 1), (1, 1)),
        ((65, 33), (33, 70)),
        ((128, 64), (64, 128)),
        ((7,), (7,)),
        ((7,), (7, 3)),
        ((5, 7), (7,)),
        ((2, 3, 4), (4, 5)),
        ((2, 1, 3, 4), (5, 4, 6)),
        ((0, 4), (4, 3)),
        ((3, 0), (0, 2)),
        ((1, 300), (300, 1)),
    ]
    for a, b in cases:
        yield Sample((array(rng, dtype, a, -3, 3), array(rng, dtype, b, -3, 3)))


def _matmul(a, b):
    """The matrix product, batch axes broadcast, as NumPy's matmul; integers wrap."""


matmul = register(
    MatMul(
        name="matmul", function=_matmul, reference=np.matmul, samples=_matmul_samples, dtypes=NUMBERS, ulp=4,
        absolute=64.0, aten=("mm", "bmm", "matmul"), gradient=lambda g, a, b: (g @ b.mT, a.mT @ g),
    )
)  # fmt: skip


def _matvec_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for m, k in ((3, 4), (65, 130), (1, 1)):
        yield Sample((array(rng, dtype, (m, k), -3, 3), array(rng, dtype, (k,), -3, 3)))


@composite(reference=np.matmul, samples=_matvec_samples, dtypes=NUMBERS, ulp=4, absolute=64.0, aten=("mv",))
def matvec(a, x):
    """A matrix (m, k) times a vector (k)."""
    if len(a.shape) != 2 or len(x.shape) != 1:
        raise ShapeError(f"matvec: a matrix and a vector are needed, got {a.shape} and {x.shape}")
    return matmul(a, x)


def _gemm_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for m, k, n in ((3, 4, 5), (65, 33, 70)):
        yield Sample(
            (array(rng, dtype, (m, k), -3, 3), array(rng, dtype, (k, n), -3, 3)), {"m": m, "k": k, "n": n}
        )


@dataclass(frozen=True, eq=False)
class Gemm(MatMul):
    """The product of two matrices whose sizes are given: operands and output may be flat."""

    def _shaped(self, inputs: Sequence[Input | None], attributes: Mapping[str, Any]) -> list[Layout]:
        m, k, n = (attributes[name] for name in ("m", "k", "n"))
        found = []
        for layout, shape in zip(inputs, ((m, k), (k, n)), strict=True):
            view = (
                layout.reshape(shape)
                if isinstance(layout, Layout) and layout.size == shape[0] * shape[1]
                else None
            )
            if view is None:
                raise ShapeError(
                    f"gemm: operands must hold {m}x{k} and {k}x{n} elements, "
                    f"got {[i.shape for i in inputs if isinstance(i, Layout)]}"
                )
            found.append(view)
        return found

    def infer(self, inputs: Sequence[Input | None], attributes: Mapping[str, Any]) -> tuple[Layout, ...]:
        return super().infer(self._shaped(inputs, attributes), attributes)

    def plan(
        self,
        inputs: Sequence[Input | None],
        outputs: Sequence[Layout],
        attributes: Mapping[str, Any],
        limits: Limits,
    ) -> Plan:
        m, n = attributes["m"], attributes["n"]
        out = outputs[0].reshape((m, n)) if outputs[0].size == m * n else None
        if out is None:
            raise ShapeError(f"gemm: the output must hold {m}x{n} elements, got shape {outputs[0].shape}")
        return super().plan(self._shaped(inputs, attributes), (out,), attributes, limits)


def _gemm(a, b, *, m, k, n):
    """The product of a (m x k) and b (k x n), each flat or shaped, row-major."""


gemm = register(
    Gemm(
        name="gemm",
        function=_gemm,
        reference=lambda a, b, m, k, n: np.matmul(a, b),
        samples=_gemm_samples,
        dtypes=NUMBERS,
        ulp=4,
        absolute=64.0,
        methods=False,
    )
)


# linear: a product with bias and activation in its epilogue.


def _epilogue_reads(epilogue: Program | None) -> tuple[tuple[str, DType, str], ...]:
    """The buffers that only the epilogue reads."""
    if epilogue is None:
        return ()
    return tuple((b.name, b.dtype, "read") for b in epilogue.buffers if b.name not in ("value", "result"))


@lru_cache(maxsize=256)
def epilogue_program(dtype: DType, bias: DType | None, activation: str) -> Program | None:
    """result = activation(value + bias[column]) on a grid of (rows, columns); None for the identity.

    A map program like any other: value and result are contiguous, so a backend without fused epilogues runs it as it
    is.
    """
    if bias is None and activation == "none":
        return None
    computed = types.computing(dtype)
    b = Builder(f"atlas_epilogue_{activation}_{computed}", rank=2)
    place = b.position(Opcode.LANE)
    value = b.load(b.buffer("value", computed, Access.READ), place)
    if bias is not None:
        value = value + b.load(b.buffer("bias", bias, Access.READ), b.coordinate(1)).to(computed)
    b.store(b.buffer("result", computed, Access.WRITE), place, ACTIVATIONS[activation](value))
    return b.build()


@dataclass(frozen=True, eq=False)
class Linear(MatMul):
    """A matrix product whose results pass through bias and activation before they are stored."""

    def _operands(
        self, inputs: Sequence[Input | None], attributes: Mapping[str, Any]
    ) -> tuple[Layout, Layout, Layout | None]:
        x, weight, bias = inputs
        if attributes["activation"] not in ACTIVATIONS:
            raise ValueError(
                f"linear: activation must be one of {', '.join(ACTIVATIONS)}, got {attributes['activation']!r}"
            )
        if (
            not isinstance(x, Layout)
            or not isinstance(weight, Layout)
            or weight.ndim != 2
            or x.shape[-1:] != weight.shape[1:]
        ):
            shapes = [getattr(i, "shape", i) for i in (x, weight)]
            raise ShapeError(
                f"linear: x (..., k) and weight (n, k) are needed, got {shapes[0]} and {shapes[1]}"
            )
        if bias is not None and (not isinstance(bias, Layout) or bias.shape != weight.shape[:1]):
            raise ShapeError(
                f"linear: bias must have shape {weight.shape[:1]}, got {getattr(bias, 'shape', bias)}"
            )
        dtype = types.floating("linear", (x.dtype, weight.dtype))[1]
        if {i.dtype for i in inputs if isinstance(i, Layout)} != {dtype}:
            raise UnsupportedDType(
                f"linear: x, weight and bias must have one float dtype, got {x.dtype}, {weight.dtype}"
            )
        return x, weight.permute((1, 0)), bias

    def infer(self, inputs: Sequence[Input | None], attributes: Mapping[str, Any]) -> tuple[Layout, ...]:
        x, weight, _ = self._operands(inputs, attributes)
        return super().infer((x, weight), attributes)

    def plan(
        self,
        inputs: Sequence[Input | None],
        outputs: Sequence[Layout],
        attributes: Mapping[str, Any],
        limits: Limits,
    ) -> Plan:
        self.check_outputs(self.infer(inputs, attributes), outputs)
        x, weight, bias = self._operands(inputs, attributes)
        out = outputs[0]
        if not out.size:
            return Plan(())
        # All rows of x are one matrix where its layout allows it; else the leading axes are a batch.
        rows = x.reshape((-1, x.shape[-1])) if x.shape[-1] else x
        flat = out.reshape((-1, out.shape[-1])) if out.size else None
        if rows is not None and flat is not None:
            x, out = rows, flat
        scratch, operands = (), None
        if bias is not None and (bias.offset or not bias.is_contiguous):
            scratch, operands = (
                (Scratch(bias.dtype, bias.size),),
                copy_plan(bias, Layout.contiguous(bias.dtype, bias.shape)),
            )
        epilogue = epilogue_program(out.dtype, bias.dtype if bias else None, attributes["activation"])
        plan = product_plan(x, weight, out, out.dtype, limits, epilogue)
        return _with_bias(plan, bias is not None, scratch, operands)


def _with_bias(plan: Plan, has_bias: bool, scratch: tuple[Scratch, ...], copying: Plan | None) -> Plan:
    """The product's plan with operands numbered as linear's (x, weight, bias, out): a missing bias still counts."""
    count = 3 if has_bias else 2
    extra = 4 + len(plan.scratch)  # where a copied bias lies

    def place(k: int) -> int:
        if copying is not None and k == 2:
            return extra
        return k if has_bias or k < count else k + 1

    steps = [replace(s, operands=tuple(map(place, s.operands))) for s in plan.steps]
    if copying is not None:
        steps = [replace(s, operands=(2, extra)) for s in copying.steps] + steps
    return Plan(tuple(steps), plan.scratch + scratch)


def _linear_reference(x, weight, bias=None, activation="none"):
    y = np.matmul(x, np.swapaxes(weight, -1, -2))
    y = y if bias is None else y + bias
    return y if activation == "none" else np.maximum(y, 0) if activation == "relu" else np.tanh(y)


def _linear_samples(rng: np.random.Generator, dtype: DType) -> Iterable[Sample]:
    for shape, n in (((5, 7), 3), ((2, 3, 16), 33), ((70, 65), 66), ((9,), 4)):
        x, w, b = (array(rng, dtype, s, -2, 2) for s in (shape, (n, shape[-1]), (n,)))
        for activation in ("none", "relu", "tanh"):
            yield Sample((x, w, b), {"activation": activation})
        yield Sample((x, w, None))


def _linear(x, weight, bias=None, *, activation="none"):
    """activation(x @ weight.T + bias), for x (..., k), weight (n, k), bias (n)."""


linear = register(
    Linear(
        name="linear", function=_linear, reference=_linear_reference, samples=_linear_samples, ulp=8, absolute=64.0,
        aten=("linear", "addmm"),
    )
)  # fmt: skip
