"""What a random function of tensors does in one step; see recipes.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any

import numpy as np

import hologram as hg
from hologram.foundation import dtypes

MOST_ELEMENTS = 3000
DTYPES = ("f32", "f32", "f32", "f32", "f16", "bf16", "f64", "i32", "i64", "u8", "bool")

Draw = np.random.Generator


class Kind(Enum):
    """Which steps a recipe is made of."""

    EXACT = auto()  # with one result on every device
    FUNCTIONS = auto()  # these, and what a device computes as it can, but always alike
    SMOOTH = auto()  # none that makes a small difference a large one; reductions of all kinds

    @property
    def smooth(self) -> bool:
        return self is Kind.SMOOTH


@dataclass(frozen=True)
class Pool:
    """The tensors that a step may use."""

    draw: Draw
    tensors: Sequence[hg.Tensor]
    own: Callable[[hg.Tensor], bool]  # whether a tensor may be written to
    smooth: bool

    def any(self, where: Callable[[hg.Tensor], bool] = lambda t: True) -> hg.Tensor:
        """One of them, rather a late one; Unfit if there is none."""
        fitting = [t for t in self.tensors if where(t)]
        if not fitting:
            raise Unfit
        late = fitting[-4:] if self.draw.random() < 0.6 else fitting
        return self.one(late)

    def one(self, items: Sequence[Any]) -> Any:
        return items[int(self.draw.integers(len(items)))]

    def floats(self) -> hg.Tensor:
        return self.any(lambda t: t.dtype.is_float)

    def beside(self, x: hg.Tensor) -> Any:
        """What may stand beside x: a tensor that broadcasts, or a number."""
        if self.draw.random() < 0.3:
            numbers = [2, -1, 0.5, True, 3.0, -0.0] if x.dtype.is_float else [2, 1, 3, True]
            return self.one(numbers)
        return self.any(lambda t: broadcasts(t, x))

    def axis(self, x: hg.Tensor) -> int:
        if not x.ndim:
            raise Unfit
        return int(self.draw.integers(-x.ndim, x.ndim))

    def coin(self) -> bool:
        return bool(self.draw.random() < 0.5)


class Unfit(Exception):
    """No tensor is there that a step could use."""


def broadcasts(*tensors: hg.Tensor) -> bool:
    try:
        shape = np.broadcast_shapes(*(t.shape for t in tensors))
    except ValueError:
        return False
    return int(np.prod(shape, dtype=int)) <= MOST_ELEMENTS


def view(draw: Draw, x: hg.Tensor) -> hg.Tensor:
    """A view of x (or, where reshape needs it, a copy)."""
    kind = draw.integers(10)
    if kind == 0 or not x.ndim:
        return x.unsqueeze(int(draw.integers(0, x.ndim + 1)))
    axis = int(draw.integers(x.ndim))
    n = x.shape[axis]
    if kind == 1:
        return x.permute(*map(int, draw.permutation(x.ndim)))
    if kind in (2, 3):
        cut = slice(*(None if draw.random() < 0.4 else int(draw.integers(-n - 1, n + 2)) for _ in range(2)))
        return x.slice(axis, cut.start, cut.stop, int(draw.choice([1, 1, 2, 3, -1, -1, -2])))
    if kind == 4 and n:
        return x.select(axis, int(draw.integers(-n, n)))
    if kind == 5:
        return hg.flip(x, axis=axis)
    if kind == 6:
        return x.squeeze()
    if kind == 7:
        extra = (int(draw.choice([1, 2, 3])),) if draw.random() < 0.5 else ()
        shape = (*extra, *(int(draw.choice([2, 3])) if n == 1 else n for n in x.shape))
        return x.expand(*shape) if np.prod(shape, dtype=int) <= MOST_ELEMENTS else x
    return x.reshape(*regrouped(draw, x.shape))


def regrouped(draw: Draw, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Another shape of as many elements."""
    sizes = list(shape)
    at = int(draw.integers(len(sizes)))
    if draw.random() < 0.5 and at + 1 < len(sizes):
        sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
    elif sizes[at]:
        parts = [p for p in range(1, sizes[at] + 1) if sizes[at] % p == 0]
        part = int(draw.choice(parts))
        sizes[at : at + 1] = [part, sizes[at] // part]
    return (-1,) if draw.random() < 0.2 and 0 not in sizes else tuple(sizes)


def whole(x: Any) -> Any:
    """Small whole numbers: their products, and sums of those, are exact in every dtype."""
    return hg.round(hg.clip(x, -5, 5)) if isinstance(x, hg.Tensor) and x.dtype.is_float else x


def unary(names: Sequence[str], pool: Pool) -> Any:
    x = pool.floats()
    return getattr(hg, pool.one(names))(hg.clip(x, -4, 4) if pool.smooth else x)


def binary(names: Sequence[str], pool: Pool) -> Any:
    x = pool.any()
    operands = [x, pool.beside(x)]
    if pool.coin():
        operands.reverse()
    return getattr(hg, pool.one(names))(*operands)


def multiplied(pool: Pool) -> Any:
    """Products, most of them in sums: what a driver may contract."""
    x = pool.any(lambda t: t.dtype.kind != "bool")
    y = pool.beside(x)
    x, y = (hg.clip(x, -4, 4), y) if pool.smooth else (whole(x), whole(y))
    if isinstance(y, float) and y != round(y):
        raise Unfit
    forms: tuple[Callable[[], Any], ...] = (
        lambda: x * y, lambda: y * x + x, lambda: x - y * 2, lambda: 3 - x * x, lambda: hg.square(x) + y,
    )  # fmt: skip
    return pool.one(forms)()


def where(pool: Pool) -> Any:
    x = pool.any()
    return hg.where(pool.any(lambda t: broadcasts(t, x)) > 0, x, pool.beside(x))


def cast(names: Sequence[str], pool: Pool) -> Any:
    x = pool.any()
    wanted = dtypes.dtype(pool.one(names))
    return x.astype(wanted if wanted in x.executor.limits.dtypes else "f32")


def viewed(pool: Pool) -> Any:
    return view(pool.draw, pool.any())


def reduction(names: Sequence[str], pool: Pool) -> Any:
    x = pool.any() if pool.draw.random() < 0.2 else pool.floats()
    name = pool.one(names)
    axes: Any = None
    if x.ndim and pool.draw.random() < 0.85:
        axes = tuple(int(a) for a in pool.draw.permutation(x.ndim)[: pool.draw.integers(1, x.ndim + 1)])
    if name.startswith("arg") and axes is not None:
        axes = axes[0]
    return getattr(hg, name)(
        whole(x) if name == "sum" and not pool.smooth else x, axis=axes, keepdims=pool.coin()
    )


def normalised(pool: Pool) -> Any:
    """x made comparable along an axis by a reduction: what fuses into rows."""
    x = pool.floats() if pool.smooth else whole(pool.floats())
    axis, name = pool.axis(x), pool.one(("max", "sum", "min", "mean")[: 4 if pool.smooth else 3])
    return x - getattr(hg, name)(x, axis=axis, keepdims=True)


def soft(pool: Pool) -> Any:
    x = pool.floats()
    kind = pool.draw.integers(4)
    if kind < 2:
        return pool.one((hg.softmax, hg.log_softmax))(x, dim=pool.axis(x))
    axis = pool.axis(x)
    shape = x.shape[axis:] if axis < 0 else x.shape[axis - x.ndim :]
    if kind == 2:
        return hg.rms_norm(x, normalized_shape=shape)
    return hg.layer_norm(x, normalized_shape=shape)


def entropy(pool: Pool) -> Any:
    x = pool.any(lambda t: t.dtype.is_float and t.ndim == 2 and t.size > 0)
    index = pool.draw.integers(0, x.shape[1], x.shape[0])
    reduction = pool.one(("none", "mean", "sum"))
    return hg.cross_entropy_loss(x, x.executor.tensor(index), reduction=reduction)


def product(pool: Pool) -> Any:
    a = pool.any(lambda t: t.dtype.is_float and t.ndim > 0)
    factor = (lambda t: hg.clip(t, -4, 4)) if pool.smooth else whole
    if pool.coin():
        a = factor(a)
        return a @ a.mT if a.ndim > 1 else a @ a
    n = a.shape[-1]
    axis = -2 if pool.coin() else -1
    b = pool.any(lambda t: t.dtype == a.dtype and t.ndim >= -axis and t.shape[axis] == n)
    return factor(a) @ factor(b if axis == -2 or b.ndim == 1 else b.mT)


def layer(pool: Pool) -> Any:
    x = pool.any(lambda t: t.dtype.is_float and t.ndim > 0 and t.size > 0)
    shape = (int(pool.draw.integers(1, 9)), x.shape[-1])
    weight = x.executor.tensor(pool.draw.integers(-2, 3, shape).astype(np.float32)).astype(
        x.dtype, copy=False
    )
    bias = weight[:, 0] if pool.coin() else None
    activation = pool.one(("none", "relu", "gelu", "tanh")[: 4 if pool.smooth else 2])
    return hg.linear(hg.clip(x, -4, 4) if pool.smooth else whole(x), weight, bias, activation=activation)


def joined(pool: Pool) -> Any:
    x = pool.any()
    if pool.coin():
        y = pool.any(lambda t: t.shape == x.shape)
        return hg.stack([x, y, x], axis=pool.axis(x.unsqueeze(0)))
    return hg.concat([x, pool.any(lambda t: t.shape == x.shape)], axis=pool.axis(x))


def padded(pool: Pool) -> Any:
    """What lies within something larger, or was shifted in its own place, as the neighbours of a stencil are."""
    x = pool.any(lambda t: t.ndim > 0)
    widths = tuple((int(a), int(b)) for a, b in pool.draw.integers(0, 4, (x.ndim, 2)))
    if np.prod([n + a + b for n, (a, b) in zip(x.shape, widths, strict=True)], dtype=int) > MOST_ELEMENTS:
        raise Unfit
    y = hg.pad(x, padding=widths, value=pool.one((0.0, 1.0, -2.0)))
    if pool.coin():
        return y
    for axis, n in enumerate(x.shape):
        y = y.narrow(axis, int(pool.draw.integers(y.shape[axis] - n + 1)), n)
    return y + x if x.dtype.kind != "bool" and pool.coin() else y


def opaque(pool: Pool) -> Any:
    x = pool.any(lambda t: t.ndim > 0)
    axis = pool.axis(x)
    kind = pool.draw.integers(5)
    if kind == 0:
        return hg.cumsum(x if pool.smooth else whole(x), axis=axis)
    if kind == 1:
        return hg.sort(x, axis=axis)
    if not x.size:
        raise Unfit
    index = x.executor.tensor(pool.draw.integers(0, x.shape[axis], 3))
    if kind == 2:
        return hg.index_select(x, index, axis=axis)
    if kind == 3:
        return list(hg.topk(x, 1, axis=axis))
    return hg.gather(x, x.astype("i64") * 0, dim=axis % x.ndim)


def written(pool: Pool) -> Any:
    """An operator in place, or an assignment, to a tensor that the function made."""
    y = pool.any(pool.own)
    if y.layout.size != len(set(positions(y))):
        raise Unfit  # what is written must be stored once
    other = pool.beside(y)
    if isinstance(other, hg.Tensor) and np.broadcast_shapes(other.shape, y.shape) != y.shape:
        raise Unfit
    kind = pool.draw.integers(4)
    if kind == 0:
        y += other
    elif kind == 1 and y.dtype.is_float:
        y[...] = whole(y)
        y *= whole(other) if not isinstance(other, float) else 3
    elif kind == 2 and y.ndim and y.shape[0]:
        first = int(pool.draw.integers(y.shape[0]))
        y[first:] = 1 if pool.coin() else y[: y.shape[0] - first]
    else:
        y[...] = other
    return None


def positions(x: hg.Tensor) -> list[int]:
    where = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), x.shape, (0,) * x.ndim)
    return [
        x.offset + sum(s * k for s, k in zip(x.strides, at, strict=True)) for at in np.ndindex(where.shape)
    ]


