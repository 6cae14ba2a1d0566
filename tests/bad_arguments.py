"""Arguments that are no arrays and must be refused: what is called, the exception it must give, and words it holds."""

# pyright: reportArgumentType=false, reportCallIssue=false
from __future__ import annotations

from functools import partial
from typing import Any

import hologram as hg
from hologram.foundation.errors import AxisError, ShapeError
from tests.bad_calls import Bad


def _number(name: str, call: Any, who: str) -> list[Bad]:
    """A number is wanted, and something else is given."""
    given = {"nothing": None, "words": "abc", "a dict": {}, "an object": object()}
    return [
        Bad(f"{name} of {kind}", partial(lambda b, x: call(b, x), x=x), TypeError, f"{who} must be")
        for kind, x in given.items()
    ]


def _sequence(name: str, call: Any, *, optional: bool = False) -> list[Bad]:
    """Several are wanted, or none where that is `optional`, and something else is given."""
    given: dict[str, Any] = {"a number": 3.5, "an object": object(), "words": "abc", "a dict": {}}
    given |= {} if optional else {"nothing": None}
    return [
        Bad(
            f"{name} of {kind}",
            partial(lambda b, x: call(b, x), x=x),
            TypeError,
            f"{name} must be a sequence",
        )
        for kind, x in given.items()
    ]


def _square(x: Any) -> Any:
    return (x * x).sum()


ARGUMENTS = [
    *_number("unwrap, period", lambda b, x: hg.unwrap(b.t, period=x), "unwrap: period"),
    *_number("isclose, rtol", lambda b, x: hg.isclose(b.t, b.t, rtol=x), "isclose: rtol"),
    *_number("allclose, atol", lambda b, x: hg.allclose(b.t, b.t, atol=x), "isclose: atol"),
    *_number("trapezoid, dx", lambda b, x: hg.trapezoid(b.t, dx=x), "trapezoid: dx"),
    *_number("logspace, base", lambda b, x: hg.logspace(b.t, b.t, base=x), "logspace: base"),
    *_number("histogram, range", lambda b, x: hg.histogram(b.t, range=(0, x)), "histogram: an end of the range"),
    *_number("norm", lambda b, x: hg.linalg.vector_norm(b.t, ord=x), "linalg.vector_norm: ord"),
    *_number("array, ndmin", lambda b, x: hg.array(b.t, ndmin=x), "array: ndmin"),
    *_number("tri, N", lambda b, x: hg.tri(x), "tri: N"),
    *_number("tril_indices, n", lambda b, x: hg.tril_indices(x), "tril_indices: n"),
    *_number("triu_indices, k", lambda b, x: hg.triu_indices(3, x), "triu_indices: k"),
    *_number("topk, k", lambda b, x: hg.topk(b.t, x if x != {} else None), "topk: k"),
    *_number("permutation, axis", lambda b, x: hg.random.permutation(hg.random.key(0), b.t, x), "axis"),
    *_sequence("hstack: arrays", lambda b, x: hg.hstack(x)),
    *_sequence("vstack: arrays", lambda b, x: hg.vstack(x)),
    *_sequence("dstack: arrays", lambda b, x: hg.dstack(x)),
    *_sequence("column_stack: arrays", lambda b, x: hg.column_stack(x)),
    *_sequence("rot90: axes", lambda b, x: hg.rot90(b.t, axes=x)),
    *_sequence("indices: dimensions", lambda b, x: hg.indices(x)),
    *_sequence("unravel_index: shape", lambda b, x: hg.unravel_index(b.t, x)),
    *_sequence("ravel_multi_index: dims", lambda b, x: hg.ravel_multi_index((b.t,), x)),
    *_sequence("select: condlist", lambda b, x: hg.select(x, [b.t])),
    *_sequence("choose: choices", lambda b, x: hg.choose(b.tensor(3, dtype="int32"), x)),
    *_sequence("piecewise: funclist", lambda b, x: hg.piecewise(b.t, [b.t > 1], x)),
    *_sequence("histogram: range", lambda b, x: hg.histogram(b.t, range=x), optional=True),
    *_sequence("linalg.multi_dot: arrays", lambda b, x: hg.linalg.multi_dot(x)),
    *_sequence("linalg.tensorsolve: axes", lambda b, x: hg.linalg.tensorsolve(b.t, b.t, axes=x), optional=True),
    *_sequence("switch: branches", lambda b, x: hg.switch(0, x, b.t)),
    Bad("rot90 of three axes", lambda b: hg.rot90(b.t, axes=(0, 1, 0)), ValueError, "rot90: axes must be two"),
    Bad("coordinates of too few axes", lambda b: hg.ravel_multi_index((b.t,), (2, 3)), ShapeError, "each of 2 axes"),
    Bad("choose among none", lambda b: hg.choose(b.tensor(3, dtype="int32"), ()), ValueError, "at least one choice"),
    Bad("choose by floats", lambda b: hg.choose(b.t, [b.t, b.t]), TypeError, "choose: numbers of choices must be int"),
    Bad("choose by a float", lambda b: hg.choose(1.0, [b.t, b.t]), TypeError, "choose: numbers of choices must be int"),
    Bad("unravel floats", lambda b: hg.unravel_index(b.t, (2, 3)), TypeError, "unravel_index: positions must be int"),
    Bad("ravel floats", lambda b: hg.ravel_multi_index((b.t,), (9,)), TypeError, "coordinates must be integers"),
    Bad("delete at words", lambda b: hg.delete(b.t, "abc"), TypeError, "delete: obj must be integers"),
    Bad("insert at a float", lambda b: hg.insert(b.t, 1.5, 0), TypeError, "insert: obj must be integers"),
    Bad("put into a number", lambda b: hg.put_along_axis(1j, b.t, 0, 0), TypeError, "a Tensor is needed to write into"),
    Bad("coefficients in a matrix", lambda b: hg.polyval(b.t, 1.0), ShapeError, "a vector of coefficients"),
    Bad("dot products along no axis", lambda b: hg.vecdot(b.t, b.t, axis=-5), AxisError, "axis must lie in"),
    Bad("a spectrum of numbers", lambda b: hg.real_inverse(b.t, 3, 4), TypeError, "operands must be Tensors"),
    Bad("a category of nothing", lambda b: hg.random.categorical(hg.random.key(0), None), TypeError, "must be a T"),
    Bad("no branch in one place", lambda b: hg.switch(0, [_square, None], b.t), TypeError, "switch: a function is"),
    Bad("the gradient of nothing", lambda b: hg.grad(None), TypeError, "grad: a function is needed, got NoneType"),
    Bad("apply nothing", lambda b: b.t.at[0].apply(None), TypeError, "a function is needed, got NoneType"),
    Bad("an index of words", lambda b: b.t["abc"], TypeError, "got 'abc'"),
    Bad("an index of a float", lambda b: b.t[1.5], TypeError, "got 1.5"),
    Bad("an index of a dict", lambda b: b.t[{}], TypeError, r"got \{\}"),
    Bad("an index of floats", lambda b: b.t[b.tensor(2)], TypeError, "got f32"),
    Bad("linspace by its word", lambda b: hg.linspace(0, 1, count=3), TypeError, r"^linspace\(\) got"),
    Bad("a backend that is a number", lambda b: hg.Executor(3), TypeError, "a backend must be a name"),
    Bad("no backend", lambda b: hg.validate_backend(None), TypeError, "a backend must be a name"),
    Bad("half a device", lambda b: hg.Executor("cpu", 0.5), TypeError, "a device must be a number or a part of a name"),
]  # fmt: skip
