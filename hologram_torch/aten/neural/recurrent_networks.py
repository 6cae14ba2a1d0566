"""LSTM, GRU and plain recurrent networks of several layers and directions, padded or packed, and their single cells."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad
from torch.utils import _pytree as pytree

from hologram.opset.neural.recurrence import KINDS
from hologram_torch.aten.neural.recurrent_layers import recurrent_layer
from hologram_torch.kernels.operators import known
from hologram_torch.kernels.registry import library
from hologram_torch.wrapped import is_wrapped

Tensors = Sequence[torch.Tensor]


class _Network:
    """What a network is called with, whatever its inputs look like."""

    def __init__(
        self, kind: str, hx: Tensors, params: Tensors, has_biases: bool, layers: int, dropout: float, train: bool,
        bidirectional: bool,
    ) -> None:  # fmt: skip
        self.kind = kind
        self.hx = hx
        self.layers = layers
        self.directions = 1 + bidirectional
        self.dropout = dropout if train else 0.0
        count, rest = divmod(len(params), layers * self.directions)
        usual = 2 + 2 * has_biases
        projected = kind == "lstm" and count == usual + 1
        if rest or (count != usual and not projected):
            raise RuntimeError(
                f"hologram, {kind}: {layers * self.directions} layers and directions need {usual} parameters each, "
                f"got {len(params)}"
            )
        self.weights: list[tuple[Any, ...]] = []
        for k in range(0, len(params), count):
            w_ih, w_hh, *more = params[k : k + count]
            w_hr = more.pop() if projected else None
            b_ih, b_hh = more if has_biases else (None, None)
            self.weights.append((w_ih, w_hh, b_ih, b_hh, w_hr))

    def check(self, x: torch.Tensor) -> None:
        """Refuses operands of another device or dtype than the input, and states of another number of layers."""
        if len(self.hx) != 1 + KINDS[self.kind].has_cell:
            raise RuntimeError(
                f"hologram, {self.kind}: expects {1 + KINDS[self.kind].has_cell} hidden states"
            )
        for y in (*self.hx, *(w for weights in self.weights for w in weights if w is not None)):
            if y.device != x.device:
                raise RuntimeError(
                    f"hologram, {self.kind}: input, hidden states and parameters must be on one device, got "
                    f"{x.device} and {y.device}"
                )
            if y.dtype != x.dtype:
                raise RuntimeError(
                    f"hologram, {self.kind}: input, hidden states and parameters must have one dtype, got {x.dtype} "
                    f"and {y.dtype}"
                )
        for y in self.hx:
            if y.ndim != 3 or y.shape[0] != len(self.weights):
                raise RuntimeError(
                    f"hologram, {self.kind}: hidden states need three axes, the first of {len(self.weights)}, got "
                    f"{tuple(y.shape)}"
                )

    def __call__(self, x: torch.Tensor, lengths: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        """The last layer's hidden states of an input (times, batch, features), and the last states of all layers."""
        ends: list[Tensors] = []
        for layer in range(self.layers):
            outs = []
            for reverse in range(self.directions):
                k = layer * self.directions + reverse
                states = [h[k] for h in self.hx] + [None] * (2 - len(self.hx))
                results = recurrent_layer(x, *states, *self.weights[k], lengths, self.kind, bool(reverse))
                outs.append(results[0])
                ends.append(results[1 : 1 + len(self.hx)])
            x = outs[0] if len(outs) == 1 else torch.cat(outs, 2)
            if self.dropout and layer < self.layers - 1:
                x = torch.dropout(x, self.dropout, True)
        return (x, *(torch.stack(each) for each in zip(*ends, strict=True)))


def _hidden(hx: Any) -> Tensors:
    return [hx] if isinstance(hx, torch.Tensor) else list(hx)


