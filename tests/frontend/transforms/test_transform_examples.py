"""The programs of examples/transforms, beside derivatives worked out by hand in f64; and one as a script."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

import hologram as hg
from hologram.demo import gallery

FOLDER = Path(__file__).parents[3] / "examples" / "transforms"


def worked_out(
    inner: np.ndarray, outer: np.ndarray, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of sum((tanh(x @ inner) @ outer - y)^2)."""
    hidden = np.tanh(x @ inner)
    error = 2 * (hidden @ outer - y)
    return x.T @ (error[:, None] * outer * (1 - hidden**2)), error @ hidden


def test_many_models(executor: hg.Executor) -> None:
    module = gallery.load(FOLDER / "many_models.py")
    given = module.inputs(7, examples=5, features=3, hidden=4)
    found = [x.to_numpy() for x in module.slopes(*map(executor.tensor, given))]
    for k, model in enumerate(zip(*(x.astype(np.float64) for x in given), strict=True)):
        for got, want in zip(found, worked_out(*model), strict=True):
            np.testing.assert_allclose(got[k], want / 5, rtol=2e-5, atol=1e-6)


def test_per_example(executor: hg.Executor) -> None:
    module = gallery.load(FOLDER / "per_example.py")
    inner, outer, x, y = module.inputs(9, features=3, hidden=4)
    found = module.lengths(*map(executor.tensor, (inner, outer, x, y))).to_numpy()
    for k in range(9):
        first, second = worked_out(
            *(a.astype(np.float64) for a in (inner, outer, x[k : k + 1], y[k : k + 1]))
        )
        want = np.sqrt((first**2).sum() + (second**2).sum())
        np.testing.assert_allclose(found[k], want, rtol=2e-4, atol=1e-5)
    assert found.argmax() == 0


def test_rosenbrock(executor: hg.Executor) -> None:
    module = gallery.load(FOLDER / "rosenbrock.py")
    (x,) = module.inputs(12)
    u = x.astype(np.float64)
    want = np.diag(np.r_[1200 * u[:-1] ** 2 - 400 * u[1:] + 2, 0] + np.r_[0, np.full(11, 200.0)])
    want += np.diag(-400 * u[:-1], 1) + np.diag(-400 * u[:-1], -1)
    np.testing.assert_allclose(module.curvature(executor.tensor(x)).to_numpy(), want, rtol=1e-5, atol=1e-3)


def test_as_script(backend: str) -> None:
    command = [sys.executable, str(FOLDER / "rosenbrock.py"), backend]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "after 20 steps 0.0e+00" in run.stdout
