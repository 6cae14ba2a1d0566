"""torch.linalg on the device: values, gradients and refusals as the CPU's, by hologram's own operations."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
from hologram_torch.kernels.operators import known  # noqa: E402

linalg = torch.linalg
pytestmark = pytest.mark.sampled(3)


@pytest.fixture(autouse=True)
def by_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """That a device says what it lacks is tested by itself."""
    monkeypatch.setenv("HOLOGRAM_HOST_LINALG", "1")


def _dtype() -> Any:
    wide = any(d.name == "f64" for d in torch.hologram.executor().limits.dtypes)
    return torch.float64 if wide else torch.float32


def _definite(x: Any) -> Any:
    return x @ x.mT + torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)


def _by_eigenvectors(x: Any) -> Any:
    values, vectors = linalg.eigh(_definite(x))
    return (vectors * values.log()[..., None, :]) @ vectors.mT


def _by_any_eigenvectors(x: Any) -> Any:
    values, vectors = linalg.eig(x)
    return (vectors * values.exp()[..., None, :]) @ linalg.inv(vectors)


def _by_singular_vectors(x: Any) -> Any:
    u, s, vh = linalg.svd(x, full_matrices=False)
    return (u * s.square()[..., None, :]) @ vh


def _right(x: Any, b: Any) -> Any:
    return linalg.solve(x, b.mT, left=False)


def _factors(x: Any) -> Any:
    """Apart from signs, which are anybody's."""
    q, r = linalg.qr(x)
    return q.abs(), r.abs()


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "cholesky": lambda x, b: linalg.cholesky(_definite(x)),
    "upper cholesky": lambda x, b: linalg.cholesky(_definite(x), upper=True),
    "cholesky_solve": lambda x, b: torch.cholesky_solve(b, linalg.cholesky(_definite(x))),
    "cholesky_inverse": lambda x, b: torch.cholesky_inverse(linalg.cholesky(_definite(x), upper=True), True),
    "inv": lambda x, b: linalg.inv(x),
    "solve": linalg.solve,
    "solve a vector": lambda x, b: linalg.solve(x, b[..., 0]),
    "solve from the right": _right,
    "det": lambda x, b: linalg.det(x),
    "slogdet": lambda x, b: linalg.slogdet(x),
    "lu_factor": lambda x, b: linalg.lu_factor(x),
    "lu": lambda x, b: linalg.lu(x),
    "lu_unpack": lambda x, b: torch.lu_unpack(*linalg.lu_factor(x)),
    "lu_solve": lambda x, b: linalg.lu_solve(*linalg.lu_factor(x), b),
    "adjoint lu_solve": lambda x, b: linalg.lu_solve(*linalg.lu_factor(x), b, adjoint=True),
    "lu_solve from the right": lambda x, b: linalg.lu_solve(*linalg.lu_factor(x), b.mT, left=False),
    "solve_triangular": lambda x, b: linalg.solve_triangular(x, b, upper=True),
    "unit triangle, from the right": lambda x, b: linalg.solve_triangular(
        x, b.mT, upper=False, left=False, unitriangular=True
    ),
    "triangular_solve": lambda x, b: torch.triangular_solve(b, x, upper=False, transpose=True)[0],
    "qr": lambda x, b: _factors(x),
    "qr of tall matrices": lambda x, b: _factors(b),
    "only r": lambda x, b: linalg.qr(x.detach(), mode="r")[1].abs(),
    "eigh": lambda x, b: _by_eigenvectors(x),
    "eigvalsh": lambda x, b: linalg.eigvalsh(_definite(x), UPLO="U"),
    "eig": lambda x, b: _by_any_eigenvectors(x),
    "eigvals": lambda x, b: linalg.eigvals(x).abs().sort(-1)[0],
    "svd": lambda x, b: _by_singular_vectors(x),
    "svd of tall matrices": lambda x, b: _by_singular_vectors(b),
    "svdvals": lambda x, b: linalg.svdvals(x),
    "matrix_exp": lambda x, b: torch.matrix_exp(x),
    "pinv": lambda x, b: linalg.pinv(b),
    "matrix_rank": lambda x, b: linalg.matrix_rank(x.detach()),
    "lstsq": lambda x, b: linalg.lstsq(b, b[..., :1] + 1)[0],
    "householder_product": lambda x, b: linalg.householder_product(*torch.geqrf(b.detach())),
    "matrix_power": lambda x, b: linalg.matrix_power(x, -2),
}  # fmt: skip
SHAPES = [(3, 3), (2, 4, 4), (30, 5, 5), (1, 40, 40)]


