"""The choice of backend and device: the order of preference, the environment, and failures that say what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import hologram as hg
from hologram import backend as public
from hologram import backends as package
from hologram.device import BackendType, DeviceInfo, Probe
from hologram.errors import BackendUnavailable
from hologram.runtime import selector
from tests.devices import limits

ROOT = Path(__file__).parents[2]


def devices(kind: BackendType, *named: tuple[str, bool]) -> tuple[DeviceInfo, ...]:
    return tuple(
        DeviceInfo(kind, i, name, "driver", limits(software=software))
        for i, (name, software) in enumerate(named)
    )


class Machine:
    """Backends as a test wants them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: dict[str, SimpleNamespace] = {}
        self.asked: list[str] = []
        for module in (selector, package):
            monkeypatch.setattr(module, "discover", lambda: self.found)
            monkeypatch.setattr(module, "load", self.load)
        monkeypatch.delenv("HOLOGRAM_BACKEND", raising=False)
        monkeypatch.delenv("HOLOGRAM_DEVICE", raising=False)

    def load(self, name: str) -> SimpleNamespace:
        if name not in self.found:
            raise BackendUnavailable(
                f"there is no backend {name!r}; use one of auto, {', '.join(self.found)}"
            )
        return self.found[name]

    def add(self, kind: BackendType, *named: tuple[str, bool], reason: str = "", remedy: str = "") -> None:
        def probe() -> Probe:
            self.asked.append(kind.value)
            return Probe(kind, devices(kind, *named), reason, remedy)

        self.found[kind.value] = SimpleNamespace(
            TYPE=kind, probe=probe, open_device=lambda index: index, source=None
        )


@pytest.fixture(name="machine")
def _machine(monkeypatch):
    package.probe.cache_clear()
    yield Machine(monkeypatch)
    package.probe.cache_clear()


@pytest.fixture(name="laptop")
def _laptop(machine):
    machine.add(BackendType.CUDA, reason="no NVIDIA driver", remedy="Install the driver.")
    machine.add(BackendType.WEBGPU, ("llvmpipe", True), ("Radeon 780M", False), ("Radeon RX", False))
    machine.add(BackendType.CPU, ("x86_64", True))
    return machine


def test_auto_takes_the_first_real_device_and_says_why(laptop):
    module, index = selector.select()
    assert (module.TYPE, index) == (BackendType.WEBGPU, 1)
    text = selector.explain_selection()
    assert text.splitlines()[0] == "webgpu: Radeon 780M (device 1, driver)"
    assert "cuda: unavailable, no NVIDIA driver. Install the driver." in text
    assert public.get_default_backend() is BackendType.WEBGPU


def test_software_stands_in_only_when_asked_for(machine):
    machine.add(BackendType.WEBGPU, ("llvmpipe", True))
    machine.add(BackendType.CPU, ("x86_64", True))
    assert selector.choose().name == "cpu"
    assert "only software plays its device (llvmpipe)" in selector.explain_selection()
    assert selector.choose("webgpu").index == 0
    assert selector.choose(device="LLVMpipe").name == "webgpu"


def test_an_explicit_choice_asks_no_other_backend(laptop):
    assert selector.choose("cpu").name == "cpu"
    assert laptop.asked == ["cpu"]
    selector.choose(BackendType.CPU)
    assert laptop.asked == ["cpu"], "a probe is asked once"


@pytest.mark.parametrize(
    ("name", "device", "expected"),
    [
        ("webgpu", None, ("webgpu", 1)),
        ("WebGPU", 0, ("webgpu", 0)),
        ("webgpu", "rx", ("webgpu", 2)),
        ("auto", 2, ("webgpu", 2)),
        ("auto", "x86", ("cpu", 0)),
        ("cpu", 0, ("cpu", 0)),
    ],
)
def test_devices_go_by_number_or_part_of_the_name(laptop, name, device, expected):
    chosen = selector.choose(name, device)
    assert (chosen.name, chosen.index) == expected


