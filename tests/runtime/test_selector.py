"""The choice of backend and device: the order of preference, the environment, and failures that say what to do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import hologram as hg
from hologram.backends import registry
from hologram.foundation.errors import BackendUnavailable
from hologram.frontend import selection as public
from hologram.machine.backend_module import Probe
from hologram.machine.device import DeviceInfo
from hologram.runtime import selector
from tests.devices import limits

ROOT = Path(__file__).parents[2]


def devices(kind: str, *named: tuple[str, bool]) -> tuple[DeviceInfo, ...]:
    return tuple(
        DeviceInfo(kind, i, name, "driver", limits(software=software))
        for i, (name, software) in enumerate(named)
    )


class Machine:
    """Backends as a test wants them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: dict[str, SimpleNamespace] = {}
        self.asked: list[str] = []
        for module in (selector, registry, public):
            monkeypatch.setattr(module, "discover", lambda: self.found)
            monkeypatch.setattr(module, "load", self.load)
        monkeypatch.setattr(selector.claims, "check", lambda device: None)  # devices are numbers
        monkeypatch.delenv("HOLOGRAM_BACKEND", raising=False)
        monkeypatch.delenv("HOLOGRAM_DEVICE", raising=False)

    def load(self, name: str) -> SimpleNamespace:
        if name not in self.found:
            raise BackendUnavailable(
                f"there is no backend {name!r}; use one of auto, {', '.join(self.found)}"
            )
        return self.found[name]

    def add(self, kind: str, *named: tuple[str, bool], reason: str = "", remedy: str = "") -> None:
        def probe() -> Probe:
            self.asked.append(kind)
            return Probe(kind, devices(kind, *named), reason, remedy)

        self.found[kind] = SimpleNamespace(
            NAME=kind, PREFERENCE=50, probe=probe, open_device=lambda index: index, source=None
        )


@pytest.fixture(name="machine")
def _machine(monkeypatch):
    def forget() -> None:
        registry.probe.cache_clear()
        registry.unopened.cache_clear()

    forget()
    yield Machine(monkeypatch)
    forget()


@pytest.fixture(name="laptop")
def _laptop(machine):
    machine.add("cuda", reason="no NVIDIA driver", remedy="Install the driver.")
    machine.add("webgpu", ("llvmpipe", True), ("Radeon 780M", False), ("Radeon RX", False))
    machine.add("cpu", ("x86_64", False))
    return machine


def test_auto_takes_the_first_real_device_and_says_why(laptop):
    module, index = selector.select()
    assert (module.NAME, index) == ("webgpu", 1)
    text = selector.explain_selection()
    assert text.splitlines()[0] == "webgpu: Radeon 780M (device 1, driver)"
    assert "cuda: unavailable, no NVIDIA driver. Install the driver." in text
    assert public.get_default_backend() == hg.BackendType.WEBGPU


def test_auto_says_aloud_that_a_device_does_not_open(laptop):
    def open_device(index: int) -> int:
        raise BackendUnavailable(f"webgpu: the driver refused device {index}")

    laptop.found["webgpu"].open_device = open_device
    whole = (
        "auto opens cpu: webgpu: Radeon 780M is here and does not open: webgpu: the driver refused device 1",
        "auto opens cpu: webgpu: Radeon RX is here and does not open: webgpu: the driver refused device 2",
    )
    for _ in range(2):  # whoever opens another hears of it too
        with pytest.warns(RuntimeWarning, match="auto opens cpu") as heard:
            assert selector.opened() == 0
        assert {str(w.message) for w in heard} == set(whole)
    text = selector.explain_selection()
    assert text.startswith("cpu: x86_64")
    assert all(line.removeprefix("auto opens cpu: ") in text for line in whole)
    assert public.get_default_backend() == hg.BackendType.CPU
    for name, device in (("webgpu", None), ("auto", 1), ("auto", "RX")):  # nobody else's choice is changed
        with pytest.raises(BackendUnavailable, match="the driver refused device"):
            selector.opened(name, device)


def test_auto_takes_another_device_of_the_backend_first(laptop):
    def open_device(index: int) -> int:
        if index == 1:
            raise BackendUnavailable("webgpu: it is busy")
        return index

    laptop.found["webgpu"].open_device = open_device
    with pytest.warns(
        RuntimeWarning, match="auto opens webgpu: .* 780M is here and does not open: webgpu: it is busy"
    ):
        assert selector.opened() == 2


def test_where_nothing_opens_the_last_reason_is_an_error(machine):
    def open_device(index: int) -> int:
        raise BackendUnavailable("cpu: no room")

    machine.add("cpu", ("x86_64", False))
    machine.found["cpu"].open_device = open_device
    with pytest.raises(
        BackendUnavailable, match="no backend: cpu: x86_64 is here and does not open: cpu: no room"
    ):
        selector.opened()


def test_software_stands_in_only_when_asked_for(machine):
    machine.add("webgpu", ("llvmpipe", True))
    machine.add("cpu", ("x86_64", False))
    assert selector.choose().name == "cpu"
    assert "only software emulates its device (llvmpipe)" in selector.explain_selection()
    assert selector.choose("webgpu").index == 0
    assert selector.choose(device="LLVMpipe").name == "webgpu"