def _tensors(tree: Any) -> list[Any]:
    return [x for x in torch.utils._pytree.tree_leaves(tree) if isinstance(x, torch.Tensor)]


def _compare(found: Any, want: Any, dtype: Any) -> None:
    tolerance = 1e-7 if dtype is torch.float64 else 5e-3
    for a, b in zip(_tensors(found), _tensors(want), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        torch.testing.assert_close(
            a.detach().cpu().resolve_conj(), b.detach().resolve_conj(), rtol=tolerance, atol=tolerance
        )


def _given(shape: tuple[int, ...], dtype: Any) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(shape[-1])
    x = torch.randn(shape, dtype=dtype, generator=generator) / shape[-1] ** 0.5
    x = x + 2 * torch.eye(shape[-1], dtype=dtype).roll(1, 0)
    return x, torch.randn(*shape[:-1], 2, dtype=dtype, generator=generator)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients_are_the_cpus(name: str, across: bool, shape: tuple[int, ...]) -> None:
    dtype = _dtype()
    call, results, slopes = CALLS[name], [], []
    for place in ("cpu", "hologram"):
        operands = [x.to(place).requires_grad_() for x in _given(shape, dtype)]
        given = [x.mT.contiguous().mT if across else x for x in operands]
        results.append(call(*given))
        weighed = [
            (y.abs() * torch.linspace(0.5, 1.5, y.numel(), dtype=dtype, device=place).reshape(y.shape)).sum()
            for y in _tensors(results[-1])
            if y.requires_grad
        ]
        slopes.append(torch.autograd.grad(sum(weighed), operands, allow_unused=True) if weighed else ())
    _compare(results[1], results[0], dtype)
    _compare(slopes[1], slopes[0], dtype)


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 0), (0, 0)], ids=str)
@pytest.mark.parametrize("name", ["inv", "det", "slogdet", "lu", "solve", "svdvals", "eigvalsh", "qr"])
def test_nothing_to_do(name: str, shape: tuple[int, ...]) -> None:
    x, b = torch.ones(shape), torch.ones(*shape[:-1], 2)
    _compare(CALLS[name](x.to("hologram"), b.to("hologram")), CALLS[name](x, b), torch.float32)


SINGULAR = torch.stack([torch.eye(3), torch.ones(3, 3)])
REFUSALS: dict[str, Callable[[Any], Any]] = {
    "inv": linalg.inv,
    "inv_ex": lambda x: linalg.inv_ex(x, check_errors=True),
    "solve": lambda x: linalg.solve(x, x),
    "cholesky": lambda x: linalg.cholesky(-x),
    "cholesky_ex": lambda x: linalg.cholesky_ex(-x, check_errors=True),
    "not square": lambda x: linalg.inv(x[..., :2]),
    "integers": lambda x: linalg.inv(x.long()),
    "16 bits": lambda x: linalg.inv(x.half()),
    "a vector": lambda x: linalg.det(x[0, 0]),
    "no pivots": lambda x: linalg.lu_factor(x, pivot=False),
    "NaN": lambda x: linalg.eigvalsh(x * float("nan")),
}
if known("cholesky"):  # PyTorch 2.14 has it no more
    CALLS["torch.cholesky"] = lambda x, b: torch.cholesky(_definite(x))
if known("cholesky"):
    REFUSALS["torch.cholesky"] = lambda x: torch.cholesky(-x)


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_are_the_cpus(name: str) -> None:
    with pytest.raises(RuntimeError) as host:
        REFUSALS[name](SINGULAR)
    for _ in range(2):
        with pytest.raises(type(host.value)) as ours:
            REFUSALS[name](SINGULAR.to("hologram"))
        assert str(host.value)[:40] in str(ours.value)


def test_codes_are_told() -> None:
    for call in (linalg.inv_ex, lambda x: linalg.cholesky_ex(-x), linalg.lu_factor_ex):
        assert torch.equal(call(SINGULAR.to("hologram"))[-1].cpu(), call(SINGULAR)[-1])


