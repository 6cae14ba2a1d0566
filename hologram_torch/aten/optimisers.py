"""Steps of optimisers over all parameters at once, and the scaling of losses in mixed precision.

The formulas are those of PyTorch's own devices (ATen/native/cuda/fused_adam_utils.cuh, FusedSgdKernel.cu,
AmpKernels.cu). Where gradients were found not to be finite, nothing changes.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

import hologram as hg
from hologram.frontend.tensor import Tensor
from hologram_torch.kernels.lists import alike, updates, wide
from hologram_torch.kernels.registry import register
from hologram_torch.tensors.memory import is_ours

Lists = list[list[Tensor]]
ADAM_NUMBERS = ("lr", "beta1", "beta2", "weight_decay", "eps")


def _ours(x: Any, like: torch.Tensor) -> Any:
    """A tensor of the device; one of the host is a number."""
    if not isinstance(x, torch.Tensor):
        return x
    return x if is_ours(x) else float(x.item())


def _all(tensors: Sequence[torch.Tensor], like: torch.Tensor) -> list[torch.Tensor]:
    return [x if is_ours(x) else x.to(like.device) for x in tensors]


def _gradient(x: Tensor, gradient: Tensor, decay: float, maximize: bool, scale: Any) -> Tensor:
    """The gradient unscaled, turned round, and with the decay of weights."""
    slope = wide(gradient)
    slope = slope if scale is None else slope / scale
    slope = -slope if maximize else slope
    return slope + decay * wide(x) if decay != 0 else slope


def _kept(before: Lists, after: Lists, found_inf: Tensor | None) -> Lists:
    """What the lists become: as they were where `found_inf` is not 0."""
    kept = None if found_inf is None else hg.equal(found_inf, 0.0)
    return [
        [
            (y if kept is None else hg.where(kept, y, wide(x))).astype(x.dtype, copy=False)
            for x, y in zip(old, new, strict=True)
        ]
        for old, new in zip(before, after, strict=True)
    ]


def _less_power(beta: Any, step: Any) -> Any:
    """1 - beta^step; in single precision without the digits that a difference from 1 loses."""
    if not isinstance(step, Tensor):
        return 1.0 - beta**step
    return -hg.expm1(step * math.log(beta)) if beta > 0 else 1.0


@updates
def _adam(
    written: Lists, gradients: list[Tensor], steps: list[Any], numbers: dict[str, Any], decoupled: bool,
    maximize: bool,
) -> Lists:  # fmt: skip
    """`steps` are tensors, or numbers, of which there may be one for all."""
    lr, beta1, beta2, decay, eps = (numbers[n] for n in ("lr", "beta1", "beta2", "weight_decay", "eps"))
    after: Lists = [[] for _ in written]
    for k, (x, gradient) in enumerate(zip(written[0], gradients, strict=True)):
        step = steps[k] if len(steps) > 1 else steps[0]
        slope = _gradient(x, gradient, 0.0 if decoupled else decay, maximize, numbers["grad_scale"])
        value = wide(x)
        value = value - lr * decay * value if decoupled and decay != 0 else value
        mean, square = wide(written[1][k]), wide(written[2][k])
        mean = mean + (1.0 - beta1) * (slope - mean)
        square = beta2 * square + (1.0 - beta2) * slope * slope
        largest = square
        if len(written) > 3:
            largest = hg.maximum(wide(written[3][k]), square)
            after[3].append(largest)
        first, second = (_less_power(beta, step) for beta in (beta1, beta2))
        spread = hg.sqrt(largest) / second**0.5 + eps
        after[0].append(value - lr / first * (mean / spread))
        after[1].append(mean)
        after[2].append(square)
    return _kept(written, after, numbers["found_inf"])


def _fused_adam(decoupled: bool) -> Callable[..., None]:
    def kernel(
        self: Sequence[torch.Tensor],
        grads: Sequence[torch.Tensor],
        exp_avgs: Sequence[torch.Tensor],
        exp_avg_sqs: Sequence[torch.Tensor],
        max_exp_avg_sqs: Sequence[torch.Tensor],
        state_steps: Sequence[torch.Tensor],
        *,
        amsgrad: bool,
        maximize: bool,
        **numbers: Any,
    ) -> None:
        if not self:
            return
        first = self[0]
        written = [_all(x, first) for x in (self, exp_avgs, exp_avg_sqs)]
        if amsgrad:
            written.append(_all(max_exp_avg_sqs, first))
        _adam(
            written,
            _all(grads, first),
            _all(state_steps, first),
            _settled(numbers, first),
            decoupled,
            maximize,
        )

    return kernel


def _settled(numbers: dict[str, Any], like: torch.Tensor) -> dict[str, Any]:
    settings = {name: _ours(x, like) for name, x in numbers.items()}
    return {"grad_scale": None, "found_inf": None} | settings


@updates
def _sgd(
    written: Lists,
    gradients: list[Tensor],
    numbers: dict[str, Any],
    nesterov: bool,
    maximize: bool,
    first: bool,
) -> Lists:
    lr, momentum, decay = (numbers[n] for n in ("lr", "momentum", "weight_decay"))
    after: Lists = [[] for _ in written]
    for k, (x, gradient) in enumerate(zip(written[0], gradients, strict=True)):
        slope = _gradient(x, gradient, decay, maximize, numbers["grad_scale"])
        if len(written) > 1:
            rolling = (
                slope if first else momentum * wide(written[1][k]) + (1.0 - numbers["dampening"]) * slope
            )
            after[1].append(rolling)
            slope = slope + momentum * rolling if nesterov else rolling
        after[0].append(wide(x) - lr * slope)
    return _kept(written, after, numbers["found_inf"])


def _fused_sgd(
    self: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    momentum_buffer_list: Sequence[torch.Tensor],
    *,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    **numbers: Any,
) -> None:
    if not self:
        return
    first = self[0]
    written = [_all(x, first) for x in (self, momentum_buffer_list) if x]
    _sgd(written, _all(grads, first), _settled(numbers, first), nesterov, maximize, is_first_step)


@updates
def _adagrad(
    written: Lists, gradients: list[Tensor], steps: list[Tensor], numbers: dict[str, Any], maximize: bool
) -> Lists:
    after: Lists = [[], []]
    for k, (x, gradient, step) in enumerate(zip(written[0], gradients, steps, strict=True)):
        slope = _gradient(x, gradient, numbers["weight_decay"], maximize, numbers["grad_scale"])
        total = wide(written[1][k]) + slope * slope
        rate = numbers["lr"] / (1.0 + (step - 1.0) * numbers["lr_decay"])
        after[0].append(wide(x) - rate * (slope / (hg.sqrt(total) + numbers["eps"])))
        after[1].append(total)
    return _kept(written, after, numbers["found_inf"])


def _fused_adagrad(
    self: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    state_sums: Sequence[torch.Tensor],
    state_steps: Sequence[torch.Tensor],
    *,
    maximize: bool,
    **numbers: Any,
) -> None:
    if not self:
        return
    first = self[0]
    written = [_all(x, first) for x in (self, state_sums)]
    _adagrad(written, _all(grads, first), _all(state_steps, first), _settled(numbers, first), maximize)


def keep_adam() -> None:
    """Has Adam's and AdamW's steps, where nobody says how to take them, run as one function of all parameters.

    PyTorch composes them of a dozen operators on lists, each of which reads and writes all of the memory.
    """
    adam: Any = importlib.import_module("torch.optim.adam")  # a name that its package gives to nothing
    composed = adam._multi_tensor_adam

    @functools.wraps(composed)
    def whole(
        params: list[torch.Tensor],
        grads: list[torch.Tensor],
        exp_avgs: list[torch.Tensor],
        exp_avg_sqs: list[torch.Tensor],
        max_exp_avg_sqs: list[torch.Tensor],
        state_steps: list[torch.Tensor],
        *scaling: Any,
        **settings: Any,
    ) -> None:
        lists = [params, exp_avgs, exp_avg_sqs, *([max_exp_avg_sqs] if settings["amsgrad"] else [])]
        numbers = {name: settings[name] for name in ADAM_NUMBERS}
        if (
            any(scaling)
            or settings["capturable"]
            or settings["differentiable"]
            or any(isinstance(x, torch.Tensor) for x in numbers.values())
            or torch.compiler.is_compiling()
            or not alike([*lists, grads])
        ):
            return composed(
                params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, *scaling, **settings
            )
        torch.ops.aten._foreach_add_.Scalar(state_steps, 1)
        steps = [float(step) for step in state_steps]
        _adam(
            lists,
            grads,
            steps[:1] if len(set(steps)) == 1 else steps,
            _settled({name: float(x) for name, x in numbers.items()}, params[0]),
            settings["decoupled_weight_decay"],
            settings["maximize"],
        )

    adam._multi_tensor_adam = whole


keep_adam()
for _form in ("", ".tensor_lr"):
    register(f"_fused_adam_{_form}", _fused_adam(False))
    register(f"_fused_adamw_{_form}", _fused_adam(True))
    register(f"_fused_sgd_{_form}", _fused_sgd)
    register(f"_fused_adagrad_{_form}", _fused_adagrad)


# The scaling of losses.


@updates
def _unscaled(written: Lists, inverse: Tensor) -> Lists:
    gradients, (found_inf,) = written
    wrong = found_inf
    for x in gradients:
        wrong = hg.maximum(wrong, hg.any(hg.logical_not(hg.isfinite(x))).astype(found_inf.dtype))
    return [
        [(wide(x) * inverse).astype(x.dtype, copy=False) for x in gradients],
        [wrong.reshape(found_inf.shape)],
    ]


def _check_and_unscale(
    self: Sequence[torch.Tensor], found_inf: torch.Tensor, inv_scale: torch.Tensor
) -> None:
    """Multiplies gradients by 1 / scale, and notes whether one of them is not finite."""
    if self:
        written = [_all(self, self[0]), [found_inf]]
        _unscaled(written, inv_scale)


@updates
def _rescaled(written: Lists, found_inf: Tensor, growth: float, backoff: float, interval: int) -> Lists:
    (scale,), (tracker,) = written
    bad = hg.not_equal(found_inf, 0.0).reshape(scale.shape)
    went = tracker + 1
    due = hg.logical_and(hg.greater_equal(went, interval), hg.logical_not(bad.reshape(tracker.shape)))
    grown = scale * growth
    grown = hg.where(hg.isfinite(grown), grown, scale)
    after = hg.where(bad, scale * backoff, hg.where(due.reshape(scale.shape), grown, scale))
    kept = hg.where(hg.logical_or(due, bad.reshape(tracker.shape)), 0, went).astype(tracker.dtype, copy=False)
    return [[after.astype(scale.dtype, copy=False)], [kept]]


def _update_scale(
    self: torch.Tensor,
    growth_tracker: torch.Tensor,
    found_inf: torch.Tensor,
    scale_growth_factor: float,
    scale_backoff_factor: float,
    growth_interval: int,
) -> torch.Tensor:
    """Lowers the scale where gradients were not finite, and raises it after some steps in which all were."""
    written = [[self], [growth_tracker]]
    _rescaled(written, found_inf, scale_growth_factor, scale_backoff_factor, growth_interval)
    return self


register("_amp_foreach_non_finite_check_and_unscale_", _check_and_unscale)
register("_amp_update_scale_", _update_scale)
