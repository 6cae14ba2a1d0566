"""The process that `start` measures: its arguments are a backend and a device; it prints seconds."""

import sys
import time

import numpy as np

begun = time.perf_counter()

import hologram as hg  # noqa: E402  (NumPy's own import does not count)

with hg.Executor(backend=sys.argv[1], device=int(sys.argv[2])) as executor:
    x = np.linspace(-1, 1, 1024, dtype=np.float32)
    results = hg.exp(executor.tensor(x) * 2.0).to_numpy()
    seconds = time.perf_counter() - begun
np.testing.assert_allclose(results, np.exp(x * 2), rtol=1e-5)
print(seconds)
