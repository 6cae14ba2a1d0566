"""What fuses with what: the kernels of a function, counted, and its results against the same function run eagerly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.atlas.opcodes import Opcode
from hologram.atlas.program import Program
from hologram.compiler.functions.transcendental import every, expand
from hologram.compiler.fusion.fuse import MOST_INSTRUCTIONS
from tests.needs import needs


@dataclass(frozen=True)
class Case:
    """A function, the shapes of its arguments, and how many kernels it takes on the CPU."""

    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    kernels: int
    dtype: str = "float32"
    elsewhere: int | None = None  # kernels where rows in odd strides are copied before a product


def chain(a, b):
    return hg.sigmoid(a * b + a) * hg.tanh(b) + hg.exp(a)


def both_ways(a):
    return a.T * 2 + a.T[::-1]


def softmax_by_hand(x, axis=-1):
    e = hg.exp(x - hg.max(x, axis=axis, keepdims=True))
    return e / hg.sum(e, axis=axis, keepdims=True)


def layer_norm_by_hand(x, weight, bias):
    centred = x - hg.mean(x, axis=-1, keepdims=True)
    variance = hg.mean(centred * centred, axis=-1, keepdims=True)
    return centred / hg.sqrt(variance + 1e-5) * weight + bias


def mlp(x, w1, b1, w2, b2):
    return hg.gelu(x @ w1 + b1) @ w2 + b2 + x


def adam(p, g, m, v):
    m = m * 0.9 + g * 0.1
    v = v * 0.99 + g * g * 0.01
    return p - 1e-3 * (m / 0.1) / (hg.sqrt(v / 0.01) + 1e-8), m, v


def heads(x):
    weights = hg.softmax(x.reshape(4, 8, 16).permute(1, 0, 2) * 2, dim=-1)
    return weights.permute(1, 0, 2).reshape(4, 128)


def batch_norm_by_hand(x):
    mean, variance = (f(x, axis=(0, 2, 3), keepdims=True) for f in (hg.mean, hg.var))
    return hg.relu((x - mean) / hg.sqrt(variance + 1e-5))


def gated(x):
    y = x * 2 + 1
    return y[:, :8] * hg.sigmoid(y[:, 8:])


def written(a):
    y = a * 2
    y += 1
    y[3:7] = 0.0
    return y * a


def stencil(x):
    wide = hg.pad(x, ((1, 1), (1, 1)))
    return x + wide[2:, 1:-1] + wide[:-2, 1:-1] - wide[1:-1, 2:] * wide[1:-1, :-2]


def diamond(x):
    y = hg.relu(x)
    return y @ y.T, y.sum()


CASES = {
    "chain": Case(chain, ((1000,), (1000,)), 1),
    "chain, broadcast": Case(chain, ((10, 100), (100,)), 1),
    "a dear operand, broadcast": Case(lambda a, b: hg.exp(b) * a, ((3000, 100), (100,)), 2),
    "a cheap operand, broadcast": Case(lambda a, b: (b + 1) * a, ((3000, 100), (100,)), 1),
    "views": Case(both_ways, ((30, 30),), 1),
    "flip": Case(lambda x: hg.flip(x * 2, axis=1) + x, ((5, 6),), 1),
    "slices": Case(gated, ((5, 16),), 1),
    "a copy to another order": Case(lambda x: x.reshape(6, 5).T * 2 + 1, ((5, 6),), 1),
    "softmax": Case(softmax_by_hand, ((50, 60),), 1),
    "softmax down columns": Case(lambda x: softmax_by_hand(x, 0), ((50, 60),), 1),
    "softmax in the middle": Case(lambda x: softmax_by_hand(x, 1), ((5, 20, 6),), 1),
    "layer_norm": Case(layer_norm_by_hand, ((50, 60), (60,), (60,)), 1),
    "layer_norm, before and after": Case(
        lambda x, w, b: hg.gelu(hg.layer_norm(x * 2, w, b)) + x, ((50, 60), (60,), (60,)), 1
    ),
    "two reductions of one row": Case(lambda x: (hg.var(x * 3 + 1, axis=1) ** 2, hg.mean(x, axis=1)), ((50, 60),), 1),
    "permuted softmax": Case(heads, ((4, 128),), 1),
    "permuted result": Case(lambda x: (x - x.mean(axis=1, keepdims=True)).T.contiguous(), ((50, 60),), 1),
    "batch_norm": Case(batch_norm_by_hand, ((2, 4, 5, 5),), 1),
    "one row": Case(lambda x: (x - x.mean()) / x.std(), ((40, 50),), 1),
    "a loss": Case(lambda x, y: ((x - y) ** 2).sum() / x.size, ((500, 60), (500, 60)), 1),
    "no axes": Case(lambda x: x * 2.0 + x.sum(), ((),), 1),
    "rows across rows": Case(lambda x: softmax_by_hand(x, 0) + softmax_by_hand(x, 1), ((20, 30),), 2),
    "mlp": Case(mlp, ((64, 32), (32, 128), (128,), (128, 32), (32,)), 2),
    "linear": Case(
        lambda x, w, b: hg.linear(x, w, b, activation="gelu") * 2, ((2, 8, 16), (24, 16), (24,)), 1
    ),
    "gemm": Case(lambda a, b: hg.relu(hg.gemm(a, b, m=4, k=8, n=12)), ((32,), (96,)), 1),
    "a residual, transposed": Case(lambda x, w, r: x @ w + r.T, ((16, 8), (8, 16), (16, 16)), 1),
    "a product's reduction": Case(lambda x, w: hg.softmax(x @ w), ((16, 8), (8, 16)), 2),
    "a product with a vector": Case(lambda a, x: hg.relu(a @ x), ((16, 8), (8,)), 2),
    "convolution": Case(
        lambda x, w, b, r: hg.relu(hg.conv2d(x, w, b, padding=1) + r),
        ((2, 3, 6, 7), (8, 3, 3, 3), (8,), (2, 8, 6, 7)),
        1,
        elsewhere=5,  # x in zeros, its windows, these and weights as products read them, the product
    ),
    "a convolution of one axis": Case(
        lambda x, w, b: hg.gelu(hg.conv1d(x, w, b) * 2), ((2, 3, 20), (8, 3, 3), (8,)), 1, elsewhere=3
    ),
    "linear in half precision": Case(
        lambda x, w, b: hg.linear(x, w, b) * 2, ((20, 16), (12, 16), (12,)), 3, "float16", elsewhere=4
    ),
    "adam": Case(adam, ((1000,),) * 4, 1),
    "dead code": Case(lambda x: (hg.softmax(x), x + 1)[1], ((10, 10),), 1),
    "half precision": Case(lambda a: hg.exp(a * a) + a, ((100,),), 1, "float16"),
    "integers": Case(lambda x: ((x * 3 + 1) // 2 % 7, x > 2), ((5, 6),), 1, "int32"),
    "double precision": Case(lambda x: hg.exp(x) + x.sum(axis=-1, keepdims=True), ((5, 6),), 1, "float64"),
    "empty": Case(lambda x: (x * 2, x.sum(axis=0)), ((0, 5),), 1),
    "in place": Case(written, ((20,),), 1),
    "padding": Case(lambda x: hg.pad(hg.exp(x), ((1, 2), (3, 0))) * 2, ((5, 6),), 1),
    "padding, and a reduction": Case(lambda x: hg.max(hg.pad(x * 2, ((1, 2), (3, 0))), axis=1), ((50, 60),), 1),
    "padding within padding, backwards": Case(
        lambda x: hg.pad(hg.pad(x + 1, padding=(2, 1), value=-1.0)[::-1] * 3, (1, 4))[1::2], ((9,),), 1
    ),
    "a stencil": Case(stencil, ((20, 30),), 1),
    "a gradient of slices": Case(
        hg.grad(lambda x: ((x[1:] - x[:-1] ** 2) ** 2).sum() + (x[2:-2] ** 3).sum()), ((40,),), 1
    ),
    "several users": Case(diamond, ((16, 16),), 2),
}  # fmt: skip


def arrays(case: Case) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    return [
        (rng.uniform(0.25, 2, shape) * rng.choice([1, 3], shape)).astype(case.dtype) for shape in case.shapes
    ]


def _adds(compiled: Any) -> bool:
    """Whether a kernel adds up, or multiplies, the elements of rows."""
    kernels = (step.kernel for step in compiled.assembly.plan.steps)
    adding = {Opcode.REDUCE_ADD, Opcode.REDUCE_MUL}
    return any(i.opcode in adding for k in kernels if isinstance(k, Program) for i in k.body.instructions)


@pytest.mark.parametrize("name", CASES)
def test_fused_results_and_kernels(executor: hg.Executor, name: str) -> None:
    case = CASES[name]
    needs(executor, case.dtype)
    tensors = [executor.tensor(a) for a in arrays(case)]
    jitted = hg.jit(case.function)
    found = jitted.compiled(*tensors)
    got, wanted = jitted(*tensors), case.function(*tensors)
    pairs = zip(got, wanted, strict=True) if isinstance(got, tuple) else [(got, wanted)]
    for ours, eager in pairs:
        assert (ours.dtype, ours.shape) == (eager.dtype, eager.shape)
        # One kernel or several, each value is rounded as before. But LLVM chooses how many sums of a row it keeps at a
        # time, one where it does not optimise and more for wider vectors; and a driver may contract a * b + c.
        exact = executor.limits.host_resident and not _adds(found)
        slack = 0.0 if exact else 2.0**-20
        np.testing.assert_allclose(ours.to_numpy(), eager.to_numpy(), rtol=slack, atol=slack)
    kernels = case.kernels if executor.limits.host_resident else case.elsewhere or case.kernels
    reasons = [group.reasons for group in found.assembly.groups]
    limits = executor.limits
    # An update of Adam's sees more than 8 buffers, and a product without subgroups reads a copy.
    short = not limits.host_resident and (limits.max_bindings <= 8 or limits.subgroup == 1)
    if limits.host_resident or (limits.software and not short):
        assert found.dispatches == kernels, reasons
    else:  # kernels for a GPU's units take in more: a convolution is one on an H200
        assert found.dispatches <= kernels + short, reasons


def test_small_updates_of_different_sizes_share_kernels_where_launches_are_dear(
    executor: hg.Executor,
) -> None:
    """A branch for each size, in as few kernels as bindings allow; nobody writes to another's elements."""
    rng = np.random.default_rng(2)
    sizes = [(3,), (7, 5), (1,), (64,), (129,), (10, 10), (1000,)]
    lists = [[executor.tensor(rng.uniform(0.5, 1, s).astype(np.float32)) for s in sizes] for _ in range(4)]

    def step(*lists):
        return [adam(*four) for four in zip(*lists, strict=True)]

    wanted = [[t.to_numpy() for t in three] for three in step(*lists)]
    jitted = hg.jit(step)
    kernels = jitted.dispatches(*lists)
    most = 2 if executor.limits.max_bindings > 8 else 2 * len(sizes)  # Adam's updates see more, one alone
    assert kernels == len(sizes) if executor.limits.cheap_launches else kernels <= most
    for _ in range(2):
        for ours, eager in zip(jitted(*lists), wanted, strict=True):
            for a, b in zip(ours, eager, strict=True):
                np.testing.assert_allclose(a.to_numpy(), b, rtol=1e-6)
    donated = hg.jit(step, donate=(0, 2, 3))(*lists)
    for ours, eager in zip(donated, wanted, strict=True):
        for a, b in zip(ours, eager, strict=True):
            np.testing.assert_allclose(a.to_numpy(), b, rtol=1e-6)


