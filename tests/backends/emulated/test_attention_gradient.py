"""Attention's gradient by matrix units: its two kernels on the emulated card, against f64."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="cuda-python has no wheels for this platform")

import hologram as hg
from hologram.backends.cuda.compiler import NVRTC
from hologram.backends.cuda.dialect import cuda
from hologram.compiler.source.shader import load
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType, f32
from hologram.machine.layout import Layout
from hologram.machine.plan import Tile
from hologram.opset.neural.attention_gradient import attention_gradient
from hologram.opset.tiles.attention.attended import Attended, Look
from hologram.opset.tiles.attention.gradient_units import STEPS, gradient_plan
from tests.backends.emulated import cuda as machine
from tests.backends.emulated.test_matrix_units import CARD, COMPILED
from tests.backends.emulated.test_mutants import Mutating, Text, failing

pytestmark = pytest.mark.usefixtures("installed")


@pytest.fixture(name="executor")
def _executor(installed: None) -> Iterator[hg.Executor]:
    with hg.Executor(backend=machine.NAME) as executor:
        yield executor


BOUND = {
    dtypes.f16: 2.0**-9,
    dtypes.bf16: 2.0**-6,
}  # of the largest element: weights are rounded to the dtype


@pytest.mark.parametrize(
    ("head", "causal", "masked", "grouped", "dtype"),
    [
        (16, False, "", False, dtypes.f16),
        (40, True, "", True, dtypes.bf16),
        (64, True, "bool", True, dtypes.f16),
        (100, True, "float", False, dtypes.bf16),
    ],
)
def test_the_gradient(
    head: int, causal: bool, masked: str, grouped: bool, dtype: DType, executor: hg.Executor
) -> None:
    rng = np.random.default_rng(head)
    keys = (2, 1, 150, head) if grouped else (2, 3, 150, head)
    shapes = ((2, 3, 133, head), keys, keys, (2, 3, 133, head))
    given = [executor.tensor(rng.uniform(-1, 1, s).astype(np.float32)).astype(dtype) for s in shapes]
    q, k, v, cotangent = given
    mask = rng.random((2, 1, 133, 150)) < 0.6
    mask[:, :, 5] = False  # a row without anything to look at
    if masked == "bool":  # what is masked is not looked at
        mask[..., 9], k[..., 9, :] = False, np.inf
    if masked == "float":
        mask = np.where(mask, rng.uniform(-1, 1, mask.shape), -np.inf).astype(np.float32)
        mask[:, :, 6] = np.where(
            mask[:, :, 6] > -2, np.finfo(np.float32).min, -np.inf
        )  # counts: all are alike
    chosen = executor.tensor(mask) if masked else None
    found = [
        x.to_numpy()
        for x in attention_gradient(q, k, v, chosen, None, None, None, cotangent, causal=causal, scale=0.3)
    ]
    exact = [x.astype(hg.float32).to_numpy().astype(np.float64) for x in given]
    asked = (*exact[:3], mask if masked else None, None, None, None, exact[3])
    wanted_all = attention_gradient.reference(*asked, causal=causal, scale=0.3)
    for got, wanted in zip(found, wanted_all, strict=True):
        np.testing.assert_allclose(got, wanted, atol=BOUND[dtype] * abs(wanted).max())


@pytest.mark.parametrize(("dtype", "architecture"), COMPILED, ids=str)
def test_nvrtc_compiles_the_gradient(dtype: DType, architecture: int) -> None:
    head = list(STEPS)[architecture // 5 % len(STEPS)]
    rows, mask = Layout.contiguous(dtype, (2, 70, head)), Layout.contiguous(f32, (2, 70, 70))
    for step in gradient_plan(Attended(rows, rows, rows, mask, Look(causal=True)), rows, 1, CARD).steps:
        assert isinstance(step.kernel, Tile)
        text = load(step.kernel, cuda()).text
        assert step.kernel.name.encode() in NVRTC(architecture).compile(step.kernel.name, text)


GROUPS = [(False, None, 1.0), (True, None, 0.5), (False, "bool", 0.5)]


@pytest.mark.parametrize(("causal", "mask", "scale"), GROUPS, ids=str)
def test_derivatives_of_attention_take_the_kernels(
    causal: bool, mask: str | None, scale: float, executor: hg.Executor
) -> None:
    """Eager, jitted, and by the rule's own composition where the derivative is differentiated again."""
    rng = np.random.default_rng(7)
    shapes = ((2, 2, 40, 32), (2, 1, 70, 32), (2, 1, 70, 32))
    exact = [rng.uniform(-1, 1, s).astype(np.float16) for s in shapes]
    q, k, v = (executor.tensor(x) for x in exact)
    kept = None if mask is None else executor.tensor(rng.random((40, 70)) < 0.7)

    def loss(q: Any, k: Any, v: Any) -> Any:
        attended = hg.scaled_dot_product_attention(q, k, v, kept, causal=causal, scale=scale)
        return hg.sum(attended.astype(hg.float32) ** 2)

    def stems(function: Any, *arguments: Any) -> tuple[list[str], Any]:
        with executor.profile() as profile:
            found = function(*arguments)
        return [kernel.name for kernel in profile.kernels for _ in range(kernel.count)], found

    def twice(q: Any, k: Any, v: Any) -> Any:
        return hg.grad(lambda q: hg.sum(hg.grad(loss)(q, k, v).astype(hg.float32) ** 2))(q)

    here, wrt = kept, (0, 1, 2)
    with hg.Executor("cpu") as host:
        there = [host.tensor(x.astype(np.float32)) for x in exact]
        kept = None if kept is None else host.tensor(kept.to_numpy())
        wanted = [x.to_numpy() for x in hg.grad(loss, wrt)(*there)]
        wanted_twice = twice(*there).to_numpy()
    kept = here
    for function in (hg.grad(loss, wrt), hg.jit(hg.grad(loss, wrt))):
        names, found = stems(function, q, k, v)
        assert sum("attention_gradient" in name for name in names) == 2
        for got, cache_key in zip(found, wanted, strict=True):
            assert got.dtype is dtypes.f16
            np.testing.assert_allclose(got.to_numpy(), cache_key, atol=2e-2 * abs(cache_key).max())
    found = twice(q, k, v).to_numpy()
    np.testing.assert_allclose(found, wanted_twice, atol=3e-2 * abs(wanted_twice).max())


