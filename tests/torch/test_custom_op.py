"""Operators made of functions of hologram's tensors and of Atlas programs: eager, differentiated and compiled."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
import hologram as hg  # noqa: E402
import hologram_torch  # noqa: E402
from hologram.foundation.errors import ProgramError  # noqa: E402

AXPY = """
program axpy rank 1 reduced 0
buffer x : f32 read
buffer y : f32 read_write
scalar a : f32
%0 = scalar a : f32
%1 = coordinate 0 : index
%2 = load x %1 : f32
%3 = mul %0, %2 : f32
%4 = load y %1 : f32
%5 = add %3, %4 : f32
store y %1, %5
"""


@hologram_torch.custom_op("hologram_test::swish")
def swish(x: hg.Tensor, beta: float = 1.0) -> hg.Tensor:
    return x * hg.sigmoid(x * beta)


@hologram_torch.custom_op("hologram_test::moments")
def moments(x: hg.Tensor, weight: hg.Tensor | None = None) -> tuple[hg.Tensor, hg.Tensor]:
    weighted = x if weight is None else x * weight
    return hg.mean(weighted, axis=-1), hg.mean(weighted * weighted, axis=-1)


@hologram_torch.custom_op("hologram_test::doubled", gradient=lambda cotangent, x: cotangent * 10.0)
def doubled(x: hg.Tensor) -> hg.Tensor:
    return x * 2.0


axpy = hologram_torch.custom_op(
    "hologram_test::axpy",
    AXPY,
    outputs={"y": "y"},
    gradient=lambda cotangent, x, y, a: (cotangent * a, cotangent),
)


def in_torch(x: Any, beta: float = 1.0) -> Any:
    return x * torch.sigmoid(x * beta)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_function_of_tensors(compiled: bool) -> None:
    def run(x: Any) -> Any:
        return swish(x + 1.0, 2.0).sum()

    x = torch.randn(4, 5)
    mine, theirs = x.to("hologram").requires_grad_(), x.clone().requires_grad_()
    found = (torch.compile(run, backend="hologram") if compiled else run)(mine)
    found.backward()
    wanted = in_torch(theirs + 1.0, 2.0).sum()
    wanted.backward()
    torch.testing.assert_close(found.detach().cpu(), wanted.detach())
    torch.testing.assert_close(mine.grad.cpu(), theirs.grad)


@pytest.mark.parametrize("compiled", [False, True])
def test_several_results_and_tensors_that_may_be_missing(compiled: bool) -> None:
    def run(x: Any, w: Any) -> Any:
        mean, _ = moments(x)
        _, square = moments(x, w)
        return (mean * square).sum()

    def plainly(x: Any, w: Any) -> Any:
        return (x.mean(-1) * (x * w).square().mean(-1)).sum()

    data = (torch.randn(3, 4), torch.randn(4))
    mine = [d.to("hologram").requires_grad_() for d in data]
    theirs = [d.clone().requires_grad_() for d in data]
    (torch.compile(run, backend="hologram") if compiled else run)(*mine).backward()
    plainly(*theirs).backward()
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a.grad.cpu(), b.grad)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_program(compiled: bool) -> None:
    def run(x: Any, y: Any) -> Any:
        return axpy(x * 1.0, y, 3.0)

    x, y = torch.randn(7), torch.randn(14)[::2]
    mine = [v.to("hologram").requires_grad_() for v in (x, y)]
    found = (torch.compile(run, backend="hologram") if compiled else run)(*mine)
    torch.testing.assert_close(found.detach().cpu(), 3 * x + y)
    torch.testing.assert_close(mine[1].detach().cpu(), y)  # the result is a copy
    found.sum().backward()
    assert mine[0].grad.tolist() == [3.0] * 7


def test_a_gradient_of_ones_own() -> None:
    x = torch.ones(3, device="hologram", requires_grad=True)
    doubled(x).sum().backward()
    assert x.grad.tolist() == [10.0] * 3


def test_pytorch_finds_nothing_wrong() -> None:
    x = torch.randn(2, 3, device="hologram", requires_grad=True)
    checks = ("test_schema", "test_faketensor")
    torch.library.opcheck(swish, (x, 0.5), test_utils=checks)


def test_shapes_are_known_without_computing() -> None:
    with torch._subclasses.FakeTensorMode():
        x = torch.empty(2, 3, dtype=torch.float16, device="hologram")
        assert [(r.shape, r.dtype) for r in moments(x)] == [((2,), torch.float16)] * 2


def test_what_no_operator_can_be() -> None:
    with pytest.raises(TypeError, match="rows is"):

        @hologram_torch.custom_op("hologram_test::wrong")
        def wrong(x: hg.Tensor, rows: complex) -> hg.Tensor:
            return x

    with pytest.raises(ProgramError, match="outputs"):
        hologram_torch.custom_op("hologram_test::wrong", AXPY, outputs={"x": "y"})


def test_a_function_is_one_kernel() -> None:
    x = torch.randn(7, device="hologram")
    swish(x, 2.0)
    with torch.hologram.executor().profile() as profile:
        swish(x, 3.0)
    assert sum(kernel.count for kernel in profile.kernels) == 1


def test_what_gives_its_shapes_may_ask_for_elements() -> None:
    @hologram_torch.custom_op("hologram_test::signed", fake=torch.empty_like)
    def signed(x: hg.Tensor) -> hg.Tensor:
        return x if x[0].item() > 0 else -x

    for first in (3.0, -3.0):
        found = signed(torch.tensor([first, 1.0], device="hologram"))
        assert found.tolist() == [3.0, 1.0 if first > 0 else -1.0]


def test_a_derivative_that_is_not_there_is_refused_and_not_left_out() -> None:
    """PyTorch itself would warn, and go on with what other paths give."""
    plain = hologram_torch.custom_op("hologram_test::plain_axpy", AXPY, outputs={"y": "y"})
    x = torch.randn(4, device="hologram", requires_grad=True)
    with pytest.raises(RuntimeError, match="hologram_test::plain_axpy: a program has no derivative"):
        (plain(x, x, 2.0) + x).sum().backward()
    (slope,) = torch.autograd.grad(swish(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="hologram_test::swish_backward: there is no second derivative"):
        (slope.sum() + x.sum()).backward()
