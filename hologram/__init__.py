"""hologram: compute on whatever GPU the machine has, from Python."""

# ruff: noqa: I001  (one line for each name would be forty)
# What is not public has an underscore: `dir(hologram)` is what a user is offered. The aliases say to checkers that a
# name is meant to be exported.
import math as _math
import typing as _typing
from importlib import import_module as _import_module
from types import ModuleType as _ModuleType

from hologram.foundation import aliases as _aliases
from hologram.foundation.dtypes import (
    ALL as _ALL,
    bf16 as bf16,
    bool_ as bool_,
    f16 as f16,
    f32 as f32,
    f64 as f64,
    f8e4m3fn as f8e4m3fn,
    f8e5m2 as f8e5m2,
    i8 as i8,
    i16 as i16,
    i32 as i32,
    i64 as i64,
    u8 as u8,
    u16 as u16,
    u32 as u32,
    u64 as u64,
)
from hologram.foundation.errors import *  # noqa: F403  (the exceptions are all it holds)
from hologram.frontend.array_api.creation import (
    asarray as asarray,
    empty as empty,
    empty_like as empty_like,
    from_dlpack as from_dlpack,
    full as full,
    full_like as full_like,
    ones as ones,
    ones_like as ones_like,
    zeros as zeros,
    zeros_like as zeros_like,
)
from hologram.frontend.default import (
    default_executor as default_executor,
    set_default_executor as set_default_executor,
    use_executor as use_executor,
)
from hologram.frontend.executor import Executor as Executor
from hologram.frontend.tensor import Tensor as Tensor
from hologram.runtime.memory.buffer import Buffer as Buffer

if _typing.TYPE_CHECKING:
    from hologram.frontend import selection as backend, ops as ops
    from hologram.foundation import dtypes as dtypes, errors as errors
    from hologram.atlas.program import Program as Program
    from hologram.frontend.selection import (
        BackendType as BackendType,
        explain_selection as explain_selection,
        get_default_backend as get_default_backend,
        is_cuda_available as is_cuda_available,
        is_metal_available as is_metal_available,
        is_webgpu_available as is_webgpu_available,
        validate_backend as validate_backend,
    )
    from hologram.frontend.gradient.transforms import (
        custom_gradient as custom_gradient,
        grad as grad,
        stop_gradient as stop_gradient,
        value_and_grad as value_and_grad,
        vjp as vjp,
    )
    from hologram.frontend.jit.jitted import jit as jit
    from hologram.frontend.kernel import kernel as kernel
    from hologram.frontend.packed import Packed as Packed
    from hologram.kernels.vectors import vec2 as vec2, vec3 as vec3, vec4 as vec4
    from hologram.kernels.language import (
        Array as Array,
        atomic_add as atomic_add,
        atomic_and as atomic_and,
        atomic_compare_exchange as atomic_compare_exchange,
        atomic_exchange as atomic_exchange,
        atomic_max as atomic_max,
        atomic_min as atomic_min,
        atomic_or as atomic_or,
        atomic_xor as atomic_xor,
        barrier as barrier,
        func as func,
        grid_size as grid_size,
        index as index,
        local as local,
        shared as shared,
        static as static,
        thread_index as thread_index,
        workgroup_index as workgroup_index,
    )
    from hologram.frontend.signatures import *  # noqa: F403  (the operations)
    from hologram.frontend.array_api.searching import (
        nonzero as nonzero,
        unique_all as unique_all,
        unique_counts as unique_counts,
        unique_inverse as unique_inverse,
        unique_values as unique_values,
    )
    from hologram.frontend.array_api.several import (
        broadcast_arrays as broadcast_arrays,
        broadcast_shapes as broadcast_shapes,
        meshgrid as meshgrid,
        unstack as unstack,
    )
    from hologram.frontend.array_api.type_functions import (
        __array_namespace_info__ as __array_namespace_info__,
        astype as astype,
        can_cast as can_cast,
        conj as conj,
        finfo as finfo,
        iinfo as iinfo,
        imag as imag,
        isdtype as isdtype,
        real as real,
        result_type as result_type,
    )
    from hologram.foundation.dtypes import (
        f32 as float32,
        f16 as float16,
        bf16 as bfloat16,
        f64 as float64,
        i8 as int8,
        i16 as int16,
        i32 as int32,
        i64 as int64,
        u8 as uint8,
        u16 as uint16,
        u32 as uint32,
        u64 as uint64,
        bool_ as bool,
        f8e4m3fn as float8_e4m3fn,
        f8e5m2 as float8_e5m2,
    )
    from math import e as e, inf as inf, nan as nan, pi as pi

    newaxis: None
    backends: _typing.Any  # can be called too

