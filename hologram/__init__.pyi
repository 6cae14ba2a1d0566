"""The names that `hologram` offers: for checkers, and for `__init__.py`, which fetches each when it is asked for."""

from math import e as e, inf as inf, nan as nan, pi as pi
from typing import Any

from hologram.frontend.signatures import *  # the operations
from hologram.atlas.program import Program as Program
from hologram.foundation import dtypes as dtypes, errors as errors
from hologram.foundation.dtypes import (
    bf16 as bf16, bool_ as bool_, c64 as c64, c128 as c128, f16 as f16, f32 as f32, f64 as f64,
    f8e4m3fn as f8e4m3fn, f8e5m2 as f8e5m2, i8 as i8, i16 as i16, i32 as i32, i64 as i64, u8 as u8,
    u16 as u16, u32 as u32, u64 as u64,
)
from hologram.foundation.errors import (
    HologramError as HologramError, BackendUnavailable as BackendUnavailable, DeviceLost as DeviceLost,
    OutOfMemory as OutOfMemory, ShapeError as ShapeError, AxisError as AxisError,
    UnsupportedDType as UnsupportedDType, UnsupportedOperation as UnsupportedOperation,
    LinAlgError as LinAlgError, CompileError as CompileError, ProgramError as ProgramError,
    KernelError as KernelError, AssertionFailed as AssertionFailed, BoundsError as BoundsError, DivisionByZero as DivisionByZero, TraceError as TraceError,
    GradientError as GradientError, BufferFreed as BufferFreed, InteropError as InteropError,
    ConfigError as ConfigError, FormatError as FormatError, DistributedError as DistributedError,
    WorkerLost as WorkerLost,
)
from hologram.frontend import distributed as distributed, fft as fft, linalg as linalg, ops as ops, random as random
from hologram.frontend import selection
from hologram.frontend.array_api.creation import (
    asarray as asarray, empty as empty, empty_like as empty_like, from_dlpack as from_dlpack, full as full,
    full_like as full_like, ones as ones, ones_like as ones_like, zeros as zeros, zeros_like as zeros_like,
)
from hologram.frontend.array_api.searching import (
    nonzero as nonzero, unique_all as unique_all, unique_counts as unique_counts,
    unique_inverse as unique_inverse, unique_values as unique_values,
)
from hologram.frontend.array_api.several import (
    broadcast_arrays as broadcast_arrays, broadcast_shapes as broadcast_shapes, meshgrid as meshgrid,
    unstack as unstack,
)
from hologram.frontend.array_api.type_functions import (
    __array_namespace_info__ as __array_namespace_info__, astype as astype, can_cast as can_cast,
    finfo as finfo, iinfo as iinfo, imag as imag, isdtype as isdtype, real as real,
    result_type as result_type,
)
from hologram.frontend.control.functions import (
    checkpoint as checkpoint, cond as cond, fori_loop as fori_loop, map as map, scan as scan,
    switch as switch, while_loop as while_loop,
)
from hologram.frontend.default import (
    default_executor as default_executor, set_default_executor as set_default_executor,
    use_executor as use_executor,
)
from hologram.frontend.executor import Executor as Executor
from hologram.frontend.gradient.transforms import (
    custom_gradient as custom_gradient, grad as grad, stop_gradient as stop_gradient,
    value_and_grad as value_and_grad, vjp as vjp,
)
from hologram.frontend.jit.jitted import jit as jit
from hologram.frontend.kernel import kernel as kernel
from hologram.frontend.numpy_names.counting import (
    argwhere as argwhere, bincount as bincount, digitize as digitize, flatnonzero as flatnonzero,
    interp as interp,
    intersect1d as intersect1d, setdiff1d as setdiff1d, union1d as union1d, unique as unique,
)
from hologram.frontend.numpy_names.edits import (
    append as append, block as block, delete as delete, dsplit as dsplit, insert as insert, resize as resize,
    rollaxis as rollaxis, setxor1d as setxor1d, trim_zeros as trim_zeros, vander as vander,
)
from hologram.frontend.numpy_names.elementwise import (
    bitwise_count as bitwise_count, cbrt as cbrt, deg2rad as deg2rad, degrees as degrees, divmod as divmod,
    fabs as fabs, float_power as float_power, frexp as frexp, heaviside as heaviside, iscomplex as iscomplex,
    isneginf as isneginf, isposinf as isposinf, isreal as isreal, ldexp as ldexp, logaddexp2 as logaddexp2,
    modf as modf, polyval as polyval, rad2deg as rad2deg, radians as radians, real_if_close as real_if_close,
    rint as rint, sinc as sinc,
    spacing as spacing, unwrap as unwrap,
)
from hologram.frontend.numpy_names.files import load as load, save as save, savez as savez
from hologram.frontend.numpy_names.histograms import (
    histogram as histogram, histogram2d as histogram2d, histogram_bin_edges as histogram_bin_edges,
    histogramdd as histogramdd,
)
from hologram.frontend.numpy_names.missing import (
    nan_to_num as nan_to_num, nanargmax as nanargmax, nanargmin as nanargmin, nancumprod as nancumprod,
    nancumsum as nancumsum, nanmax as nanmax, nanmean as nanmean, nanmin as nanmin, nanprod as nanprod,
    nanstd as nanstd, nansum as nansum, nanvar as nanvar,
)
from hologram.frontend.numpy_names.padding import pad as pad
from hologram.frontend.numpy_names.positions import (
    argpartition as argpartition, choose as choose, compress as compress, diag_indices as diag_indices,
    extract as extract, fromfunction as fromfunction, indices as indices, ix_ as ix_, lexsort as lexsort, partition as partition,
    piecewise as piecewise, put_along_axis as put_along_axis, ravel_multi_index as ravel_multi_index, select as select,
    tril_indices as tril_indices, triu_indices as triu_indices, unravel_index as unravel_index,
)
from hologram.frontend.numpy_names.products import (
    allclose as allclose, array_equal as array_equal, array_equiv as array_equiv, cross as cross,
    inner as inner, isclose as isclose, kron as kron, matvec as matvec, may_share_memory as may_share_memory,
    outer as outer, vdot as vdot, vecmat as vecmat,
)
from hologram.frontend.numpy_names.quantiles import (
    median as median, nanmedian as nanmedian, nanpercentile as nanpercentile, nanquantile as nanquantile,
    percentile as percentile, quantile as quantile,
)
from hologram.frontend.numpy_names.ranges import (
    geomspace as geomspace, linspace as linspace, logspace as logspace,
)
from hologram.frontend.numpy_names.segments import (
    dynamic_slice as dynamic_slice, dynamic_update_slice as dynamic_update_slice,
    scatter_mean as scatter_mean, segment_max as segment_max, segment_mean as segment_mean,
    segment_min as segment_min, segment_prod as segment_prod, segment_sum as segment_sum,
)
from hologram.frontend.numpy_names.shapes import (
    apply_along_axis as apply_along_axis, array as array, array_split as array_split,
    atleast_1d as atleast_1d, atleast_2d as atleast_2d, atleast_3d as atleast_3d,
    column_stack as column_stack, diag as diag, diagflat as diagflat, diagonal as diagonal, dstack as dstack,
    fliplr as fliplr, flipud as flipud, hsplit as hsplit, hstack as hstack,
    identity as identity, iscomplexobj as iscomplexobj, isrealobj as isrealobj,
    ravel as ravel, rot90 as rot90, split as split, swapaxes as swapaxes, trace as trace, tri as tri,
    vsplit as vsplit, vstack as vstack,
)
from hologram.frontend.numpy_names.signals import (
    bartlett as bartlett, blackman as blackman, convolve as convolve, correlate as correlate,
    ediff1d as ediff1d, gradient as gradient, hamming as hamming, hanning as hanning, kaiser as kaiser,
    trapezoid as trapezoid,
)
from hologram.frontend.numpy_names.statistics import (
    average as average, corrcoef as corrcoef, cov as cov, ptp as ptp,
)
from hologram.frontend.packed import Packed as Packed
from hologram.frontend.saved.export import export_web as export_web
from hologram.frontend.saved.saving import Arguments as Arguments, save_program as save_program
from hologram.frontend.selection import (
    BackendType as BackendType, explain_selection as explain_selection,
    get_default_backend as get_default_backend, is_cuda_available as is_cuda_available,
    is_metal_available as is_metal_available, is_webgpu_available as is_webgpu_available,
    validate_backend as validate_backend,
)
from hologram.frontend.settings import config as config
from hologram.frontend.tensor import Tensor as Tensor
from hologram.frontend.transforms.functions import (
    hessian as hessian, jacfwd as jacfwd, jacrev as jacrev, jvp as jvp, linearize as linearize, vmap as vmap,
)
from hologram.frontend.tree import register_pytree_node as register_pytree_node
from hologram.kernels.language import (
    Array as Array, atomic_add as atomic_add, atomic_and as atomic_and,
    atomic_compare_exchange as atomic_compare_exchange, atomic_exchange as atomic_exchange,
    atomic_max as atomic_max, atomic_min as atomic_min, atomic_or as atomic_or, atomic_xor as atomic_xor,
    barrier as barrier, func as func, grid_size as grid_size, index as index, local as local,
    shared as shared, static as static, thread_index as thread_index, workgroup_index as workgroup_index,
)
from hologram.kernels.subgroups import (
    subgroup_all as subgroup_all, subgroup_any as subgroup_any, subgroup_broadcast as subgroup_broadcast,
    subgroup_index as subgroup_index, subgroup_max as subgroup_max, subgroup_min as subgroup_min,
    subgroup_shuffle as subgroup_shuffle, subgroup_sum as subgroup_sum,
)
from hologram.kernels.vectors import (
    mat2 as mat2, mat3 as mat3, mat4 as mat4, vec2 as vec2, vec3 as vec3, vec4 as vec4,
)
from hologram.runtime.memory.buffer import Buffer as Buffer

backend = selection
float32 = f32
float16 = f16
bfloat16 = bf16
float64 = f64
int8 = i8
int16 = i16
int32 = i32
int64 = i64
uint8 = u8
uint16 = u16
uint32 = u32
uint64 = u64
bool = bool_
complex64 = c64
complex128 = c128
float8_e4m3fn = f8e4m3fn
float8_e5m2 = f8e5m2

backends: Any  # a package, and it can be called
newaxis: None
__version__: str
__array_api_version__: str
