"""Products of tiles that the device copies by itself, on the emulated card: every tile, however operands lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.bindings", reason="cuda-python has no wheels for this platform")

import hologram as hg
from hologram.backends.cuda import kernel
from hologram.backends.cuda.compiler import NVRTC
from hologram.backends.cuda.dialect import cuda
from hologram.backends.cuda.launches import tensor_maps
from hologram.compiler.source.shader import load
from hologram.foundation import dtypes
from hologram.foundation.dtypes import DType
from hologram.machine.choices import Candidate
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target
from hologram.opset.tiles import product_bulk, product_tile
from hologram.opset.tiles.product import product_plan
from tests.backends.emulated import cuda as machine
from tests.backends.emulated.test_matrix_units import CARD, HALVES, choose, lying, numbers, planned, tiles
from tests.backends.emulated.test_mutants import Mutating, Text, failing

pytestmark = pytest.mark.usefixtures("installed")

HOPPER = replace(CARD, bulk_bytes=227 << 10)
WIDE, DEEP, SMALL = product_bulk.tiles(dtypes.f16, HOPPER)


@pytest.fixture(name="executor")
def _executor(installed: None) -> Iterator[hg.Executor]:
    with hg.Executor(backend=machine.NAME) as executor:
        yield executor


def multiplied(
    executor: hg.Executor, dtype: DType, left: str = "row", right: str = "row", k: int = 330
) -> None:
    """Workgroups beside one another, more turns than stages, and tails along m, n and k."""
    rng = np.random.default_rng(k)
    a, b = numbers(rng, 70, k), numbers(rng, k, 150)
    x, y = lying(executor, a, dtype, left), lying(executor, b, dtype, right)
    np.testing.assert_array_equal(hg.matmul(x, y).astype(hg.float32).to_numpy(), a @ b)


@pytest.mark.parametrize("right", ["row", "crossed"])
@pytest.mark.parametrize("left", ["row", "crossed"])
@pytest.mark.parametrize("candidate", [WIDE, SMALL], ids=str)
def test_every_tile_multiplies(candidate: Candidate, left: str, right: str, executor: hg.Executor) -> None:
    choose(executor, candidate)
    multiplied(executor, dtypes.bf16 if candidate is WIDE else dtypes.f16, left, right)


def test_batches_with_an_epilogue(executor: hg.Executor) -> None:
    """Matrices one behind the other, and one for all."""
    rng = np.random.default_rng(1)
    choose(executor, SMALL)
    for shapes in (((3, 20, 40), (3, 40, 24)), ((2, 20, 72), (72, 16)), ((24, 40), (3, 40, 24))):
        a, b = (numbers(rng, *s) for s in shapes)
        x, y = (executor.tensor(i).astype(hg.float16) for i in (a, b))
        found = hg.jit(lambda x, y: hg.relu(hg.matmul(x, y)) + 1.0)(x, y)
        np.testing.assert_array_equal(found.to_numpy(), np.maximum(a @ b, 0) + 1)


@pytest.mark.parametrize("parts", [2, 4])
def test_parts_of_a_long_sum(parts: int, executor: hg.Executor) -> None:
    rng = np.random.default_rng(0)
    a, b, bias = numbers(rng, 40, 1032), numbers(rng, 30, 1032), numbers(rng, 30)
    choose(executor, replace(SMALL, parts=parts))
    x, weight, offset = (executor.tensor(i).astype(hg.bfloat16) for i in (a, b, bias))
    found = hg.linear(x, weight, offset, activation="relu").astype(hg.float32).to_numpy()
    np.testing.assert_array_equal(found, np.maximum(a @ b.T + bias, 0))


# Plans.


def stems(plan: Plan) -> list[str]:
    return [tile.stem for tile in tiles(plan)]


def test_what_the_device_cannot_copy_goes_to_the_other_kernel() -> None:
    """As it lies, or by the copy that is made of it anyway."""

    def of(a: Layout, b: Layout, candidate: Candidate | None = SMALL) -> list[str]:
        shape = (*a.shape[:-2], a.shape[-2], b.shape[-1])
        out = Layout.contiguous(dtypes.f16, shape)
        return stems(product_plan(a, b, out, dtypes.f16, Target(HOPPER, lambda problem: candidate)))

    b = Layout.contiguous(dtypes.f16, (64, 128))
    whole = Layout.contiguous(dtypes.f16, (128, 80))
    heads = Layout.contiguous(dtypes.f16, (64, 4, 64)).permute((1, 0, 2))  # lie in one another
    assert of(whole.narrow(1, 8, 64), b) == [product_bulk.BULK.stem]
    assert of(Layout.contiguous(dtypes.f32, (127, 63)), b.narrow(0, 0, 63)) == [product_bulk.BULK.stem]
    same = Layout.contiguous(dtypes.f16, (1, 64)).expand((128, 64))  # rows
    for a in (same, whole.narrow(1, 4, 64), Layout.contiguous(dtypes.f16, (128, 70)).narrow(1, 0, 64), heads):
        assert of(a, b) == [product_tile.UNITS.stem]
    assert stems(planned(dtypes.f32, (128, 64, 128), HOPPER.rounding(), SMALL)) != [product_bulk.BULK.stem]


def test_large_products_are_copied_in_bulk() -> None:
    chosen = [
        product_tile.default(sizes, dtypes.f16, HOPPER)
        for sizes in ((1, 4096, 4096, 4096), (1, 1500, 512, 1500), (1, 512, 512, 512), (1, 64, 4096, 65536))
    ]
    assert chosen[:2] == [WIDE, DEEP]
    assert [c.stem for c in chosen[2:]] == [product_tile.UNITS.stem] * 2
    assert {c.stem for c in product_tile.candidates((1, 512, 512, 512), dtypes.bf16, HOPPER)} == {
        product_bulk.BULK.stem, product_tile.UNITS.stem, "matmul",
    }  # fmt: skip


@pytest.mark.parametrize(("architecture", "found"), [(89, 0), (90, 227 << 10), (100, 0), (120, 0)])
def test_only_the_architecture_that_has_the_units_says_so(architecture: int, found: int) -> None:
    """And the others multiply by the units that they have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "Driver", partial(machine.Driver, architecture=architecture))
        with hg.Executor(backend=machine.NAME) as executor:
            assert executor.limits.bulk_bytes == found
            stem = product_bulk.BULK.stem if found else product_tile.UNITS.stem
            assert stems(planned(dtypes.bf16, (4096, 64, 4096), executor.limits)) == [stem]
            multiplied(executor, dtypes.bf16)


