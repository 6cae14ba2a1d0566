"""Backends of hologram as they are, above stand-ins for their vendors' drivers that run kernels on the CPU.

Each is a backend by an entry point, as a third party's would be: a line in site/ and a module beside this one, with
the attributes of `hologram.machine.backend_module.BackendModule`. They are there where `pytest --backend` names one,
and are no part of a run that names none.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

from hologram.backends import registry

SITE = Path(__file__).parent / "site"
# E.g. cuda-emulated.
NAMES = tuple(sorted(e.name for d in metadata.distributions(path=[str(SITE)]) for e in d.entry_points))


def install() -> None:
    """Makes them backends of this process, and of those that inherit its path."""
    if str(SITE) not in sys.path:
        sys.path.append(str(SITE))
        registry.forget()
