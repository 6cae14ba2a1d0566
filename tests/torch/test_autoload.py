"""`import torch` finds the device, cheaply, without a GPU's or another package's place being taken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import hologram_autoload  # noqa: E402
from hologram_torch import accelerator  # noqa: E402

BUDGET_MS = 40.0
UNASKED = {
    name: value for name, value in os.environ.items() if name not in ("HOLOGRAM_BACKEND", "HOLOGRAM_DEVICE")
}

FOUND = """
import json, sys, torch
from torch._inductor import compile_fx

def loaded(): return sorted(n for n in sys.modules if n.split(".")[0] in ("hologram", "wgpu", "llvmlite"))

torch.manual_seed(7)
torch.nn.Linear(2, 2).to(torch.float64)
said = {"before": loaded(), "module": torch.hologram.is_available()}
said["seeded"] = "hologram_torch.computing" in sys.modules
said["accelerator"] = str(torch.accelerator.current_accelerator())
said["count"] = torch.accelerator.device_count()
model = torch.nn.Linear(3, 1)
kept = model.weight
model.to("hologram")
said["same"] = kept is model.weight and kept.device.type == "hologram"
torch.set_default_device("hologram")
said["default"] = torch.get_default_device().type
first = torch.rand(3)
torch.manual_seed(7)
said["drawn"] = torch.equal(first, torch.rand(3))
said["after"] = str(torch.accelerator.current_accelerator())
print(json.dumps(said))
"""

COST = """
import sys, time, torch
known = hasattr(torch, "hologram")
start = time.process_time()  # others' work is not ours
import hologram_autoload
hologram_autoload.load()
print(known, hasattr(torch, "hologram"), 1e3 * (time.process_time() - start))
"""

BROKEN = """
import warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import torch
print([str(w.message) for w in said if "hologram" in str(w.message)], float(torch.ones(2).sum()))
"""


def said(program: str, folder: Path | None = None, **variables: str) -> str:
    """What a fresh interpreter prints, which keeps byte code as those of users do."""
    environment = {**UNASKED, "PYTHONDONTWRITEBYTECODE": "", **variables}
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, cwd=folder)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_importing_torch_is_enough() -> None:
    found = json.loads(said(FOUND))
    here = accelerator.on_gpu()
    assert found == {
        "before": [],
        "module": True,
        "seeded": False,
        "accelerator": "hologram" if here else "None",
        "count": torch.hologram.device_count() if here else 0,
        "same": True,
        "default": "hologram",
        "drawn": True,
        "after": "hologram",
    }


def test_memory_is_pinned_before_the_device_is_used() -> None:
    program = "import torch; print(torch.ones(2).pin_memory().is_pinned())"
    assert said(program, HOLOGRAM_BACKEND="cpu").split() == ["True"]


def test_a_library_that_imports_torch_is_adapted_once_it_is_there() -> None:
    """The device is found while accelerate.accelerator is still being executed."""
    pytest.importorskip("accelerate")
    first = "import accelerate; print(accelerate.Accelerator().device)"
    program = f"import warnings; warnings.simplefilter('error', RuntimeWarning); {first}"
    assert said(program, HOLOGRAM_BACKEND="cpu").split() == ["hologram:0"]


def test_it_costs_little_and_can_be_turned_off() -> None:
    costs = []
    for _ in range(3):
        before, after, cost = said(COST, TORCH_DEVICE_BACKEND_AUTOLOAD="0").split()
        assert (before, after) == ("False", "True")
        costs.append(float(cost))
        if costs[-1] < BUDGET_MS:
            break
    assert min(costs) < BUDGET_MS


def test_half_an_installation_leaves_torch_alone(tmp_path: Path) -> None:
    package = tmp_path / "hologram_torch"
    package.mkdir()
    (package / "__init__.py").write_text("import of_which_nobody_has_heard")
    printed = said(BROKEN, tmp_path, PYTHONPATH=str(tmp_path))
    assert "not a device of this PyTorch: No module named 'of_which_nobody_has_heard'" in printed
    assert printed.rstrip().endswith("2.0")


def test_an_accelerator_of_torch_s_keeps_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not hologram_autoload.theirs(tmp_path)
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(sys, "platform", "linux")
    assert not hologram_autoload.theirs(tmp_path)
    (tmp_path / "kfd").touch()
    assert not hologram_autoload.theirs(tmp_path)  # a card of AMD's, and PyTorch for NVIDIA's
    (tmp_path / "nvidia0").touch()
    assert hologram_autoload.theirs(tmp_path)
    (tmp_path / "nvidia0").unlink()
    monkeypatch.setattr(torch.version, "hip", "7.0")
    assert hologram_autoload.theirs(tmp_path)
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: False)
    assert not hologram_autoload.theirs(tmp_path)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert hologram_autoload.theirs(tmp_path)


@pytest.mark.parametrize(
    ("text", "asks"), [("", False), ("auto", False), (" AUTO ", False), ("cpu", True), ("no", True)]
)
def test_a_backend_s_name_asks_for_the_device(text: str, asks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLOGRAM_BACKEND", text)
    assert hologram_autoload.asked() is asks


@pytest.mark.parametrize("claimed", [False, True])
@pytest.mark.parametrize("gpu", [False, True])
def test_the_accelerator_is_a_gpu_or_asked_for(
    claimed: bool, gpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accelerator.whole, "loaded", False)
    monkeypatch.setattr(accelerator, "TAKEN", claimed)
    monkeypatch.delenv("HOLOGRAM_BACKEND", raising=False)
    monkeypatch.setattr(accelerator, "on_gpu", lambda: gpu)
    wanted: Any = torch.device("hologram") if claimed or gpu else None
    assert accelerator.current() == wanted
    assert accelerator.checked() == (wanted or torch.device("cpu"))
    assert accelerator.is_meant(None) is bool(wanted)
    assert torch.accelerator.is_available() is bool(wanted)
    if not wanted:
        with pytest.raises(RuntimeError, match="none is available"):
            torch.accelerator.current_device_index()


def test_another_package_s_device_keeps_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        name = "npu"

    monkeypatch.delenv("HOLOGRAM_BACKEND", raising=False)
    monkeypatch.setattr(hologram_autoload, "entry_points", lambda group: [Entry()])
    monkeypatch.setattr(hologram_autoload, "theirs", lambda: False)
    monkeypatch.setitem(sys.modules, "hologram_torch", None)  # importing it would fail, and warn
    hologram_autoload.load()
    assert hologram_autoload.others() == ["npu"]
    monkeypatch.setenv("HOLOGRAM_BACKEND", "cpu")
    with pytest.warns(RuntimeWarning, match="not a device of this PyTorch"):
        hologram_autoload.load()
