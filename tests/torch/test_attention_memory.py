"""Memory of attention, measured by the system in processes of their own: beside the host's, and by length."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

PREFILL = """
import sys
import torch
if sys.argv[1] == "hologram":
    import hologram_torch


def known(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name))


def attend(length):
    q, k, v = (torch.randn(1, heads, length, 64).to(sys.argv[1]) for heads in (32, 4, 4))
    with torch.no_grad():
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).sum().item()


attend(64)
before = known("VmRSS")
attend(int(sys.argv[2]))
print(known("VmHWM") - before)
"""


def peaks_kib(program: str, *arguments: object) -> list[int]:
    """The memory that a process takes beyond what it has after its first, small call: the most up to each print."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    environment = os.environ | {"HOLOGRAM_CPU_OPTIMISE": "1"}  # it computes for longer than it compiles
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr[-2000:]
    return list(map(int, run.stdout.split()))


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the system's figures are read as Linux has them"
)
def test_a_prefill_of_heads_that_share_keys_takes_no_more_than_the_host_s() -> None:
    """Of 2,048 tokens and 8 heads a key: scores of all would be 512 MiB, keys for each head 16 MiB."""
    (theirs,), (mine,) = (peaks_kib(PREFILL, device, 2048) for device in ("cpu", "hologram"))
    assert mine < 1.3 * theirs, (mine, theirs)  # keys for each head would make it 1.9


TRAINING = """
import sys
import torch
import hologram_torch


def known(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name))


def train(length):
    dtype = getattr(torch, sys.argv[1])
    given = [torch.randn(1, heads, length, 64).to(dtype).to("hologram").requires_grad_() for heads in (16, 2, 2)]
    result = torch.nn.functional.scaled_dot_product_attention(*given, is_causal=True, enable_gqa=True)
    result.sum().backward()
    return [x.grad.float().sum().item() for x in given]


train(64)
before = known("VmRSS")
for length in sys.argv[2:]:
    train(int(length))
    print(known("VmHWM") - before)
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the system's figures are read as Linux has them"
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_training_takes_memory_linear_in_the_length(dtype: str) -> None:
    """Of 16 heads that share 2 keys: scores of all would be 16 and 256 MiB in f32."""
    short, long = peaks_kib(TRAINING, dtype, 512, 2048)
    assert long < 192 << 10, (short, long)
    assert long < 8 * short, (short, long)  # 16 times, were scores kept
