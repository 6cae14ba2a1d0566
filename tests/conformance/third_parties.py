"""SciPy's and scikit-learn's own tests of the array API, on the namespace hologram: a plugin of pytest.

    SCIPY_ARRAY_API=1 pytest -p tests.conformance.third_parties --pyargs sklearn -k array_api
    SCIPY_ARRAY_API='["numpy"]' pytest -p tests.conformance.third_parties --pyargs scipy.signal

HOLOGRAM_BACKEND names the backend, "cpu" unless it does. Only tests that take a namespace are kept. Many want what
names no dtype to be f64, so Python's numbers and new tensors are f64 here where the device has that, as SciPy's own
conftest has PyTorch's. Integers that become floats are f32 all the same, which some of SciPy's tests call wrong.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

import pytest

import hologram as hg
from hologram.foundation import dtypes
from hologram.frontend import values

BACKEND = os.environ.setdefault("HOLOGRAM_BACKEND", "cpu")
MAKING = ("zeros", "ones", "empty", "eye", "identity", "linspace", "arange")  # without a dtype: f32


def _doubled(make: Any) -> Any:
    @functools.wraps(make)
    def made(*args: Any, dtype: Any = None, **kwargs: Any) -> Any:
        result = make(*args, dtype=dtype, **kwargs)
        wide = {dtypes.f32: dtypes.f64, dtypes.c64: dtypes.c128}.get(result.dtype) if dtype is None else None
        return result if wide is None else make(*args, dtype=wide, **kwargs)

    return made


def pytest_configure(config: pytest.Config) -> None:
    hg.set_default_executor(hg.Executor(BACKEND))
    doubles = hg.f64 in hg.default_executor().limits.dtypes
    if doubles:
        # Python's floats are f64 in lists, and alone.
        values._doubles = lambda listed: True  # noqa: SLF001  no setting makes them so
        for name in MAKING:
            setattr(hg, name, _doubled(getattr(hg, name)))
    if os.environ.get("SCIPY_ARRAY_API") == "1":  # scikit-learn's wish
        from sklearn.utils import _array_api

        kinds = ("float64", "float32") if doubles else ("float32",)
        _array_api.yield_namespaces = lambda **settings: iter(["hologram"])
        _array_api.yield_namespace_device_dtype_combinations = lambda **settings: iter(
            [("hologram", None, kind) for kind in kinds]
        )


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """SciPy's fixture `xp` gives hologram alone."""
    conftest: Any = sys.modules.get("scipy.conftest")
    if conftest is None or "xp" not in metafunc.fixturenames:
        return
    conftest.xp_known_backends.add("hologram")
    if BACKEND != "cpu":
        conftest.xp_skip_cpu_only_backends.add("hologram")
    for fixture in metafunc._arg2fixturedefs.get("xp", ())[-1:]:  # noqa: SLF001  pytest lets no plugin narrow another's fixture
        object.__setattr__(fixture, "params", (pytest.param(hg, id="hologram"),))


def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    def ours(item: Any) -> bool:
        given = getattr(getattr(item, "callspec", None), "params", {}).values()
        return any(x is hg or (isinstance(x, str) and x == "hologram") for x in given)

    config.hook.pytest_deselected(items=[item for item in items if not ours(item)])
    items[:] = [item for item in items if ours(item)]
