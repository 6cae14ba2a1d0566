"""Products with weights of 8 and 4 bits and with floats of 8 bits: against float64, and PyTorch's CPU."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401

aten = torch.ops.aten
FLOATS = {torch.float32: 2.0**-15, torch.float16: 2.0**-9, torch.bfloat16: 2.0**-6}
EACH = pytest.mark.parametrize("dtype", FLOATS, ids=str)
SHAPES = [(1, 64, 16), (3, 37, 5), (16, 96, 33), (20, 33, 128), (0, 32, 5), (3, 0, 5), (2, 32, 0)]
E4, E5 = torch.float8_e4m3fn, torch.float8_e5m2


def there(x: Any) -> Any:
    return (
        x.to("hologram")
        if isinstance(x, torch.Tensor)
        else [there(t) for t in x]
        if isinstance(x, list)
        else x
    )


def close(found: Any, x: Any, weights: Any, dtype: Any) -> None:
    """Whether results are x @ weights.T but for a part of the magnitudes; see docs/packed.md."""
    assert (found.device.type, found.dtype) == ("hologram", dtype)
    wanted = x.double() @ weights.T
    assert found.shape == wanted.shape
    if not wanted.numel() or not x.shape[1]:
        assert not found.cpu().any()
        return
    bound = FLOATS[dtype] * x.double().abs().amax(1, keepdim=True) * weights.abs().sum(1)
    assert ((found.cpu().double() - wanted).abs() <= bound).all()


def bytes_(*shape: int) -> Any:
    return torch.randint(-128, 128, shape, dtype=torch.int8)


@EACH
@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
def test_bytes_with_a_scale_a_row(dtype: Any, m: int, k: int, n: int) -> None:
    torch.manual_seed(0)
    x, codes, scales = torch.randn(m, k).to(dtype), bytes_(n, k), (torch.rand(n) + 0.1).to(dtype)
    weights = codes.double() * scales.double()[:, None]
    close(aten._weight_int8pack_mm(there(x), there(codes), there(scales)), x, weights, dtype)
    if dtype == torch.float32 and k:
        wanted = aten._weight_int8pack_mm(x, codes, scales)
        found = aten._weight_int8pack_mm(there(x), there(codes), there(scales)).cpu()
        torch.testing.assert_close(
            found, wanted, rtol=1e-4, atol=1e-4 * float(wanted.abs().max() if m * n else 0)
        )


def test_weights_that_change_are_seen() -> None:
    x, codes, scales = torch.randn(2, 64), bytes_(16, 64), torch.rand(16)
    on = [there(t) for t in (x, codes, scales)]
    for _ in range(3):
        close(aten._weight_int8pack_mm(*on), x, codes.double() * scales.double()[:, None], torch.float32)
        on[1].add_(1)
        codes += 1
        on[2].mul_(0.5)
        scales *= 0.5


def int4(n: int, k: int, group: int, dtype: Any) -> tuple[Any, Any, Any]:
    """Codes, scales and zeros, and the weights."""
    codes, pairs = torch.randint(0, 16, (n, k), dtype=torch.int32), torch.randn(k // group, n, 2).to(dtype)
    each = pairs.double().transpose(0, 1).repeat_interleave(group, 1)
    return codes, pairs, (codes - 8) * each[..., 0] + each[..., 1]


@EACH
@pytest.mark.parametrize(("m", "k", "n", "group"), [(1, 64, 16, 32), (3, 256, 48, 128), (20, 512, 32, 256)])
def test_four_bits_in_groups(dtype: Any, m: int, k: int, n: int, group: int) -> None:
    torch.manual_seed(1)
    x = torch.randn(m, k).to(dtype)
    codes, pairs, weights = int4(n, k, group, dtype)
    pairs_there = there(pairs)
    rows = aten._convert_weight_to_int4pack_for_cpu(there(codes), 2)
    close(aten._weight_int4pack_mm_for_cpu(there(x), rows, group, pairs_there), x, weights, dtype)
    for tiles in (2, 4):
        packed = aten._convert_weight_to_int4pack(
            there((codes[:, ::2] << 4 | codes[:, 1::2]).to(torch.uint8)), tiles
        )
        assert packed.shape == (n // 8, k // (tiles * 16), 32, tiles // 2)
        close(aten._weight_int4pack_mm(there(x), packed, group, pairs_there), x, weights, dtype)
    wanted = aten._weight_int4pack_mm_for_cpu(
        x, aten._convert_weight_to_int4pack_for_cpu(codes, 2), group, pairs
    )
    found = aten._weight_int4pack_mm_for_cpu(there(x), rows, group, pairs_there).cpu()
    near = 2 * FLOATS[dtype] * float(weights.abs().sum(1).max())
    torch.testing.assert_close(found, wanted, rtol=0, atol=near)


def test_scales_of_groups_are_turned_round_once() -> None:
    codes, pairs, weights = int4(16, 64, 32, torch.float32)
    x, pairs_there = torch.randn(2, 64), there(pairs)
    packed = aten._convert_weight_to_int4pack_for_cpu(there(codes), 2)
    close(aten._weight_int4pack_mm_for_cpu(there(x), packed, 32, pairs_there), x, weights, torch.float32)
    kept = pairs_there.untyped_storage().kept["pairs"]
    close(aten._weight_int4pack_mm_for_cpu(there(x), packed, 32, pairs_there), x, weights, torch.float32)
    assert pairs_there.untyped_storage().kept["pairs"] is kept
    pairs_there.mul_(2)
    close(aten._weight_int4pack_mm_for_cpu(there(x), packed, 32, pairs_there), x, weights * 2, torch.float32)


@pytest.mark.parametrize(("m", "k", "n"), [*SHAPES, (17, 3000, 33)])
def test_integers_are_exact(m: int, k: int, n: int) -> None:
    a, b = bytes_(m, k), bytes_(n, k).t()
    found = aten._int_mm(there(a), there(b))
    assert (found.dtype, found.device.type) == (torch.int32, "hologram")
    assert found.cpu().equal((a.long() @ b.long()).int())
    assert aten._int_mm(there(a), there(b.contiguous()), out=torch.empty_like(found)).cpu().equal(found.cpu())


def test_the_largest_sums_are_exact() -> None:
    a, b = torch.full((3, 5000), -128, dtype=torch.int8), torch.full((5000, 2), -128, dtype=torch.int8)
    assert (aten._int_mm(there(a), there(b)).cpu() == 5000 * 2**14).all()


def floats(dtype: Any, *shape: int) -> Any:
    return torch.randn(shape).to(dtype)


@pytest.mark.parametrize("right", [E4, E5], ids=str)
@pytest.mark.parametrize("left", [E4, E5], ids=str)
@pytest.mark.parametrize(("m", "k", "n"), [(3, 32, 16), (20, 33, 7), (1, 64, 48), (3, 0, 7), (0, 33, 7)])
def test_scaled_floats_of_8_bits(left: Any, right: Any, m: int, k: int, n: int) -> None:
    torch.manual_seed(2)
    a, b = floats(left, m, k), floats(right, n, k).t()
    scales = [(torch.rand(()) + 0.5, torch.rand(()) + 0.5)]
    if m and torch.__version__ >= "2.12":  # before, PyTorch's CPU takes one scale for all
        scales += [(torch.rand(m, 1) + 0.5, torch.rand(1, n) + 0.5)]
    for scale_a, scale_b in scales:
        weights = b.double() * scale_b
        exact = a.double() * scale_a @ weights
        for second in (b, b.contiguous()):
            given = [there(t) for t in (a, second, scale_a, scale_b)]
            found = aten._scaled_mm(*given, out_dtype=torch.float32)
            torch.testing.assert_close(found.cpu().double(), exact, rtol=1e-5, atol=1e-4)
        for settings in (
            {},
            {"out_dtype": torch.bfloat16},
            {"out_dtype": torch.float16, "bias": torch.randn(n).half()},
            {"out_dtype": torch.float32, "bias": torch.randn(n)},
            {"out_dtype": E5, "scale_result": torch.tensor(4.0)},
        ):
            wanted = aten._scaled_mm(a, b, scale_a, scale_b, **settings)
            there_ = {name: there(value) for name, value in settings.items()}
            found = aten._scaled_mm(*(there(t) for t in (a, b, scale_a, scale_b)), **there_)
            assert (found.dtype, found.stride()) == (wanted.dtype, wanted.stride())
            step = {E4: 2.0**-3, E5: 2.0**-2, torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}
            near = step.get(wanted.dtype, 1e-5)
            # Not PyTorch's own numbers: for no columns it gives what its memory held.
            result = (exact + settings.get("bias", 0)) / settings.get("scale_result", 1)
            rounded = result.float().to(wanted.dtype).double()
            torch.testing.assert_close(found.cpu().double(), rounded, rtol=near, atol=1e-4)


def test_scales_by_recipe() -> None:
    a, b = floats(E4, 3, 32), floats(E4, 16, 32).t()
    for recipe, scale_a, scale_b in (
        (0, torch.rand(1), torch.rand(1)),
        (1, torch.rand(3, 1), torch.rand(1, 16)),
    ):
        given = (a, b, [scale_a], [recipe], [0], [scale_b], [recipe], [0], None, torch.float32)
        found = aten._scaled_mm_v2(*map(there, given))
        torch.testing.assert_close(found.cpu(), aten._scaled_mm_v2(*given), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("m", [1, 3, 20])
def test_a_weight_that_is_nan_spoils_its_own_column_alone(m: int) -> None:
    """Rows of 17 weights fill no unit of 32: behind each lies the next one."""
    torch.manual_seed(3)
    a, b = floats(E4, m, 17), floats(E4, 4, 17)
    b[1, 0] = float("nan")
    one = there(torch.ones(()))
    found = aten._scaled_mm(there(a), there(b).t(), one, one, out_dtype=torch.float32).cpu()
    torch.testing.assert_close(found, a.float() @ b.float().t(), equal_nan=True)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("_weight_int8pack_mm", (torch.randn(3, 37).double(), bytes_(5, 37), torch.rand(5).double())),
        ("_weight_int8pack_mm", (torch.randn(3, 37), bytes_(5, 37), torch.rand(5).bfloat16())),
        ("_weight_int8pack_mm", (torch.randn(3, 37), bytes_(5, 36), torch.rand(5))),
        ("_weight_int8pack_mm", (torch.randn(3, 37), bytes_(5, 37), torch.rand(5, 1))),
        ("_weight_int8pack_mm", (torch.randn(3, 37), bytes_(37, 5).t(), torch.rand(5))),
        ("_weight_int8pack_mm", (torch.randn(2, 3, 37), bytes_(5, 37), torch.rand(5))),
        ("_convert_weight_to_int4pack_for_cpu", (torch.zeros(8, 64, dtype=torch.int32), 2)),
        ("_convert_weight_to_int4pack_for_cpu", (torch.zeros(16, 64), 2)),
        ("_weight_int4pack_mm_for_cpu",
         (torch.randn(3, 64), torch.zeros(16, 32, dtype=torch.uint8), 16, torch.rand(4, 16, 2))),
        ("_weight_int4pack_mm_for_cpu",
         (torch.randn(3, 64), torch.zeros(16, 32, dtype=torch.uint8), 32, torch.rand(2, 16, 2).half())),
        ("_int_mm", (bytes_(3, 5), bytes_(6, 4))),
        ("_int_mm", (torch.randn(3, 5), torch.randn(5, 4))),
        ("_scaled_mm", (floats(E4, 3, 32), floats(E4, 16, 32).t(), torch.rand(3, 1), torch.rand(()))),
        ("_scaled_mm", (torch.randn(3, 32), torch.randn(16, 32).t(), torch.rand(()), torch.rand(()))),
        ("_scaled_mm", (floats(E4, 3, 31), floats(E4, 16, 32).t(), torch.rand(()), torch.rand(()))),
        ("_scaled_mm", (floats(E4, 3, 32), floats(E4, 16, 32).t(), torch.rand(()), torch.rand(()), torch.rand(1))),
    ],
)  # fmt: skip
def test_what_pytorch_refuses(name: str, given: Any) -> None:
    call = getattr(aten, name)
    with pytest.raises(Exception) as wanted:
        call(*given)
    with pytest.raises(wanted.type):
        call(*map(there, given))


def test_compiled() -> None:
    x, codes, scales = torch.randn(3, 64), bytes_(16, 64), torch.rand(16)
    four, pairs, weights = int4(16, 64, 32, torch.float32)
    packed = aten._convert_weight_to_int4pack(there((four[:, ::2] << 4 | four[:, 1::2]).to(torch.uint8)), 2)

    def both(x: Any, codes: Any, scales: Any, packed: Any, pairs: Any) -> Any:
        y = torch.relu(aten._weight_int8pack_mm(x, codes, scales)) + 1
        return y, aten._weight_int4pack_mm(x, packed, 32, pairs)

    compiled = torch.compile(both, backend="hologram", fullgraph=True)
    eight, four_bits = compiled(*map(there, (x, codes, scales)), packed, there(pairs))
    wanted = torch.relu(x.double() @ (codes.double() * scales.double()[:, None]).T) + 1
    torch.testing.assert_close(eight.cpu().double(), wanted, rtol=1e-3, atol=0.05)
    close(four_bits, x, weights, torch.float32)
