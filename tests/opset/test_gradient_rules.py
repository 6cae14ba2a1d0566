"""Rules that declarations state, in the shapes and settings that samples leave out, beside PyTorch's autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest

import hologram as hg
from tests.needs import needs

pytestmark = pytest.mark.sampled(2)

torch = pytest.importorskip("torch")
F = torch.nn.functional

TOLERANCE = {"f64": 1e-11, "f32": 5e-5, "f16": 4e-3, "bf16": 3e-2}  # of the largest element
GENERATOR = np.random.default_rng(8)


def numbers(*shape: int) -> np.ndarray:
    return GENERATOR.uniform(-2, 2, shape)


def equals(*shape: int) -> np.ndarray:
    """Few different numbers, so that many are the same."""
    return np.round(numbers(*shape))


@dataclass(frozen=True)
class Case:
    """An operation here and there, its operands, and attributes of which PyTorch may call some otherwise."""

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    operands: Sequence[np.ndarray]
    attributes: dict[str, Any] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)

    def mine(self, *operands: Any) -> Any:
        return self.ours(*operands, **self.attributes)

    def other(self, *operands: Any) -> Any:
        return self.theirs(*operands, **{self.words.get(n, n): v for n, v in self.attributes.items()})


def case(ours: Any, theirs: Any, *operands: np.ndarray, words: Any = None, **attributes: Any) -> Any:
    shapes = ",".join("x".join(map(str, x.shape)) for x in operands)
    found = Case(
        ours.__name__ if hasattr(ours, "__name__") else ours.name,
        ours,
        theirs,
        operands,
        attributes,
        words or {},
    )
    settings = ",".join(f"{n}={v}" for n, v in attributes.items() if not isinstance(v, np.ndarray))
    return pytest.param(found, id=f"{found.name}({shapes};{settings})".replace(" ", ""))


def products() -> list[Any]:
    shapes = [
        ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 6)), ((2, 3, 5, 4), (2, 1, 4, 6)),
        ((2, 3, 5, 4), (1, 1, 4, 6)), ((2, 1, 5, 4), (3, 4, 6)), ((7,), (7,)), ((7,), (2, 7, 3)), ((2, 5, 7), (7,)),
        ((2, 0, 4), (4, 3)), ((3, 0), (0, 2)), ((2, 3, 0), (0, 2)),
    ]  # fmt: skip
    found = [case(hg.matmul, torch.matmul, numbers(*a), numbers(*b)) for a, b in shapes]
    rows = ((2, 3, 5), (5,), (0, 5), (2, 1, 3, 5))
    found += [case(hg.linear, F.linear, numbers(*x), numbers(4, 5), numbers(4)) for x in rows]
    found += [case(hg.linear, F.linear, numbers(3, 5), numbers(4, 5))]
    for name, activation in (
        ("gelu", F.gelu),
        ("silu", F.silu),
        ("sigmoid", torch.sigmoid),
        ("tanh", torch.tanh),
    ):
        theirs = partial(lambda f, x, w, b, activation: f(F.linear(x, w, b)), activation)
        found.append(case(hg.linear, theirs, numbers(2, 3, 5), numbers(4, 5), numbers(4), activation=name))
    flat = numbers(6), numbers(12)
    found.append(case(hg.gemm, lambda a, b, m, k, n: a.view(m, k) @ b.view(k, n), *flat, m=2, k=3, n=4))
    return found


def convolutions() -> list[Any]:
    settings = [
        ((3, 2), {"padding": 1}), ((3, 3), {"stride": 2, "padding": 1}), ((1, 1), {"stride": 2}),
        ((2, 2), {"stride": 3}), ((3, 2), {"stride": (2, 3), "dilation": (2, 1), "padding": (2, 0)}),
        ((3, 3), {"dilation": 2, "stride": 2}), ((2, 3), {"dilation": 3, "stride": 2, "padding": 4}),
    ]  # fmt: skip
    found = []
    for window, attributes in settings:
        for groups in (1, 2, 4):
            given = numbers(2, 4, 13, 12), numbers(8, 4 // groups, *window), numbers(8)
            found.append(case(hg.conv2d, F.conv2d, *given, groups=groups, **attributes))
        given = numbers(2, 4, 6, 5), numbers(4, 3, *window), numbers(6)
        found.append(case(hg.conv_transpose2d, F.conv_transpose2d, *given, groups=2, **attributes))
    for axes in (1, 2):
        ours, theirs = ((hg.conv_transpose1d, F.conv_transpose1d), (hg.conv_transpose2d, F.conv_transpose2d))[
            axes - 1
        ]
        given = numbers(1, 4, *(5, 4)[:axes]), numbers(4, 8, *(3, 3)[:axes])
        found.append(case(ours, theirs, *given, stride=2, dilation=3, output_padding=2, padding=1))
    lines = numbers(3, 4, 17), numbers(6, 4, 4), numbers(6)
    found.append(case(hg.conv1d, F.conv1d, *lines, stride=3, padding=2, dilation=2))
    found.append(
        case(hg.conv2d, F.conv2d, numbers(5, 8, 40, 41), numbers(16, 8, 3, 3), numbers(16), padding=1)
    )
    return found


def pools() -> list[Any]:
    found = []
    windows = (
        {"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1}, {"kernel_size": 3, "stride": 1},
        {"kernel_size": (2, 3), "stride": (3, 1), "padding": (1, 0)},
    )  # fmt: skip
    for attributes in windows:
        found.append(case(hg.max_pool2d, F.max_pool2d, equals(2, 3, 9, 8), **attributes))
        for whole in (True, False):
            found.append(
                case(hg.avg_pool2d, F.avg_pool2d, numbers(2, 3, 9, 8), count_include_pad=whole, **attributes)
            )
    found.append(case(hg.max_pool2d, F.max_pool2d, equals(2, 3, 9, 8), kernel_size=2, stride=1, dilation=3))
    found.append(case(hg.max_pool1d, F.max_pool1d, equals(2, 3, 9), kernel_size=3, stride=2, padding=1))
    found.append(case(hg.avg_pool1d, F.avg_pool1d, numbers(2, 3, 9), kernel_size=3, stride=2, padding=1))
    return found


def positions() -> list[Any]:
    repeated, once = np.array([[0, 4, 2], [3, 3, 3]]), np.array([[0, 1, 2], [3, 4, 0]])

    def theirs(function: Any, index: np.ndarray) -> Any:
        return lambda x, *source, dim: function(x, dim, torch.from_numpy(index), *source)

    def ours(function: Any, index: np.ndarray) -> Any:
        def call(x: Any, *source: Any, dim: int) -> Any:
            return function(x, x.executor.tensor(index), *source, dim=dim)

        call.__name__ = function.name
        return call

    def named(name: str, function: Any) -> Any:
        function.__name__ = name
        return function

    found = []
    for dim in (0, -2):
        for function, other in ((hg.gather, torch.gather),):
            found.append(case(ours(function, repeated), theirs(other, repeated), numbers(5, 4), dim=dim))
        given = numbers(5, 4), numbers(2, 3)
        found.append(
            case(ours(hg.scatter_add, repeated), theirs(torch.scatter_add, repeated), *given, dim=dim)
        )
        found.append(case(ours(hg.scatter, once), theirs(torch.scatter, once), *given, dim=dim))
    many = GENERATOR.integers(0, 7, (40, 300))
    found.append(case(ours(hg.gather, many), theirs(torch.gather, many), numbers(40, 7), dim=1))
    for index in (np.array([1, 1, -1, 2]), np.array([], np.int64)):
        picked = named("index_select", lambda x, k=index: hg.index_select(x, x.executor.tensor(k), axis=1))
        found.append(case(picked, lambda x, k=index: x[:, torch.from_numpy(k)], numbers(5, 4, 3)))
    for index in (repeated, np.array(3), GENERATOR.integers(0, 5, (3, 200)), np.zeros((0, 2), np.int64)):
        embedded = named("embedding", lambda w, k=index: hg.embedding(w.executor.tensor(k), w))
        found.append(case(embedded, lambda w, k=index: F.embedding(torch.from_numpy(k), w), numbers(5, 37)))
    return found


def _largest(x: Any, **attributes: Any) -> Any:
    return hg.topk(x, **attributes)[0]


def orders() -> list[Any]:
    stable = partial(torch.sort, stable=True)
    found = [
        case(hg.sort, lambda x, **rest: stable(x, **rest)[0], equals(6, 5), words={"axis": "dim"}, axis=a, descending=d)
        for a in (0, -1) for d in (False, True)
    ]  # fmt: skip
    found.append(case(hg.sort, lambda x, axis: x + 0, numbers(), axis=0))
    for axis, largest in ((0, True), (-1, False)):
        theirs = partial(lambda x, k, axis, largest: torch.topk(x, k, axis, largest)[0])
        found.append(case(_largest, theirs, numbers(6, 5), k=3, axis=axis, largest=largest))
    for shape, axis in (((3, 300, 2), 1), ((3, 0), 1), ((4, 5), -2)):
        found.append(case(hg.cumsum, torch.cumsum, numbers(*shape), axis=axis, words={"axis": "dim"}))
    pad = lambda x, padding, value: F.pad(x, (1, 0, 0, 2), value=value)  # noqa: E731
    found.append(case(hg.pad, pad, numbers(3, 4), padding=((0, 2), (1, 0)), value=3.0))
    for k in (-1, 2):
        words = {"k": "diagonal"}
        found.append(case(hg.tril, torch.tril, numbers(2, 4, 5), k=k, words=words))
        found.append(case(hg.triu, torch.triu, numbers(2, 4, 5), k=k, words=words))
    return found


def attentions() -> list[Any]:
    attend, theirs = hg.scaled_dot_product_attention, F.scaled_dot_product_attention
    words = {"causal": "is_causal"}
    qkv = numbers(2, 3, 5, 4), numbers(2, 3, 7, 4), numbers(2, 3, 7, 6)
    below = torch.ones(5, 7, dtype=torch.bool).tril()
    keep = GENERATOR.random((2, 1, 5, 7)) < 0.6
    keep[0, 0, 3] = False  # a row without anything to look at
    hidden = np.where(keep[1, 0], numbers(5, 7), -np.inf)

    def masked(q: Any, k: Any, v: Any, causal: bool, scale: float) -> Any:
        return attend(q, k, v, q.executor.tensor(keep), causal=causal, scale=scale)

    def masked_there(q: Any, k: Any, v: Any, causal: bool, scale: float) -> Any:
        mask = torch.from_numpy(keep)
        return theirs(q, k, v, mask & below if causal else mask, scale=scale)

    def grouped(q: Any, k: Any, v: Any, causal: bool) -> Any:
        return theirs(q, k.expand(2, 3, 4, 7, 4), v.expand(2, 3, 4, 7, 6), is_causal=causal)

    def biased(q: Any, k: Any, v: Any, bias: Any, causal: bool) -> Any:
        return theirs(q, k, v, torch.where(below, bias, -torch.inf) if causal else bias)

    heads = numbers(2, 3, 4, 5, 4), numbers(2, 3, 1, 7, 4), numbers(2, 3, 1, 7, 6)
    found = []
    for causal in (False, True):
        found.append(case(attend, theirs, *qkv, causal=causal, words=words))
        found.append(case(masked, masked_there, *qkv, causal=causal, scale=0.3))
        found.append(case(attend, grouped, *heads, causal=causal))
        found += [case(attend, biased, *qkv, b, causal=causal) for b in (numbers(3, 1, 7), hidden)]
    few = numbers(5, 4), numbers(2, 7, 4), numbers(2, 7, 6)
    found.append(case(attend, lambda q, k, v: theirs(q.expand(2, 5, 4), k, v), *few))
    none = numbers(2, 3, 4), numbers(2, 0, 4), numbers(2, 0, 4)
    found.append(case(attend, lambda q, k, v: q * 0.0, *none))
    return found


CASES = [*products(), *convolutions(), *pools(), *positions(), *orders(), *attentions()]


def gradients(found: Case, dtype: str) -> tuple[Any, Callable[..., Any], list[np.ndarray]]:
    """Operands of that dtype, our gradient of a weighted sum, and PyTorch's from the same numbers in f64."""
    rounded = [torch.from_numpy(np.asarray(x)).to(getattr(torch, NAMES[dtype])) for x in found.operands]
    theirs = [x.double().clone().requires_grad_() for x in rounded]
    result = found.other(*theirs)
    weights = np.linspace(-1.0, 1.0, result.numel()).reshape(tuple(result.shape))
    exact = torch.from_numpy(weights).to(getattr(torch, NAMES[dtype])).double()
    wanted = torch.autograd.grad((result * exact).sum(), theirs, allow_unused=True)
    wanted = [np.zeros(t.shape) if w is None else w.numpy() for w, t in zip(wanted, theirs, strict=True)]
    given = [x.double().numpy() for x in rounded]
    summed = "f64" if dtype == "f64" else "f32"

    def loss(*operands: Any) -> Any:
        factors = operands[0].executor.tensor(weights.astype(NAMES[summed])).astype(dtype)
        return hg.sum(found.mine(*operands).astype(summed) * factors)

    return given, hg.grad(loss, tuple(range(len(given)))), wanted


