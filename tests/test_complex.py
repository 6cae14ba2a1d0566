"""Complex numbers beyond what test_ops.py sees: views of parts, numbers beside tensors, refusals, derivatives."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hologram as hg
from hologram.foundation import dtypes
from hologram.foundation.dtypes import COMPLEX, DType
from hologram.opset import OPERATIONS
from hologram.opset.forms.expression import Expression
from hologram.opset.forms.operation import Operation, Sample
from hologram.opset.forms.row import Row
from tests.needs import needs

BOUNDED = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
EACH = pytest.mark.parametrize("dtype", COMPLEX, ids=str)


def numbers(seed: int, shape: tuple[int, ...], dtype: DType = dtypes.c64) -> Any:
    rng = np.random.default_rng(seed)
    return (rng.uniform(-2, 2, shape) + 1j * rng.uniform(-2, 2, shape)).astype(dtype.numpy)


# Views.


@EACH
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 5), (2, 0, 3)])
def test_parts_are_views(executor: hg.Executor, dtype: DType, shape: tuple[int, ...]) -> None:
    needs(executor, dtype)
    z = numbers(1, shape, dtype)
    x = executor.tensor(z)
    for found, want in ((x.real, z.real), (x.imag, z.imag), (hg.real(x), z.real), (hg.imag(x), z.imag)):
        assert found.dtype is dtype.part
        np.testing.assert_array_equal(found.to_numpy(), want)
    pairs = hg.view_as_real(x)
    assert pairs.shape == (*shape, 2)
    np.testing.assert_array_equal(pairs.to_numpy(), np.stack([z.real, z.imag], -1))
    np.testing.assert_array_equal(hg.view_as_complex(pairs).to_numpy(), z)
    x.real.executor.copy(7, x.real)
    hg.view_as_complex(pairs).imag.executor.copy(-1, x.imag)
    np.testing.assert_array_equal(x.to_numpy(), np.full(shape, 7 - 1j, dtype.numpy))


def test_parts_of_views_and_what_is_computed_in_place(executor: hg.Executor) -> None:
    z = numbers(2, (6, 8))
    x = executor.tensor(z)
    part = x[1::2, ::-3].imag
    np.testing.assert_array_equal(part.to_numpy(), z[1::2, ::-3].imag)
    part *= 2.0
    part[0] = 5.0
    z[1::2, ::-3].imag *= 2
    z[1::2, ::-3][0].imag = 5
    np.testing.assert_array_equal(x.to_numpy(), z)
    np.testing.assert_array_equal((x.T.real + x.T.imag).to_numpy(), z.T.real + z.T.imag)
    np.testing.assert_allclose(hg.sum(x.real, axis=0).to_numpy(), z.real.sum(0), rtol=1e-5, atol=1e-5)


def test_parts_that_do_not_lie_as_numbers_do_are_copied(executor: hg.Executor) -> None:
    parts = np.arange(14, dtype=np.float32).reshape(7, 2)
    x = executor.tensor(parts)
    want = parts[:, 0] + 1j * parts[:, 1]
    turned = executor.tensor(np.ascontiguousarray(parts.T)).T
    odd = executor.tensor(np.concatenate([[0], parts.ravel()]).astype(np.float32))[1:].reshape(7, 2)
    for lying in (x, turned, odd):
        np.testing.assert_array_equal(hg.view_as_complex(lying).to_numpy(), want)
    hg.view_as_complex(x)[3] = 0
    assert x[3].tolist() == [0.0, 0.0]
    hg.view_as_complex(turned)[3] = 0
    assert turned[3].tolist() == [6.0, 7.0]


def test_memory_outlives_the_tensor_it_is_a_part_of(executor: hg.Executor) -> None:
    parts = [executor.tensor(numbers(k, (1000,))).real for k in range(20)]
    for k, part in enumerate(parts):
        np.testing.assert_array_equal(part.to_numpy(), numbers(k, (1000,)).real)


# Dtypes and numbers.


@pytest.mark.parametrize("name", ["c64", "complex64", np.complex64, np.dtype("c8"), hg.complex64])
def test_the_names_of_a_dtype(name: Any) -> None:
    assert hg.dtypes.dtype(name) is hg.c64
    assert hg.dtypes.dtype(complex) is hg.complex128


@pytest.mark.parametrize(
    ("a", "b", "both"),
    [("c64", "f32", "c64"), ("c64", "f16", "c64"), ("c64", "i64", "c64"), ("c64", "bool", "c64"),
     ("c64", "f64", "c128"), ("c64", "c128", "c128"), ("c128", "f32", "c128"), ("c64", "bf16", "c64")],
)  # fmt: skip
def test_promotion(a: str, b: str, both: str) -> None:
    assert hg.result_type(a, b) is hg.result_type(b, a) is hg.dtypes.dtype(both)


@pytest.mark.parametrize("dtype", ["bool", "i32", "f16", "f32", "f64", "c64", "c128"])
def test_a_complex_number_takes_the_precision_of_what_stands_beside_it(
    executor: hg.Executor, dtype: str
) -> None:
    needs(executor, hg.dtypes.dtype(dtype).complex)
    needs(executor, hg.dtypes.dtype(dtype))
    x = executor.tensor([0, 1, 1]).astype(dtype)
    wanted = hg.c128 if dtype in ("f64", "c128") else hg.c64
    for made in (x * 2j, 2j * x, x + np.complex64(1j), hg.multiply(x, 1j), hg.where(x == 1, 1j, 0j * x)):
        assert made.dtype is wanted, made
    np.testing.assert_array_equal((x * 2j).to_numpy(), np.array([0, 2j, 2j]))
    assert hg.jit(lambda t: t - 1j)(x).dtype is wanted
    assert hg.result_type(hg.dtypes.dtype(dtype), 1j) is wanted


def test_making_and_reading(executor: hg.Executor) -> None:
    z = numbers(3, (2, 3))
    x = executor.tensor(z)
    assert executor.tensor([1j, 2.0]).dtype is hg.c64
    assert executor.full((2,), 1 - 2j, "c64").tolist() == [1 - 2j] * 2
    assert executor.zeros((2,), hg.c64).tolist() == [0, 0]
    assert executor.ones((2,), "c64").tolist() == [1, 1]
    assert x[0, 0].item() == complex(x[0, 0]) == complex(z[0, 0])
    assert pickle.loads(pickle.dumps(x)).dtype is hg.c64
    assert repr(x).startswith(f"Tensor({np.array2string(z, prefix='Tensor(')}, dtype=c64")
    np.testing.assert_array_equal(np.asarray(x), z)
    np.testing.assert_array_equal(np.from_dlpack(x.to_device("cpu")), z)
    np.testing.assert_array_equal(executor.from_dlpack(np.array(z)).to_numpy(), z)
    np.testing.assert_array_equal(executor.tensor(z.astype(">c8").astype("c8")).to_numpy(), z)
    assert x.astype("bool").tolist() == [[True] * 3] * 2
    x[0] = 2j
    x[1, 1:] = executor.tensor([1.0, 2.0])
    z[0], z[1, 1:] = 2j, [1, 2]
    np.testing.assert_array_equal(x.to_numpy(), z)


def test_sixteen_bytes_are_filled(executor: hg.Executor) -> None:
    needs(executor, hg.c128)
    assert executor.full((3,), 1.5 - 2j, "c128").tolist() == [1.5 - 2j] * 3
    assert executor.full((3,), 1 + 1j, "c128").tolist() == [1 + 1j] * 3
    assert executor.zeros((3,), "c128").tolist() == [0] * 3


def test_the_namespace(executor: hg.Executor) -> None:
    assert hg.isdtype(hg.c64, "complex floating")
    assert hg.isdtype(hg.c64, "numeric")
    assert not hg.isdtype(hg.c64, "real floating")
    assert hg.finfo(hg.c64).eps == hg.finfo(hg.f32).eps
    info = hg.__array_namespace_info__()
    assert info.default_dtypes()["complex floating"] is hg.c64
    assert info.dtypes(device=executor, kind="complex floating")["complex64"] is hg.c64
    assert hg.can_cast("f32", "c64")
    assert not hg.can_cast("c64", "f32")
    assert hg.linspace(0, 1j, 3, device=executor).tolist() == [0, 0.5j, 1j]


# What is refused.


def first_sample(operation: Operation) -> Sample | None:
    dtype = dtypes.f32 if dtypes.f32 in operation.dtypes else operation.dtypes[0]
    return next(iter(operation.samples(np.random.default_rng(0), dtype)), None)


def holds_floats(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


REFUSED = [
    (o, s)
    for o in OPERATIONS.values()
    if not o.takes_complex and (s := first_sample(o)) is not None and any(map(holds_floats, s.operands))
]


@pytest.mark.parametrize(("operation", "sample"), REFUSED, ids=[o.name for o, _ in REFUSED])
def test_what_has_no_meaning_is_refused_by_name(
    executor: hg.Executor, operation: Operation, sample: Sample
) -> None:
    def turned(x: Any) -> Any:
        if not isinstance(x, np.ndarray):
            return x
        return executor.tensor(x.astype(np.complex64) if holds_floats(x) else x)

    with pytest.raises((hg.UnsupportedDType, TypeError), match=r"c64|complex"):
        operation(*map(turned, sample.operands), **sample.attributes)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: x < x, hg.UnsupportedDType, "less: it has no meaning for complex numbers, got c64"),
        (lambda x: hg.jit(hg.max)(x), hg.UnsupportedDType, "max: it has no meaning for complex numbers"),
        (lambda x: x // 2, hg.UnsupportedDType, "floor_divide: it has no meaning"),
        (lambda x: x.astype("f32"), hg.UnsupportedDType, "loses the imaginary parts: use x.real"),
        (lambda x: float(x[0]), TypeError, "complex"),
        (lambda x: hg.view_as_real(x.real), hg.UnsupportedDType, "view_as_real: complex numbers are needed"),
        (lambda x: hg.view_as_complex(x.real), hg.ShapeError, "the last axis must be of two parts"),
        (lambda x: hg.complex(x, x), hg.UnsupportedDType, "complex: parts must be real numbers"),
        (lambda x: x.real.__iadd__(1j), hg.UnsupportedDType, "keeps f32, which cannot hold its result, c64"),
        (lambda x: hg.linear(x[None], x[None], activation="relu"), hg.UnsupportedDType, "relu has no meaning"),
        (lambda x: x.executor.full((2,), 1j, "f32"), hg.UnsupportedDType, "f32 cannot hold 1j"),
        (lambda x: hg.grad(lambda t: hg.sum(t))(x), hg.GradientError, "the result must be one float"),
    ],
)  # fmt: skip
def test_bad_input(executor: hg.Executor, call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(executor.tensor(numbers(4, (3,))))


def test_parts_are_not_written_to_where_they_are_copies(executor: hg.Executor) -> None:
    def write(x: hg.Tensor) -> hg.Tensor:
        y = x * 1.0
        y.real[0] = 7.0
        return hg.sum(abs(y))

    x = executor.tensor(numbers(5, (3,)))
    with pytest.raises(hg.TraceError, match="a part of a complex tensor is written to"):
        hg.jit(write)(x)
    with pytest.raises(hg.GradientError, match="a part of a complex tensor is written to"):
        hg.grad(write)(x)


# Infinities, NaN, extremes.


@EACH
def test_nothing_overflows_on_the_way(executor: hg.Executor, dtype: DType) -> None:
    needs(executor, dtype)
    most, least = float(np.finfo(dtype.part.numpy).max), float(np.finfo(dtype.part.numpy).tiny)
    huge = executor.tensor(np.array([most + 1j * most], dtype.numpy) * 0.5)
    tiny = executor.tensor(np.array([least + 1j * least], dtype.numpy))
    assert (huge / huge).item() == (tiny / tiny).item() == 1
    np.testing.assert_allclose(abs(huge).item(), most / 2**0.5, rtol=1e-6)
    np.testing.assert_allclose(hg.sqrt(huge).item(), np.sqrt(complex(most / 2, most / 2)), rtol=1e-6)
    np.testing.assert_allclose(hg.sign(huge).item(), (1 + 1j) / 2**0.5, rtol=1e-6)


def test_infinities_and_nan(executor: hg.Executor) -> None:
    inf, nan = float("inf"), float("nan")
    z = np.array([complex(inf, nan), complex(nan, 1), complex(1, -inf), 1 + 2j], np.complex64)
    x = executor.tensor(z)
    for name in ("isnan", "isinf", "isfinite", "abs", "conj"):
        np.testing.assert_array_equal(getattr(hg, name)(x).to_numpy(), getattr(np, name)(z), name)
    assert (x == x).tolist() == [False, False, True, True]
    assert (executor.tensor([complex(inf, 0)]) * 2.0).item() == complex(inf, 0)
    assert hg.exp(executor.tensor([complex(-inf, nan)])).item() == 0
    assert hg.isnan((executor.tensor([1 + 1j]) / 0).imag).item() is False  # each part by 0


@pytest.mark.parametrize("name", ["sqrt", "log", "asin", "acos", "atan", "asinh", "acosh", "atanh"])
def test_branch_cuts_are_told_apart_by_the_signs_of_zeros(executor: hg.Executor, name: str) -> None:
    parts = np.array([-3.0, -0.5, -0.0, 0.0, 0.5, 3.0], np.float32)
    z = np.empty((6, 6), np.complex64)
    z.real, z.imag = parts[:, None], parts
    z = z[np.abs(z) > 0]
    numpys = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
              "atanh": "arctanh"}.get(name, name)  # fmt: skip
    want = getattr(np, numpys)(z.astype(np.complex128))
    np.testing.assert_allclose(getattr(hg, name)(executor.tensor(z)).to_numpy(), want, rtol=2e-6, atol=2e-6)


# Derivatives: every declaration by an expression, against differences in f64.


def smooth(operation: Operation) -> bool:
    unary = (
        isinstance(operation, (Expression, Row)) and len(operation.operands) <= 2 and not operation.optional
    )
    return unary and dtypes.c128 in operation.dtypes


@pytest.mark.parametrize("operation", [o for o in OPERATIONS.values() if smooth(o)], ids=lambda o: o.name)
def test_derivatives_are_differences(operation: Operation) -> None:
    executor = hg.Executor("cpu")
    rng = np.random.default_rng(7)
    attributes = {
        n: d for n, d in operation.attributes.items() if d is not __import__("inspect").Parameter.empty
    }
    operands = [numbers(8 + k, (2, 3), dtypes.c128) * 0.4 + 0.1 for k in range(len(operation.operands))]

    def value(*given: np.ndarray) -> np.ndarray:
        return operation(*map(executor.tensor, given), **attributes).to_numpy()

    result, pullback = hg.vjp(lambda *given: operation(*given, **attributes), *map(executor.tensor, operands))
    if not result.dtype.is_inexact:
        return
    weights = rng.normal(size=result.shape) + (
        1j * rng.normal(size=result.shape) if result.dtype.is_complex else 0
    )
    gradients = pullback(executor.tensor(weights.astype(result.dtype.numpy)))

    def loss(*given: np.ndarray) -> float:
        return float(np.sum((np.conj(weights) * value(*given)).real))

    step = 1e-5
    for k, (gradient, x) in enumerate(zip(gradients, operands, strict=True)):
        found = gradient.to_numpy()
        assert found.dtype == x.dtype
        for place in np.ndindex(x.shape):
            for unit in (1, 1j):
                there, back = ([o.copy() for o in operands] for _ in range(2))
                there[k][place] += step * unit
                back[k][place] -= step * unit
                slope = (loss(*there) - loss(*back)) / (2 * step)
                got = found[place].real if unit == 1 else found[place].imag
                assert abs(got - slope) <= 1e-6 * max(1.0, abs(slope)), (operation.name, place, unit)


def test_products_have_pytorchs_gradients(executor: hg.Executor) -> None:
    torch = pytest.importorskip("torch")
    a, b, r = numbers(1, (3, 4)), numbers(2, (4, 2)), numbers(3, (4, 2)).real.copy()

    def ours(a: Any, b: Any, r: Any) -> Any:
        return hg.sum(abs(hg.einsum("ij,jk->ik", a, b) + a @ r + hg.linear(a, b.mT, b[0])) ** 2)

    found = hg.grad(ours, argnums=(0, 1, 2))(*map(executor.tensor, (a, b, r)))
    jitted = hg.jit(hg.grad(ours, argnums=(0, 1, 2)))(*map(executor.tensor, (a, b, r)))
    leaves = [torch.tensor(x, requires_grad=True) for x in (a, b, r)]
    ta, tb, tr = leaves
    (abs(ta @ tb + ta @ tr.to(ta.dtype) + torch.nn.functional.linear(ta, tb.mT, tb[0])) ** 2).sum().backward()
    for ours_, also, theirs in zip(found, jitted, leaves, strict=True):
        for gradient in (ours_, also):
            np.testing.assert_allclose(gradient.to_numpy(), theirs.grad.numpy(), rtol=2e-5, atol=2e-4)


# Whole functions.


@BOUNDED
@given(
    m=st.integers(0, 5), k=st.integers(0, 6), n=st.integers(0, 5), seed=st.integers(0, 99),
    turned=st.tuples(st.booleans(), st.booleans()), kinds=st.sampled_from(["cc", "cf", "fc"]),
)  # fmt: skip
def test_products_of_any_shape(
    m: int, k: int, n: int, seed: int, turned: tuple[bool, bool], kinds: str
) -> None:
    executor = hg.Executor("cpu")
    made = []
    for shape, turn, kind, extra in zip(((m, k), (k, n)), turned, kinds, (0, 1), strict=True):
        z = numbers(seed + extra, shape[::-1] if turn else shape)
        z = z.real.copy() if kind == "f" else z
        x = executor.tensor(z)
        made.append((z.T, x.T) if turn else (z, x))
    (a, x), (b, y) = made
    np.testing.assert_allclose((x @ y).to_numpy(), a @ b, rtol=1e-5, atol=1e-5)


@BOUNDED
@given(data=st.data())
def test_chains_in_a_graph_are_those_of_numpy(executors: dict[str, hg.Executor], data: st.DataObject) -> None:
    steps = [
        (lambda t: t * (0.5 - 0.25j), lambda z: z * (0.5 - 0.25j)), (hg.conj, np.conj), (hg.exp, np.exp),
        (lambda t: t + t.real, lambda z: z + z.real), (lambda t: t / (1 + abs(t)), lambda z: z / (1 + abs(z))),
        (lambda t: hg.complex(t.imag, t.real), lambda z: z.imag + 1j * z.real),
        (lambda t: t - hg.mean(t, axis=-1, keepdims=True), lambda z: z - z.mean(-1, keepdims=True)),
        (lambda t: hg.view_as_complex(hg.view_as_real(t)[..., :]), lambda z: z), (hg.sin, np.sin),
        (lambda t: hg.where(t.real > 0, t, -t), lambda z: np.where(z.real > 0, z, -z)),
        (lambda t: t.mT @ t, lambda z: np.swapaxes(z, -1, -2) @ z),
        (lambda t: t[::-1, ::2], lambda z: z[::-1, ::2]),
        (lambda t: hg.concat([t, t * 1j]), lambda z: np.concatenate([z, z * 1j])),
    ]  # fmt: skip
    chosen = [steps[i] for i in data.draw(st.lists(st.integers(0, len(steps) - 1), min_size=1, max_size=5))]
    z = numbers(data.draw(st.integers(0, 99)), (4, 6)) * 0.5

    def ours(t: hg.Tensor) -> hg.Tensor:
        for step, _ in chosen:
            t = step(t)
        return t

    want = z.astype(np.complex128)
    size = 1.0  # of the largest number, or sum of magnitudes, on the way
    for _, step in chosen:
        terms = step(np.abs(want).astype(np.complex128))
        want = step(want)
        size = np.max([size, np.abs(want).max(initial=0.0), np.abs(terms).max(initial=0.0)])
    executor = executors.get("cpu") or executors.setdefault("cpu", hg.Executor(backend="cpu"))
    eager, jitted = ours(executor.tensor(z)).to_numpy(), hg.jit(ours)(executor.tensor(z)).to_numpy()
    if size < 1e4:  # sums of what is far larger lose the digits
        np.testing.assert_allclose(eager, want, rtol=2e-4, atol=2e-4 * size)
        np.testing.assert_allclose(jitted, want, rtol=2e-4, atol=2e-4 * size)


def test_random_numbers_are_real(executor: hg.Executor) -> None:
    with pytest.raises(hg.UnsupportedDType):
        hg.random_normal(executor, (3,), seed=1, dtype="c64")