def test_nvrtc_compiles_it() -> None:
    for number, candidate in enumerate((WIDE, DEEP, SMALL)):
        for dtype in HALVES:
            (tile,) = tiles(planned(dtype, (304, 304, 305 - number % 2), HOPPER, candidate))
            text = load(tile, cuda()).text
            assert tile.name.encode() in NVRTC(90).compile(tile.name, text)


# Planted errors.


def long(executor: hg.Executor) -> None:
    """More turns than stages, and operands that lie along k and across."""
    choose(executor, SMALL)
    multiplied(executor, dtypes.f16)
    multiplied(executor, dtypes.f16, "crossed", "crossed")


TEXTS = {
    "no fence before products": (r"start_products\(\);", ""),
    "products that nobody commits": (r"commit_products\(\);", ""),
    "sums that nobody waits for": (r"wait_for_products<0>\(\);", ""),
    "a stage given back too soon": (r"wait_for_products<1>\(\);", ""),
    "the stage in use given back": (r"empty \+ \(turn - 1\) % STAGES", "empty + turn % STAGES"),
    "tiles that nobody waits for": (r"wait_for_phase\(full \+ stage, .*\);", ""),
    "stages filled while in use": (r"wait_for_phase\(empty \+ stage, .*\);", ""),
    "a phase of the wrong parity": (r"turn / STAGES % 2 \^ 1", "turn / STAGES % 2"),
    "a phase too early": (r"full \+ stage, turn / STAGES % 2\)", "full + stage, turn / STAGES % 2 ^ 1)"),
    "fewer bytes than come": (r"full \+ stage, STAGE_BYTES\)", "full + stage, A_BYTES)"),
    "more bytes than come": (r"full \+ stage, STAGE_BYTES\)", "full + stage, STAGE_BYTES + 16)"),
    "arrivals of too few": (r"init_barrier\(empty \+ stage, SUBGROUPS\)", "init_barrier(empty + stage, 1)"),
    "barriers that others do not see": (r"__syncthreads\(\);", ""),
    "groups of lines elsewhere": (r"EIGHT_LINES = 8 \* LINE_BYTES", "EIGHT_LINES = 4 * LINE_BYTES"),
    "boxes of columns elsewhere": (r"A_BYTES, BOX_BYTES, EIGHT", "A_BYTES, EIGHT_LINES, EIGHT"),
    "steps along k of other lines": (r"B_ALONG_K \? sizeof\(T\) : LINE_BYTES", "B_ALONG_K ? LINE_BYTES : sizeof(T)"),
    "lines taken for turned": (r"<!A_ALONG_K, !B_ALONG_K>", "<!A_ALONG_K, B_ALONG_K>"),
    "rows of another subgroup": (r"first_row \+ 16 \* subgroup", "first_row + 8 * subgroup"),
    "a box of other columns": (r"first_column \+ i \* BOX, step", "first_column, step"),
    "stages that overlap": (r"tiles \+ stage \* STAGE_BYTES;", "tiles + stage * A_BYTES;"),
}  # fmt: skip


