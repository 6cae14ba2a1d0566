"""The loss of a recurrent transducer (Graves 2012): all ways of a text through a grid of steps and symbols."""

from __future__ import annotations

from typing import Any

import torch

from hologram_torch.aten.audio import audio

Tensors = tuple[torch.Tensor, torch.Tensor]


@audio.implements("rnnt_loss")
@audio.implements("rnnt_loss_forward")
def rnnt_loss(
    logits: torch.Tensor, targets: torch.Tensor, logit_lengths: torch.Tensor, target_lengths: torch.Tensor,
    blank: int, clamp: float, fused_log_softmax: bool = True,
) -> Tensors:  # fmt: skip
    """Costs (batch), and their derivatives by the logits (batch, steps, symbols + 1, classes), clamped above 0."""
    _check(logits, targets, logit_lengths, target_lengths)
    wide = logits if logits.dtype == torch.float64 else logits.float()
    logs = wide.log_softmax(-1) if fused_log_softmax else wide
    index = torch.nn.functional.pad(targets.long(), (0, 1))[:, None, :, None].expand(*logs.shape[:3], 1)
    grid = _Grid(logs[..., blank], logs.gather(3, index)[..., 0], logit_lengths.long(), target_lengths.long())
    ahead, behind = grid.ahead(), grid.behind()
    total = behind[:, 0, :1, None]
    silent, spoken = grid.slopes(ahead, behind, total)
    slopes = torch.zeros_like(logs)
    slopes[..., blank] = silent
    slopes.scatter_add_(3, index, spoken[..., None])
    if fused_log_softmax:
        slopes = slopes - logs.exp() * slopes.sum(-1, keepdim=True)
    if clamp > 0:
        slopes = slopes.clamp(-clamp, clamp)
    return -total[:, 0, 0].to(logits.dtype), slopes.to(logits.dtype)


class _Grid:
    """Logarithms of going on in time, and of a symbol, at each step and symbol of a batch.

    What lies on one diagonal of the grid follows at once from the diagonal beside it.
    """

    def __init__(
        self, silent: torch.Tensor, spoken: torch.Tensor, steps: torch.Tensor, symbols: torch.Tensor
    ) -> None:
        self.silent, self.spoken = silent, spoken
        _, self.steps, self.width = silent.shape
        self.at = torch.arange(self.width, device=silent.device)
        time = torch.arange(self.steps + self.width, device=silent.device)[:, None] - self.at  # of diagonals
        last = steps[:, None, None], symbols[:, None, None]
        self.inside = (time >= 0) & (time < last[0]) & (self.at <= last[1])
        self.end = (time == last[0]) & (self.at == last[1])
        self.time = time.clamp(0, self.steps - 1).expand(len(silent), -1, -1)
        speaks = self.inside & (self.at < last[1])
        self.going = torch.where(self.inside, silent.gather(1, self.time), -torch.inf)
        self.speaking = torch.where(speaks, spoken.gather(1, self.time), -torch.inf)

    def ahead(self) -> torch.Tensor:
        """The logarithm of all ways to each place, by diagonals."""
        rows = [torch.where(self.at == 0, 0.0, -torch.inf).to(self.going.dtype).expand_as(self.going[:, 0])]
        for k in range(1, self.going.shape[1]):
            said = torch.nn.functional.pad(
                (rows[-1] + self.speaking[:, k - 1])[:, :-1], (1, 0), value=-torch.inf
            )
            rows.append(torch.logaddexp(rows[-1] + self.going[:, k - 1], said))
        return torch.stack(rows, 1)

    def behind(self) -> torch.Tensor:
        """That of all ways from each place to the end, which is one step past the last."""
        none = torch.full_like(self.going[:, 0], -torch.inf)
        rows = [none]
        for k in reversed(range(self.going.shape[1])):
            said = torch.nn.functional.pad(rows[-1][:, 1:], (0, 1), value=-torch.inf) + self.speaking[:, k]
            on = torch.logaddexp(rows[-1] + self.going[:, k], said)
            rows.append(torch.where(self.end[:, k], 0.0, on))
        return torch.stack(rows[::-1], 1)

    def slopes(self, ahead: torch.Tensor, behind: torch.Tensor, total: torch.Tensor) -> Tensors:
        """The derivatives of the costs by both kinds of logarithms, step by step."""
        after = behind[:, 1:]
        said = torch.nn.functional.pad(after[..., 1:], (0, 1), value=-torch.inf)
        both = (-(ahead + x + y - total).exp() for x, y in ((self.going, after), (self.speaking, said)))
        silent, spoken = (torch.where(self.inside, x, 0.0) for x in both)
        return self._by_steps(silent), self._by_steps(spoken)

    def _by_steps(self, diagonals: torch.Tensor) -> torch.Tensor:
        place = torch.arange(self.steps, device=self.at.device)[:, None] + self.at
        return diagonals.gather(1, place.expand(len(diagonals), -1, -1))


class _Loss(torch.autograd.Function):
    """The operator with the derivative that it gives."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, *rest: Any) -> Any:
        costs, slopes = rnnt_loss(logits, *rest)
        ctx.save_for_backward(slopes)
        ctx.mark_non_differentiable(slopes)
        return costs, slopes

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> Any:
        (slopes,) = ctx.saved_tensors
        return slopes * cotangents[0][:, None, None, None], *[None] * 6


audio.library.impl("rnnt_loss", lambda *args: _Loss.apply(*args), "AutogradPrivateUse1")


def _check(logits: torch.Tensor, targets: torch.Tensor, *lengths: torch.Tensor) -> None:
    wrong = None
    if not logits.is_floating_point() or logits.ndim != 4:
        wrong = f"logits must be floats of 4 axes, got {logits.dtype} of shape {tuple(logits.shape)}"
    elif any(x.dtype != torch.int32 for x in (targets, *lengths)):
        wrong = f"targets and lengths must be int32, got {[x.dtype for x in (targets, *lengths)]}"
    elif targets.shape != (logits.shape[0], logits.shape[2] - 1):
        wrong = f"targets must be (batch, symbols), got {tuple(targets.shape)} for {tuple(logits.shape)}"
    elif any(x.shape != logits.shape[:1] for x in lengths):
        wrong = f"lengths must be one for each of the batch, got {[tuple(x.shape) for x in lengths]}"
    elif any(int(x.max()) != n for x, n in zip(lengths, (logits.shape[1], targets.shape[1]), strict=True)):
        wrong = "the greatest lengths must be those of logits and targets"
    if wrong is not None:
        raise RuntimeError(f"hologram, rnnt_loss: {wrong}")
