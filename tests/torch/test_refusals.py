"""What PyTorch refuses is refused, by the same exception and naming hologram; what it takes is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import hologram_torch  # noqa: E402, F401


def _ones(*shape: int, **kind: Any) -> Any:
    return torch.ones(*shape, **kind)


def grids(image: Any, places: Any) -> Any:
    return torch.nn.functional.grid_sample(image, places, align_corners=False)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "an expanded target of a copy": lambda to: to(_ones(1)).expand(3).copy_(to(_ones(3))),
    "an expanded target of a sum": lambda to: to(_ones(1)).expand(3).add_(1),
    "a target that is read elsewhere": lambda to: (lambda x: x[1:].add_(x[:-1]))(to(_ones(5))),
    "a target that is read otherwise": lambda to: (lambda x: x.mul_(x.t()))(to(_ones(3, 3))),
    "a copy over itself": lambda to: (lambda x: x[1:].copy_(x[:-1]))(to(_ones(5))),
    "numbers minus bools": lambda to: 1 - to(_ones(2)).bool(),
    "gelu of integers": lambda to: torch.nn.functional.gelu(to(_ones(2)).int()),
    "softmax of integers": lambda to: torch.softmax(to(_ones(2)).long(), 0),
    "lerp of integers": lambda to: to(_ones(2)).int().lerp_(to(_ones(2)).int(), 0.5),
    "bits of floats": lambda to: to(_ones(2)) & 1,
    "floats as positions": lambda to: to(_ones(3))[to(_ones(1))],
    "floats as a mask": lambda to: to(_ones(3)).masked_select(to(_ones(3))),
    "a grid of three coordinates": lambda to: grids(to(_ones(1, 1, 2, 2)), to(_ones(1, 2, 2, 3))),
}


@pytest.mark.parametrize("fallback", ["0", "1"])
def test_what_the_device_cannot_hold_has_no_fallback(fallback: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLOGRAM_TORCH_FALLBACK", fallback)
    x = torch.ones(8, device="hologram").half()
    for function in (lambda x: torch.complex(x, x), lambda x: x.to(torch.complex32)):
        with pytest.raises(TypeError, match=r"hologram has no torch\.complex32"):
            function(x)


@pytest.mark.parametrize("what", REFUSED)
def test_what_pytorch_refuses(what: str) -> None:
    with pytest.raises(Exception) as host:
        REFUSED[what](lambda x: x)
    for _ in range(2):  # the second call may go another way
        with pytest.raises(host.type, match="hologram"):
            REFUSED[what](lambda x: x.to("hologram"))


def test_the_short_way_sees_overlap() -> None:
    x, y = torch.ones(5, device="hologram"), torch.ones(4, device="hologram")
    for _ in range(3):
        x[1:].add_(y)
    with pytest.raises(RuntimeError, match="single memory location"):
        x[1:].add_(x[:-1])
    assert x.add_(x).cpu().tolist() == [2, 8, 8, 8, 8]


def test_numbers_fill_what_is_expanded() -> None:
    x = torch.ones(2, 1, device="hologram")
    x.expand(2, 3)[1].fill_(5)
    assert x.tolist() == [[1], [5]]
    x.expand(2, 3).zero_()
    assert not x.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
@pytest.mark.parametrize("base", [0, 2, 2.5, -1.5])
def test_numbers_to_powers(base: float, dtype: Any) -> None:
    x = torch.tensor([0, 1, 3], dtype=dtype)
    torch.testing.assert_close((base ** x.to("hologram")).cpu(), base**x)
    slopes = []
    for device in ("cpu", "hologram") if dtype.is_floating_point else ():
        given = x.detach().to(device, copy=True).requires_grad_()
        (base**given).sum().backward()
        slopes.append(given.grad.cpu())
    if slopes:
        torch.testing.assert_close(slopes[1], slopes[0], equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8])
def test_bits_are_shifted(dtype: Any) -> None:
    x = torch.tensor([1, 5], dtype=dtype)
    for y, there in ((3, 3), (x, x.to("hologram"))):
        assert torch.equal((x.to("hologram") << there).cpu(), x << y)
        assert torch.equal((x.to("hologram") >> there).cpu(), x >> y)
    written = x.to("hologram")
    written <<= 1
    written >>= 2
    assert torch.equal(written.cpu(), (x << 1) >> 2)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float32])
@pytest.mark.parametrize("bounds", [(), (-1.5, 2.5)], ids=str)
def test_whole_numbers_are_held_between_whole_bounds(dtype: Any, bounds: tuple[float, ...]) -> None:
    x = torch.tensor([-3, 0, 5], dtype=dtype)
    found = torch.nn.functional.hardtanh(x.to("hologram"), *bounds)
    assert torch.equal(found.cpu(), torch.nn.functional.hardtanh(x, *bounds))


COMPLEX: dict[str, Callable[[Any], Any]] = {
    "a number first": lambda x: 1j * x,
    "a number": lambda x: x - 1j,
    "a tensor of the host": lambda x: x * torch.tensor(1j),
    "a comparison": lambda x: x == 1j,
    "a power": lambda x: x**1j,
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_numbers_beside_floats(name: str) -> None:
    for other in (1, 2):  # the second call may go another way
        given = torch.full((3,), float(other))
        for _ in range(2):
            found, want = COMPLEX[name](given.to("hologram")), COMPLEX[name](given)
            assert found.dtype == want.dtype
            torch.testing.assert_close(found.cpu(), want)


def test_a_result_in_place_is_no_complex_number() -> None:
    with pytest.raises(RuntimeError, match=r"hologram.*result type ComplexFloat can't be cast"):
        torch.ones(3, device="hologram").mul_(1j)


def test_a_complex_number_is_no_element() -> None:
    for device in ("cpu", "hologram"):
        with pytest.raises(RuntimeError, match="cannot be converted to type float"):
            torch.ones(3, device=device).fill_(1j)


def test_dtypes_of_many_elements_are_refused_and_their_sizes_are_not() -> None:
    x = torch.ones(5000, dtype=torch.int64, device="hologram")
    with pytest.raises(NotImplementedError, match="softmax"):
        torch.softmax(x, 0)
    with pytest.raises(NotImplementedError, match="nll_loss"):
        torch.nn.functional.nll_loss(
            x.reshape(1000, 5), torch.zeros(1000, dtype=torch.int64, device="hologram")
        )
    assert x.kthvalue(4999).values.item() == 1
    with pytest.raises((RuntimeError, IndexError), match="kthvalue"):
        x.kthvalue(5001)


WHOLE = (torch.int64, torch.int16, torch.uint8, torch.bool, torch.complex64, torch.float16)
MASK, PLACES = torch.tensor([False, True, False, False, True, True]), torch.tensor([5, 0, 3])


def _lengths(x: Any, *lengths: int) -> Any:
    return torch.tensor(lengths, device=x.device)


BY_ELEMENTS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "values under a mask": lambda x, m, i: x.index_put((m,), x[:3]),
    "values under a mask in place": lambda x, m, i: x.clone().index_put_((m,), x[1:4]),
    "values at a mask's rows": lambda x, m, i: x[:, None].repeat(1, 2).index_put((m,), x[:6].reshape(3, 2)),
    "values under a mask of pairs": lambda x, m, i: x.reshape(2, 3).index_put((m.reshape(2, 3),), x[:3]),
    "values where two masks meet": lambda x, m, i: x.reshape(2, 3).index_put((m[1:3], m[:3]), x[:1]),
    "added under a mask": lambda x, m, i: x.index_put((m,), x[:3], accumulate=True),
    "values at positions": lambda x, m, i: x.index_put((i,), x[:3]),
    "values scattered": lambda x, m, i: x.masked_scatter(m, x[2:]),
    "elements picked": lambda x, m, i: x.masked_select(m),
    "elements indexed": lambda x, m, i: x[m],
    "elements put": lambda x, m, i: x.put(i, x[:3]),
    "rows copied": lambda x, m, i: x.index_copy(0, i, x[:3]),
    "rows repeated": lambda x, m, i: torch.repeat_interleave(x[:3], _lengths(x, 2, 0, 4), output_size=6),
    "elements counted": lambda x, m, i: torch.bincount(i, minlength=9),
    "order by a permutation": lambda x, m, i: torch.searchsorted(
        torch.tensor([3, 1, 2], device=x.device), i, sorter=_lengths(x, 1, 2, 0)
    ),
    "what is left under no mask": lambda x, m, i: x.index_put((m & ~m,), x[:0]),
}


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
@pytest.mark.parametrize("name", BY_ELEMENTS)
def test_what_elements_say_is_no_refusal(name: str, dtype: Any) -> None:
    x = torch.tensor([1, 0, 1, 1, 0, 1]).to(dtype)
    want = BY_ELEMENTS[name](x, MASK, PLACES)
    for mask in (MASK.to("hologram"), MASK):
        if mask.device.type == "cpu" and name in ("values scattered", "elements picked"):
            continue
        found = BY_ELEMENTS[name](x.to("hologram"), mask, PLACES.to("hologram"))
        assert torch.equal(found.cpu(), want)


def test_values_that_do_not_fit_a_mask_are_refused() -> None:
    for device in ("cpu", "hologram"):
        x = torch.zeros(6, dtype=torch.int64, device=device)
        with pytest.raises(RuntimeError, match="shape mismatch"):
            x[MASK.to(device)] = torch.ones(2, dtype=torch.int64, device=device)


@pytest.mark.parametrize("name", ["stack", "cat", "add", "maximum"])
@pytest.mark.parametrize("size", [(2, 3), (0,), (5,)])
def test_outputs_that_cannot_hold_results(name: str, size: tuple[int, ...]) -> None:
    """Whatever size they have."""
    function, said = getattr(torch, name), []
    for device in ("cpu", "hologram"):
        x, out = torch.ones(3, device=device), torch.empty(size, dtype=torch.int32, device=device)
        with pytest.raises((RuntimeError, TypeError)) as refused:
            function((x, x), out=out) if name in ("stack", "cat") else function(x, x, out=out)
        said.append(str(refused.value))
    assert said[1].endswith(said[0])


@pytest.mark.parametrize("traced", [False, True])
def test_the_database_is_taken(traced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the host takes is no refusal, whether the elements may be looked at or not."""
    from torch.utils._python_dispatch import TorchDispatchMode

    from hologram_torch.kernels import refusals
    from tests.conformance import nodes

    monkeypatch.setattr(refusals, "deferred", lambda: traced)
    refused = []

    class Asking(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = nodes.pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs or {}))
            result = func(*args, **(kwargs or {}))
            if func.namespace == "aten" and refusals.of_signature(func, *given, mixed=True) is not None:
                refused.append((node.name, func))
            return result

    for node in list(nodes.nodes(True))[int(traced) :: 60]:
        if not node.dtype.is_floating_point and nodes.apart(node.entry) is not nodes.Apart.DRAWS:
            for sample in nodes.samples(node):
                try:
                    with Asking():
                        node.entry.op(sample.input, *sample.args, **sample.kwargs)
                except (RuntimeError, TypeError, ValueError, AssertionError):  # what the host refuses
                    continue
    assert refused == []
