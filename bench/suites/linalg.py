"""Matrices taken apart beside PyTorch's and JAX's, on the host: large ones, small ones, and stacks of many."""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

import hologram as hg
from hologram.benchmark.jobs import Job, off
from hologram.benchmark.suites import Goal, Result, Suite, own
from hologram.benchmark.timing import Pace

SHAPES = ((64, 64), (512, 512), (1000, 8, 8))
KINDS = {"f32": np.float32, "f64": np.float64, "c64": np.complex64}
GOAL = Goal(ratio=1.2)
Matrices = tuple[Any, Any, Any]  # any, positive definite, and right sides


def adjoint(x: Any) -> Any:
    return np.conj(x.swapaxes(-1, -2))


# A function of a library's linalg, and what of its results is x, or s, or what solves.
CALLS: dict[str, tuple[Callable[[Any, Matrices], Any], Callable[[tuple[np.ndarray, ...]], np.ndarray]]] = {
    "cholesky": (lambda la, g: la.cholesky(g[1]), lambda r: r[0] @ adjoint(r[0])),
    "solve": (lambda la, g: la.solve(g[0], g[2]), lambda r: r[0]),
    "qr": (lambda la, g: la.qr(g[0]), lambda r: r[0] @ r[1]),
    "eigh": (lambda la, g: la.eigh(g[1]), lambda r: (r[1] * r[0][..., None, :]) @ adjoint(r[1])),
    "svd": (
        lambda la, g: la.svd(g[0], full_matrices=False),
        lambda r: (r[0] * r[1][..., None, :]) @ r[2],
    ),
}


def given(shape: tuple[int, ...], dtype: Any) -> Matrices:
    rng = np.random.default_rng(0)

    def random(*sizes: int) -> np.ndarray:
        x = rng.standard_normal(sizes)
        return x + 1j * rng.standard_normal(sizes) if issubclass(dtype, np.complexfloating) else x

    x = random(*shape)
    x = x + 2 * shape[-1] ** 0.5 * np.eye(shape[-1])
    s = x @ adjoint(x)
    return x.astype(dtype), s.astype(dtype), random(*shape[:-1], 4).astype(dtype)


def _wanted(name: str, matrices: Matrices) -> np.ndarray:
    x, s, right = (m.astype(np.result_type(m.dtype, np.float64)) for m in matrices)
    return {"solve": np.linalg.solve(x, right), "qr": x, "svd": x}.get(name, s)


def _libraries(
    ex: hg.Executor, matrices: Matrices
) -> Iterator[tuple[str, Any, Matrices, Callable[[Any], Any]]]:
    """Everyone's name, linear algebra, matrices, and how a result is waited for."""
    yield "hologram", hg.linalg, tuple(map(ex.tensor, matrices)), lambda made: ex.synchronize()
    if find_spec("torch"):
        import torch

        yield "torch", torch.linalg, tuple(map(torch.from_numpy, matrices)), bool
    if find_spec("jax"):
        import jax

        jax.config.update("jax_enable_x64", True)
        functions = {name: jax.jit(getattr(jax.numpy.linalg, name)) for name in CALLS}
        functions["svd"] = jax.jit(jax.numpy.linalg.svd, static_argnames="full_matrices")
        names = type("names", (), {name: staticmethod(function) for name, function in functions.items()})
        yield "jax", names, tuple(map(jax.numpy.asarray, matrices)), jax.block_until_ready


def _job(
    name: str,
    library: Any,
    matrices: Matrices,
    settle: Callable[[Any], Any],
    wanted: np.ndarray,
    bound: float,
) -> Job:
    function, product = CALLS[name]

    def call() -> Any:
        made = function(library, matrices)
        settle(made if not hasattr(made, "numpy") else ())
        return made

    def read() -> np.ndarray:
        made = call()
        parts = made if isinstance(made, tuple) else (made,)
        wide = [np.asarray(p.to_numpy() if isinstance(p, hg.Tensor) else p) for p in parts]
        return product(tuple(p.astype(np.result_type(p.dtype, np.float64)) for p in wide)) / scale

    scale = float(np.abs(wanted).max())
    return Job(
        call, read, problem=lambda found: off(np.abs(found - wanted / scale), np.zeros(wanted.shape), bound)
    )


def own_rows(backend: str, pace: Pace) -> Iterator[Result]:
    """A row a function, shape and dtype."""
    with hg.Executor(backend) as ex:
        for shape in SHAPES:
            for kind, dtype in KINDS.items():
                if getattr(hg, kind) not in ex.limits.dtypes:
                    continue
                matrices = given(shape, dtype)
                bound = 1e-13 if kind == "f64" else 1e-5
                everyone = list(_libraries(ex, matrices))
                for name in CALLS:
                    wanted = _wanted(name, matrices)
                    jobs = {
                        who: _job(name, library, held, settle, wanted, bound)
                        for who, library, held, settle in everyone
                    }
                    size = " x ".join(map(str, shape))
                    yield own(f"{name} {kind}", size, jobs, pace, GOAL, in_mean=True, against=("torch",))


SUITES = (Suite("linalg", "", own_rows=own_rows, geometric_mean=1.2),)