__version__ = "0.1.0"

_aliases.install()
# Importing opens nothing and loads no vendor's library. What an executor does not need to open is fetched when it is
# first asked for (name -> module), and so are the public modules and the operations.
_LAZY = {
    "kernel": "hologram.frontend.kernel",
    **dict.fromkeys(("vec2", "vec3", "vec4"), "hologram.kernels.vectors"),
    **dict.fromkeys(
        (
            *(
                "Array",
                "func",
                "static",
                "index",
                "grid_size",
                "thread_index",
                "workgroup_index",
                "local",
                "shared",
            ),
            *("barrier", "atomic_add", "atomic_min", "atomic_max", "atomic_and", "atomic_or", "atomic_xor"),
            *("atomic_exchange", "atomic_compare_exchange"),
        ),
        "hologram.kernels.language",
    ),
    "BackendType": "hologram.frontend.selection",
    "Packed": "hologram.frontend.packed",
    "Program": "hologram.atlas.program",
    **dict.fromkeys(
        ("custom_gradient", "grad", "stop_gradient", "value_and_grad", "vjp"),
        "hologram.frontend.gradient.transforms",
    ),
    **dict.fromkeys(
        ("nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values"),
        "hologram.frontend.array_api.searching",
    ),
    **dict.fromkeys(
        ("broadcast_arrays", "broadcast_shapes", "meshgrid", "unstack"), "hologram.frontend.array_api.several"
    ),
    **dict.fromkeys(
        (
            *("__array_namespace_info__", "astype", "can_cast", "conj", "finfo", "iinfo", "imag", "isdtype"),
            *("real", "result_type"),
        ),
        "hologram.frontend.array_api.type_functions",
    ),
    "explain_selection": "hologram.frontend.selection",
    "jit": "hologram.frontend.jit.jitted",
    "get_default_backend": "hologram.frontend.selection",
    "is_cuda_available": "hologram.frontend.selection",
    "is_metal_available": "hologram.frontend.selection",
    "is_webgpu_available": "hologram.frontend.selection",
    "validate_backend": "hologram.frontend.selection",
}
_MODULES = ("backend", "backends", "dtypes", "errors", "ops")
# The array API's constants, and its names of the dtypes; a star does not bring them, `bool` would hide Python's.
_CONSTANTS = {"e": _math.e, "inf": _math.inf, "nan": _math.nan, "newaxis": None, "pi": _math.pi} | {
    dtype.numpy_name: dtype for dtype in _ALL
}
__array_api_version__ = "2024.12"


if not _typing.TYPE_CHECKING:  # who checks types knows every name from above

    def __getattr__(name: str) -> _typing.Any:
        if name in _LAZY:
            value = getattr(_import_module(_LAZY[name]), name)
        elif name in _MODULES:
            value = _import_module(f"hologram.{name}")
        elif name in _CONSTANTS:
            return _CONSTANTS[name]
        else:
            value = None if name.startswith("_") else _operations().get(name)
            if value is None:
                raise AttributeError(_missing(name), name=name, obj=_import_module("hologram"))
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(
        {*__all__, *_MODULES, *_CONSTANTS, *_operations(), *(n for n in globals() if n.startswith("__"))}
    )


def _operations() -> dict[str, _typing.Any]:
    return _import_module("hologram.opset").OPERATIONS


def _missing(name: str) -> str:
    method = not name.startswith("_") and hasattr(Executor, name)
    hint = f"; an executor has it: hologram.default_executor().{name}" if method else ""
    hint = "; hologram.asarray makes tensors" if name in ("tensor", "array") else hint
    return f"module 'hologram' has no attribute {name!r}{hint}"


__all__ = [  # not the modules: a star would bring them, and what was imported from them so far
    *(n for n, v in list(globals().items()) if not n.startswith("_") and not isinstance(v, _ModuleType)),
    *(n for n in _LAZY if not n.startswith("_")),
]
