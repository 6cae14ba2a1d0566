"""A layer of a recurrent network in one direction: an operator of ours, there and back, whatever its length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

import hologram as hg
from hologram.foundation.errors import HologramError
from hologram.foundation.sizes import fixed_range
from hologram.frontend.tensor import Tensor
from hologram.opset.neural.recurrence import KINDS, recurrence_gradients, recurrences
from hologram_torch.kernels.errors import refusal
from hologram_torch.kernels.fused import fused
from hologram_torch.tensors.memory import hologram_tensor, torch_tensor

# Operands of a layer, by which cotangents are told apart.
OPERANDS = ("x", "hidden", "cell", "w_ih", "w_hh", "b_ih", "b_hh", "w_hr")
_TENSORS = (
    "Tensor x, Tensor hidden, Tensor? cell, Tensor w_ih, Tensor w_hh, Tensor? b_ih, Tensor? b_hh, Tensor? w_hr, "
    "Tensor? lengths"
)

library = torch.library.Library("hologram", "FRAGMENT")
_TAGS = (torch.Tag.pt2_compliant_tag,)
library.define(
    f"recurrent_layer({_TENSORS}, str kind, bool reverse) -> (Tensor, Tensor, Tensor, Tensor)", tags=_TAGS
)
library.define(
    "recurrent_layer_backward(Tensor? by_out, Tensor? by_hidden, Tensor? by_cell, Tensor out, Tensor kept, "
    f"{_TENSORS}, str kind, bool reverse, bool[] wanted) -> Tensor[]",
    tags=_TAGS,
)


def _rows(x: Tensor) -> Tensor:
    """The last axis of all times and sequences, one after the other."""
    return x.reshape(x.shape[0] * x.shape[1], x.shape[2])


def _biases(kind: str, b_ih: Any, b_hh: Any) -> tuple[Any, Any]:
    """What is added before the first step, and what a GRU adds before it resets."""
    if b_ih is None:
        return None, None
    if not KINDS[kind].parted:
        return b_ih + b_hh, None
    n = b_hh.shape[0] // 3
    return hg.concat(
        [b_ih.narrow(0, 0, 2 * n) + b_hh.narrow(0, 0, 2 * n), b_ih.narrow(0, 2 * n, n)]
    ), b_hh.narrow(0, 2 * n, n)


def _wide(*tensors: Any) -> list[Any]:
    """In the dtype that is computed in: 16 bits are rounded once a layer."""
    return [x if x is None else x.astype(x.dtype.computed, copy=False) for x in tensors]


@fused
def forward(x: Tensor, hidden: Tensor, cell: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Any, b_hh: Any, w_hr: Any,
            lengths: Any, kind: str, reverse: bool) -> tuple[Tensor, ...]:  # fmt: skip
    """The hidden states, the last states, and what is kept."""
    dtype = x.dtype
    x, hidden, cell, w_ih, w_hh, b_ih, b_hh, w_hr = _wide(x, hidden, cell, w_ih, w_hh, b_ih, b_hh, w_hr)
    bias, inner = _biases(kind, b_ih, b_hh)
    gates = hg.linear(_rows(x), w_ih, bias).reshape(x.shape[0], x.shape[1], w_ih.shape[0])
    results = recurrences[kind](gates, w_hh, hidden, cell, inner, w_hr, lengths, reverse=reverse)
    states = 2 + (cell is not None)
    return (*(s.astype(dtype, copy=False) for s in results[:states]), *results[states:])


@fused
def backward(by_out: Any, by_hidden: Any, by_cell: Any, out: Tensor, kept: Any, x: Tensor, hidden: Tensor, cell: Any,
             w_ih: Tensor, w_hh: Tensor, b_ih: Any, b_hh: Any, w_hr: Any, lengths: Any, kind: str, reverse: bool,
             wanted: Sequence[bool]) -> list[Tensor]:  # fmt: skip
    """The cotangents of the operands that are wanted, in their order and their dtypes."""
    of, given = KINDS[kind], (x, hidden, cell, w_ih, w_hh, b_ih, b_hh, w_hr)
    source, width = out if kept is None else kept, w_hh.shape[0] // of.gates
    x, hidden, w_ih, w_hh, w_hr, out = _wide(x, hidden, w_ih, w_hh, w_hr, out)
    by_out, by_hidden, by_cell = _wide(by_out, by_hidden, by_cell)
    nothing = hidden.executor.zeros((), hidden.dtype)
    by_hidden = nothing.expand(hidden.shape) if by_hidden is None else by_hidden
    by_cell = nothing.expand(cell.shape) if by_cell is None and cell is not None else by_cell
    gradients = recurrence_gradients[kind](
        source.astype(hidden.dtype, copy=False),
        w_hh,
        by_hidden,
        by_cell,
        by_out,
        w_hr,
        lengths,
        reverse=reverse,
    )
    grown, inner = _rows(gradients[0]), _rows(gradients[of.parted])
    grown_states = gradients[1 + of.parted :]
    first = hidden.unsqueeze(0)
    n = max(out.shape[0] - 1, 0)
    before = (out.narrow(0, 1, n), first) if reverse else (first, out.narrow(0, 0, n))
    makers: dict[str, Callable[[], Tensor]] = {
        "x": lambda: hg.matmul(grown, w_ih).reshape(x.shape),
        "hidden": lambda: grown_states[0],
        "cell": lambda: grown_states[1],
        "w_ih": lambda: hg.matmul(grown.mT, _rows(x)),
        "w_hh": lambda: hg.matmul(inner.mT, _rows(hg.concat(before) if out.shape[0] > 1 else first)),
        "b_ih": lambda: hg.sum(grown, axis=0),
        "b_hh": lambda: hg.sum(inner, axis=0),
        "w_hr": lambda: hg.matmul(_rows(gradients[-1]).mT, _rows(source.narrow(2, of.kept * width, width))),
    }  # fmt: skip
    return [
        makers[name]().astype(like.dtype, copy=False)
        for name, like, want in zip(OPERANDS, given, wanted, strict=True)
        if want
    ]


def _run(who: str, function: Callable[..., Any], *args: Any) -> list[torch.Tensor]:
    """A function of hologram's tensors on PyTorch's; errors become PyTorch's."""
    try:
        results = function(*(hologram_tensor(a) if isinstance(a, torch.Tensor) else a for a in args))
        return [torch_tensor(x) for x in results]
    except HologramError as error:
        raise refusal(who, error) from error


