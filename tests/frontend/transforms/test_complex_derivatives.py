"""Derivatives of complex functions, forwards and through loops, beside differences in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram as hg

RNG = np.random.default_rng(31)
Z = (RNG.standard_normal((3, 4)) + 1j * RNG.standard_normal((3, 4))).astype(np.complex64)
T = (RNG.standard_normal((3, 4)) + 1j * RNG.standard_normal((3, 4))).astype(np.complex64)
STEP = 1e-5


def turned(carry: Any, row: Any) -> Any:
    return carry * carry * 0.1 + carry * row * 0.5 + 0.5


def unrolled(z: np.ndarray) -> np.ndarray:
    carry = z[0]
    for row in z:
        carry = turned(carry, row)
    return carry


def scanned(z: Any) -> Any:
    return hg.scan(lambda carry, row: (turned(carry, row), None), z[0], z)[0]


def counted(z: Any) -> Any:
    return hg.fori_loop(0, 3, lambda i, carry: turned(carry, z[i]), z[0])


def chosen(z: Any) -> Any:
    return hg.cond(hg.sum(hg.real(z)) < 1e6, lambda z: z * z, hg.exp, z)


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "exp": (hg.exp, np.exp),
    "product": (lambda z: z * z[0], lambda z: z * z[0]),
    "quotient": (lambda z: z / hg.conj(z + 3), lambda z: z / np.conj(z + 3)),
    "of the parts": (lambda z: z * hg.real(z) + hg.imag(z), lambda z: z * z.real + z.imag),
    "magnitude": (hg.abs, np.abs),
    "phase": (lambda z: hg.exp(1j * hg.real(z)), lambda z: np.exp(1j * z.real)),
    "sum": (lambda z: hg.sum(z * z, axis=0), lambda z: np.sum(z * z, axis=0)),
    "matmul": (lambda z: z @ z.mT, lambda z: z @ z.T),
    "fft": (lambda z: hg.fft.fft(z * z), lambda z: np.fft.fft(z * z)),
    "irfft": (lambda z: hg.fft.irfft(z * z), lambda z: np.fft.irfft(z * z)),
    "scan": (scanned, unrolled),
    "fori_loop": (counted, unrolled),
    "cond": (chosen, lambda z: z * z),
}


def near(found: hg.Tensor, wanted: np.ndarray) -> None:
    assert found.shape == wanted.shape
    assert found.dtype.is_complex == np.iscomplexobj(wanted)
    np.testing.assert_allclose(found.to_numpy(), wanted, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("traced", [False, True], ids=["eager", "jit"])
def test_forward_mode(executor: hg.Executor, name: str, traced: bool) -> None:
    function, reference = FUNCTIONS[name]
    z, t = Z.astype(np.complex128), T.astype(np.complex128)
    run = lambda z, t: hg.jvp(function, (z,), (t,))  # noqa: E731
    made, slope = (hg.jit(run) if traced else run)(executor.tensor(Z), executor.tensor(T))
    near(made, reference(z))
    near(slope, (reference(z + STEP * t) - reference(z - STEP * t)) / (2 * STEP))


@pytest.mark.parametrize("name", ["scan", "fori_loop", "cond", "fft"])
def test_reverse_mode_through_loops(executor: hg.Executor, name: str) -> None:
    """The gradient g of a real function f has Re(conj(g) t) for its derivative along t."""
    function, reference = FUNCTIONS[name]

    def real(m: Any, r: Any) -> Any:
        return m.sum(m.real(r) * m.real(r) + 2 * m.imag(r) * m.real(r))

    found = hg.grad(lambda z: real(hg, function(z)))(executor.tensor(Z)).to_numpy()
    z = Z.astype(np.complex128)
    for place in np.ndindex(Z.shape):
        for unit in (1, 1j):
            step = np.zeros_like(z)
            step[place] = unit * STEP
            slope = (real(np, reference(z + step)) - real(np, reference(z - step))) / (2 * STEP)
            np.testing.assert_allclose((np.conj(found[place]) * unit).real, slope, rtol=5e-4, atol=5e-4)


def test_jacobians(executor: hg.Executor) -> None:
    x = executor.tensor(np.array([0.5, -1.0], np.float32))
    wanted = np.diag(1j * np.exp(1j * np.array([0.5, -1.0])))
    near(hg.jacfwd(lambda x: hg.exp(1j * x))(x), wanted)
    parts = hg.jacrev(lambda x: hg.view_as_real(hg.exp(1j * x)))(x)
    near(parts, np.stack([wanted.real, wanted.imag], axis=1))
    with pytest.raises(hg.GradientError, match="results must be real, got c64"):
        hg.jacrev(lambda x: hg.exp(1j * x))(x)