def _padded_input(
    kind: str, x: torch.Tensor, hx: Any, params: Tensors, *rest: Any
) -> tuple[torch.Tensor, ...]:
    *settings, batch_first = rest
    network = _Network(kind, _hidden(hx), params, *settings)
    network.check(x)
    if x.ndim != 3:
        raise RuntimeError(f"hologram, {kind}: the input needs three axes, got {tuple(x.shape)}")
    if not x.shape[int(batch_first)]:
        raise RuntimeError(f"hologram, {kind}: Expected sequence length to be larger than 0 in RNN")
    out, *states = network(x.transpose(0, 1) if batch_first else x, None)
    return (out.transpose(0, 1) if batch_first else out, *states)


def _packed_input(
    kind: str, data: torch.Tensor, batch_sizes: torch.Tensor, hx: Any, params: Tensors, *settings: Any
) -> tuple[torch.Tensor, ...]:
    network = _Network(kind, _hidden(hx), params, *settings)
    network.check(data)
    sizes = batch_sizes.cpu().numpy()
    if (
        data.ndim != 2
        or not sizes.size
        or sizes[0] <= 0
        or (np.diff(sizes) > 0).any()
        or sizes.sum() != len(data)
    ):
        raise RuntimeError(
            f"hologram, {kind}: packed data need two axes and batch sizes that do not grow and count its rows, got "
            f"{tuple(data.shape)} and {sizes.tolist()}"
        )
    inside = np.arange(sizes[0]) < sizes[:, None]  # by time and sequence
    starts = np.cumsum(sizes) - sizes
    places = np.where(inside, starts[:, None] + np.arange(sizes[0]), 0).reshape(-1)
    there = torch.from_numpy(places).to(data.device)
    back = torch.from_numpy(np.flatnonzero(inside)).to(data.device)
    known = torch.from_numpy(inside.reshape(-1, 1)).to(data.device)
    lengths = torch.from_numpy(inside.sum(0).astype(np.int32)).to(data.device)
    x = _Padded.apply(data, there, back, known).reshape(len(sizes), int(sizes[0]), data.shape[1])
    out, *states = network(x, lengths)
    return (_Packed.apply(out.flatten(0, 1), there, back, known), *states)


class _Padded(torch.autograd.Function):
    """Rows one after the other brought to their places among all, with zeros between."""

    @staticmethod
    def forward(ctx: Any, x: Any, there: Any, back: Any, known: Any) -> Any:
        ctx.save_for_backward(there, back, known)
        return torch.where(known, x.index_select(0, there), 0.0)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        return _Packed.apply(cotangents[0], *ctx.saved_tensors), None, None, None


class _Packed(torch.autograd.Function):
    """The way back from there."""

    @staticmethod
    def forward(ctx: Any, x: Any, there: Any, back: Any, known: Any) -> Any:
        ctx.save_for_backward(there, back, known)
        return x.index_select(0, back)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        return _Padded.apply(cotangents[0], *ctx.saved_tensors), None, None, None


def _cell(kind: str, x: torch.Tensor, hx: Any, *weights: Any) -> Any:
    """One step: a layer of one time."""
    states = [*_hidden(hx), None][:2]
    weights = (*weights, *[None] * (5 - len(weights)))
    results = recurrent_layer(x.unsqueeze(0), *states, *weights, None, kind, False)
    return (results[1], results[2]) if KINDS[kind].has_cell else results[1]


def _composed(args: Any) -> bool:
    """Whether PyTorch must take a network apart: what follows its operators one by one knows nothing of ours."""
    tensors = [x for x in pytree.tree_leaves(args) if isinstance(x, torch.Tensor)]
    return (
        forward_ad._current_level >= 0
        or any(map(is_wrapped, tensors))
        or not all(x.is_floating_point() for x in tensors if x.device.type != "cpu")
    )


def _register(name: str, run: Callable[..., Any]) -> None:
    overload = known(name)
    if overload is None:
        return

    @functools.wraps(run)
    def kernel(*args: Any) -> Any:
        return (
            overload.decompose(*args)
            if _composed(args)
            else run(name.split(".")[0].removesuffix("_cell"), *args)
        )

    for key in ("PrivateUse1", "AutogradPrivateUse1"):
        library.impl(name, kernel, key)


for _kind in KINDS:
    _register(f"{_kind}.input", _padded_input)
    _register(f"{_kind}.data", _packed_input)
    _register(f"{_kind}_cell", _cell)
