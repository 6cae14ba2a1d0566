"""What is measured, and what it must show: each module here declares SUITES."""

from __future__ import annotations

import importlib
import pkgutil

SUITES = {
    suite.name: suite
    for module in pkgutil.iter_modules(__path__)
    for suite in importlib.import_module(f"{__name__}.{module.name}").SUITES
}
