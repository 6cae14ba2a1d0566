"""Types are promoted as PyTorch's own element-wise operators promote them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from hologram_torch.kernels.promotion import Promotion, promoted  # noqa: E402

DTYPES = [
    *(torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128),
]
OPERANDS: list[Any] = [
    *(torch.ones(shape, dtype=dtype, device="meta") for dtype in DTYPES for shape in ((2,), ())),
    *(True, 1, 1.0, 1j),
]


@pytest.mark.parametrize("count", [1, 2])
def test_promotion_is_pytorchs(count: int) -> None:
    for operands in itertools.product(OPERANDS, repeat=count):
        tensors = [x for x in operands if isinstance(x, torch.Tensor)]
        if tensors:
            wanted = torch.result_type(*operands) if count == 2 else operands[0].dtype
            assert promoted(operands, Promotion.DEFAULT) == wanted, operands


@pytest.mark.parametrize(
    ("kind", "operator"),
    [
        (Promotion.INT_TO_FLOAT, torch.true_divide),
        (Promotion.ALWAYS_BOOL, torch.eq),
        (Promotion.DEFAULT, torch.mul),
    ],
)
def test_results_have_the_dtype_of_pytorchs(kind: Promotion, operator: Any) -> None:
    for x, y in itertools.product(OPERANDS, repeat=2):
        if isinstance(x, torch.Tensor) or isinstance(y, torch.Tensor):
            first, second = (x, y) if isinstance(x, torch.Tensor) else (y, x)
            assert promoted((first, second), kind) == operator(first, second).dtype, (x, y)


def test_other_kinds() -> None:
    assert promoted([torch.ones(1, dtype=torch.complex128)], Promotion.COMPLEX_TO_FLOAT) == torch.float64
    assert promoted([torch.ones(1, dtype=torch.bool)], Promotion.BOOL_TO_LONG) == torch.int64
    with pytest.raises(ValueError, match="got none"):
        promoted([], Promotion.DEFAULT)
