"""ATen's operators on hologram: adapters, a file a subject, found because they are here; then what follows from the
declarations; then PyTorch's own decompositions, and forms made of all these.
"""

import importlib
import pkgutil

LAST = tuple(
    f"{__name__}.{name}" for name in ("derived", "decomposed", "forms")
)  # for what no subject has taken

_modules = sorted(module.name for module in pkgutil.walk_packages(__path__, f"{__name__}."))
for _name in (*(name for name in _modules if name not in LAST), *LAST):
    importlib.import_module(_name)
