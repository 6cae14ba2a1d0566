"""Compiled code as functions of Python."""

from __future__ import annotations

import ctypes
from typing import Any

FASTCALL = 0x80  # METH_FASTCALL: a function is given an array of arguments, and how many they are
ONE = 0x8  # METH_O: it is given the one argument there is


class _Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_made = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


def keep(what: Any) -> None:
    """Never frees it: compiled code may be called, and its memory read, when modules are gone already."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(what))


class Builtin:
    """Compiled code that Python can call, at an address."""

    def __init__(self, name: str, address: int, flags: int) -> None:
        method = _Method(name.encode(), address, flags, None)
        keep(method)
        self._method = ctypes.addressof(method)

    def of(self, itself: Any, owner: Any = None) -> Any:
        """A function that is given `itself` before its arguments, and keeps `owner` alive."""
        return _made(self._method, itself, owner)