def test_second_derivatives() -> None:
    dtype = _dtype()

    def slope(x: Any, b: Any) -> Any:
        found = linalg.solve(x, b).square().sum() + linalg.slogdet(x)[1] + linalg.inv(x).sum()
        (first,) = torch.autograd.grad(found, x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), [x, b])

    theirs = [x.requires_grad_() for x in _given((3, 3), dtype)]
    ours = [x.detach().to("hologram").requires_grad_() for x in theirs]
    _compare(slope(*ours), slope(*theirs), dtype)


def test_transforms() -> None:
    dtype = _dtype()
    x, b = _given((3, 4, 4), dtype)

    def found(x: Any, b: Any) -> Any:
        whole = torch.func.vmap(torch.func.grad(lambda x, b: linalg.solve(x, b).sum() + linalg.det(x)))(x, b)
        return whole, torch.func.jvp(linalg.inv, (x,), (x.mT,))

    _compare(found(x.to("hologram"), b.to("hologram")), found(x, b), dtype)


def test_outputs_given() -> None:
    x, _ = _given((3, 3), torch.float32)
    out = torch.empty(0, device="hologram")
    assert linalg.inv(x.to("hologram"), out=out) is out
    torch.testing.assert_close(out.cpu(), linalg.inv(x), rtol=1e-4, atol=1e-4)


def test_where_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What hologram has operations for never leaves the device; most complex matrices do, and what a GPU lacks."""
    before = {f.name: f.calls for f in torch.hologram.fallbacks()}
    x, b = (t.to("hologram") for t in _given((3, 3), torch.float32))
    for call in (
        "solve",
        "inv",
        "det",
        "lu_solve",
        "qr",
        "eigh",
        "eigvalsh",
        "svd",
        "svdvals",
        "pinv",
        "matrix_rank",
    ):
        CALLS[call](x, b)
    z = torch.complex(x, x.mT)
    for factors in (linalg.qr(z), linalg.svd(z), linalg.eigh(z + z.mH)):
        assert all(f.device.type == "hologram" for f in factors)
    assert {f.name: f.calls for f in torch.hologram.fallbacks()} == before
    linalg.lstsq(x, b)
    assert any(f.name == "linalg_lstsq" and f.by_design and f.bytes_moved for f in torch.hologram.fallbacks())
    monkeypatch.delenv("HOLOGRAM_HOST_LINALG")
    torch.hologram.reset_fallbacks()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            assert linalg.eigvals(x).shape == (3,)
    resident = torch.hologram.executor().limits.host_resident
    told = [str(w.message) for w in said if "HOLOGRAM_HOST_LINALG=1" in str(w.message)]
    assert len(told) == (0 if resident else 1)
    assert all("no kernels for aten::_linalg_eigvals" in text for text in told)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_complex_systems_by_factors(left: bool, adjoint: bool) -> None:
    torch.manual_seed(0)
    a, b = (torch.randn(2, 4, 4, dtype=torch.complex64) for _ in range(2))
    factors, pivots = linalg.lu_factor(a)
    found = linalg.lu_solve(*(t.to("hologram") for t in (factors, pivots, b)), left=left, adjoint=adjoint)
    a = a.mH if adjoint else a
    torch.testing.assert_close(a @ found.cpu() if left else found.cpu() @ a, b, rtol=1e-3, atol=1e-4)


def test_factors_of_complex_matrices() -> None:
    a = torch.randn(3, 3, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    a = a @ a.mH + torch.eye(3)
    torch.testing.assert_close(linalg.cholesky(a.to("hologram")).cpu(), linalg.cholesky(a))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (0, 0)])
def test_exponentials_of_halves(dtype: Any, shape: tuple[int, ...]) -> None:
    """Against f64: the numbers of PyTorch's CPU are none."""
    x = torch.randn(shape).to(dtype)
    there = x.to("hologram").requires_grad_()
    found = torch.linalg.matrix_exp(there)
    assert found.dtype == dtype
    near = 2 * torch.finfo(dtype).eps
    torch.testing.assert_close(
        found.detach().cpu().double(), torch.matrix_exp(x.double()), rtol=near, atol=near
    )
    found.sum().backward()
    wide = x.double().requires_grad_()
    torch.matrix_exp(wide).sum().backward()
    torch.testing.assert_close(there.grad.cpu().double(), wide.grad, rtol=8 * near, atol=8 * near)