NAMES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def close(got: hg.Tensor, wanted: np.ndarray, dtype: str) -> None:
    assert got.shape == wanted.shape
    assert got.dtype.name == dtype
    if wanted.size:
        error = np.abs(got.astype("f32" if dtype != "f64" else dtype).to_numpy() - wanted).max()
        assert error <= TOLERANCE[dtype] * max(1.0, np.abs(wanted).max())


def strided(x: hg.Tensor) -> hg.Tensor:
    """The same elements with gaps, an offset and a negative stride."""
    if not x.ndim:
        return x
    wide = x.executor.zeros((*(n + 1 for n in x.shape[:-1]), 2 * x.shape[-1] + 3), dtype=x.dtype)
    inner = (*(slice(1, None) for _ in x.shape[:-1]), slice(2 * x.shape[-1], 0, -2))
    wide[inner] = x
    return wide[inner]


@pytest.mark.parametrize("found", CASES)
def test_gradients_are_those_of_torch(found: Case, executor: hg.Executor) -> None:
    dtype = "f64" if executor.backend == "cpu" else "f32"
    given, gradient, wanted = gradients(found, dtype)
    operands = [executor.tensor(x.astype(NAMES[dtype])) for x in given]
    for results in (gradient(*operands), gradient(*map(strided, operands)), hg.jit(gradient)(*operands)):
        for got, want in zip(results, wanted, strict=True):
            close(got, want, dtype)


