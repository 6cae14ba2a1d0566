"""Cells of recurrent networks: a step's gates as one launch, forward and backward."""

from __future__ import annotations

from typing import Any

import hologram as hg
from hologram.frontend.tensor import Tensor
from hologram_torch.kernels.fused import fused
from hologram_torch.kernels.registry import implements


def _parts(gates: Tensor, count: int) -> list[Tensor]:
    width = gates.shape[1] // count
    return [gates.narrow(1, k * width, width) for k in range(count)]


def _plus(gates: Tensor, bias: Tensor | None) -> Tensor:
    return gates if bias is None else gates + bias


@implements("_thnn_fused_lstm_cell", inferred=False)
@fused
def lstm_cell(
    input_gates: Tensor, hidden_gates: Tensor, cell: Tensor, input_bias: Any = None, hidden_bias: Any = None
) -> Any:
    """The next hidden state and cell, and the gates (Hochreiter, Schmidhuber 1997)."""
    i, f, g, o = _parts(_plus(input_gates, input_bias) + _plus(hidden_gates, hidden_bias), 4)
    i, f, g, o = hg.sigmoid(i), hg.sigmoid(f), hg.tanh(g), hg.sigmoid(o)
    after = f * cell + i * g
    return o * hg.tanh(after), after, hg.concat([i, f, g, o], axis=1)


@implements("_thnn_fused_lstm_cell_backward_impl", inferred=False)
@fused
def lstm_cell_backward(
    grad_hidden: Any, grad_cell: Any, cell: Tensor, after: Tensor, gates: Tensor, has_bias: bool
) -> Any:
    i, f, g, o = _parts(gates, 4)
    inner = hg.tanh(after)
    nothing = cell.executor.full(cell.shape, 0, cell.dtype)
    by_output = nothing if grad_hidden is None else grad_hidden * inner
    by_cell = nothing if grad_hidden is None else grad_hidden * o * (1.0 - inner * inner)
    by_cell = by_cell if grad_cell is None else by_cell + grad_cell
    grown = hg.concat(
        [
            by_cell * g * i * (1.0 - i),
            by_cell * cell * f * (1.0 - f),
            by_cell * i * (1.0 - g * g),
            by_output * o * (1.0 - o),
        ],
        axis=1,
    )
    return grown, by_cell * f, hg.sum(grown, axis=0) if has_bias else None


@implements("_thnn_fused_gru_cell", inferred=False)
@fused
def gru_cell(
    input_gates: Tensor, hidden_gates: Tensor, hidden: Tensor, input_bias: Any = None, hidden_bias: Any = None
) -> Any:
    """The next hidden state, and what the way back reads (Cho et al. 2014)."""
    ir, iz, inner = _parts(_plus(input_gates, input_bias), 3)
    hr, hz, hn = _parts(_plus(hidden_gates, hidden_bias), 3)
    r, z = hg.sigmoid(ir + hr), hg.sigmoid(iz + hz)
    n = hg.tanh(inner + r * hn)
    return n + z * (hidden - n), hg.concat([r, z, n, hidden, hn], axis=1)


@implements("_thnn_fused_gru_cell_backward", inferred=False)
@fused
def gru_cell_backward(cotangent: Tensor, kept: Tensor, has_bias: bool) -> Any:
    r, z, n, hidden, hn = _parts(kept, 5)
    by_z = cotangent * (hidden - n) * z * (1.0 - z)
    by_n = cotangent * (1.0 - z) * (1.0 - n * n)
    by_r = by_n * hn * r * (1.0 - r)
    inputs = hg.concat([by_r, by_z, by_n], axis=1)
    hiddens = hg.concat([by_r, by_z, by_n * r], axis=1)
    sums = (hg.sum(v, axis=0) if has_bias else None for v in (inputs, hiddens))
    return inputs, hiddens, cotangent * z, *sums
