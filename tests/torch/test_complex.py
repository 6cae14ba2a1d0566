"""Complex tensors on the device: views of parts, PyTorch's lazy bits, autograd, compiled graphs, and the operators."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch

import hologram_torch  # noqa: F401

A = torch.complex(torch.linspace(-1, 2, 20).reshape(4, 5), torch.linspace(1, -0.5, 20).reshape(4, 5))
B = torch.complex(torch.linspace(0.5, -1, 15).reshape(5, 3), torch.linspace(-1, 1, 15).reshape(5, 3))

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, y: x + x * 2j - 1j / x,
    "mm": lambda x, y: x @ y,
    "conjugates mm": lambda x, y: x.conj() @ y.conj(),
    "bmm": lambda x, y: torch.bmm(x[None].conj(), y[None]),
    "addmm": lambda x, y: torch.addmm(x[:, :3].conj(), x, y, alpha=2j, beta=0.5),
    "addmm in place": lambda x, y: x[:, :3].clone().conj().addmm_(x.conj(), y),
    "dot": lambda x, y: torch.dot(x[0].conj(), x[1]),
    "vdot": lambda x, y: torch.vdot(x[:, 0], x[:, 1]),
    "adjoint": lambda x, y: x.mH @ x,
    "einsum": lambda x, y: torch.einsum("ij,jk->ki", x, y),
    "linear": lambda x, y: torch.nn.functional.linear(x, y.T, y[0]),
    "conj": lambda x, y: x.conj(),
    "conj of conj": lambda x, y: x.conj().resolve_conj().conj().clone(),
    "real": lambda x, y: x.real,
    "imag of conj": lambda x, y: x.conj().imag,
    "imag of conj and more": lambda x, y: x.conj().imag.clone() + 1,
    "view_as_real": lambda x, y: torch.view_as_real(x),
    "view_as_complex": lambda x, y: torch.view_as_complex(torch.view_as_real(x) * 2),
    "view of a view": lambda x, y: torch.view_as_real(x[1::2, ::3])[..., 1],
    "abs": lambda x, y: x.abs() + x.angle(),
    "polar": lambda x, y: torch.polar(x.abs(), x.angle()),
    "complex": lambda x, y: torch.complex(x.real, x.imag),
    "functions": lambda x, y: x.exp() + x.sqrt() + x.sin() + x.tanh() + x.log() + x.rsqrt() + x.sigmoid(),
    "inverses": lambda x, y: x.asin() + x.acos() + x.atan() + x.asinh() + x.acosh() + x.atanh(),
    "sgn": lambda x, y: x.sgn(),
    "pow": lambda x, y: x**2 + x**1j + 2**x,
    "reductions": lambda x, y: x.sum() + x.mean(0).sum() + x.prod(1).sum() + x.std() + torch.linalg.vector_norm(x),
    "cumsum": lambda x, y: x.cumsum(1) + x.cumprod(0),
    "where": lambda x, y: torch.where(x.real > 0, x, 1j),
    "masked": lambda x, y: x.masked_fill(x.real > 0, 1j),
    "indexing": lambda x, y: torch.cat([x[[0, 2]], x.conj()[1:, :]]),
    "index_add": lambda x, y: x.index_add(0, torch.tensor([0, 0], device=x.device), x[:2]),
    "full": lambda x, y: torch.full((2,), 1 + 2j, device=x.device) + torch.ones(2, device=x.device) * 1j,
    "in place": lambda x, y: x.clone().mul_(1j).add_(2).fill_(2j),
    "copy to conj": lambda x, y: _written(x, lambda z: z.conj().copy_(x * 2)),
    "copy to the imag of conj": lambda x, y: _written(x, lambda z: z.conj().imag.copy_(x.real)),
    "copy from conj": lambda x, y: torch.empty_like(x).copy_(x.conj()),
    "dtypes": lambda x, y: x.conj().to(torch.complex128) + x.real.to(torch.complex64),
    "equal": lambda x, y: (x == x.clone()) & torch.isfinite(x),
    "item": lambda x, y: torch.tensor(x[1, 2].item()),
}  # fmt: skip


def _written(x: Any, write: Callable[[Any], Any]) -> Any:
    z = x.clone()
    write(z)
    return z


def _plain(x: Any) -> Any:
    return x.cpu().resolve_conj().resolve_neg()


@pytest.mark.parametrize("name", CALLS)
def test_what_the_cpu_gives(name: str) -> None:
    want = CALLS[name](A, B)
    for scale in (1, 1, 2):  # the second call may go another way, and the third has other numbers
        found = CALLS[name](A.to("hologram") * scale, B.to("hologram"))
        want = CALLS[name](A * scale, B)
        assert (found.dtype, found.shape) == (want.dtype, want.shape)
        torch.testing.assert_close(_plain(found), _plain(want), rtol=1e-4, atol=1e-5)


BITS: dict[str, Callable[[Any], Any]] = {
    "none": lambda x: x,
    "conjugate": lambda x: x.conj(),
    "negative": lambda x: torch.ops.aten._neg_view(x),
    "both": lambda x: torch.ops.aten._neg_view(x.conj()),
}
WITH_BITS: dict[str, Callable[[Any, Any], Any]] = {
    "copy": lambda x, y: torch.empty(4, 4, dtype=x.dtype, device=x.device).copy_(x),
    "copy to": lambda x, y: _written(y, lambda z: BITS["conjugate"](z).copy_(x)),
    "item": lambda x, y: _written(y, lambda z: z.conj().__setitem__(1, x[0])),
    "in place": lambda x, y: _written(y, lambda z: BITS["negative"](z).add_(x)),
    "parts": lambda x, y: torch.zeros(4, 4, device=x.device).copy_(x.imag),
    "conj_physical in place": lambda x, y: x.clone().conj_physical_(),
    "dot": lambda x, y: torch.dot(x[0], y[0], out=torch.empty((), dtype=x.dtype, device=x.device)),
    "vdot": lambda x, y: torch.vdot(x[0], y[0], out=torch.empty((), dtype=x.dtype, device=x.device)),
    "solve_triangular": lambda x, y: torch.linalg.solve_triangular(x, y, upper=True),
}


@pytest.mark.parametrize("name", WITH_BITS)
def test_calls_alike_but_for_the_bits(name: str) -> None:
    held = torch.complex(torch.randn(4, 4, generator=torch.Generator().manual_seed(0)), A[:, :4].real)
    for _ in range(2):
        for first in BITS.values():
            for second in BITS.values():
                want = WITH_BITS[name](first(held), second(A[:, 1:].clone()))
                found = WITH_BITS[name](first(held.to("hologram")), second(A[:, 1:].to("hologram")))
                torch.testing.assert_close(_plain(found), _plain(want), rtol=1e-3, atol=1e-3)


def test_views_share_memory() -> None:
    x: Any = A.to("hologram")
    x.real.mul_(2)
    torch.view_as_real(x)[0, 0, 1] = 9
    whole: Any = torch.view_as_complex(torch.view_as_real(x))
    whole[1] = 3j
    want: Any = A.clone()
    want.real.mul_(2)
    want[0, 0] = complex(want[0, 0].real, 9)
    want[1] = 3j
    torch.testing.assert_close(x.cpu(), want)
    assert x.data_ptr() == x.real.data_ptr() == x.conj().data_ptr()


@pytest.mark.parametrize(
    "call",
    [lambda x: x < x, lambda x: x.max(), lambda x: x.sort(), lambda x: x.floor(), lambda x: x.clamp(0, 1),
     lambda x: x % 2, lambda x: torch.view_as_complex(x.real), lambda x: x.real.mul_(1j)],
)  # fmt: skip
def test_what_is_refused(call: Callable[[Any], Any]) -> None:
    with pytest.raises(Exception) as host:
        call(A)
    for _ in range(2):
        with pytest.raises(host.type):
            call(A.to("hologram"))


def _loss(x: Any, y: Any) -> Any:
    z = torch.cat([(x @ y * 1j).exp().abs().square(), x.conj()[:, :3].angle()])
    return z.sum() + (x.real * x.imag).sum() + torch.view_as_real(y).pow(2).sum() + (y.conj() * y).real.sum()


def test_gradients_are_the_cpus() -> None:
    ours = [t.to("hologram").requires_grad_() for t in (A, B)]
    theirs = [t.clone().requires_grad_() for t in (A, B)]
    _loss(*ours).backward()
    _loss(*theirs).backward()
    for a, b in zip(ours, theirs, strict=True):
        assert a.grad is not None
        torch.testing.assert_close(_plain(a.grad), _plain(b.grad), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.nn.functional.pad(x, (2, 1), mode="reflect"),
        lambda x: torch.nn.functional.pad(x[None], (2, -1, 1, 3), mode="replicate"),
        lambda x: torch.stft(x, 4, window=torch.hann_window(4, device=x.device), return_complex=True),
        lambda x: torch.fft.ihfft(torch.view_as_real(x)[..., 0]),
    ],
)
def test_gradients_through_what_is_added_at_the_ends(call: Callable[[Any], Any]) -> None:
    ours, theirs = A.to("hologram").requires_grad_(), A.clone().requires_grad_()
    for x in (ours, theirs):
        call(x).abs().square().sum().backward()
    torch.testing.assert_close(_plain(ours.grad), _plain(theirs.grad), rtol=1e-4, atol=1e-4)


def test_compiled_graphs() -> None:
    def function(x: Any, y: Any) -> Any:
        return (torch.view_as_real(x @ y) * 2).sum() + (x.conj() * 1j).abs().sum(), torch.view_as_complex(
            torch.view_as_real(x) + 1
        )

    compiled = torch.compile(function, backend="hologram")
    for found, want in zip(compiled(A.to("hologram"), B.to("hologram")), function(A, B), strict=True):
        torch.testing.assert_close(_plain(found), want, rtol=1e-4, atol=1e-4)


def _compiled(x: Any) -> Any:
    return x * 2j, x.clone(), torch.fft.fft(x), x.real.sum(), x.mH @ x, x.conj()


@pytest.mark.parametrize("bits", BITS)
def test_compiled_graphs_of_conjugates(bits: str) -> None:
    x, of = A[:, :4].clone(), BITS[bits]
    compiled = torch.compile(_compiled, backend="hologram")
    for scale in (1, 2):
        found, want = compiled(of(x.to("hologram") * scale)), _compiled(of(x * scale))
        for a, b in zip(found, want, strict=True):
            torch.testing.assert_close(_plain(a), _plain(b), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bits", BITS)
def test_compiled_graphs_that_write_to_conjugates(bits: str) -> None:
    def function(x: Any) -> Any:
        x.add_(1)
        return x * 2

    compiled = torch.compile(function, backend="hologram")
    for _ in range(2):
        ours, theirs = A.to("hologram"), A.clone()
        found, want = compiled(BITS[bits](ours)), function(BITS[bits](theirs))
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(_plain(found), _plain(want), rtol=1e-5, atol=1e-5)


def test_files_and_words() -> None:
    x = A.to("hologram")
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    torch.testing.assert_close(torch.load(file).cpu(), A)
    assert repr(x).startswith("tensor([[-1.0000+1.0000j")


def test_conjugates_of_the_cpu_are_left_to_it() -> None:
    torch.testing.assert_close(A.conj() @ B.conj(), (A @ B).conj().resolve_conj())
    torch.testing.assert_close(A.conj().clone(), torch.complex(A.real, -A.imag))


@pytest.mark.parametrize("bits", BITS)
def test_graphs_of_the_cpus_conjugates_are_left_to_it(bits: str) -> None:
    def function(x: Any) -> Any:
        return x.clone().add_(1), x.mT @ x

    (A.to("hologram") + 1).cpu()  # all is loaded
    x = BITS[bits](A)
    torch.compiler.reset()
    for found, want in zip(torch.compile(function, backend="aot_eager")(x), function(x), strict=True):
        torch.testing.assert_close(_plain(found), _plain(want))


def test_random_numbers() -> None:
    torch.manual_seed(3)
    x = torch.randn(20_000, dtype=torch.complex64, device="hologram").cpu()
    assert abs(x.real.std() - 0.5**0.5) < 0.02
    assert abs(x.imag.std() - 0.5**0.5) < 0.02
    assert abs((x.real * x.imag).mean()) < 0.02
    y = torch.rand(1000, dtype=torch.complex64, device="hologram").cpu()
    assert 0 <= float(torch.view_as_real(y).min()) < 0.02 < 0.98 < float(torch.view_as_real(y).max()) < 1


FOURIER: dict[str, Callable[[Any], Any]] = {
    "fft": torch.fft.fft,
    "of two axes": lambda x: torch.fft.fft2(x, norm="ortho"),
    "of reals": lambda x: torch.fft.rfftn(x, dim=(0, 2)),
    "to reals": lambda x: torch.fft.irfftn(torch.fft.rfftn(x), s=x.shape),
    "odd and padded": lambda x: torch.fft.irfft(torch.fft.rfft(x, n=17), n=17, norm="forward"),
    "long, to reals": lambda x: torch.fft.irfft(torch.fft.rfft(x[0, 0], n=9001), n=9001),
    "of primes": lambda x: torch.fft.ifft(x.flatten()[:89]),
    "hfft": torch.fft.hfft,
    "ihfft": torch.fft.ihfft,
    "shift": torch.fft.fftshift,
    "stft": lambda x: torch.stft(x[0], 8, window=torch.hann_window(8, device=x.device), return_complex=True),
    "istft": lambda x: torch.istft(
        torch.stft(x[0], 8, window=torch.hann_window(8, device=x.device), return_complex=True), 8,
        window=torch.hann_window(8, device=x.device),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOURIER)
def test_fourier_transforms(name: str) -> None:
    x = torch.sin(torch.arange(3 * 8 * 12).reshape(3, 8, 12) * 0.7)
    for scale in (1, 1, 2):
        ours, theirs = (x * scale).to("hologram").requires_grad_(), (x * scale).requires_grad_()
        found, want = FOURIER[name](ours), FOURIER[name](theirs)
        torch.testing.assert_close(_plain(found.detach()), want.detach().resolve_conj(), rtol=1e-4, atol=1e-4)
        found.abs().square().sum().backward()
        want.abs().square().sum().backward()
        assert ours.grad is not None
        torch.testing.assert_close(ours.grad.cpu(), theirs.grad, rtol=1e-4, atol=1e-2)


SCALED: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda z, r: torch.add(z, z, alpha=0.1),
    "add a real": lambda z, r: torch.add(z, r, alpha=0.1),
    "add to a real": lambda z, r: torch.add(r, z, alpha=0.5j),
    "add a number": lambda z, r: torch.add(z, 2, alpha=0.5),
    "add_": lambda z, r: z.clone().add_(z.conj(), alpha=-1e-3),
    "sub": lambda z, r: torch.sub(z, z, alpha=0.1),
    "sub_": lambda z, r: z.clone().sub_(r, alpha=0.1 + 2j),
    "rsub": lambda z, r: torch.rsub(z, r, alpha=0.5),
    "lists": lambda z, r: torch._foreach_add([z], [z], alpha=0.1)[0],  # pyright: ignore[reportPrivateImportUsage]
    "index_add": lambda z, r: z.index_add(0, torch.tensor([1], device=z.device), z[:1], alpha=0.5),
}


@pytest.mark.parametrize("name", SCALED)
def test_sums_are_scaled_by_floats(name: str) -> None:
    z, r = torch.tensor([1 + 2j, 3 - 1j]), torch.tensor([0.5, 1.0])
    found = SCALED[name](z.to("hologram"), r.to("hologram"))
    torch.testing.assert_close(found.cpu(), SCALED[name](z, r))


def test_a_real_sum_is_not_scaled_by_a_complex_number() -> None:
    for device in ("cpu", "hologram"):
        x = torch.ones(2, device=device)
        with pytest.raises(RuntimeError, match="alpha must not be a complex number"):
            torch.add(x, x, alpha=1j)


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", ["SGD", "AdamW", "Adagrad", "RMSprop", "NAdam"])
def test_optimisers_of_complex_parameters(name: str, foreach: bool) -> None:
    found = []
    for device in ("cpu", "hologram"):
        z = torch.tensor([1 + 2j, 3 - 1j], device=device, requires_grad=True)
        optimiser = getattr(torch.optim, name)([z], lr=0.01, weight_decay=0.1, foreach=foreach)
        for _ in range(3):
            optimiser.zero_grad()
            (z * z.conj()).real.sum().backward()
            optimiser.step()
        found.append(z.detach().cpu())
    torch.testing.assert_close(found[1], found[0])
