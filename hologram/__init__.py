"""hologram: compute on whatever GPU the machine has, from Python."""

# Importing opens nothing and loads no vendor's library. What an executor needs to open, and the default one, come with
# the package; all else that `__init__.pyi` lists is fetched when it is first asked for, and so are the operations. What
# is not public has an underscore: `dir(hologram)` is what a user is offered.
import builtins as _builtins
import typing as _typing
from importlib import import_module as _import_module
from os import path as _path

from hologram.foundation import aliases as _aliases
from hologram.foundation import stub as _stub
from hologram.foundation.dtypes import ALL as _ALL
from hologram.frontend.default import default_executor as default_executor
from hologram.frontend.executor import Executor as Executor

__version__ = "0.1.0"
__array_api_version__ = "2024.12"

newaxis = None
_aliases.install()
_LISTED = _stub.listed(__file__)
_DTYPES = {dtype.numpy_name: dtype for dtype in _ALL}  # their second names, for checkers in the stub too
_MODULES = ("hologram.foundation", "hologram.frontend")  # what is listed from them is a module
_MISSING = "module 'hologram' has no attribute {!r}"


def __getattr__(name: str) -> _typing.Any:
    if name in _LISTED:
        value = _LISTED[name].fetched()
    elif name in _DTYPES:
        value = _DTYPES[name]
    elif name == "backends":
        value = _import_module("hologram.backends")
    elif name.startswith("_") or _path.isdir(
        _path.join(__path__[0], name)
    ):  # `from hologram import` asks here first
        raise AttributeError(_MISSING.format(name), name=name, obj=_import_module("hologram"))
    else:
        value = _operations().get(name)
        if value is None:
            raise AttributeError(_missing(name), name=name, obj=_import_module("hologram"))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    special = (n for n in globals() if n.startswith("__"))
    return sorted({*_LISTED, *_DTYPES, "backends", "newaxis", *_operations(), *special})


def _operations() -> dict[str, _typing.Any]:
    """By every name."""
    known = _import_module("hologram.opset").OPERATIONS
    aliases = _import_module("hologram.frontend.numpy_names.aliases").ALIASES
    return known | {alias: known[name] for alias, name in aliases.items()}


def _missing(name: str) -> str:
    hint = ""
    if name == "tensor":
        hint = "; hologram.asarray makes tensors"
    elif hasattr(Executor, name):
        hint = f"; an executor has it: hologram.default_executor().{name}"
    return _MISSING.format(name) + hint


# A star brings no module or constant, no second name of a dtype, and nothing that would hide Python's.
__all__ = [
    name
    for name, listed in _LISTED.items()
    if listed.module not in (*_MODULES, "math")
    and name == listed.name
    and not name.startswith("_")
    and not hasattr(_builtins, name)
]
