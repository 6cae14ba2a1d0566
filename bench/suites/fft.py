"""Discrete Fourier transforms beside SciPy's (two threads), PyTorch's and JAX's, of all kinds of lengths."""

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

LENGTHS = {
    "2": (16, 256, 1024, 4096, 65536, 1 << 20),
    "3": (27, 243, 2187, 59049, 531441),
    "5": (25, 625, 3125, 78125),
    "7": (49, 343, 2401, 117649),
    "primes": (17, 101, 1009, 10007, 65537),
}
SHAPES = {  # and how many of the last axes are transformed
    "batches": (1, ((1000, 16), (256, 64), (1000, 100), (64, 1024), (16, 4096), (64, 343), (100, 101))),
    "2-D": (2, ((64, 64), (512, 512), (1000, 1000), (16, 128, 128))),
    "3-D": (3, ((32, 32, 32), (64, 64, 64), (27, 49, 25))),
}
KINDS = {"c64": np.complex64, "c128": np.complex128, "f32": np.float32, "f64": np.float64}
TOLERANCE = {"c64": 3e-6, "f32": 3e-6, "c128": 1e-14, "f64": 1e-14}  # relative to the root of a row's energy
GOAL = Goal(ratio=1.0)


def _works() -> Iterator[tuple[str, int, tuple[int, ...]]]:
    for family, lengths in LENGTHS.items():
        for n in lengths:
            yield family, 1, (n,)
    for family, (axes, shapes) in SHAPES.items():
        for shape in shapes:
            yield family, axes, shape


def _calls(ex: hg.Executor, x: np.ndarray, axes: tuple[int, ...]) -> dict[str, tuple[Callable[[], Any], Any]]:
    """Everyone's transform of x, and how its result becomes an array."""
    name = "fftn" if np.iscomplexobj(x) else "rfftn"
    ours = ex.tensor(x)

    def settled() -> Any:
        result = getattr(hg.fft, name)(ours, axes=axes)
        ex.synchronize()
        return result

    calls: dict[str, tuple[Callable[[], Any], Any]] = {"hologram": (settled, lambda t: t.to_numpy())}
    if find_spec("scipy"):
        from scipy import fft

        calls["scipy"] = lambda: getattr(fft, name)(x, axes=axes, workers=2), np.asarray
    if find_spec("torch"):
        import torch

        theirs = torch.from_numpy(x)
        calls["torch"] = lambda: getattr(torch.fft, name)(theirs, dim=axes), lambda t: t.numpy()
    if find_spec("jax"):
        import jax

        jax.config.update("jax_enable_x64", True)
        there = jax.numpy.asarray(x)
        jitted = jax.jit(lambda t: getattr(jax.numpy.fft, name)(t, axes=axes))
        calls["jax"] = lambda: jitted(there).block_until_ready(), np.asarray
    return calls


def _job(call: Callable[[], Any], read: Callable[[Any], np.ndarray], wanted: np.ndarray, kind: str) -> Job:
    scale = float(np.sqrt(np.mean(np.abs(wanted) ** 2)))
    return Job(
        call,
        lambda: read(call()) / scale,
        problem=lambda found: off(np.abs(found - wanted / scale), np.zeros(wanted.shape), TOLERANCE[kind]),
    )


def own_rows(backend: str, pace: Pace) -> Iterator[Result]:
    """A row a shape and dtype; the label of a family is what its lengths are powers of."""
    with hg.Executor(backend) as ex:
        for family, count, shape in _works():
            axes = tuple(range(-count, 0))
            for kind, dtype in KINDS.items():
                if getattr(hg, kind) not in ex.limits.dtypes and kind != "c64":
                    continue
                rng = np.random.default_rng(0)
                x = rng.standard_normal(shape).astype(dtype)
                if np.iscomplexobj(x):
                    x += dtype(1j) * rng.standard_normal(shape)
                wanted = (np.fft.fftn if np.iscomplexobj(x) else np.fft.rfftn)(
                    x.astype(np.complex128 if np.iscomplexobj(x) else np.float64), axes=axes
                )
                jobs = {name: _job(*call, wanted, kind) for name, call in _calls(ex, x, axes).items()}
                size = " x ".join(map(str, shape))
                yield own(f"{family} {kind}", size, jobs, pace, GOAL, in_mean=True)


SUITES = (Suite("fft", "", own_rows=own_rows, geometric_mean=1.0),)
