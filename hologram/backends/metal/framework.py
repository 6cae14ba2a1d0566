"""PyObjC's binding of Metal, and what every part of this backend needs of it."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Protocol

from hologram.foundation.errors import BackendUnavailable
from hologram.foundation.extras import install

WEBGPU = "Use backend='webgpu'"
INSTALL = f"{install('metal')}. {WEBGPU} without it: it reaches Apple's GPUs through Metal."


class Framework(Protocol):
    """The module `Metal`, and the one name of `objc`."""

    metal: Any

    def pool(self) -> AbstractContextManager[Any]:
        """An autorelease pool: what Metal's methods give (not those called new...) lives until one ends.

        Threads of Python have none that ever ends, so whatever calls such a method opens one; a reference in Python
        keeps the object beyond it.
        """
        ...


class PyObjC:
    """See Framework."""

    def __init__(self) -> None:
        import Metal  # pyright: ignore[reportMissingImports]  # an optional third party, as objc
        import objc  # pyright: ignore[reportMissingImports]

        self.metal: Any = Metal
        self.pool = objc.autorelease_pool


class Missing(BackendUnavailable):
    """Why there is no framework here, and what to do."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f"metal: {reason}. {remedy}")
        self.reason, self.remedy = reason, remedy


def framework() -> Framework:
    """That of this machine; raises Missing."""
    if sys.platform == "ios":
        raise Missing("PyObjC's binding of Metal exists for macOS only, this is ios", "Use backend='cpu'.")
    if sys.platform != "darwin":
        raise Missing(f"Metal exists on macOS only, this is {sys.platform}", f"{WEBGPU}.")
    try:
        return _pyobjc()
    except ImportError as error:
        raise Missing(f"pyobjc-framework-Metal is not installed ({error})", INSTALL) from error


@cache
def _pyobjc() -> Framework:
    return PyObjC()