def test_small_launches_that_wait_for_each_other_stay_in_order(executor: hg.Executor) -> None:
    def step(a, b):
        total = hg.cumsum(a * 2)  # a kernel of its own, between two small ones
        return total + 1, b * 3, hg.cumsum(b) - 1, total[:3] * 2

    tensors = [executor.tensor(np.arange(n, dtype=np.float32)) for n in (10, 20)]
    for ours, eager in zip(hg.jit(step)(*tensors), step(*tensors), strict=True):
        np.testing.assert_array_equal(ours.to_numpy(), eager.to_numpy())


def test_many_updates_share_kernels_where_launches_are_dear(executor: hg.Executor) -> None:
    rng = np.random.default_rng(1)
    count = 50
    tensors = [executor.tensor(rng.uniform(0.5, 1, 100).astype(np.float32)) for _ in range(4 * count)]

    def step(parameters, gradients, means, squares):
        return [adam(*four) for four in zip(parameters, gradients, means, squares, strict=True)]

    lists = [tensors[k * count : (k + 1) * count] for k in range(4)]
    wanted = [[t.to_numpy() for t in three] for three in step(*lists)]
    jitted = hg.jit(step, donate=(0, 2, 3))
    kernels = jitted.dispatches(*lists)
    most = 10 if executor.limits.max_bindings > 8 else 2 * count
    assert kernels == 50 if executor.limits.cheap_launches else kernels <= most
    for ours, eager in zip(jitted(*lists), wanted, strict=True):
        for a, b in zip(ours, eager, strict=True):
            np.testing.assert_allclose(a.to_numpy(), b, rtol=1e-6)


