"""What public functions give of views is what they give of contiguous copies: of all of them, by name."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.opset import OPERATIONS
from hologram.opset.forms.operation import Operation
from tests import views
from tests.frontend.view_cases import CASES, function_of
from tests.frontend.view_programs import PROGRAMS
from tests.frontend.view_uses import USES

CALLS = {**CASES, **PROGRAMS, **USES}
OFFSET, *OTHERS = views.KINDS

# Functions that see no array, and modules of such.
NUMBERS = """
backend backends bartlett blackman broadcast_shapes can_cast config default_executor diag_indices distributed.barrier
distributed.init distributed.rank distributed.shutdown distributed.size empty explain_selection fft.fftfreq fft.rfftfreq
finfo fromfunction
get_default_backend hamming hanning identity iinfo indices is_cuda_available is_metal_available is_webgpu_available
isdtype kaiser ones register_pytree_node set_default_executor tri tril_indices triu_indices use_executor
validate_backend zeros
"""
OF_NUMBERS = frozenset(NUMBERS.split())
ELSEWHERE = {"export_web"}  # tests/frontend/saved/test_web.py: a browser runs what it makes
# What a tensor says of itself, and what it is made of.
SAID = """
T buffer device dtype executor itemsize key layout nbytes ndim offset shape size strides __apply__ __array_namespace__
__array_priority__ __dir__ __dlpack_device__ __hash__ __init__
"""


@pytest.fixture(autouse=True)
def default(executor: hg.Executor) -> Iterator[None]:
    """What makes tensors makes them where the test's executor is."""
    with hg.use_executor(executor):
        yield


LACKING = (hg.UnsupportedOperation, hg.UnsupportedDType)  # the device


def outcome(name: str, arguments: Any, settings: Any) -> Any:
    """What a call gives, on the host, or which error it raises."""
    function = CALLS[name].function or function_of(name)
    try:
        return views.on_host(function(*arguments, **settings))
    except (hg.HologramError, ValueError, TypeError, IndexError) as error:
        return type(error)


def check(executor: hg.Executor, name: str, kind: str) -> None:
    case = CALLS[name]
    kind = OFFSET if case.writes and kind in views.REPEATED else kind
    given = views.placed(lambda x: views.seen(executor, x, kind), (case.arguments, case.settings))
    copies = views.copied(executor, given)
    before = views.around(given[0][0]) if case.writes else None
    got, want = outcome(name, *given), outcome(name, *copies)
    if isinstance(want, type):
        assert got is want
        assert kind in views.REPEATED or issubclass(want, LACKING)  # others have the elements of the case
        return
    # How many rows a thread has decides whether packed products round their activations to 16 bits.
    views.same(got, want, rtol=2e-4 if name.startswith("Packed") else 2e-5)
    if before is not None:
        assert views.around(given[0][0]).tobytes() == before.tobytes()


@pytest.mark.parametrize("name", CALLS)
def test_views_from_an_offset(executor: hg.Executor, name: str) -> None:
    check(executor, name, OFFSET)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("name", CALLS)
def test_views(executor: hg.Executor, name: str, kind: str) -> None:
    check(executor, name, kind)


@pytest.mark.parametrize("kind", views.KINDS)
@pytest.mark.parametrize("dtype", ["f32", "i32", "u8", "bool", "c64"])
def test_the_views_of_these_tests(executor: hg.Executor, kind: str, dtype: str) -> None:
    """They have the elements that they are to have, and are not all of their memory."""
    for shape in ((), (3,), (2, 3), (2, 0, 3), (2, 3, 4)):
        x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(hg.dtypes.dtype(dtype).numpy)
        view = views.seen(executor, x, kind)
        want = x
        if kind in views.REPEATED and x.size and x.ndim:
            want = np.broadcast_to(x[:1] if kind == "first repeated" else x[..., :1], shape)
        np.testing.assert_array_equal(view.to_numpy(), want)
        whole = hg.Tensor(view.buffer, view.buffer.kind.layout)
        assert view.layout is not whole.layout or not executor.limits.host_resident or not x.size


def public(module: ModuleType, prefix: str = "") -> Iterator[tuple[str, Any]]:
    names = getattr(module, "__all__", ()) if prefix else dir(module)
    for name in names:
        if not name.startswith("_"):
            yield prefix + name, getattr(module, name)


def test_every_public_function_is_called() -> None:
    """A new one needs a case, or a declaration, whose samples tests/test_views.py takes."""
    called = {name.partition(",")[0] for name in CALLS}
    offered = dict(public(hg))
    for name, module in public(hg):
        if isinstance(module, ModuleType) and name not in OF_NUMBERS:
            offered |= dict(public(module, f"{name}."))
    functions = {
        name
        for name, x in offered.items()
        if callable(x) and not isinstance(x, (type, Operation)) and not _is_word(x)
    }
    assert functions - called - OF_NUMBERS - ELSEWHERE == set(), "see tests/frontend/view_cases.py"
    assert set(offered) >= OF_NUMBERS
    assert not OF_NUMBERS & called
    out_parameter = {name for o in OPERATIONS.values() for name in (o.name, *o.out_names)}
    assert {n for n, x in vars(hg.ops).items() if callable(x) and n[0].islower()} <= out_parameter


def _is_word(x: Any) -> bool:
    """Whether it is a word of kernels."""
    return getattr(x, "__module__", "").startswith("hologram.kernels")


def test_every_method_is_called() -> None:
    hg.zeros(1).sum()  # Tensor gets its methods with the first
    own = {name for kind in hg.Tensor.__mro__[:-1] for name in vars(kind)}
    methods = {
        n for n in own if not n.startswith("_") or (n.endswith("__") and callable(getattr(hg.Tensor, n)))
    }
    called = {name.partition(",")[0].removeprefix("Tensor.") for name in CALLS}
    assert methods - called - set(OPERATIONS) - set(SAID.split()) == set(), "see tests/frontend/view_uses.py"
