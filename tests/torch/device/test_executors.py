"""One device has one executor, whichever of the two worlds uses it first; and another only where somebody opens one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
import numpy as np  # noqa: E402

import hologram as hg  # noqa: E402
import hologram_torch  # noqa: E402, F401
from hologram_torch.packed import PackedLinear  # noqa: E402

START = """
import hologram as hg, torch, threading, os
def theirs(): return torch.ones(2, device="hologram").sum() and torch.hologram.executor()
def ours(): return hg.ones(2).executor
"""
ORDERS = {
    "PyTorch first": "a, b = theirs(), ours(); a.close(); c, d = ours(), theirs(); assert c is d is not a",
    "hologram first": "b, a = ours(), theirs(); a.close(); c, d = theirs(), ours(); assert c is d is not a",
    "in threads": (
        "found = []\n"
        "threads = [threading.Thread(target=lambda f=f: found.append(f())) for f in [theirs, ours] * 4]\n"
        "[t.start() for t in threads], [t.join() for t in threads]\n"
        "a, b = found[0], found[1]; assert len(set(found)) == 1 and len(found) == 8"
    ),
    "within another": (
        "with hg.Executor() as mine, hg.use_executor(mine):\n"
        "    a = theirs(); assert ours() is mine is not a\n"
        "b = ours(); hg.set_default_executor(hg.Executor()); assert theirs() is a is not ours()\n"
        "hg.set_default_executor(None); assert ours() is a"
    ),
}


@pytest.mark.parametrize("name", ORDERS)
def test_both_worlds_share_an_executor(name: str) -> None:
    _run(f"{START}{ORDERS[name]}\nassert a is b, (a, b)")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_opens_its_own_for_both() -> None:
    _run(
        "import os; os.environ['HOLOGRAM_BACKEND'] = 'cpu'"  # a driver of graphics does not outlive a fork
        f"{START}ours()\n"
        "if os.fork() == 0:\n"
        "    a, b = theirs(), ours()\n"
        "    os._exit(0 if a is b else 3)\n"
        "assert os.wait()[1] == 0"
    )


def _run(program: str) -> None:
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert said.returncode == 0, said.stderr


@pytest.mark.parametrize("mine", [False, True])
def test_packed_modules_move_from_whichever_executor(mine: bool) -> None:
    weights = np.random.default_rng(0).standard_normal((32, 16)).astype(np.float32)
    torch.ones(3, device="hologram").sum().item()
    executor = torch.hologram.executor()
    if mine:
        executor = hg.Executor(executor.backend, executor.device.info.index)
    with hg.use_executor(executor):
        module = PackedLinear(hg.Packed.quantize(weights, "int8"), torch.zeros(32)).to("hologram")
    x = torch.arange(32.0).reshape(2, 16) / 32
    torch.testing.assert_close(
        module(x.to("hologram")).cpu(), x @ torch.tensor(weights).T, rtol=0.02, atol=0.05
    )


def test_arrays_and_tensors_mix() -> None:
    x = torch.arange(3.0, device="hologram")
    mine = hg.from_dlpack(x)
    if torch.hologram.executor().limits.host_resident:
        assert mine.executor is torch.hologram.executor()
        with hg.use_executor(torch.hologram.executor()):
            assert (mine + hg.ones(3)).tolist() == [1, 2, 3]