@pytest.mark.parametrize(("correct", "wrong"), TEXTS.values(), ids=[name.replace(" ", "_") for name in TEXTS])
def test_an_error_in_the_kernel_is_caught(correct: str, wrong: str) -> None:
    compiler = Mutating(Text(correct, wrong, long))
    with failing(hg.CompileError) as executor:
        opened: Any = executor.device
        opened.kernel_context = replace(opened.kernel_context, compiler=compiler)
        long(executor)
    assert compiler.planted, "the text has no such place: this planted nothing"


def map_of_other_sizes(patch: pytest.MonkeyPatch) -> None:
    """Rows past the last one are not zeros, and another's memory."""
    encoded = tensor_maps.encoded
    patch.setattr(
        tensor_maps, "encoded",
        lambda context, tensor, dtype, address, scalars: encoded(
            context, tensor, dtype, address, {**scalars, "a_lines": scalars["a_lines"] + 200}
        ),
    )  # fmt: skip


def boxes_too_small(patch: pytest.MonkeyPatch) -> None:
    encoded = tensor_maps.encoded
    patch.setattr(
        tensor_maps, "encoded",
        lambda context, tensor, *rest: encoded(context, replace(tensor, box=(*tensor.box[:1], 32, 1)), *rest),
    )  # fmt: skip


def unaligned_map(patch: pytest.MonkeyPatch) -> None:
    encoded = tensor_maps.encoded
    patch.setattr(
        tensor_maps, "encoded",
        lambda context, tensor, dtype, address, scalars: encoded(context, tensor, dtype, address + 8, scalars),
    )  # fmt: skip


def no_shared_memory_asked_for(patch: pytest.MonkeyPatch) -> None:
    arguments = kernel.CudaKernel.arguments
    patch.setattr(
        kernel.CudaKernel, "arguments", lambda self, *of: arguments(self, *of)._replace(shared_bytes=0)
    )


def more_shared_memory_than_allowed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(machine.Driver, "cuKernelSetAttribute", lambda self, *rest: (0,))


@pytest.mark.parametrize(
    "plant",
    [map_of_other_sizes, boxes_too_small, unaligned_map, no_shared_memory_asked_for, more_shared_memory_than_allowed],
)  # fmt: skip
def test_an_error_of_a_launch_is_caught(plant: Callable[[pytest.MonkeyPatch], None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        with failing() as executor:
            long(executor)


def test_what_is_no_tensor_of_the_device_goes_another_way() -> None:
    plain = Layout.contiguous(dtypes.f16, (3, 64, 64))
    assert product_bulk.mapped(plain, 2) is not None
    assert product_bulk.mapped(plain.permute((0, 2, 1)), 2) is not None
    same_lines = Layout(dtypes.f16, (1, 64, 64), (0, 0, 1), 0)
    same_everywhere = Layout(dtypes.f16, (2, 64, 64), (0, 0, 0), 0)
    overlapping = Layout(dtypes.f16, (1, 64, 64), (0, 32, 1), 0)
    backward = Layout(dtypes.f16, (1, 64, 64), (0, -64, 1), 63 * 64)
    for view in (same_lines, same_everywhere, overlapping, backward, plain.narrow(2, 1, 40)):
        assert product_bulk.mapped(view, 2) is None
    out = Layout.contiguous(dtypes.f16, (64, 64))
    for view in (same_lines, backward, overlapping):
        one = view.select(0, 0)
        assert product_plan(one, one, out, dtypes.f16, Target(CARD)).steps
