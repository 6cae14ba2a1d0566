"""Arguments, views, arrays and programs that must be refused; see tests/bad_calls.py."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import hologram as hg
from hologram.foundation.errors import ShapeError, UnsupportedDType
from tests.bad_calls import Bad, Bench

# Beside a tensor of floats, of whose dtype an operator in place or an output is.
COMPLEX: dict[str, Callable[[Bench], Any]] = {
    "in place": lambda b: b.t.__imul__(1j),
    "output": lambda b: hg.ops.multiply(b.ex, b.t, b.t * 1j, b.t),
}

ARGUMENTS = [
    Bad("attribute", lambda b: hg.sum(b.t, axes=0), TypeError, "sum has no argument 'axes': it has x, axis"),
    Bad("too many", lambda b: hg.exp(b.t, 1, 2), TypeError, "exp takes at most 2 arguments by place, got 3"),
    Bad("missing", lambda b: hg.add(b.t), TypeError, "add needs the argument 'y'"),
    Bad("twice", lambda b: hg.sum(b.t, None, axis=0), TypeError, "two values for 'axis'"),
    Bad("no tensor", lambda b: hg.add("1", "2"), TypeError, "at least one operand must be a Tensor"),
    Bad("a modulus", lambda b: pow(b.t, 2, 3), TypeError, r"pow\(\) takes 2 positional arguments"),
    Bad(
        "negative power",
        lambda b: b.tensor(3, dtype="int32") ** -1,
        ValueError,
        "Integers to negative integer powers",
    ),
    Bad(
        "negative power in place",
        lambda b: b.tensor(3, dtype="uint8").__ipow__(-2),
        ValueError,
        "got u8 to the -2",
    ),
    Bad(
        "negative power of a function",
        lambda b: np.power(b.tensor(3, dtype="int64"), -1),
        ValueError,
        "i64 to the",
    ),
    Bad(
        "negative power into an output",
        lambda b: hg.ops.pow(b.ex, b.tensor(3, dtype="int32"), -1, b.tensor(3, dtype="int32")),
        ValueError,
        "Integers to negative",
    ),
    *(Bad(f"complex {what}", call, UnsupportedDType, "c64") for what, call in COMPLEX.items()),
    Bad("spread", lambda b: hg.random_normal((4,), std=-1.0), ValueError, "std must be at least 0, got -1.0"),
    Bad(
        "padding of an output",
        lambda b: hg.conv_transpose1d(b.tensor(1, 2, 8), b.tensor(2, 2, 3), stride=2, output_padding=2),
        ShapeError,
        r"output_padding must be at least 0 and below stride or dilation, got \(2,\)",
    ),
    Bad("nothing alone", lambda b: hg.exp(None), TypeError, "at least one operand must be a Tensor"),
    Bad("diff float", lambda b: hg.diff(b.t, n=1.5), TypeError, "diff: n must be an integer, got 1.5"),
    Bad("repeat bool", lambda b: hg.repeat(b.t, repeats=True), TypeError, "repeats must be an integer"),
    Bad("tile None", lambda b: hg.tile(b.t, repetitions=None), TypeError, "repetitions must be an integer"),
    Bad("roll float", lambda b: hg.roll(b.t, 0.5), TypeError, "roll: shift must be an integer, got 0.5"),
    Bad("axis array", lambda b: hg.expand_dims(b.t, axis=[0, 1]), TypeError, "axis must be an integer"),
    Bad(
        "attribute array",
        lambda b: hg.sum(b.t, axis=np.arange(2)),
        TypeError,
        "axis must be a number, a name",
    ),
    Bad("attribute dict", lambda b: hg.elu(b.t, alpha={}), TypeError, "elu: alpha must be a number, a name"),
    Bad("attribute list", lambda b: hg.gelu(b.t, approximate=[]), ValueError, "gelu: approximate must be"),
    Bad("dtype tensor", lambda b: hg.sum(b.t, dtype=b.t), UnsupportedDType, "dtype must be one of"),
    Bad(
        "number indexed",
        lambda b: hg.index_select(3, b.tensor(2, dtype=int)),
        ValueError,
        "axis must lie in",
    ),
    Bad(
        "tensors in a list",
        lambda b: hg.flip([b.t]),
        TypeError,
        "flip: x must be a Tensor or numbers, got list",
    ),
    Bad("composite None", lambda b: hg.mse_loss(b.t, None), TypeError, "target must be a Tensor or numbers"),
    Bad(
        "random on no device",
        lambda b: hg.random_uniform((4,), device=4),
        TypeError,
        "device must be an Executor or a name",
    ),
    Bad("random without a shape", lambda b: hg.random_normal(b.ex), TypeError, "needs the argument 'shape'"),
    Bad(
        "conv stride None",
        lambda b: hg.conv1d(b.tensor(1, 2, 8), b.tensor(3, 2, 3), stride=None),
        TypeError,
        "conv1d",
    ),
    Bad(
        "conv groups",
        lambda b: hg.conv1d(b.tensor(1, 2, 8), b.tensor(3, 2, 3), groups=1.5),
        TypeError,
        "groups must be",
    ),
    Bad(
        "transposed groups",
        lambda b: hg.conv_transpose1d(b.tensor(1, 2, 8), b.tensor(2, 2, 3), groups="a"),
        TypeError,
        "groups",
    ),
    Bad(
        "norm of a number",
        lambda b: hg.layer_norm(3, b.tensor(4)),
        TypeError,
        "layer_norm: x must be a Tensor, got 3",
    ),
    Bad(
        "a number as the weight of a norm, where PyTorch has the number of groups",
        lambda b: hg.group_norm(b.t, 2),
        TypeError,
        "group_norm: weight must be a Tensor, got 2",
    ),
    Bad(
        "arange to infinity",
        lambda b: hg.arange(float("inf")),
        ValueError,
        "arange: start must be finite, got inf",
    ),
    Bad(
        "arange by NaN",
        lambda b: hg.arange(0, 1, float("nan")),
        ValueError,
        "arange: step must be finite, got nan",
    ),
    Bad(
        "normalized shape",
        lambda b: hg.layer_norm(b.t, normalized_shape=1.5),
        TypeError,
        "normalized_shape must be",
    ),
    Bad(
        "number of groups",
        lambda b: hg.group_norm(b.t, num_groups=None),
        TypeError,
        "num_groups must be an integer",
    ),
    Bad(
        "attention scale",
        lambda b: hg.scaled_dot_product_attention(b.t, b.t, b.t, scale="a"),
        TypeError,
        "scale must be a number",
    ),
    Bad(
        "ignored class",
        lambda b: hg.cross_entropy_loss(b.t, b.tensor(2, dtype=int), ignore_index="a"),
        TypeError,
        "ignore_index",
    ),
    Bad(
        "reduction list",
        lambda b: hg.mse_loss(b.t, b.t, reduction=["mean"]),
        ValueError,
        "reduction must be one of",
    ),
    Bad(
        "sizes None",
        lambda b: hg.random_uniform(b.ex, shape=None),
        TypeError,
        "a size must be an integer, got None",
    ),
    Bad(
        "gemm sizes",
        lambda b: hg.gemm(b.t, b.t.T, m=None, k=4, n=2),
        TypeError,
        "gemm: m must be an integer, got None",
    ),
    Bad("dropout None", lambda b: hg.dropout(b.t, p=None), ValueError, "dropout: p must lie in .*, got None"),
    Bad("None", lambda b: hg.add(b.t, None), TypeError, "add: y must be a Tensor or a number, got None"),
    Bad(
        "object",
        lambda b: hg.add(b.t, object()),
        TypeError,
        "add: y must be a Tensor or a number, got object",
    ),
    Bad("str", lambda b: hg.add(b.t, "1"), TypeError, "add: y must be a Tensor or a number, got str"),
    Bad("operator str", lambda b: b.t + "1", TypeError, "unsupported operand"),
    Bad("operator None", lambda b: b.t * None, TypeError, "unsupported operand"),
    Bad("large number", lambda b: b.tensor(4, dtype=np.int32) + (1 << 40), UnsupportedDType, "i32"),
    Bad("huge number", lambda b: b.tensor(4, dtype=np.int64) + (1 << 70), UnsupportedDType, "i64"),
    Bad("negative to unsigned", lambda b: b.tensor(4, dtype=np.uint8) + -1, UnsupportedDType, "u8"),
    Bad("float past f32", lambda b: b.t + 10**400, UnsupportedDType, "f32"),
    Bad(
        "out: array input",
        lambda b: hg.ops.vector_add(b.ex, np.zeros(8, np.float32), b.x, b.x),
        TypeError,
        "vector_add|add.*got ndarray",
    ),
    Bad(
        "out: array output",
        lambda b: hg.ops.vector_add(b.ex, b.x, b.x, np.zeros(8, np.float32)),
        TypeError,
        "got ndarray",
    ),
    Bad("out: None input", lambda b: hg.ops.vector_add(b.ex, None, b.x, b.x), TypeError, "got None"),
    Bad(
        "out: None output",
        lambda b: hg.ops.vector_add(b.ex, b.x, b.x, None),
        TypeError,
        "output must be a Buffer or Tensor, got None",
    ),
    Bad(
        "out: number output",
        lambda b: hg.ops.vector_add(b.ex, b.x, b.x, 3),
        TypeError,
        "output must be a Buffer or Tensor|count",
    ),
    Bad(
        "out: list",
        lambda b: hg.ops.vector_add(b.ex, [1.0] * 8, b.x, b.x),
        TypeError,
        "add, x: a Buffer, Tensor or number",
    ),
    Bad(
        "out: array in composite",
        lambda b: hg.ops.mse_loss(b.ex, np.zeros(8, np.float32), b.x, b.x),
        TypeError,
        "ndarray",
    ),
    Bad(
        "out: composite to array",
        lambda b: hg.ops.mse_loss(b.ex, b.x, b.x, np.zeros((), np.float32)),
        TypeError,
        "ndarray",
    ),
    Bad(
        "out: too few",
        lambda b: hg.ops.vector_add(b.ex, b.x, b.x),
        TypeError,
        "takes the operands x, y and 1 output",
    ),
    Bad("out: nothing", lambda b: hg.ops.vector_add(b.ex), TypeError, "takes the operands"),
    Bad("out: without executor", lambda b: hg.ops.vector_add(), TypeError, "'ex'"),
    Bad("out: too many", lambda b: hg.ops.vector_add(b.ex, b.x, b.x, b.x, 8, 8), TypeError, "at most"),
    Bad(
        "out: attribute",
        lambda b: hg.ops.vector_add(b.ex, b.x, b.x, b.x, alpha=2),
        TypeError,
        "no argument 'alpha'",
    ),
    Bad(
        "out: only numbers",
        lambda b: hg.ops.vector_add(b.ex, 1.0, 2.0, b.x),
        TypeError,
        "at least one operand must be",
    ),
    Bad("out: array for a number", lambda b: hg.ops.vector_clip(b.ex, b.x, "a", 1, b.x), TypeError, "str"),
    Bad("copy of another", lambda b: b.x.copy_from(None), UnsupportedDType, "float32, got object"),
]
