"""A backend that somebody else wrote is a folder and an entry point: the example of CONTRIBUTING runs everything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "abacus"

SCRIPT = """
import json
import numpy as np
import hologram as hg
from hologram.dtypes import f32

def step(x, w):
    return hg.softmax(hg.relu(x @ w) * 2.0 + 1.0, dim=-1)

x, w = (np.linspace(-1, 1, 12, dtype=np.float32).reshape(s) for s in ((3, 4), (4, 3)))
said = {"auto": hg.get_default_backend()}
with hg.Executor("abacus") as ex:
    a, b = ex.tensor(x), ex.tensor(w)
    jitted = hg.jit(step)
    explained = str(jitted.explain(a, b))
    with ex.profile() as profile:
        eager = step(a, b).to_numpy()
    buffer = ex.allocate(5).fill(3.0)
    said |= {
        "repr": repr(ex),
        "equal": bool(np.allclose(eager, jitted(a, b).to_numpy(), atol=1e-6)),
        "one": float(eager.sum()),
        "explained": "on abacus (beads on wires)" in explained and "reduce_add" in explained,
        "launches": len(profile.launches),
        "copied": ex.allocate(5).copy_from(buffer).to_numpy().tolist(),
        "dlpack": np.from_dlpack(buffer).tolist(),
        "adopted": ex.from_dlpack(x).to_numpy().tolist() == x.tolist(),
        "random": hg.random_uniform(ex, (3,), seed=1).to_numpy().tolist(),
    }
with hg.Executor("cpu") as cpu:
    said["same random"] = hg.random_uniform(cpu, (3,), seed=1).to_numpy().tolist() == said["random"]
(probe,) = (p for p in hg.backends() if p.backend == "abacus")
said |= {
    "probe": [device.name for device in probe.devices],
    "type": hg.BackendType.ABACUS,
    "valid": hg.validate_backend("abacus"),
    "chosen": hg.explain_selection("abacus").splitlines()[0],
}
print(json.dumps(said))
"""


@pytest.fixture(name="installed", scope="module")
def _installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of processes in which the example is installed, as pip would leave it."""
    site = tmp_path_factory.mktemp("site")
    found = site / "hologram_abacus-1.0.dist-info"
    found.mkdir()
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: hologram-abacus\nVersion: 1.0\n")
    text = (EXAMPLE / "pyproject.toml").read_text()
    _, _, entries = text.partition('[project.entry-points."hologram.backends"]\n')
    (found / "entry_points.txt").write_text("[hologram.backends]\n" + entries.replace('"', ""))
    path = os.pathsep.join(map(str, (site, EXAMPLE, ROOT)))
    return {k: v for k, v in os.environ.items() if k not in ("CI", "HOLOGRAM_BACKEND")} | {"PYTHONPATH": path}


def ran(installed: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=ROOT, env=installed, timeout=500
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def test_everything_knows_it(installed: dict[str, str]) -> None:
    said = json.loads(ran(installed, "-c", SCRIPT))
    assert said["repr"].startswith("Executor('abacus', 'beads on wires', number ")
    assert said["one"] == pytest.approx(3.0)
    assert said["launches"] > 0
    assert said["copied"] == said["dlpack"] == [3.0] * 5
    assert said["probe"] == ["beads on wires"]
    assert said["type"] == said["valid"] == "abacus"
    assert said["chosen"] == "abacus: beads on wires (device 0, Atlas' evaluator)"
    assert said["auto"] != "abacus"
    assert all(said[name] for name in ("equal", "explained", "adopted", "same random"))


def test_the_command_line_knows_it(installed: dict[str, str]) -> None:
    facts = json.loads(ran(installed, "-m", "hologram", "info", "--json"))
    assert [b["name"] for b in facts["backends"]][-2:] == ["cpu", "abacus"]
    kernels = json.loads(
        ran(installed, "-m", "hologram", "kernels", "matmul", "--backend", "abacus", "--json")
    )
    (matmul,) = kernels["operations"]
    assert matmul["generated"]
    assert not matmul["hand_written"]


def test_the_test_of_operations_is_its_own(installed: dict[str, str]) -> None:
    """The one test of operations, as CONTRIBUTING says; a slice of every form that operations have."""
    names = [
        "add-f32",
        "divide-i32",
        "softmax-f16",
        "matmul-f32",
        "conv2d-f32",
        "sum-i64",
        "sort-u8",
        "cumsum-f32",
    ]
    slice_ = ("tests/test_ops.py", "-k", " or ".join(names))
    out = ran(installed, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--backend", "abacus", *slice_)
    assert " passed" in out
    assert "skipped" not in out