@pytest.mark.parametrize(
    ("name", "device", "message"),
    [
        (
            "cuda",
            None,
            r"'cuda' is unavailable: no NVIDIA driver\. Install the driver\. Available here: webgpu, cpu\.",
        ),
        ("webgpu", 3, "no device 3; it has 0: llvmpipe; 1: Radeon 780M; 2: Radeon RX"),
        ("webgpu", -1, "no device -1"),
        ("webgpu", "Arc", "no device 'Arc'"),
        ("opencl", None, "no backend 'opencl'; use one of auto, cuda, webgpu, cpu"),
        ("auto", "Arc", "no backend with device 'Arc'.*Available here: cuda|webgpu, cpu"),
    ],
)
def test_what_is_not_there_is_named_with_what_is(laptop, name, device, message):
    with pytest.raises(BackendUnavailable, match=message):
        selector.select(name, device)
    assert "nothing can be opened" in selector.explain_selection(name, device)


def test_the_environment_stands_for_auto_only(laptop, monkeypatch):
    monkeypatch.setenv("HOLOGRAM_BACKEND", "cpu")
    assert selector.choose().name == "cpu"
    assert "HOLOGRAM_BACKEND asks for cpu" in selector.explain_selection()
    assert selector.choose("webgpu").name == "webgpu"
    monkeypatch.setenv("HOLOGRAM_BACKEND", "cuda")
    with pytest.raises(BackendUnavailable, match="no NVIDIA driver"):
        selector.select()
    monkeypatch.setenv("HOLOGRAM_BACKEND", "webgpu")
    monkeypatch.setenv("HOLOGRAM_DEVICE", "RX")
    assert selector.choose().index == 2
    monkeypatch.setenv("HOLOGRAM_DEVICE", "0")
    assert selector.choose().index == 0
    assert selector.choose(device=1).index == 1


def test_the_public_questions(laptop):
    assert public.is_webgpu_available()
    assert not public.is_cuda_available()
    assert not public.is_metal_available()
    assert public.validate_backend("cpu") is BackendType.CPU
    assert public.validate_backend("auto") is BackendType.WEBGPU
    with pytest.raises(BackendUnavailable):
        public.validate_backend("cuda")
    assert [p.available for p in hg.backends()] == [False, True, True]


def entry(name: str, load) -> SimpleNamespace:
    return SimpleNamespace(name=name, value=f"{name}:backend", load=load)


@pytest.fixture(name="entries")
def _entries(monkeypatch):
    found: list[SimpleNamespace] = []
    monkeypatch.setattr(
        package.metadata,
        "entry_points",
        lambda group, name=None: [e for e in found if name in (None, e.name)],
    )
    package.forget()
    yield found
    package.forget()


def test_a_third_party_is_found_by_its_entry_point(entries):
    module = SimpleNamespace(
        TYPE="npu", PREFERENCE=1, probe=None, open_device=None, source=None, usual_limits=None
    )
    entries.append(entry("npu", lambda: module))
    assert next(iter(package.discover().items())) == ("npu", module)
    assert list(package.discover())[-1] == "cpu"


def test_a_broken_third_party_is_said_and_left_out(entries):
    def load():
        raise ImportError("no module named npu")

    entries.append(entry("npu", load))
    with pytest.warns(UserWarning, match="'npu'.*no module named npu"):
        assert "npu" not in package.discover()


def test_a_module_that_is_no_backend_is_refused(entries):
    entries.append(entry("npu", lambda: SimpleNamespace(TYPE="npu", __name__="npu")))
    with pytest.raises(TypeError, match=r"'npu'.*lacks probe, open_device, source, usual_limits"):
        package.discover()


def test_opening_one_backend_imports_no_other():
    code = (
        "import sys; from hologram.runtime import selector; selector.select('cpu');"
        "print(*{m.split('.')[2] for m in sys.modules if m.startswith('hologram.backends.')})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "cpu"


def test_an_unknown_backend_is_refused_with_what_there_is():
    with pytest.raises(BackendUnavailable, match=r"no backend 'opencl'; use one of auto, .*cpu"):
        selector.select("opencl")


def test_this_machine_has_a_cpu():
    assert package.probe("cpu").available
    assert hg.backends()[-1].devices[0].name in selector.explain_selection("cpu")
