"""Connectionist temporal classification (Graves et al. 2006): a step of time is a launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import hologram as hg
from hologram.frontend.tensor import Tensor
from hologram_torch.kernels.fused import fused
from hologram_torch.kernels.registry import implements


def _numbers(x: Any) -> list[int]:
    return x.to_numpy().tolist() if isinstance(x, Tensor) else [int(n) for n in x]


def _labels(targets: Tensor, lengths: Sequence[int], blank: int) -> np.ndarray:
    """The targets of each sequence with blanks around and between, (N, 2 S + 1); blanks behind their ends."""
    given = targets.to_numpy()
    longest = max(lengths, default=0)
    labels = np.full((len(lengths), 2 * longest + 1), blank, np.int64)
    starts = np.cumsum([0, *lengths])
    for k, n in enumerate(lengths):
        labels[k, 1 : 2 * n + 1 : 2] = given[k, :n] if given.ndim == 2 else given[starts[k] : starts[k] + n]
    return labels


def _sum(*terms: Tensor) -> Tensor:
    """The logarithm of the sum of exponentials."""
    top = terms[0]
    for term in terms[1:]:
        top = hg.maximum(top, term)
    safe = hg.where(hg.equal(top, -np.inf), 0.0, top)
    total: Any = 0.0
    for term in terms:
        total = total + hg.exp(term - safe)
    return hg.where(hg.equal(top, -np.inf), -np.inf, hg.log(total) + safe)


def _moved(x: Tensor, by: int) -> Tensor:
    """Columns moved to the right (left where negative), with -inf in the places left."""
    width = x.shape[1]
    nothing = x.executor.full((x.shape[0], min(abs(by), width)), -np.inf, x.dtype)
    if abs(by) >= width:
        return nothing
    return hg.concat([nothing, x[:, :-by]] if by > 0 else [x[:, -by:], nothing], axis=1)


@fused
def _step(before: Tensor, emitted: Tensor, leaps: Tensor, by: int) -> Tensor:
    """Variables of the next time: from the same state, its neighbour, and where it may be leapt, the one beyond."""
    leapt = hg.where(leaps, _moved(before, 2 * by), -np.inf)
    return _sum(before, _moved(before, by), leapt) + emitted


@fused
def _emitted(log_probs: Tensor, labels: Tensor) -> Tensor:
    """The logarithms of the states' probabilities (T, N, states)."""
    return hg.gather(log_probs, labels.unsqueeze(0).expand((log_probs.shape[0], *labels.shape)), dim=2)


def _leaps(labels: np.ndarray, blank: int) -> np.ndarray:
    """Whether a state may follow the one two before it."""
    leaps = np.zeros(labels.shape, bool)
    leaps[:, 2:] = (labels[:, 2:] != blank) & (labels[:, 2:] != labels[:, :-2])
    return leaps


