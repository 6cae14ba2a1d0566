"""What is made of numbers alone: ranges, the identity, positions in triangles."""

from __future__ import annotations

from typing import Any

import torch

import hologram as hg
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.frontend.tensor import Tensor
from hologram.opset import OPERATIONS
from hologram.opset.forms.operation import Operation
from hologram.runtime.dispatch import deferred
from hologram_torch.device.devices import devices
from hologram_torch.kernels import refusals
from hologram_torch.kernels.errors import refusal
from hologram_torch.kernels.numbers import is_within
from hologram_torch.kernels.operators import operator
from hologram_torch.kernels.registry import register
from hologram_torch.tensors.dtypes import dtype_of
from hologram_torch.tensors.memory import hologram_tensor, refuse_pinned, torch_tensor


def made(name: str, out: torch.Tensor, *args: Any) -> Tensor:
    """The output as a tensor of hologram, of the shape that these arguments make; raises what PyTorch raises."""
    try:
        like = operator(name)(*args, out=torch.empty(out.shape, dtype=out.dtype, device="meta"))
    except (RuntimeError, TypeError, ValueError) as error:
        raise type(error)(f"hologram, {name.partition('.')[0]}: {error}") from None
    if out.dtype in (torch.bool, torch.uint16, torch.uint32, torch.uint64):  # of which the CPU makes few
        error = refusals.of_arguments(operator(name), args, {"out": out})
        if error is not None:
            raise refusal(name, error)
    if out.shape != like.shape:
        out.resize_(like.shape)
    return hologram_tensor(out)


def write(result: Tensor, target: Tensor) -> None:
    """Copies to where results belong, converted."""
    target.executor.copy(result, target)


def made_in(target: Tensor, operation: Operation, **named: Any) -> None:
    """Has an operation without operands write its result where it belongs."""
    if deferred():
        write(operation(target.executor, **named), target)
    else:
        target.executor.execute(operation, (), (target,), operation.bind((), named)[1])


def widest(target: Tensor) -> DType:
    """The float dtype that numbers are made in before they are converted."""
    exact = target.dtype.is_integer or target.dtype is dtypes.f64
    return dtypes.f64 if exact and dtypes.f64 in target.executor.limits.dtypes else dtypes.f32


def _arange(start: Any, end: Any, step: Any = 1, *, out: torch.Tensor) -> torch.Tensor:
    _stepped(made("arange.start_out", out, start, end, step), start, step)
    return out


def _closed_range(start: Any, end: Any, step: Any = 1, *, out: torch.Tensor) -> torch.Tensor:
    """With the end, where a step reaches it."""
    _stepped(made("range.out", out, start, end, step), start, step)
    return out


def _stepped(target: Tensor, start: Any, step: Any) -> None:
    """Writes start, start + step, ..."""
    n = target.shape[0]
    if not n:
        return
    kind = int if target.dtype.is_integer else float
    start, step = kind(start), kind(step)
    stop = start + step * (n if kind is int else n - 0.5)
    if kind is float or (is_within(start, target.dtype) and is_within(stop - step, target.dtype)):
        made_in(target, OPERATIONS["arange"], start=start, stop=stop, step=step, dtype=target.dtype)
    else:  # which wraps round
        write(hg.arange(target.executor, 0, n, dtype="i64") * step + start, target)


def _range(
    start: Any,
    end: Any,
    step: Any = 1,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> torch.Tensor:
    """In new memory: PyTorch's own resizes an empty output."""
    refuse_pinned(pin_memory)
    try:
        like = torch.arange(start, end, step, dtype=dtype, layout=layout or torch.strided, device="meta")
    except (RuntimeError, TypeError, ValueError) as error:
        raise type(error)(f"hologram, arange: {error}") from None
    if like.dtype in (torch.int64, torch.int32) and all(type(x) is int for x in (start, end, step)):
        executor = devices.executor(devices.index_of(device))
        return torch_tensor(hg.arange(executor, start, end, step, dtype=dtype_of(like.dtype)))
    return _arange(start, end, step, out=torch.empty(like.shape, dtype=like.dtype, device=device))


def _spaced(target: Tensor, start: float, end: float, steps: int) -> Tensor:
    return hg.linspace(target.executor, float(start), float(end), steps, dtype=widest(target))


def _linspace(start: Any, end: Any, steps: int, *, out: torch.Tensor) -> torch.Tensor:
    target = made("linspace.out", out, start, end, steps)
    if steps and any(isinstance(x, complex) for x in (start, end)):
        write(start + _spaced(target, 0, 1, steps) * (end - start), target)
    elif steps:
        write(_spaced(target, start, end, steps), target)
    return out


def _logspace(start: Any, end: Any, steps: int, base: float = 10.0, *, out: torch.Tensor) -> torch.Tensor:
    target = made("logspace.out", out, start, end, steps, base)
    if target.dtype.is_integer:  # as PyTorch, whose bounds are converted first
        start, end = int(start), int(end)
    if steps:
        write(hg.pow(float(base), _spaced(target, start, end, steps)), target)
    return out


def _eye(n: int, m: int | None = None, *, out: torch.Tensor) -> torch.Tensor:
    m = n if m is None else m
    target = made("eye.m_out", out, n, m)
    write(hg.eye(target.executor, n, m, dtype=target.dtype), target)
    return out


def _triangle(name: str) -> Any:
    """The positions (2, count) of a triangle's elements, row by row."""
    lower = name == "tril_indices"

    def kernel(
        row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, **_: Any
    ) -> torch.Tensor:
        if min(row, col) < 0:
            raise RuntimeError(f"hologram, {name}: row and col must not be negative, got {row} and {col}")
        if dtype is not None:
            error = refusals.of_arguments(operator(name), (1, 1), {"dtype": dtype})
            if error is not None:
                raise refusal(name, error)
        rows = torch.arange(row, device=device)[:, None]
        columns = torch.arange(col, device=device)
        inside = columns - rows <= offset if lower else columns - rows >= offset
        return inside.nonzero().t().to(dtype or torch.int64).contiguous()

    return kernel


def _kaiser(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: Any = None,
    device: Any = None,
    **_: Any,
) -> torch.Tensor:
    """Kaiser's window, I0(beta sqrt(1 - x^2)) / I0(beta) for x from -1 to 1."""
    dtype = dtype or torch.get_default_dtype()
    if window_length < 0 or not dtype.is_floating_point:
        raise RuntimeError(
            "hologram, kaiser_window: a length of at least 0 and a floating point dtype are needed, "
            f"got {window_length} and {dtype}"
        )
    if window_length < 2:
        return torch.ones(window_length, dtype=dtype, device=device)
    wide = torch.promote_types(dtype, torch.float32)
    x = torch.linspace(-1, 1, window_length + periodic, dtype=wide, device=device)
    window = torch.i0(beta * (1 - x * x).sqrt()) / torch.i0(torch.tensor(beta, dtype=wide, device=device))
    return window[:window_length].to(dtype)


register("arange", lambda end, **how: _range(0, end, **how), recorded=True)
register("arange.start", _range, recorded=True)
register("arange.start_step", _range, recorded=True)
register("range.out", _closed_range)
register("arange.start_out", _arange)
register("linspace.out", _linspace)
register("logspace.out", _logspace)
register("eye.out", _eye)
register("eye.m_out", _eye)
for _name in ("tril_indices", "triu_indices"):
    register(_name, _triangle(_name))
for _name in ("kaiser_window", "kaiser_window.periodic", "kaiser_window.beta"):
    register(_name, _kaiser)
