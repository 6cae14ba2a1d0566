"""What LAPACK does on the host because hologram has no operation for it; `torch.hologram.fallbacks()` lists it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._ops import OpOverload

from hologram_torch.fallback import by_lapack, on_host_by_design
from hologram_torch.kernels.operators import name_of, present
from hologram_torch.kernels.registry import register

BY_LAPACK = """
geqrf geqrf.a linalg_householder_product linalg_householder_product.out linalg_ldl_factor_ex linalg_ldl_factor_ex.out
linalg_ldl_solve linalg_ldl_solve.out linalg_lstsq linalg_lstsq.out ormqr ormqr.out
"""


def _kernel(overload: OpOverload) -> Callable[..., Any]:
    return lambda *args, **kwargs: by_lapack(overload, args, kwargs)


for _operator in present(BY_LAPACK):
    on_host_by_design(_operator, lambda *args, **kwargs: True)
    register(name_of(_operator), _kernel(_operator))
