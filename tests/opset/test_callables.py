"""Operations are functions to those who look at them: help(), notebooks, wrappers, pickles, copies."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import pydoc
import subprocess
import sys

import pytest

import hologram as hg
from hologram.opset import OPERATIONS
from hologram.opset.forms import description
from hologram.opset.forms.further import FURTHER
from hologram.opset.forms.map import Elementwise
from hologram.opset.forms.operation import Operation

EACH = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)


@EACH
def test_an_operation_says_what_it_is(operation: Operation) -> None:
    assert repr(operation) == f"<operation {operation.name}>"
    assert vars(operation)["__name__"] == operation.name
    text = inspect.getdoc(operation.function)
    assert text
    told = pydoc.plain(pydoc.render_doc(operation))
    assert f"{operation.name}{inspect.signature(operation)}" in told
    assert all(line.strip() in told for line in text.splitlines())
    assert "Shapes of a call: " in told
    assert f"Dtypes: {description.dtypes(operation)}" in told
    assert pickle.loads(pickle.dumps(operation)) is copy.deepcopy(operation) is operation


@EACH
def test_the_signature_takes_what_the_call_takes(operation: Operation) -> None:
    if operation is OPERATIONS["einsum"]:
        assert str(inspect.signature(operation)) == "(subscripts, *operands)"
        return
    parameters = inspect.signature(operation).parameters
    own = [*operation.operands, *operation.attributes]
    known = {name for name in parameters if name in own or name not in FURTHER}
    assert known == {*own, *["device"] * (not operation.operands)}
    assert [*parameters][: len(operation.operands)] == [*operation.operands]
    for name, default in operation.attributes.items():
        assert parameters[name].default is default
    required = {n: n for n in own if parameters[n].default is inspect.Parameter.empty}
    operands, attributes = Operation.bind(operation, (), required)  # nothing else is needed
    assert len(operands) == len(operation.operands)
    assert [*attributes] == [*operation.attributes]


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        ("sum", "(x, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=True)"),
        ("reshape", "(x, shape, order='C', *, copy=None)"),
        ("clip", "(x, min=None, max=None, out=None)"),
    ],
)
def test_signatures_are_numpys(name: str, signature: str) -> None:
    assert str(inspect.signature(getattr(hg, name))) == signature


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        ("softmax", "(ex, x, out, /, dim=-1)"),
        ("vector_add", "(ex, x, y, out, /, *count)"),
        ("topk", "(ex, x, out0, out1, /, k, axis=-1, largest=True, sorted=True)"),
        ("random_uniform", "(ex, out, /, *, low=0.0, high=1.0, seed=0, offset=0)"),
    ],
)
def test_signatures_with_outputs(name: str, signature: str) -> None:
    assert str(inspect.signature(getattr(hg.ops, name))) == signature


def test_help_runs_no_reference() -> None:
    """References need what need not be installed."""
    code = (
        "import sys; sys.modules['scipy'] = None\n"
        "import hologram as hg; print(hg.bessel_j0.__doc__, type(hg.exp).__doc__)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.startswith("bessel_j0(x)\n\nThe Bessel function")
    assert "Derivative: x" in told
    assert str(Elementwise.__doc__) in told


def test_methods_have_the_signature_without_the_tensor() -> None:
    x = hg.asarray([1.0, 2.0])
    sums = "(axis=None, dtype=None, out=None, keepdims=False, initial=None, where=True)"
    assert str(inspect.signature(x.sum)) == sums
    assert x.sum.__name__ == "sum"
    assert x.sum.__doc__ == OPERATIONS["sum"].function.__doc__


def test_a_wrapper_takes_an_operations_name_and_text() -> None:
    @functools.wraps(hg.exp)
    def twice(x: hg.Tensor) -> hg.Tensor:
        return 2 * hg.exp(x)

    assert twice.__name__ == "exp"
    assert twice.__doc__ == hg.exp.__doc__