def _layer(*args: Any) -> tuple[torch.Tensor, ...]:
    x, cell, kind = args[0], args[2], args[9]
    results = _run(kind, forward, *args)
    if cell is None:
        results.insert(2, x.new_empty(0))
    return (*results, *([] if KINDS[kind].kept else [x.new_empty(0)]))


def _layer_backward(
    by_out: Any, by_hidden: Any, by_cell: Any, out: Any, kept: Any, *rest: Any
) -> list[torch.Tensor]:
    kind, wanted = rest[9], tuple(rest[11])
    kept = kept if KINDS[kind].kept else None
    chosen = list(wanted)
    # Two biases that are added have one cotangent, which each must have in memory of its own.
    twice = chosen[5] and chosen[6] and not KINDS[kind].parted
    chosen[6] = chosen[6] and not twice
    gradients = _run(kind, backward, by_out, by_hidden, by_cell, out, kept, *rest[:11], tuple(chosen))
    if twice:
        place = sum(chosen[:6])
        gradients.insert(place, gradients[place - 1].clone())
    return gradients


def _shapes(x: Any, hidden: Any, cell: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, w_hr: Any, lengths: Any,
            kind: str, reverse: bool) -> tuple[torch.Tensor, ...]:  # fmt: skip
    of, width = KINDS[kind], w_hh.shape[0] // KINDS[kind].gates
    kept = (of.kept + (w_hr is not None)) * width
    wide = x.dtype if x.dtype == torch.float64 else torch.float32
    return (
        x.new_empty((*x.shape[:2], hidden.shape[1])),
        torch.empty_like(hidden, memory_format=torch.contiguous_format),
        x.new_empty(0) if cell is None else torch.empty_like(cell, memory_format=torch.contiguous_format),
        x.new_empty((*x.shape[:2], kept), dtype=wide) if of.kept else x.new_empty(0),
    )


def _shapes_backward(
    by_out: Any, by_hidden: Any, by_cell: Any, out: Any, kept: Any, *rest: Any
) -> list[torch.Tensor]:
    given = zip(rest[: len(OPERANDS)], rest[11], strict=True)
    return [torch.empty_like(a, memory_format=torch.contiguous_format) for a, want in given if want]


