"""What gradients share with the world around them: memory, closures, masks, threads."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import hologram as hg
from tests.frontend.gradient.test_transforms import RNG, near


@pytest.fixture
def x(executor: hg.Executor) -> hg.Tensor:
    return executor.tensor(RNG.standard_normal((4, 6)).astype(np.float32))


def test_threads_have_tapes_of_their_own(executor: hg.Executor, x: hg.Tensor) -> None:
    found: dict[int, np.ndarray] = {}

    def work(k: int) -> None:
        for _ in range(5):
            found[k] = hg.grad(lambda x: hg.sum(x * x) * float(k))(x).to_numpy()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(4):
        near(found[k], 2 * k * x.to_numpy(), 1e-4)


def test_memory_is_freed_on_the_way_back(executor: hg.Executor) -> None:
    steps, shape = 24, (256, 1024)

    def chain(x):
        for _ in range(steps):
            x = hg.tanh(x)  # keeps its result
        return hg.sum(x)

    with hg.Executor(executor.backend) as fresh:
        x = fresh.tensor(RNG.standard_normal(shape).astype(np.float32))
        found = hg.grad(chain)(x)
        gc.collect()
        stats = fresh.memory_stats()
        assert stats["allocated"] < 3 * x.nbytes
        assert stats["peak"] < (steps + 5) * x.nbytes  # the results kept, and what one step back needs
        found.buffer.free()


def test_slices_that_are_split_into_axes_are_joined(executor: hg.Executor) -> None:
    """Queries, keys and values of one product: their cotangents are put beside each other, not added to zeros."""
    mixed = executor.tensor(RNG.standard_normal((2, 4, 24)).astype(np.float32))

    def heads(x: Any, n: int) -> Any:
        return x[:, :, 8 * n : 8 * n + 8].reshape((2, 4, 2, 4)).permute(0, 2, 1, 3)

    def attended(x: Any) -> Any:
        return hg.sum(heads(x, 0) * heads(x, 1) ** 2.0 * heads(x, 2))

    gradient = hg.jit(hg.grad(attended))
    q, k, v = np.split(mixed.to_numpy(), 3, axis=2)
    near(gradient(mixed), np.concatenate([k**2 * v, 2 * q * k * v, q * k**2], axis=2))
    operations = {n.operation.name for n in gradient.compiled(mixed).assembly.graph.nodes}
    assert operations & {"concat", "where"}  # of few elements, by choice between them
    assert "overwrite" not in operations


def test_results_and_gradients_have_memory_of_their_own(executor: hg.Executor, x: hg.Tensor) -> None:
    for transform in (lambda f: f, hg.jit):
        g = transform(hg.grad(lambda z: hg.sum(z)))(x)
        g[0] = 0.0
        g += 1.0
        near(g, np.r_[np.ones((1, 6)), np.full((3, 6), 2.0)])
    y, pullback = hg.vjp(hg.exp, x)
    y *= 0.0
    near(pullback(np.ones((4, 6), np.float32))[0], np.exp(x.to_numpy()), 1e-4)
    cotangent = executor.ones((4, 6))
    one, other = hg.vjp(lambda z, w: z + w, x, x * 1.0)[1](cotangent)
    one[...] = 5.0
    near(other, np.ones((4, 6)))
    near(cotangent, np.ones((4, 6)))
    before = x.to_numpy()
    (same,), _ = hg.vjp(lambda z: (z,), x)
    same += 1.0
    near(x, before)


def test_jitted_functions_that_close_over_or_give_away(executor: hg.Executor, x: hg.Tensor) -> None:
    near(hg.grad(lambda a: hg.jit(lambda x: hg.sum(x * a))(x))(x), x)
    kept = x.to_numpy()
    given = hg.jit(lambda x: hg.sum(x * x), donate=0)
    for _ in range(2):
        near(hg.grad(given)(x), 2 * kept)
    near(x, kept)


def test_masks_and_positions_that_are_constants(executor: hg.Executor, x: hg.Tensor) -> None:
    array = x.to_numpy()
    near(hg.grad(lambda x: hg.sum(x[x > 0] * 3.0))(x), np.where(array > 0, 3.0, 0.0))

    def positive(x):
        y = x * 1.0
        y[y > 0] = y[y > 0] * 3.0
        return hg.sum(y)

    near(hg.grad(positive)(x), np.where(array > 0, 3.0, 1.0))
    beyond = executor.tensor(np.array([0, 9]))
    with pytest.raises(IndexError):
        hg.grad(lambda x: hg.sum(x[beyond]))(x)


def test_writes_to_expanded_views_are_refused(x: hg.Tensor) -> None:
    def loss(x):
        y = (x * 1.0)[:1].expand(3, 6)
        y += 5.0
        return hg.sum(y)

    with pytest.raises(hg.ShapeError, match="expanded view"):
        hg.grad(loss)(x)


def test_calls_that_would_lose_a_gradient_are_refused(x: hg.Tensor) -> None:
    doubled = hg.custom_gradient(lambda a, b=None: (a * 2.0, lambda c: c * 9.0))
    with pytest.raises(hg.GradientError, match="by position"):
        hg.grad(lambda x: hg.sum(doubled(x, b=x)))(x)
    with pytest.raises(hg.GradientError, match="each once"):
        hg.grad(lambda x, y: hg.sum(x * y), argnums=(0, 0))(x, x)
    with pytest.raises(hg.GradientError, match="must return"):
        hg.grad(lambda x: hg.sum(hg.custom_gradient(lambda a: a)(x)))(x)
    with pytest.raises(hg.GradientError, match="of shape"):
        hg.grad(lambda x: hg.sum(hg.custom_gradient(lambda a: (a, lambda c: c[0]))(x)))(x)
    place: Any = np.int64(0)
    near(hg.grad(lambda x: hg.sum(x), argnums=place)(x), np.ones((4, 6)))


def test_nothing_in_a_tree_stays_nothing(x: hg.Tensor) -> None:
    found = hg.grad(lambda p: hg.sum(p["a"] * 2.0))({"a": x, "b": None})
    assert found["b"] is None
    near(found["a"], np.full((4, 6), 2.0))


def test_the_extreme_of_a_row_with_nan(executor: hg.Executor) -> None:
    x = executor.tensor(np.array([3.0, np.nan, 1.0], np.float32))
    near(hg.grad(lambda x: hg.max(x))(x), np.array([0.0, 1.0, 0.0]))