NARROW = [c for c in CASES if not np.isinf([x.min() for x in c.values[0].operands if x.size]).any()][::3]


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("found", NARROW)
def test_floats_of_16_bits_are_rounded_late(found: Case, dtype: str, executor: hg.Executor) -> None:
    needs(executor, dtype)
    given, gradient, wanted = gradients(found, dtype)
    operands = [executor.tensor(x.astype(np.float32)).astype(dtype) for x in given]
    for got, want in zip(gradient(*operands), wanted, strict=True):
        close(got, want, dtype)


def smooth(found: Case) -> bool:
    """Whether PyTorch has its second derivatives: of something, and not of maxima."""
    return found.name != "max_pool2d" and found.other(*map(torch.tensor, found.operands)).numel() > 0


SECOND = [c for c in CASES if smooth(c.values[0])]


@pytest.mark.parametrize("found", SECOND[::4])
def test_second_derivatives_are_those_of_torch(found: Case, executor: hg.Executor) -> None:
    dtype = "f64" if executor.backend == "cpu" else "f32"
    operands = [x.astype(NAMES[dtype]) for x in found.operands]
    theirs = [torch.from_numpy(x).double().requires_grad_() for x in operands]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        first = torch.autograd.grad((found.other(*theirs) ** 2).sum(), theirs, create_graph=True)
        wanted = torch.autograd.grad(sum((g**2).sum() for g in first), theirs)

    def steepness(*xs: Any) -> Any:
        slopes = hg.grad(lambda *ys: hg.sum(hg.square(found.mine(*ys))), tuple(range(len(xs))))(*xs)
        total = hg.sum(hg.square(slopes[0]))
        for slope in slopes[1:]:
            total = total + hg.sum(hg.square(slope))
        return total

    got = hg.grad(steepness, tuple(range(len(operands))))(*map(executor.tensor, operands))
    for mine, want in zip(got, wanted, strict=True):
        close(mine, want.numpy(), dtype)


