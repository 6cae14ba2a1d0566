"""What the compiler's tests share: the limits of an imagined adapter."""

from __future__ import annotations

import pytest

from hologram import dtypes
from hologram.limits import Limits


@pytest.fixture
def limits() -> Limits:
    """A software adapter's."""
    return Limits(
        dtypes=frozenset(dtypes.ALL),
        max_buffer_bytes=2**30,
        max_binding_bytes=2**27,
        max_bindings=8,
        max_workgroups=65535,
        max_workgroup_threads=1024,
        shared_bytes=32768,
        subgroup=8,
        matrix_units=False,
        unified_memory=True,
        parallelism=2,
        software=True,
    )
