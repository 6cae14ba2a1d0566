"""Exceptions of hologram; each is also the builtin exception a Python programmer would expect."""

import re
import sys

from numpy.exceptions import AxisError as _AxisError
from numpy.linalg import LinAlgError as _LinAlgError


class HologramError(Exception):
    """The base of every error that hologram raises on purpose."""


class BackendUnavailable(HologramError, RuntimeError):
    """A backend cannot be used here; the message says why and what to do."""


class DeviceLost(HologramError, RuntimeError):
    """The device stopped answering; a new Executor may work."""


class OutOfMemory(HologramError, MemoryError):
    """The device has no room for an allocation, even after its caches were released."""


def _called() -> str:
    """The function or operation of hologram's that somebody else called; empty for a method."""
    entry, frame = None, sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("hologram."):
        entry, frame = frame, frame.f_back
    if entry is None:
        return ""
    name = entry.f_code.co_name
    if name == "__call__" and entry.f_globals["__name__"].startswith("hologram.opset."):
        return entry.f_locals["self"].name
    function = entry.f_globals.get(name)  # of the module's own: no closure, and no method
    return name.rstrip("_") if getattr(function, "__code__", None) is entry.f_code else ""


class _ArgumentError(HologramError):
    """What was given does not fit. The message names the function that was called, and not only what it is made of."""

    def __init__(self, *args: object) -> None:
        called = _called()
        if called and args and not re.search(rf"\b{called}\b", str(args[0])):
            args = (f"{called}: {args[0]}", *args[1:])
        super().__init__(*args)
        self.args = args  # what it is pickled by; NumPy's AxisError keeps those that it was made of


class ShapeError(_ArgumentError, ValueError):
    """Sizes or shapes do not fit the operation."""


class AxisError(ShapeError, _AxisError):
    """An axis that a tensor does not have; NumPy's AxisError as well: both a ValueError and an IndexError."""


class UnsupportedDType(_ArgumentError, TypeError):
    """An operation or an adapter does not have the dtype."""


class UnsupportedOperation(HologramError, NotImplementedError):
    """A device has no kernels for an operation; the message says where it runs."""


class LinAlgError(_ArgumentError, _LinAlgError):
    """A matrix is not what a function of `hg.linalg` needs: singular, say; NumPy's LinAlgError as well."""


class CompileError(HologramError, RuntimeError):
    """A kernel does not compile; carries the kernel's name, the compiler's log and the source."""

    def __init__(self, kernel: str, log: str, source: str = "") -> None:
        super().__init__(f"{kernel} does not compile: {log}")
        self.kernel = kernel
        self.log = log
        self.source = source

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled by what it is made of, which is not its message alone."""
        return type(self), (self.kernel, self.log, self.source), vars(self)


class ProgramError(HologramError, ValueError):
    """An Atlas program breaks a rule; the message names the line and the rule."""


class KernelError(ProgramError):
    """A function is no kernel; the message names the file, line and column, and shows the line."""

    def __init__(self, message: str, file: str = "", line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.file = file
        self.line = line
        self.column = column


class BoundsError(HologramError, IndexError):
    """A kernel reads or writes outside of an array; the message names it, the index, and the point of the grid."""


class AssertionFailed(HologramError, AssertionError):
    """An `assert` of a kernel does not hold at a point of its grid; the message names the line and the point."""


class DivisionByZero(HologramError, ZeroDivisionError):
    """A kernel divides an integer by zero at a point of its grid; the message names the line and the point."""


class TraceError(HologramError, TypeError):
    """A function that is being traced asks for something that is known only when it runs."""


class GradientError(HologramError, TypeError):
    """A derivative that does not exist, or that is asked for in a way that cannot be followed."""


class BufferFreed(HologramError, RuntimeError):
    """A buffer was used after `free()` or after its executor was closed."""


class InteropError(HologramError, BufferError, RuntimeError):
    """An exchange with another library cannot be done as asked (a copy would be needed, say)."""


class ConfigError(HologramError, ValueError):
    """An environment variable holds a value that its knob does not take."""


class FormatError(HologramError, ValueError):
    """A file is not what its format asks for; carries the file, the field and its offset in bytes."""

    def __init__(self, file: object, field: str, offset: int, text: str) -> None:
        super().__init__(f"{file}: {field} at byte {offset}: {text}")
        self.file = str(file)
        self.field = field
        self.offset = offset
        self.text = text

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled by what it is made of, which is not its message alone."""
        return type(self), (self.file, self.field, self.offset, self.text), vars(self)


class DistributedError(HologramError, RuntimeError):
    """Processes do not ask for the same collective, or there are none."""


class WorkerLost(DistributedError, TimeoutError):
    """Another process did not come to a collective in time, or is gone."""
