"""A fixed part of PyTorch's operator database in other layouts; `python -m tests.conformance.strides` runs it all."""

from __future__ import annotations

import zlib

import pytest

torch = pytest.importorskip("torch")

import hologram_torch  # noqa: E402, F401
from hologram_torch.device.devices import devices  # noqa: E402
from tests.conformance import strides  # noqa: E402

PART = 12  # one entry of so many
# Once row by row where the host keeps the order of axes, or the other way about.
ALWAYS = """
__getitem__ argwhere copysign div.floor_rounding fft.irfftn index_select linalg.eig linalg.lstsq linalg.svd
native_batch_norm nn.functional.channel_shuffle nn.functional.conv2d nn.functional.conv_transpose2d
nn.functional.huber_loss nn.functional.max_unpool2d nn.functional.pad.replicate_negative nn.functional.pixel_shuffle
nonzero resize_as_ view_copy
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("group", range(4))
def test_results_gradients_and_outputs_lie_as_the_hosts(backend: str, group: int) -> None:
    index = next((k for k, place in enumerate(devices.places) if place.backend == backend), None)
    if index is None:
        pytest.skip(f"no device of {backend} here")
    known = [(node, zlib.crc32(node.name.encode())) for node in strides.of_floats()]
    chosen = [
        node
        for node, number in known
        if (number % PART == 0 or node.name.partition(":")[0] in ALWAYS.split())
        and number // PART % 4 == group
    ]
    assert len(chosen) > 5
    assert [x for node in chosen for x in strides.differences(node, f"hologram:{index}")] == []


def test_entries_apart_exist() -> None:
    assert strides.APART.keys() <= {entry.name for entry in strides.op_db}
