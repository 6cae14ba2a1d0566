"""rearrange, reduce, repeat, einsum, pack and unpack, of hologram's Tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hologram as hg

einops: Any = pytest.importorskip("einops")
LIBRARY = "einops"
X = np.random.default_rng(0).standard_normal((2, 3, 4, 6)).astype(np.float32)
CALLS = {
    "rearrange": ("b c (h a) (w d) -> b h w (c a d)", {"a": 2, "d": 3}),
    "repeat": ("b c h w -> b c (h r) w k", {"r": 2, "k": 3}),
    "reduce": ("b c (h a) w -> b c h", {"reduction": "mean", "a": 2}),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    import hologram.einops

    pattern, settings = CALLS[name]
    found = getattr(einops, name)(hg.asarray(X), pattern, **settings)
    assert isinstance(found, hologram.Tensor)
    np.testing.assert_allclose(found.to_numpy(), getattr(einops, name)(X, pattern, **settings), rtol=1e-5)


def test_of_several() -> None:
    import hologram.einops  # noqa: F401

    x = hg.asarray(X)
    pattern = "b c h w, b c h v -> b w v"
    np.testing.assert_allclose(
        einops.einsum(x, x, pattern).to_numpy(), einops.einsum(X, X, pattern), rtol=1e-4
    )
    packed, shapes = einops.pack([x, x[:, 0]], "b * w")
    np.testing.assert_array_equal(einops.unpack(packed, shapes, "b * w")[0].to_numpy(), X)
    slope = hg.grad(lambda t: einops.reduce(t, "b c h w -> ", "sum"))(x)
    assert slope.shape == X.shape
    assert hg.jit(lambda t: einops.rearrange(t, "b c h w -> b (h w) c"))(x).shape == (2, 24, 3)