def test_sums_at_repeated_positions_have_an_order_on_the_cpu() -> None:
    rows, cotangents = GENERATOR.integers(0, 3, 5_000), numbers(5_000, 64).astype(np.float32)
    wanted = np.zeros((3, 64), np.float32)
    np.add.at(wanted, rows, cotangents)  # from the first to the last
    with hg.Executor("cpu") as executor:
        index = executor.tensor(rows)
        _, pullback = hg.vjp(lambda w: hg.embedding(index, w), executor.zeros((3, 64)))
        np.testing.assert_array_equal(pullback(executor.tensor(cotangents))[0].to_numpy(), wanted)


def test_dropout_drops_the_same(executor: hg.Executor) -> None:
    x = executor.tensor(numbers(7, 9).astype(np.float32) + 3.0)
    y, pullback = hg.vjp(lambda x: hg.dropout(x, p=0.4, seed=5, offset=2), x)
    (cotangent,) = pullback(executor.ones(x.shape))
    np.testing.assert_allclose(cotangent.to_numpy(), y.to_numpy() / x.to_numpy(), rtol=1e-6)
    assert (cotangent.to_numpy() == 0).any()


def test_constants_have_none(executor: hg.Executor) -> None:
    def loss(x: Any) -> Any:
        order = hg.argsort(x)
        noise = hg.random_uniform(x.executor, shape=x.shape, seed=1)
        return hg.sum(x * order.astype("f32") + noise)

    x = executor.tensor(numbers(9).astype(np.float32))
    np.testing.assert_array_equal(hg.grad(loss)(x).to_numpy(), np.argsort(x.to_numpy()).astype(np.float32))


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("function", "operands", "wanted"),
    [
        (lambda x: hg.logsumexp(x), ([1.0, 2.0, INF],), ([0.0, 0.0, NAN],)),
        (lambda x: hg.logsumexp(x), ([1.0, NAN],), ([NAN, NAN],)),
        (lambda x: hg.logsumexp(x), ([-INF, 0.0],), ([0.0, 1.0],)),
        (hg.logaddexp, ([NAN, 1.0, INF, 1.0, -INF], [1.0, NAN, 1.0, INF, -INF]),
         ([NAN, NAN, 1.0, 0.0, 0.5], [NAN, NAN, 0.0, 1.0, 0.5])),
        (hg.remainder, ([2.0, -2.0, 0.0, 2.5, -4.0], [1.0, 1.0, 3.0, 2.0, -2.0]),
         ([1.0, 1.0, 1.0, 1.0, 1.0], [-2.0, 2.0, 0.0, -1.0, -2.0])),
    ],
)  # fmt: skip
def test_derivatives_where_numbers_are_special(
    function: Any, operands: Any, wanted: Any, executor: hg.Executor
) -> None:
    given = [executor.tensor(x) for x in operands]
    slopes = hg.grad(lambda *xs: hg.sum(function(*xs)), tuple(range(len(given))))(*given)
    for slope, want in zip(slopes, wanted, strict=True):
        np.testing.assert_allclose(slope.to_numpy(), np.array(want, np.float32), rtol=1e-6)
