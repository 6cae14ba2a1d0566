"""What the short way is told as compiled code (quick.ll): the objects it asks for, and recipes as words."""

from __future__ import annotations

import ctypes
import struct
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from hologram.compiled.machine_code.builtin import Builtin, keep
from hologram.runtime.dispatch import Dispatch
from hologram.runtime.launches.recording import Recording
from hologram.runtime.memory.buffer import Buffer
from hologram.runtime.memory.view import LARGE, LINE
from hologram_torch import native
from hologram_torch.device.devices import devices
from hologram_torch.kernels.short.recipe import BY_VALUE, Made, Recipe, Same
from hologram_torch.tensors.memory import importing, local, record, tensor_over

FILES = ("quick.ll", "arguments.ll", "tensors.ll", "buffers.ll", "launch.ll")
NAMED = 0x3  # METH_VARARGS and METH_KEYWORDS: a tuple, and a dictionary or nothing
MOST = 16  # of each kind of thing that a call may have
FORMS = {None: 0, tuple: 1, list: 2}
BEYOND = object()  # in a recipe's place: Python follows it
TYPES = (
    torch.Tensor,
    torch.nn.Parameter,
    int,
    float,
    bool,
    type(None),
    list,
    tuple,
    torch.dtype,
    torch.memory_format,
    torch.layout,
    Buffer,
)
ASKED = (
    True,
    None,
    Dispatch.tracers,
    Recording.open,
    torch.Tensor.untyped_storage,
    importing,
    torch.get_default_dtype,
    local,
)
NAMES = (
    *("_cdata", "payload", "block", "executor", "place", "nbytes", "limits", "binding_alignment", "adopted"),
    *(
        "usable",
        "pool",
        "issued_bytes",
        "peak",
        "launch",
        "imported",
        "lease",
        "kind",
        "_view",
        "holder",
    ),
)


def _compiled() -> Builtin | None:
    if tensor_over is None or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None
    given = ctypes.CFUNCTYPE(None)(tensor_over)
    files = [Path(__file__).with_name(name) for name in FILES]
    code = native.compiled(files[0], ("quick", "settle"), files[1:], tensor_over=given)
    if code is None:
        return None
    names = list(map(sys.intern, NAMES))
    objects = (
        [*TYPES, *ASKED],
        [*names, BY_VALUE, BEYOND, sys.intern("token"), devices.currents, sys.intern("index")],
    )
    words = [*map(id, objects[0]), LARGE, LINE, *map(id, objects[1])]
    known = (ctypes.c_uint64 * len(words))(*words)
    keep((objects, known))
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.addresses[1])(ctypes.addressof(known))
    return Builtin("quick", code.addresses[0], NAMED)


_builtin = _compiled()
compiled = _builtin is not None


def swift(
    operands: int,
    entries: dict[Any, Any],
    kernel: Callable[..., Any],
    python: Callable[..., Any],
    learn: Callable[..., Any],
    refuse: Callable[[Exception], None],
) -> Callable[..., Any]:
    """A kernel's short way as compiled code, which asks these; see %kernel in quick.ll."""
    assert _builtin is not None
    owned = (entries, kernel, python, learn, refuse)
    words = (ctypes.c_int64 * 6)(operands, *map(id, owned))
    return _builtin.of(ctypes.addressof(words), (words, owned))


def entry(recipe: Recipe | None, told: bool, asks: Callable[[Any], bool] | None) -> Any:
    """A recipe for compiled code, and what its words point to; None where there is none, or BEYOND.

    `asks` is given the new buffers, and says whether one is a flag that is set; None where none is a flag.
    """
    if recipe is None:
        return None
    results = recipe.results
    if (
        recipe.form not in FORMS
        or max(len(recipe.kinds), len(results)) > MOST
        or not all(x.whole for x in results if type(x) is Made)
    ):
        return BEYOND
    engine, pool = recipe.engine, recipe.engine.pool
    records = [record(x.layout, recipe.index) if type(x) is Made else (0, None) for x in results]
    words = [word for kind in recipe.kinds for word in (id(kind), id(kind.free_list))]
    words += map(id, recipe.numbers)
    for result, (address, _) in zip(results, records, strict=True):
        words += (result.number, address) if type(result) in (Made, Same) else (id(result), 1)
    counts = FORMS[recipe.form], len(recipe.kinds), len(recipe.numbers), len(results)
    head = struct.pack(
        "=4Qq2d4qQ",
        *map(id, (engine, pool.foreign, pool.returned, recipe.structure)),
        told,
        *recipe.bounds,
        *counts,
        id(asks),
    )
    return head + struct.pack(f"={len(words)}Q", *words), recipe, records, asks