@implements("_ctc_loss", "_ctc_loss.Tensor", inferred=False)
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    zero_infinity: bool = False,
) -> Any:
    """The negative log likelihood of each target, and the forward variables (N, T, states)."""
    given, lengths = _numbers(input_lengths), _numbers(target_lengths)
    steps, count, classes = log_probs.shape
    if len(given) != count or len(lengths) != count:
        raise RuntimeError("hologram, ctc_loss: input_lengths and target_lengths must be of size batch_size")
    if not 0 <= blank < classes:
        raise RuntimeError("hologram, ctc_loss: blank must be in label range")
    if max(given, default=0) > steps or min((*given, *lengths), default=0) < 0:
        raise RuntimeError(f"hologram, ctc_loss: lengths must lie in [0, {steps}], got {given}")
    executor, dtype = log_probs.executor, log_probs.dtype
    states = _labels(targets, lengths, blank)
    labels, leaps = executor.tensor(states), executor.tensor(_leaps(states, blank))
    emitted = _emitted(log_probs, labels)
    start = np.where(np.arange(states.shape[1]) < 2, 0.0, -np.inf) + np.zeros((count, 1))
    start[np.array(lengths) == 0, 1:] = -np.inf
    alphas = [executor.tensor(start.astype(dtype.numpy)) + emitted[0]] if steps else []
    for time in range(1, steps):
        alphas.append(_step(alphas[-1], emitted[time], leaps, 1))
    alpha = hg.stack(alphas, axis=1)
    last = executor.tensor(np.maximum(np.array(given, np.int64) - 1, 0).reshape(-1, 1, 1))
    ended = hg.gather(alpha, last.expand((count, 1, states.shape[1])), dim=1).reshape(count, -1)
    ends = np.array([[2 * n, max(2 * n - 1, 0)] for n in lengths], np.int64)
    final = hg.gather(ended, executor.tensor(ends), dim=1)
    second = hg.where(executor.tensor(np.array(lengths) > 0), final[:, 1], -np.inf)
    loss = -_sum(final[:, 0], second)
    nothing = np.where(np.array(lengths) == 0, 0.0, np.inf).astype(dtype.numpy)
    return hg.where(executor.tensor(np.array(given) > 0), loss, executor.tensor(nothing)), alpha


@fused
def _returned(
    cotangent: Tensor, log_probs: Tensor, labels: Tensor, both: Tensor, emitted: Tensor, loss: Tensor,
    inside: Tensor, zero_infinity: bool,
) -> Tensor:  # fmt: skip
    likelihood = loss.reshape(1, -1, 1)
    share = hg.exp(both + likelihood - emitted)
    share = hg.where(hg.equal(both, -np.inf), 0.0, share)
    index = labels.unsqueeze(0).expand(share.shape)
    zeros = share.executor.full((), 0, share.dtype).expand(log_probs.shape)
    gradient = (hg.exp(log_probs) - hg.scatter_add(zeros, index, share, dim=2)) * cotangent.reshape(1, -1, 1)
    # The derivative of a loss without bounds is none, as PyTorch has it.
    gradient = hg.where(hg.equal(likelihood, np.inf), 0.0 if zero_infinity else np.nan, gradient)
    return hg.where(inside, gradient, 0.0)


@implements("_ctc_loss_backward", "_ctc_loss_backward.Tensor", inferred=False)
def ctc_loss_backward(
    cotangent: Tensor,
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    loss: Tensor,
    alpha: Tensor,
    blank: int,
    zero_infinity: bool = False,
) -> Tensor:
    """By the backward variables, from the last time of each sequence on."""
    given, lengths = np.array(_numbers(input_lengths)), _numbers(target_lengths)
    steps, count = log_probs.shape[:2]
    executor, dtype = log_probs.executor, log_probs.dtype
    states = _labels(targets, lengths, blank)
    forward = _leaps(states, blank)
    leaps = executor.tensor(
        np.concatenate([forward[:, 2:], np.zeros((count, min(2, forward.shape[1])), bool)], 1)
    )
    labels = executor.tensor(states)
    emitted = _emitted(log_probs, labels)
    number = np.arange(states.shape[1])
    ends = 2 * np.array(lengths).reshape(-1, 1)
    start = np.where((number == ends) | (number == ends - 1), 0.0, -np.inf).astype(dtype.numpy)
    nowhere = np.full_like(start, -np.inf)
    beta = executor.tensor(nowhere)
    betas: list[Tensor] = []
    for time in reversed(range(steps)):
        beta = _step(beta, emitted[time], leaps, -1)
        if time + 1 in given:
            here = executor.tensor((given == time + 1).reshape(-1, 1))
            beta = hg.where(here, executor.tensor(start) + emitted[time], beta)
        betas.append(beta)
    both = alpha.permute((1, 0, 2)) + hg.stack(betas[::-1], axis=0)
    inside = executor.tensor((np.arange(steps).reshape(-1, 1) < given).reshape(steps, count, 1))
    return _returned(cotangent, log_probs, labels, both, emitted, loss, inside, zero_infinity)
