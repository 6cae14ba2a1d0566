"""torch.profiler on the device: rows of kernels, device time of operators, traces."""

from __future__ import annotations

import gc
import gzip
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch._C._autograd import DeviceType  # noqa: E402  # pyright: ignore
from torch.profiler import ProfilerActivity, profile, record_function, schedule  # noqa: E402

from hologram_torch.device.devices import devices  # noqa: E402
from hologram_torch.libraries.with_profiler import running  # noqa: E402

HOLOGRAM: Any = ProfilerActivity.HOLOGRAM  # type: ignore[attr-defined]


def step(x: Any, weight: Any) -> Any:
    with record_function("whole"):
        y = torch.relu(x @ weight) + 1
    return y.sum()


@pytest.fixture
def operands(backend: str) -> tuple[Any, Any]:
    """A matrix and a weight on the backend's device, whose kernels are compiled."""
    number = next(i for i, p in enumerate(devices.places) if p.backend == backend)
    device = torch.device("hologram", number)
    x, weight = torch.randn(40, 30, device=device), torch.randn(30, 20, device=device, requires_grad=True)
    step(x, weight).backward()
    weight.grad = None
    return x, weight


def events_of(profiled: Any) -> list[Any]:
    return list(profiled.events())


def kernels(events: Any) -> list[Any]:
    return [e for e in events if e.device_type == DeviceType.PrivateUse1]


def test_kernels_have_rows_and_operators_their_time(operands: Any) -> None:
    with profile() as profiled:
        step(*operands)
    launched = kernels(events_of(profiled))
    operators = {e.name: e for e in events_of(profiled) if e.device_type == DeviceType.CPU}
    assert launched
    assert all(
        e.time_range.elapsed_us() >= 0 and e.device_index == operands[0].device.index for e in launched
    )
    assert [e.time_range.start for e in launched] == sorted(e.time_range.start for e in launched)
    total = sum(e.time_range.elapsed_us() for e in launched)
    for name in ("aten::mm", "aten::relu", "aten::add", "aten::sum"):
        (kernel, *_) = operators[name].kernels
        assert kernel.name in {e.name for e in launched}
    whole = operators["whole"]
    assert whole.device_time_total == pytest.approx(total - operators["aten::sum"].device_time_total)
    averages = profiled.key_averages()
    assert sum(
        a.self_device_time_total for a in averages if a.device_type == DeviceType.CPU
    ) == pytest.approx(total)
    assert "Self HOLOGRAM" in averages.table(sort_by="self_device_time_total")


def test_backward_passes_have_their_kernels(operands: Any) -> None:
    with profile() as profiled:
        step(*operands).backward()
    named = {e.name for e in events_of(profiled) if e.device_type == DeviceType.CPU and e.kernels}
    assert "aten::threshold_backward" in named or "aten::relu" in named
    assert sum(len(e.kernels) for e in events_of(profiled)) == len(kernels(events_of(profiled)))