@pytest.mark.parametrize("name", ["sin", "tanh"])
def test_kernels_are_cut_by_the_code_that_functions_become(executor: hg.Executor, name: str) -> None:
    def chain(x):
        for _ in range(100):
            x = getattr(hg, name)(x)
        return x

    x = executor.tensor(np.linspace(-3, 3, 37, dtype=np.float32))
    plan = hg.jit(chain).compiled(x).assembly.plan
    kernels = [s.kernel for s in plan.steps if isinstance(s.kernel, Program)]
    assert len(kernels) == len(plan.steps)
    sizes = [sum(1 for _ in expand(kernel, every).body.walk()) for kernel in kernels]
    assert max(sizes) < 1.2 * MOST_INSTRUCTIONS
    assert len(sizes) <= 2 + sum(sizes) / MOST_INSTRUCTIONS  # and no sooner than they must


AGREEING: dict[str, Callable[..., Any]] = {
    "element-wise": lambda x, a, b: hg.exp(x * a + b) / (hg.tanh(x) + 3.0) - x * x,
    "maxima": lambda x, a, b: hg.max(x * a, axis=1) - hg.min(x + b, axis=0),
    "places": lambda x, a, b: hg.argmax(x * a + b, axis=1),
    "integers": lambda x, a, b: hg.sum((x * 100).astype("i32") * 3, axis=1),
    "half precision": lambda x, a, b: (x.astype("f16") * a.astype("f16") + b).astype("f16") * 0.1,
}
ADDING: dict[str, Callable[..., Any]] = {
    "sum": lambda x, a, b: hg.sum(x + (a + b), axis=1),
    "columns": lambda x, a, b: hg.sum(x * a + b, axis=0),
    "softmax": lambda x, a, b: hg.softmax(x * a, dim=-1),
    "layer_norm": lambda x, a, b: hg.layer_norm(x + b),
    "variance": lambda x, a, b: hg.var(x * a, axis=1),
}


