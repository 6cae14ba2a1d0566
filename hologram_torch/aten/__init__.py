"""ATen's operators on hologram: adapters, a file a subject, found because they are here; then what follows from the
declarations; then PyTorch's own decompositions.
"""

import importlib
import pkgutil

LAST = ("derived", "decomposed")  # for what no subject has taken

_subjects = sorted(found.name for found in pkgutil.iter_modules(__path__) if found.name not in LAST)
for _name in (*_subjects, *LAST):
    importlib.import_module(f"{__name__}.{_name}")
