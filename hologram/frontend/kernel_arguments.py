"""Arguments of a kernel at a call, checked against its annotations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hologram.foundation.dtypes import DType
from hologram.foundation.errors import ShapeError, UnsupportedDType
from hologram.frontend.gradient.tracked import Tracked
from hologram.frontend.inside import Inside
from hologram.frontend.transforms.lifted import Lifted
from hologram.kernels.compiling import Parameter
from hologram.kernels.language import ArrayType
from hologram.machine.plan import Plan, Step
from hologram.runtime.engine import Engine
from hologram.runtime.launches import checks
from hologram.runtime.launches.validation import fitted, sizes
from hologram.runtime.memory.buffer import Buffer
from hologram.runtime.memory.view import View

MOST_LANES = 2**40
MOST_AXIS = 2**31 - 1  # what hg.index() counts in


def checked_grid(name: str, shape: Any) -> tuple[int, ...]:
    """The lengths of a grid; raises ShapeError for one without points, or too many."""
    grid = sizes(shape, f"{name}: grid")
    if not grid or 0 in grid:
        raise ShapeError(f"{name}: a grid must have at least one point, got {shape}")
    if math.prod(grid) >= MOST_LANES or max(grid) > MOST_AXIS:
        raise ShapeError(
            f"{name}: a grid must have fewer than 2^40 points, and 2^31 along an axis, got {grid}"
        )
    return grid


def check_host(who: str, parameter: Parameter, given: np.ndarray) -> None:
    """Raises ShapeError for an array of NumPy's that is not as its annotation says."""
    wanted = parameter if isinstance(parameter, ArrayType) else None
    if wanted is None or given.dtype != wanted.dtype.numpy or given.ndim != wanted.rank:
        must = "be a number" if wanted is None else f"have dtype {wanted.dtype} and {wanted.rank} axes"
        raise ShapeError(f"{who}: it must {must}, got an array of {given.dtype} with shape {given.shape}")


def counted(name: str, parameters: Mapping[str, Parameter], arguments: Sequence[Any]) -> None:
    """Raises TypeError for too many or too few."""
    if len(arguments) != len(parameters):
        raise TypeError(
            f"{name}: takes {len(parameters)} arguments ({', '.join(parameters)}), got {len(arguments)}"
        )


def checked_argument(engine: Engine | None, who: str, parameter: Parameter, given: Any) -> Any:
    """One argument, checked."""
    if isinstance(parameter, ArrayType):
        if isinstance(given, np.ndarray):
            raise TypeError(f"{who}: an array on a device is needed, got NumPy's: hg.asarray copies it there")
        if engine is None or not isinstance(given, (View, Buffer)):
            raise TypeError(f"{who}: a Tensor or Buffer is needed, got {type(given).__name__}")
        view = given if isinstance(given, Inside) else checks.view(engine, who, given)
        if view.dtype is not parameter.dtype:
            raise UnsupportedDType(f"{who}: the dtype must be {parameter.dtype}, got {view.dtype}")
        if len(view.shape) != parameter.rank:
            raise ShapeError(f"{who}: it must have {parameter.rank} axes, got shape {view.shape}")
        return view
    assert isinstance(parameter, DType)
    followed = isinstance(given, (Tracked, Lifted)) and not given.shape
    if followed and given.dtype.is_float and parameter.is_float:
        # A number that is differentiated with respect to, or one for each example: a float of Python is an f32 there.
        return given if given.dtype is parameter else given.astype(parameter)
    number = given.item() if isinstance(given, np.generic) else given
    if not isinstance(number, (bool, int, float)):
        raise TypeError(f"{who}: a number is needed, got {type(given).__name__}")
    return fitted(number, parameter, who)


def renumbered(plan: Plan, buffers: Sequence[int], count: int) -> Plan:
    """A plan whose operands are a kernel's arguments, and whose scratch comes behind all of these."""
    places = dict(enumerate(buffers))
    beyond = count - len(buffers)
    steps = tuple(
        Step(s.kernel, tuple(places.get(k, k + beyond) for k in s.operands), s.scalars, s.grid)
        for s in plan.steps
    )
    return Plan(steps, plan.scratch)