@pytest.mark.parametrize("name", [*AGREEING, *ADDING])
def test_agrees_with_the_operations_one_by_one_as_far_as_is_said(executor: hg.Executor, name: str) -> None:
    rng = np.random.default_rng(11)
    arguments = [
        executor.tensor(rng.standard_normal(s).astype(np.float32)) for s in ((256, 256), (256,), (256,))
    ]
    function = AGREEING.get(name) or ADDING[name]
    found, alone = hg.jit(function)(*arguments).to_numpy(), function(*arguments).to_numpy()
    if name in AGREEING and executor.limits.host_resident:  # a GPU's driver may contract
        np.testing.assert_array_equal(found, alone)
    else:
        np.testing.assert_allclose(found, alone, rtol=1e-3 if found.dtype == np.float16 else 2e-5, atol=2e-5)


@pytest.mark.parametrize("kind", ["i8", "i16", "i32", "u8", "u32"])
def test_comparisons_of_widened_integers(executor: hg.Executor, kind: str) -> None:
    values = np.array(
        [0, 1, 2, 100, -1, -2] if kind[0] == "i" else [0, 1, 2, 100, 200],
        np.dtype(hg.dtypes.dtype(kind).numpy),
    )
    x = executor.tensor(values)
    for number in (1, 100, 0, 2**40, -(2**40)):
        found = hg.jit(
            lambda x, n=number: [
                f(x.astype("i64"), n) for f in (hg.less, hg.less_equal, hg.equal, hg.greater)
            ]
        )(x)
        wide = values.astype(np.int64)
        for got, wanted in zip(
            found, (wide < number, wide <= number, wide == number, wide > number), strict=True
        ):
            np.testing.assert_array_equal(got.to_numpy(), wanted)