BARRIER = r"__syncthreads\(\);"
ERRORS = {
    "no barrier ahead of the next keys": (rf"{BARRIER}(\s*Some::load<K_WHOLE)", r"\1"),
    "no barrier behind what comes": (rf"(wait_for_copies<0>\(\);\s*){BARRIER}", r"\1"),
    "a query that looks ahead": (r"CAUSAL && column > row", "CAUSAL && column > row + 1"),
    "a key that is looked back at": (r"CAUSAL && key > row", "CAUSAL && key > row + 1"),
    "one of a group": (r"member < params\.shared", "member < 1"),
    "a mean of other rows": (r"mean\[line \+ row\] : 0", "mean[line + row / 8 * 8] : 0"),
    "results of another head": (r"\+ blockIdx\.y\) \* params\.s;", ") * params.s;"),
    "a mean that is no mean": (r"some / all", "some"),
    "a sum that a mask swallows": (
        r"above\[half\] = all == 0\.0f \? 0\.0f : log2f\(all\);",
        "above[half] = 0, top[half] += log2f(all);",
    ),
}


@pytest.mark.parametrize("error", ERRORS)
def test_a_planted_error_is_caught(error: str) -> None:
    correct, wrong = ERRORS[error]
    compiler = Mutating(Text(correct, wrong, lambda _: None))
    case = (
        (100, True, "float", False, dtypes.bf16)
        if "swallows" in error
        else (64, True, "bool", True, dtypes.f16)
    )
    with failing(hg.CompileError) as executor:
        opened: Any = executor.device
        opened.kernel_context = replace(opened.kernel_context, compiler=compiler)
        test_the_gradient(*case, executor)
    assert compiler.planted, "the text has no such place: this planted nothing"
