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
    c64 as c64,
    c128 as c128,
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
    from hologram.frontend import (
        fft as fft,
        linalg as linalg,
        ops as ops,
        random as random,
        selection as backend,
    )
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
    from hologram.frontend.control.functions import (
        checkpoint as checkpoint,
        cond as cond,
        fori_loop as fori_loop,
        map as map,
        scan as scan,
        switch as switch,
        while_loop as while_loop,
    )
    from hologram.frontend.transforms.functions import (
        hessian as hessian,
        jacfwd as jacfwd,
        jacrev as jacrev,
        jvp as jvp,
        linearize as linearize,
        vmap as vmap,
    )
    from hologram.frontend.jit.jitted import jit as jit
    from hologram.frontend.kernel import kernel as kernel
    from hologram.frontend.packed import Packed as Packed
    from hologram.frontend.tree import register_pytree_node as register_pytree_node
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
        finfo as finfo,
        iinfo as iinfo,
        imag as imag,
        isdtype as isdtype,
        real as real,
        result_type as result_type,
    )
    from hologram.frontend.numpy_names.counting import (
        argwhere as argwhere, bincount as bincount, digitize as digitize, flatnonzero as flatnonzero,
        histogram as histogram, histogram_bin_edges as histogram_bin_edges, interp as interp,
        intersect1d as intersect1d, setdiff1d as setdiff1d, union1d as union1d, unique as unique,
    )  # fmt: skip
    from hologram.frontend.numpy_names.files import (
        load as load, save as save, savez as savez,
    )  # fmt: skip
    from hologram.frontend.numpy_names.missing import (
        nan_to_num as nan_to_num, nanargmax as nanargmax, nanargmin as nanargmin, nancumprod as nancumprod,
        nancumsum as nancumsum, nanmax as nanmax, nanmean as nanmean, nanmin as nanmin, nanprod as nanprod,
        nanstd as nanstd, nansum as nansum, nanvar as nanvar,
    )  # fmt: skip
    from hologram.frontend.numpy_names.products import (
        allclose as allclose, array_equal as array_equal, cross as cross, deg2rad as deg2rad, divmod as divmod,
        inner as inner, isclose as isclose, kron as kron, outer as outer, rad2deg as rad2deg, vdot as vdot,
    )  # fmt: skip
    from hologram.frontend.numpy_names.segments import (
        dynamic_slice as dynamic_slice, dynamic_update_slice as dynamic_update_slice,
        scatter_mean as scatter_mean, segment_max as segment_max, segment_mean as segment_mean,
        segment_min as segment_min, segment_prod as segment_prod, segment_sum as segment_sum,
    )  # fmt: skip
    from hologram.frontend.numpy_names.shapes import (
        apply_along_axis as apply_along_axis, array as array, array_split as array_split,
        atleast_1d as atleast_1d, atleast_2d as atleast_2d, atleast_3d as atleast_3d,
        column_stack as column_stack, diag as diag, diagflat as diagflat, diagonal as diagonal,
        dstack as dstack, fliplr as fliplr, flipud as flipud, geomspace as geomspace, hsplit as hsplit,
        hstack as hstack, identity as identity, iscomplexobj as iscomplexobj, isrealobj as isrealobj,
        logspace as logspace, ravel as ravel, rot90 as rot90, split as split, swapaxes as swapaxes,
        trace as trace, tri as tri, vsplit as vsplit, vstack as vstack,
    )  # fmt: skip
    from hologram.frontend.numpy_names.signals import (
        convolve as convolve, correlate as correlate, ediff1d as ediff1d, gradient as gradient,
        trapezoid as trapezoid,
    )  # fmt: skip
    from hologram.frontend.numpy_names.statistics import (
        average as average, corrcoef as corrcoef, cov as cov, median as median, nanmedian as nanmedian,
        nanpercentile as nanpercentile, nanquantile as nanquantile, percentile as percentile, ptp as ptp,
        quantile as quantile,
    )  # fmt: skip
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
        c64 as complex64,
        c128 as complex128,
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
            *("__array_namespace_info__", "astype", "can_cast", "finfo", "iinfo", "imag", "isdtype"),
            *("real", "result_type"),
        ),
        "hologram.frontend.array_api.type_functions",
    ),
    **dict.fromkeys(
        ("checkpoint", "cond", "fori_loop", "map", "scan", "switch", "while_loop"),
        "hologram.frontend.control.functions",
    ),
    **dict.fromkeys(
        ("hessian", "jacfwd", "jacrev", "jvp", "linearize", "vmap"), "hologram.frontend.transforms.functions"
    ),
    **dict.fromkeys(
        (
            "argwhere",
            "bincount",
            "digitize",
            "flatnonzero",
            "histogram",
            "histogram_bin_edges",
            "interp",
            "intersect1d",
            "setdiff1d",
            "union1d",
            "unique",
        ),
        "hologram.frontend.numpy_names.counting",
    ),
    **dict.fromkeys(
        (
            "load",
            "save",
            "savez",
        ),
        "hologram.frontend.numpy_names.files",
    ),
    **dict.fromkeys(
        (
            "nan_to_num",
            "nanargmax",
            "nanargmin",
            "nancumprod",
            "nancumsum",
            "nanmax",
            "nanmean",
            "nanmin",
            "nanprod",
            "nanstd",
            "nansum",
            "nanvar",
        ),
        "hologram.frontend.numpy_names.missing",
    ),
    **dict.fromkeys(
        (
            "allclose",
            "array_equal",
            "cross",
            "deg2rad",
            "divmod",
            "inner",
            "isclose",
            "kron",
            "outer",
            "rad2deg",
            "vdot",
        ),
        "hologram.frontend.numpy_names.products",
    ),
    **dict.fromkeys(
        (
            "dynamic_slice",
            "dynamic_update_slice",
            "scatter_mean",
            "segment_max",
            "segment_mean",
            "segment_min",
            "segment_prod",
            "segment_sum",
        ),
        "hologram.frontend.numpy_names.segments",
    ),
    **dict.fromkeys(
        (
            "apply_along_axis",
            "array",
            "array_split",
            "atleast_1d",
            "atleast_2d",
            "atleast_3d",
            "column_stack",
            "diag",
            "diagflat",
            "diagonal",
            "dstack",
            "fliplr",
            "flipud",
            "geomspace",
            "hsplit",
            "hstack",
            "identity",
            "iscomplexobj",
            "isrealobj",
            "logspace",
            "ravel",
            "rot90",
            "split",
            "swapaxes",
            "trace",
            "tri",
            "vsplit",
            "vstack",
        ),
        "hologram.frontend.numpy_names.shapes",
    ),
    **dict.fromkeys(
        (
            "convolve",
            "correlate",
            "ediff1d",
            "gradient",
            "trapezoid",
        ),
        "hologram.frontend.numpy_names.signals",
    ),
    **dict.fromkeys(
        (
            "average",
            "corrcoef",
            "cov",
            "median",
            "nanmedian",
            "nanpercentile",
            "nanquantile",
            "percentile",
            "ptp",
            "quantile",
        ),
        "hologram.frontend.numpy_names.statistics",
    ),
    "explain_selection": "hologram.frontend.selection",
    "jit": "hologram.frontend.jit.jitted",
    "register_pytree_node": "hologram.frontend.tree",
    "get_default_backend": "hologram.frontend.selection",
    "is_cuda_available": "hologram.frontend.selection",
    "is_metal_available": "hologram.frontend.selection",
    "is_webgpu_available": "hologram.frontend.selection",
    "validate_backend": "hologram.frontend.selection",
}
_HIDING = {"map"}  # functions that would hide Python's: a star does not bring them
_MODULES = ("backend", "backends", "dtypes", "errors", "fft", "linalg", "ops", "random")
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
        {
            *__all__,
            *_HIDING,
            *_MODULES,
            *_CONSTANTS,
            *_operations(),
            *(n for n in globals() if n.startswith("__")),
        }
    )


def _operations() -> dict[str, _typing.Any]:
    """By every name."""
    known = _import_module("hologram.opset").OPERATIONS
    aliases = _import_module("hologram.frontend.numpy_names.aliases").ALIASES
    return known | {alias: known[name] for alias, name in aliases.items()}


def _missing(name: str) -> str:
    method = not name.startswith("_") and hasattr(Executor, name)
    hint = f"; an executor has it: hologram.default_executor().{name}" if method else ""
    hint = "; hologram.asarray makes tensors" if name == "tensor" else hint
    return f"module 'hologram' has no attribute {name!r}{hint}"


__all__ = [  # not the modules: a star would bring them, and what was imported from them so far
    *(n for n, v in list(globals().items()) if not n.startswith("_") and not isinstance(v, _ModuleType)),
    *(n for n in _LAZY if not n.startswith("_") and n not in _HIDING),
]