def test_a_kernel_goes_over_its_rows_a_few_times_at_most(executor: hg.Executor) -> None:
    """Each time it computes anew what it did before: a chain in one kernel would take time that grows as its square."""
    length = 12

    def chain(x: hg.Tensor, y: hg.Tensor) -> hg.Tensor:
        for _ in range(length):
            x = hg.softmax(x * y, dim=0)
        return x

    x, y = (executor.tensor(np.random.default_rng(k).random(1000, np.float32)) for k in range(2))
    jitted = hg.jit(chain)
    np.testing.assert_allclose(jitted(x, y).to_numpy(), chain(x, y).to_numpy(), rtol=1e-5)
    kernels = 1 if executor.limits.host_resident else length // 2
    assert jitted.compiled(x, y).dispatches == kernels


def test_rows_along_axes_of_one_element(executor: hg.Executor) -> None:
    """What is read again steps otherwise along such an axis than what was met."""
    x = np.random.default_rng(0).standard_normal((1, 1, 8, 7, 7)).astype(np.float32)
    softmax, total = hg.jit(lambda z: hg.softmax(z, dim=0)), hg.jit(lambda z: z.sum(axis=(0, 4)))
    assert np.array_equal(softmax(executor.ones((1, 3, 1))).to_numpy(), np.ones((1, 3, 1), np.float32))
    np.testing.assert_allclose(total(executor.tensor(x)).to_numpy(), x.sum(axis=(0, 4)), rtol=1e-5, atol=1e-5)


def test_chains_of_padding_see_a_large_value_in_few_boxes(executor: hg.Executor) -> None:
    """Each step sees the one before at four neighbours, that one at more: it would be computed ever again."""

    def smoothed(x: hg.Tensor) -> hg.Tensor:
        for _ in range(4):
            around = hg.pad(x, 1)
            x = x + 0.1 * (around[2:, 1:-1] + around[:-2, 1:-1] + around[1:-1, 2:] + around[1:-1, :-2])
        return x

    x = executor.tensor(np.random.default_rng(0).standard_normal((400, 700), dtype=np.float32))
    jitted = hg.jit(smoothed)
    np.testing.assert_allclose(jitted(x).to_numpy(), smoothed(x).to_numpy(), rtol=1e-4, atol=1e-5)
    groups = jitted.compiled(x).assembly.groups
    assert len(groups) == 4
    assert all(len(g.needs[v]) == 1 for g in groups for v in g.stores)


def test_little_of_much_is_written_in_place(executor: hg.Executor) -> None:
    def updated(x: hg.Tensor) -> hg.Tensor:
        for k in range(6):
            x = x.at[k : k + 20].set(x[k + 1 : k + 21] * 0.5 + x[k : k + 20])
        return x

    x = executor.tensor(np.random.default_rng(1).standard_normal((300, 1100), dtype=np.float32))
    jitted = hg.jit(updated)
    np.testing.assert_allclose(jitted(x).to_numpy(), updated(x).to_numpy(), rtol=1e-6)
    anchors = [g.anchor.operation.name for g in jitted.compiled(x).assembly.groups if g.anchor is not None]
    assert anchors == ["overwrite"] * 6
    few = executor.tensor(np.ones((30, 3), np.float32))
    assert all(g.anchor is None for g in jitted.compiled(few).assembly.groups)