FUNCTIONS = ("exp", "tanh", "sigmoid", "gelu", "silu", "sin", "erf", "atan", "expm1", "softplus")
EDGY = ("log", "sqrt", "reciprocal", "rsqrt", "log1p")  # where a small difference becomes a large one
SHARP = ("relu", "abs", "negative", "positive")
STEPPED = ("floor", "ceil", "round", "trunc", "sign", "isnan", "isinf", "logical_not", "signbit")
COMPARING = ("less", "equal", "greater_equal", "not_equal", "logical_and", "logical_xor", "copysign")
DIVIDING = ("divide", "pow", "remainder", "floor_divide", "atan2", "hypot", "fmod")
SUMS = ("sum", "sum", "mean", "max", "min", "var", "std", "logsumexp")
CHOICES = ("sum", "sum", "max", "min", "argmax", "argmin", "any", "all", "count_nonzero")

Step = Callable[[Pool], Any]
COMMON: tuple[Step, ...] = (
    *(viewed,) * 4, partial(unary, SHARP), partial(binary, ("add", "subtract", "maximum", "minimum")),
    partial(binary, ("add", "subtract")), multiplied, multiplied, normalised, normalised, product, layer, joined,
    written, padded, padded,
)  # fmt: skip
EXACT: tuple[Step, ...] = (
    *COMMON, partial(unary, STEPPED), partial(binary, COMPARING), where, *(partial(reduction, CHOICES),) * 3,
    *(partial(cast, DTYPES),) * 2, opaque, opaque, written,
)  # fmt: skip
STEPS: dict[Kind, tuple[Step, ...]] = {
    Kind.EXACT: EXACT,
    Kind.FUNCTIONS: (*EXACT, *(partial(unary, (*FUNCTIONS, *EDGY)),) * 3, *(partial(binary, DIVIDING),) * 3),
    Kind.SMOOTH: (
        *COMMON, *(partial(unary, FUNCTIONS),) * 3, *(partial(reduction, SUMS),) * 3, soft, soft, entropy,
        partial(cast, ("f32", "f64")),
    ),
}  # fmt: skip