library.impl("recurrent_layer", _layer, "PrivateUse1")
library.impl("recurrent_layer_backward", _layer_backward, "PrivateUse1")
torch.library.register_fake("hologram::recurrent_layer", _shapes, lib=library)
torch.library.register_fake("hologram::recurrent_layer_backward", _shapes_backward, lib=library)
recurrent_layer = torch.ops.hologram.recurrent_layer.default
_backward = torch.ops.hologram.recurrent_layer_backward.default


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    ctx.save_for_backward(*inputs[:9], output[0], output[3])
    ctx.kind, ctx.reverse = inputs[9:]
    ctx.mark_non_differentiable(output[3])
    ctx.set_materialize_grads(False)


def _differentiated(ctx: Any, by_out: Any, by_hidden: Any, by_cell: Any, by_kept: Any) -> tuple[Any, ...]:
    *given, out, kept = ctx.saved_tensors
    wanted = [bool(w) for w in ctx.needs_input_grad[: len(OPERANDS)]]
    cotangents = (by_out, by_hidden, by_cell)
    if torch.is_grad_enabled():
        gradients = iter(_again(cotangents, given, ctx.kind, ctx.reverse, wanted))
    else:
        gradients = iter(_backward(*cotangents, out, kept, *given, ctx.kind, ctx.reverse, wanted))
    return (*(next(gradients) if want else None for want in wanted), None, None, None)


torch.library.register_autograd(recurrent_layer, _differentiated, setup_context=_setup, lib=library)


# Where the derivative itself is to be differentiated: step by step, in operators that PyTorch differentiates.


def _again(
    cotangents: Sequence[Any], given: Sequence[Any], kind: str, reverse: bool, wanted: Sequence[bool]
) -> Sequence[Any]:
    """The cotangents of the operands that are wanted, as functions of operands and cotangents."""
    # Views, so that what one operand owes to another is not counted here.
    views: list[Any] = [x if x is None else x.view_as(x) for x in given]
    results = stepwise(*views, kind=kind, reverse=reverse)
    pairs = [(r, c) for r, c in zip(results, cotangents, strict=True) if r is not None and c is not None]
    chosen: list[Any] = [v for v, want in zip(views, wanted, strict=False) if want]
    grown = torch.autograd.grad(
        [r for r, _ in pairs], chosen, [c for _, c in pairs], create_graph=True, allow_unused=True
    )
    return [torch.zeros_like(v) if g is None else g for v, g in zip(chosen, grown, strict=True)]


def stepwise(x: Any, hidden: Any, cell: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, w_hr: Any, lengths: Any,
             kind: str, reverse: bool) -> tuple[Any, Any, Any]:  # fmt: skip
    """The hidden states, the last one, and the last cell."""
    linear, outs = torch.nn.functional.linear, []
    for time in reversed(fixed_range(x.shape[0])) if reverse else fixed_range(x.shape[0]):
        a, b = linear(x[time], w_ih, b_ih), linear(hidden, w_hh, b_hh)
        after, grown = _step(kind, a, b, hidden, cell)
        after = after if w_hr is None else linear(after, w_hr)
        if lengths is not None:
            active = (lengths > time).unsqueeze(1)
            after = torch.where(active, after, hidden)
            grown = grown if grown is None else torch.where(active, grown, cell)
        hidden, cell = after, grown
        outs.append(hidden)
    out = torch.stack(outs[::-1] if reverse else outs) if outs else x.new_empty((0, *hidden.shape))
    return out, hidden, cell


def _step(kind: str, a: Any, b: Any, hidden: Any, cell: Any) -> tuple[Any, Any]:
    if kind == "lstm":
        i, f, g, o = (a + b).chunk(4, 1)
        grown = f.sigmoid() * cell + i.sigmoid() * g.tanh()
        return o.sigmoid() * grown.tanh(), grown
    if kind == "gru":
        (ir, iz, n), (hr, hz, hn) = a.chunk(3, 1), b.chunk(3, 1)
        n = torch.tanh(n + torch.sigmoid(ir + hr) * hn)
        return n + torch.sigmoid(iz + hz) * (hidden - n), None
    return (torch.tanh(a + b) if kind == "rnn_tanh" else torch.relu(a + b)), None
