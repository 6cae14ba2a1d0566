"""Those who compute: a module each, hologram among them; others plug in by naming their module (bench/contenders)."""

from __future__ import annotations

import importlib
from typing import Any

from hologram.foundation.frozen import frozen

# Module by name. "hologram eager" and "compiled" are PyTorch's device, which the matrix calls hologram_torch.
_OURS, _TORCH = (f"hologram.benchmark.contenders.{name}" for name in ("ours", "with_torch"))
MODULES = {
    "hologram": _OURS,
    "hologram jit": _OURS,
    "hologram eager": _TORCH,
    "hologram compiled": _TORCH,
    "torch": _TORCH,
    "torch fused": _TORCH,
    "inductor": _TORCH,
    "jax": "hologram.benchmark.contenders.with_jax",
    "numpy": "hologram.benchmark.contenders.with_numpy",
}


@frozen
class Who:
    """One who computes, and where: a backend, or an adapter's name; what is not ours computes on the host."""

    name: str
    where: str
    module: str = ""  # that of MODULES where empty

    @property
    def ours(self) -> bool:
        return self.name.startswith("hologram")


def open_contender(who: Who) -> Any:
    """A place for programs, or a Contender for works; ImportError where its library is not installed."""
    return importlib.import_module(who.module or MODULES[who.name]).open_contender(who.name, who.where)
