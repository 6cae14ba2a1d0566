"""Tensors without axes that lie on the host, as operands: CUDA says what is taken and refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import hologram_torch  # noqa: E402, F401

X, Y = torch.tensor([[0.5, 1.5], [2.0, 0.25]]), torch.tensor([[0.75, 1.0], [0.5, 2.0]])
N = torch.tensor([[6, 4], [3, 9]])

# What iterates over two operands (TensorIterator), one of which may be on the host.
PAIRS = """
add sub mul div true_divide remainder fmod floor_divide pow float_power atan2 hypot copysign nextafter maximum minimum
fmax fmin logaddexp logaddexp2 xlogy eq ne lt le gt ge logical_and logical_or logical_xor heaviside isclose ldexp
special.zeta special.xlog1py special.chebyshev_polynomial_t igamma igammac rsub
"""
WHOLE_PAIRS = "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift gcd lcm"
IN_PLACE = "add_ sub_ mul_ div_ remainder_ fmod_ floor_divide_ pow_ atan2_ copysign_ eq_ lt_ logical_and_ xlogy_ hypot_"
LOSSES = "smooth_l1_loss huber_loss"


def named(name: str) -> Callable[..., Any]:
    packet = torch.special if name.startswith("special.") else torch
    return getattr(packet, name.removeprefix("special."))


TAKEN: dict[str, Callable[..., Any]] = {
    "where, a condition": lambda x, y, s: torch.where(s > 0, x, y),
    "where, a choice": lambda x, y, s: torch.where(x > y, s, y),
    "where, the other": lambda x, y, s: torch.where(x > y, x, s),
    "addcmul, the sum": lambda x, y, s: torch.addcmul(s, x, y),
    "addcmul, a factor": lambda x, y, s: torch.addcmul(x, y, s, value=0.5),
    "addcmul_": lambda x, y, s: x.clone().addcmul_(s, y),
    "addcdiv, the sum": lambda x, y, s: torch.addcdiv(s, x, y),
    "addcdiv, over": lambda x, y, s: torch.addcdiv(x, y, s, value=0.5),
    "addcdiv_": lambda x, y, s: x.clone().addcdiv_(s, y),
    "lerp, a weight": lambda x, y, s: torch.lerp(x, y, s),
    "lerp, an end": lambda x, y, s: torch.lerp(x, s, y),
    "lerp_": lambda x, y, s: x.clone().lerp_(y, s),
    "clamp, bounds": lambda x, y, s: torch.clamp(x, min=s - 0.5, max=s),
    "clamp_min": lambda x, y, s: torch.clamp_min(x, s),
    "clamp_max_": lambda x, y, s: x.clone().clamp_max_(s),
    "masked_fill": lambda x, y, s: x.masked_fill(x > y, s),
    "masked_fill_": lambda x, y, s: x.clone().masked_fill_(x > y, s),
    "fill_": lambda x, y, s: x.clone().fill_(s),
    "index_fill": lambda x, y, s: x.index_fill(0, torch.tensor([1], device=x.device), s),
    "index_put": lambda x, y, s: x.index_put((torch.tensor([1], device=x.device),), s),
    "index_put_ by a mask": lambda x, y, s: x.clone().index_put_((x > y,), s),
    "an element": lambda x, y, s: x[torch.tensor(1)],
    "a row of the host's positions": lambda x, y, s: x[torch.tensor([1, 0])],
    "a mask of the host": lambda x, y, s: x[torch.tensor([True, False])],
    "rounding": lambda x, y, s: torch.div(x, s, rounding_mode="floor"),
    "rounding, the numerator": lambda x, y, s: torch.div(s, x, rounding_mode="trunc"),
    "add, scaled": lambda x, y, s: torch.add(x, s, alpha=2),
    "add, a scale": lambda x, y, s: torch.add(x, y, alpha=s.item()),
    "lists": lambda x, y, s: torch._foreach_mul([x, y], s),
    "lists in place": lambda x, y, s: (lambda z: (torch._foreach_mul_(z, s), z)[1])([x.clone(), y.clone()]),
    "lists, added": lambda x, y, s: torch._foreach_add([x, y], s, alpha=2),
    "lists, divided": lambda x, y, s: torch._foreach_div([x, y], s),
    "lists, a number each": lambda x, y, s: torch._foreach_addcmul(
        [x, y], [x, y], [y, x], torch.stack([s, 2 * s])
    ),
    "lists, a quotient each": lambda x, y, s: torch._foreach_addcdiv(
        [x, y], [x, y], [y, x], torch.stack([s, s])
    ),
    "sigmoid's derivative": lambda x, y, s: torch.ops.aten.sigmoid_backward(x, s),
    "tanh's derivative": lambda x, y, s: torch.ops.aten.tanh_backward(s, x),
    "a norm's quotient": lambda x, y, s: x / torch.linalg.vector_norm(x) * s,
    "an average": lambda x, y, s: x.lerp(y, 1 - s),
    "an output": lambda x, y, s: torch.add(x, s, out=torch.empty_like(x)),
    "an output of choices": lambda x, y, s: torch.where(x > y, x, s, out=torch.empty_like(x)),
}


def compare(call: Callable[..., Any], *given: Any, scalar: Any) -> None:
    want = call(*given, scalar)
    got = call(*(x.to("hologram") for x in given), scalar)
    single = isinstance(want, torch.Tensor)
    for a, b in zip([got] if single else got, [want] if single else want, strict=True):
        assert (a.device.type, a.dtype, a.stride()) == ("hologram", b.dtype, b.stride())
        torch.testing.assert_close(a.cpu(), b, rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("name", TAKEN)
def test_what_cuda_takes(name: str) -> None:
    compare(TAKEN[name], X, Y, scalar=torch.tensor(0.75))


OF_ONE_DTYPE = ("heaviside", "isclose")


@pytest.mark.parametrize("name", PAIRS.split())
def test_pairs(name: str) -> None:
    call = named(name)
    scalar = torch.tensor(0.75)
    compare(call, X, scalar=scalar)
    if name not in OF_ONE_DTYPE:
        compare(call, X, scalar=scalar.double())
    if name != "ldexp":
        compare(lambda x, s: call(s, x), X, scalar=scalar)


@pytest.mark.parametrize("name", WHOLE_PAIRS.split())
def test_pairs_of_integers(name: str) -> None:
    call = named(name)
    compare(call, N, scalar=torch.tensor(2))
    compare(lambda x, s: call(s, x), N, scalar=torch.tensor(2))


@pytest.mark.parametrize("name", IN_PLACE.split())
def test_in_place(name: str) -> None:
    compare(lambda x, s: getattr(x.clone(), name)(s), X, scalar=torch.tensor(0.75))


@pytest.mark.parametrize("name", LOSSES.split())
def test_losses(name: str) -> None:
    loss = getattr(torch.ops.aten, name)
    compare(lambda x, s: loss(x, s, 0), X, scalar=torch.tensor(0.75))
    compare(lambda x, s: loss(x, s, 2), X, scalar=torch.tensor(0.75))


def test_gradients_go_to_both() -> None:
    slopes = []
    for device in ("cpu", "hologram"):
        x = X.to(device, copy=True).requires_grad_()
        scalar = torch.tensor(0.75, requires_grad=True)
        (torch.where(x > scalar, x * scalar, scalar / x) + x.lerp(x * x, scalar)).sum().backward()
        slopes.append((x.grad.cpu(), scalar.grad.cpu()))
    torch.testing.assert_close(slopes[1], slopes[0])


REFUSED: dict[str, Callable[..., Any]] = {
    "a row of the host": lambda x: x + torch.ones(2),
    "an element of the host in a row": lambda x: x * torch.ones(1),
    "a list of both": lambda x: torch.stack([x[0, 0], torch.tensor(1.0)]),
    "joined": lambda x: torch.cat([x[0], torch.ones(1)]),
    "a product of both": lambda x: x @ torch.ones(2, 2),
    "positions": lambda x: x.index_select(0, torch.tensor([0])),
    "positions of elements": lambda x: x.gather(0, torch.zeros(2, 2, dtype=torch.long)),
    "a mask": lambda x: x.masked_fill(torch.ones(2, 2, dtype=torch.bool), 0.0),
    "a result on the host": lambda x: torch.tensor(1.0).add_(x[0, 0]),
    "an output on the host": lambda x: torch.add(x, 1, out=torch.empty(2, 2)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cuda_refuses(name: str) -> None:
    with pytest.raises(RuntimeError, match="device"):
        REFUSED[name](X.to("hologram"))


ONE_VALUE = (2.7, 300, True, 2 + 1j, float("inf"), -1, [2.5])


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.float16, torch.float32, torch.bool])
@pytest.mark.parametrize("value", ONE_VALUE, ids=str)
def test_one_value_of_the_host_is_written_wherever_a_mask_names(value: Any, dtype: Any) -> None:
    given = torch.tensor(value)
    outcomes = []
    for device in ("cpu", "hologram"):
        x = torch.arange(6, device=device).reshape(2, 3).to(dtype)
        try:
            x[x > 0] = given
            outcomes.append(x.tolist())
        except RuntimeError as error:
            outcomes.append(type(error))
    assert outcomes[1] == outcomes[0]


def test_other_values_of_the_host_are_refused_as_elsewhere() -> None:
    x = torch.zeros(2, 3, device="hologram")
    with pytest.raises(RuntimeError, match="dtypes match"):
        x[torch.tensor([0])] = torch.tensor(2)
    with pytest.raises(RuntimeError):
        x[x == 0] = torch.ones(6, dtype=torch.float64)