def test_only_who_asks_has_them(operands: Any) -> None:
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        step(*operands)
    assert not kernels(events_of(profiled))
    assert not any(e.kernels for e in events_of(profiled))


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_traces_have_a_row_for_the_device(operands: Any, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"trace{suffix}"
    with profile(activities=[ProfilerActivity.CPU, HOLOGRAM]) as profiled:
        step(*operands)
    profiled.export_chrome_trace(str(path))
    raw = gzip.decompress(path.read_bytes()) if suffix.endswith("gz") else path.read_bytes()
    events = json.loads(raw)["traceEvents"]
    ran = [e for e in events if e.get("cat") == "kernel"]
    assert [e["name"] for e in ran] == [e.name for e in kernels(events_of(profiled))]
    (whole,) = (e for e in events if e.get("name") == "whole" and e.get("cat") == "user_annotation")
    slack = 1000  # microseconds that two clocks may differ by
    assert all(e["ts"] >= whole["ts"] - slack for e in ran)
    assert any(
        e["name"] == "process_name" and "hologram:" in e["args"]["name"] for e in events if e["ph"] == "M"
    )


@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")
def test_cycles_of_a_schedule_each_have_their_own(operands: Any) -> None:
    counts = []
    cycles = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(
        schedule=cycles, on_trace_ready=lambda p: counts.append(len(kernels(events_of(p))))
    ) as profiled:
        for _ in range(8):
            step(*operands)
            profiled.step()
    with profile() as once:
        step(*operands)
    assert counts == [2 * len(kernels(events_of(once)))] * 2


def test_stacks_leave_kernels_to_operators(operands: Any) -> None:
    with profile(with_stack=True, record_shapes=True) as profiled:
        step(*operands)
    launching = {e.name for e in events_of(profiled) if e.kernels}
    assert "aten::mm" in launching
    assert all(name.startswith("aten::") for name in launching)


def test_the_profiler_beneath_asks_for_no_markers(operands: Any, capfd: Any) -> None:
    """PyTorch writes of exceptions at each operator where it asks for those of a plug-in."""
    with torch.autograd.profiler.profile(use_device="hologram") as profiled:
        step(*operands)
    assert "aten::mm" in {e.name for e in profiled.function_events if e.kernels}
    assert "Exception" not in capfd.readouterr().err


def test_threads_that_launch_on_while_profiles_end(operands: Any) -> None:
    """A switch of threads wherever it can be: results are made of the launches that had ended."""
    interval, ended = sys.getswitchinterval(), threading.Event()

    def launch() -> None:
        while not ended.is_set():
            torch.relu(operands[0])

    threads = [threading.Thread(target=launch) for _ in range(3)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for _ in range(60):
            with profile():
                torch.relu(operands[0])
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)


def test_threads_that_open_a_device_have_it_told_once() -> None:
    """The second comes while the first opens: both find that it is not open."""
    told: list[Any] = []
    devices.executor(0).close()
    devices.on_opening.append(told.append)
    both = [devices.open(0) for _ in range(2)]
    devices.on_opening.pop()
    assert told == both[:1]
    assert both[0] is both[1]


def test_an_error_of_a_device_at_the_end_ends_the_profile(
    operands: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any) -> None:
        raise RuntimeError("the device is lost")

    device = torch.hologram.executor(operands[0].device).device
    for owner, asked in ((device, "timeline"), (type(device.timeline()), "times")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, asked, lost)
            with pytest.raises(RuntimeError, match="lost"), profile():
                step(*operands)
        assert not running
        assert not torch.autograd.profiler._is_profiler_enabled  # noqa: SLF001  PyTorch says it nowhere else
        with profile() as profiled:
            step(*operands)
        assert kernels(events_of(profiled))


def test_an_error_inside_ends_the_profile_of_the_device(operands: Any) -> None:
    with pytest.raises(RuntimeError, match=r"shapes|size"), profile():
        step(operands[0].T, operands[1])
    with profile() as profiled:
        step(*operands)
    assert kernels(events_of(profiled))


FIRST_USE = """
import torch
from torch.profiler import profile
with profile() as profiled:
    (torch.ones(3, device="hologram") + 1).sum().item()
names = [e.name for e in profiled.events() if e.device_type == torch.autograd.DeviceType.PrivateUse1]
assert len(names) >= 2, names
with profile() as profiled:
    torch.ones(3).sum()
"""


def test_a_device_that_is_first_used_inside() -> None:
    subprocess.run([sys.executable, "-c", FIRST_USE], check=True, timeout=120)


def test_a_profile_of_the_host_alone_loads_nothing() -> None:
    code = (
        "import sys, torch\nfrom torch.profiler import profile\nwith profile() as p:\n    torch.ones(3).sum()\n"
        "p.key_averages()\nassert 'hologram_torch.computing' not in sys.modules, 'loaded'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.skipif(sys.platform != "linux", reason="PyTorch is told of memory on Linux alone")
def test_memory_has_rows(operands: Any) -> None:
    x, _ = operands
    large = torch.ones(1 << 19, device=x.device)
    gc.collect()  # what other tests left
    before = torch.hologram.memory_allocated(x.device)
    with profile(activities=[ProfilerActivity.CPU, HOLOGRAM], profile_memory=True) as profiled:
        kept = large + 1
        again = torch.relu(kept)
        del again
        total = kept.sum()
    events = [e for e in events_of(profiled) if e.device_memory_usage]
    told = sum(e.self_device_memory_usage for e in profiled.key_averages())
    grown = torch.hologram.memory_allocated(x.device) - before
    assert told == pytest.approx(grown, abs=large.nbytes / 32)  # small garbage may go before and after
    assert told >= kept.nbytes + total.nbytes
    assert max(e.device_memory_usage for e in events if e.name.startswith("aten::")) >= kept.nbytes


def test_a_snapshot_has_what_is_held(operands: Any) -> None:
    x, _ = operands
    large = torch.ones(1 << 19, device=x.device)

    def held() -> int:
        segments = torch.hologram.memory._snapshot(x.device)["segments"]  # noqa: SLF001  the name is PyTorch's, of torch.cuda.memory
        for segment in segments:
            sizes = {s: [b["size"] for b in segment["blocks"] if b["state"] == s] for s in STATES}
            assert segment["allocated_size"] == sum(sizes["active_allocated"])
            assert sum(map(sum, sizes.values())) <= segment["total_size"]
        return sum(segment["allocated_size"] for segment in segments)

    with_it = held()
    size = large.nbytes
    del large
    assert with_it - held() >= size


STATES = ("active_allocated", "inactive")