def test_no_library_is_loaded_where_the_kernel_knows_no_gpu(machine, monkeypatch, tmp_path):
    monkeypatch.setattr(selector, "DEVICE_FILES", tmp_path)
    monkeypatch.setattr(selector.sys, "platform", "linux")
    machine.add("webgpu", ("Radeon 780M", False))
    machine.add("cpu", ("x86_64", False))
    machine.found["webgpu"].DEVICE_FILES = ("dri/renderD*", "dxg")
    assert selector.choose().name == "cpu"
    assert machine.asked == ["cpu"]
    assert "no GPU has a device file here; backend='webgpu' asks" in selector.explain_selection()
    assert selector.choose(device="Radeon").name == "webgpu"  # a name may be software's
    assert selector.choose("webgpu").name == "webgpu"
    (tmp_path / "dri").mkdir()
    (tmp_path / "dri" / "renderD128").touch()
    assert selector.choose().name == "webgpu"
    (tmp_path / "dri" / "renderD128").unlink()
    monkeypatch.setattr(selector.sys, "platform", "win32")
    assert selector.choose().name == "webgpu"


def test_an_explicit_choice_asks_no_other_backend(laptop):
    assert selector.choose("cpu").name == "cpu"
    assert laptop.asked == ["cpu"]
    selector.choose(hg.BackendType.CPU)
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
    monkeypatch.setenv("HOLOGRAM_DEVICE", "RX")
    assert selector.choose("cpu").index == 0
    assert "cpu has no such device, and was named by the program" in selector.explain_selection("cpu")
    monkeypatch.setenv("HOLOGRAM_BACKEND", "cpu")
    with pytest.raises(BackendUnavailable, match="'cpu' has no device 'RX'"):
        selector.choose()


def test_the_public_questions(laptop):
    assert public.is_webgpu_available()
    assert not public.is_cuda_available()
    assert not public.is_metal_available()
    assert public.validate_backend("cpu") == hg.BackendType("CPU")
    assert public.validate_backend("auto") == hg.BackendType.WEBGPU
    with pytest.raises(BackendUnavailable):
        public.validate_backend("cuda")
    assert [p.available for p in hg.backends()] == [False, True, True]


def test_names_of_backends_are_open_strings(laptop):
    laptop.add("npu", ("a chip", False))
    assert list(hg.BackendType) == list(laptop.found)
    assert hg.BackendType.NPU == hg.BackendType("NPU") == "npu"
    assert isinstance(hg.BackendType.NPU, str)
    assert hg.BackendType("npu").value == "npu"
    assert public.validate_backend(hg.BackendType.NPU) == hg.BackendType.NPU
    with pytest.raises(
        AttributeError, match="there is no backend 'opencl'; there are cuda, webgpu, cpu, npu"
    ):
        _ = hg.BackendType.OPENCL
    with pytest.raises(BackendUnavailable, match="no backend 'opencl'"):
        hg.BackendType("opencl")


def entry(name: str, load) -> SimpleNamespace:
    return SimpleNamespace(name=name, value=f"{name}:backend", load=load)


@pytest.fixture(name="entries")
def _entries(monkeypatch):
    found: list[SimpleNamespace] = []
    monkeypatch.setattr(
        registry.metadata,
        "entry_points",
        lambda group, name=None: [e for e in found if name in (None, e.name)],
    )
    registry.forget()
    yield found
    registry.forget()


def test_a_third_party_is_found_by_its_entry_point(entries):
    module = SimpleNamespace(
        NAME="npu", PREFERENCE=1, probe=None, open_device=None, source=None, reference_limits=None
    )
    entries.append(entry("npu", lambda: module))
    assert next(iter(registry.discover().items())) == ("npu", module)
    assert list(registry.discover())[-1] == "cpu"


def test_a_broken_third_party_is_said_and_left_out(entries):
    def load():
        raise ImportError("no module named npu")

    entries.append(entry("npu", load))
    with pytest.warns(UserWarning, match="'npu'.*no module named npu"):
        assert "npu" not in registry.discover()


def test_a_module_that_is_no_backend_is_refused(entries):
    entries.append(entry("npu", lambda: SimpleNamespace(NAME="npu", __name__="npu")))
    with pytest.raises(
        TypeError, match=r"'npu'.*lacks PREFERENCE, probe, open_device, source, reference_limits"
    ):
        registry.discover()


def test_a_module_of_another_name_is_refused(entries):
    module = SimpleNamespace(
        NAME="npu",
        PREFERENCE=1,
        probe=None,
        open_device=None,
        source=None,
        reference_limits=None,
        __name__="chips",
    )
    entries.append(entry("tpu", lambda: module))
    with pytest.raises(TypeError, match=r"'tpu' \(chips\): its NAME must be 'tpu', got 'npu'"):
        registry.discover()


def test_every_spelling_of_an_import_gives_the_package():
    code = (
        "import hologram as hg; import hologram.backends.cpu; import hologram.backends.cpu as cpu;"
        "from hologram.backends import cpu as again; from hologram import backends;"
        "assert hologram.backends.cpu is cpu is again; assert backends is hg.backends is hologram.backends;"
        "assert cpu.probe() in hg.backends() and hg.backend.is_available('cpu')"
    )
    for first in ("", "import hologram; hologram.backends();"):
        subprocess.run([sys.executable, "-c", first + code], check=True, cwd=ROOT)


def test_opening_one_backend_imports_no_other():
    code = (
        "import sys; from hologram.runtime import selector; selector.select('cpu');"
        "print(*{m.split('.')[2] for m in sys.modules if m.startswith('hologram.backends.')})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert sorted(done.stdout.split()) == ["cpu", "registry"]


def test_an_unknown_backend_is_refused_with_what_there_is():
    with pytest.raises(BackendUnavailable, match=r"no backend 'opencl'; use one of auto, .*cpu"):
        selector.select("opencl")


def test_this_machine_has_a_cpu():
    assert registry.probe("cpu").available
    assert registry.probe("cpu").devices[0].name in selector.explain_selection("cpu")
