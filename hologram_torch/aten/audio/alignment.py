"""The likeliest way of a text through the probabilities that a model with CTC gives."""

from __future__ import annotations

import torch

from hologram_torch.aten.audio import audio


@audio.implements("forced_align")
def forced_align(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: torch.Tensor,
    target_lengths: torch.Tensor,
    blank: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The symbol of each step, and its logarithm of a probability, for batches of one (Viterbi's algorithm).

    Targets stand between blanks: a step stays, goes on, or passes a blank between two that differ. Where ways are as
    good, it stays. Steps are gone forward on the device, and back on the host.
    """
    _check(log_probs, targets, input_lengths, target_lengths)
    steps, count = int(input_lengths[0]), int(target_lengths[0])
    symbols = torch.full((2 * count + 1,), blank, device=targets.device, dtype=torch.int64)
    symbols[1::2] = targets[0, :count]
    repeats = int((targets[0, 1:count] == targets[0, : max(count - 1, 0)]).sum()) if count else 0
    if steps < count + repeats:
        raise RuntimeError(
            f"hologram, forced_align: targets length is too long for CTC: {count} of which {repeats} repeat the one "
            f"before, in {steps} steps"
        )
    emitted = log_probs[0, :steps].index_select(1, symbols)
    passes = torch.zeros_like(symbols, dtype=torch.bool)
    passes[3::2] = symbols[3::2] != symbols[1:-2:2]
    back = _ways(emitted, passes)
    path = symbols[torch.tensor(back, device=symbols.device)]
    path = torch.nn.functional.pad(path, (0, log_probs.shape[1] - steps))  # steps that are none have symbol 0
    scores = log_probs[0].gather(1, path[:, None])[:, 0]
    return path.to(targets.dtype)[None], scores[None]


def _ways(emitted: torch.Tensor, passes: torch.Tensor) -> list[int]:
    """The state of each step, of the logarithms that each step gives to each state."""
    least = emitted.new_full((2,), -torch.inf)
    best = torch.where(torch.arange(len(passes), device=passes.device) < 2, emitted[0], -torch.inf)
    moves = []
    for row in emitted[1:]:
        before = torch.cat([least, best])
        one = before[1:-1]
        two = torch.where(passes, before[:-2], -torch.inf)
        on, over = (one > best) & (one > two), (two > best) & (two > one)
        moves.append(on.to(torch.uint8) + 2 * over.to(torch.uint8))
        best = torch.where(over, two, torch.where(on, one, best)) + row
    ends = best[-2:].tolist()
    state = len(passes) - 1 - (len(ends) > 1 and not ends[1] > ends[0])
    states = [state]
    for row in torch.stack(moves).cpu().numpy()[::-1] if moves else ():
        state -= int(row[state])
        states.append(state)
    return states[::-1]


def _check(log_probs: torch.Tensor, targets: torch.Tensor, *lengths: torch.Tensor) -> None:
    wrong = None
    if not log_probs.is_floating_point() or log_probs.ndim != 3:
        wrong = f"log_probs must be floats of 3 axes, got {log_probs.dtype} of shape {tuple(log_probs.shape)}"
    elif targets.dtype not in (torch.int32, torch.int64) or targets.ndim != 2:
        wrong = (
            f"targets must be int32 or int64 of 2 axes, got {targets.dtype} of shape {tuple(targets.shape)}"
        )
    elif log_probs.shape[0] != 1 or targets.shape[0] != 1 or any(x.shape != (1,) for x in lengths):
        wrong = (
            f"batches must be of one, got log_probs of shape {tuple(log_probs.shape)}, targets of "
            f"{tuple(targets.shape)}, lengths of {[tuple(x.shape) for x in lengths]}"
        )
    elif int(lengths[0][0]) > log_probs.shape[1] or int(lengths[1][0]) > targets.shape[1]:
        wrong = (
            f"lengths must be those of what is given, got {[int(x[0]) for x in lengths]} for "
            f"{tuple(log_probs.shape)} and {tuple(targets.shape)}"
        )
    if wrong is not None:
        raise RuntimeError(f"hologram, forced_align: {wrong}")
