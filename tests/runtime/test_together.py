"""Several buffers read at once."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg
from hologram.runtime.memory.reading import GAP_BYTES, read_together

SIZES = (1, 3, 0, 64, 1, 20_000, GAP_BYTES, 700_000, 1, 2_000_000, 5)
DTYPES = ("bool", "u8", "f32", "i16", "f16")


@pytest.fixture(params=["cpu", "webgpu"])
def executor(request):
    with hg.Executor(backend=request.param) as found:
        yield found


def test_buffers_of_any_size_and_place(executor):
    seed = np.random.default_rng(3)
    arrays = [
        seed.integers(0, 2, (n, 1) if n % 2 else (n,)).astype(hg.dtypes.dtype(DTYPES[k % len(DTYPES)]).numpy)
        for k, n in enumerate(SIZES)
    ]
    buffers = [executor.tensor(a).buffer for a in arrays]
    order = seed.permutation(len(arrays)).tolist() + [0, 0, 5]  # and some twice
    for found, k in zip(read_together([buffers[k] for k in order]), order, strict=True):
        assert found.dtype == buffers[k].dtype.numpy
        np.testing.assert_array_equal(found.reshape(-1), arrays[k].reshape(-1))


def test_nothing_and_one(executor):
    assert read_together([]) == []
    assert read_together([executor.full((3,), 2.0).buffer])[0].tolist() == [2, 2, 2]


def test_neighbours_cost_one_read(monkeypatch):
    with hg.Executor(backend="webgpu") as executor:
        flags = [executor.full((), k % 2, "bool").buffer for k in range(48)]
        far = executor.ones((3_000_000,)).buffer
        reads, read = [], executor.device.read
        monkeypatch.setattr(executor.device, "read", lambda *given: (reads.append(given), read(*given))[1])
        found = read_together([*flags, far])
    assert [bool(x) for x in found[:-1]] == [k % 2 == 1 for k in range(48)]
    assert len(reads) == 2


def test_a_freed_buffer_is_refused(executor):
    one, other = executor.ones((4,)).buffer, executor.ones((4,)).buffer
    other.free()
    with pytest.raises(hg.BufferFreed):
        read_together([one, other])
