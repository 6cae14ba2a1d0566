"""Arrays for calls of hg and of NumPy, and the comparison of what the two give."""

import warnings

import numpy as np

import hologram as hg

DRAWN = np.random.default_rng(11)
FLAT = DRAWN.standard_normal(40).astype(np.float32)
TABLE = DRAWN.standard_normal((4, 9)).astype(np.float32)
WHOLE = DRAWN.integers(-9, 10, (4, 9)).astype(np.int32)
CUBE = DRAWN.standard_normal((2, 3, 4)).astype(np.float32)


def moved(x, executor):
    """Arguments with tensors in the place of arrays."""
    if isinstance(x, np.ndarray):
        return executor.tensor(x)
    if isinstance(x, (list, tuple)) and any(isinstance(y, (np.ndarray, list, tuple)) for y in x):
        return type(x)(moved(y, executor) for y in x)
    return x


def same(got, want, rtol=3e-6):
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same(g, w, rtol)
        return
    got = got.to_numpy() if isinstance(got, hg.Tensor) else np.asarray(got)
    want = np.asarray(want)
    assert got.shape == want.shape
    kinds = {"f": "f", "c": "c"}
    assert kinds.get(got.dtype.kind, got.dtype) == kinds.get(want.dtype.kind, want.dtype)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)


def alike(executor, name, *args, rtol=3e-6, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = getattr(np, name)(*args, **settings)
    with hg.use_executor(executor):
        found = {n: moved(s, executor) for n, s in settings.items()}
        same(getattr(hg, name)(*moved(args, executor), **found), want, rtol)
