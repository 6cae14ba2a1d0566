"""Streams and events of the device's one queue, and torch.cuda's questions about a device."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
import hologram_torch  # noqa: E402, F401
from hologram_torch.device import virtual  # noqa: E402
from hologram_torch.device.devices import devices  # noqa: E402

last = len(devices.places) - 1


def test_events_keep_time_in_order() -> None:
    x = torch.ones(256, 256, device="hologram")
    begin, middle, end = (torch.Event(device="hologram", enable_timing=True) for _ in range(3))
    begin.record()
    x = x @ x
    middle.record()
    for _ in range(20):
        x = x @ x * 1e-3
    end.record()
    end.synchronize()
    assert begin.query()
    assert end.query()
    assert 0 <= begin.elapsed_time(middle) < begin.elapsed_time(end)
    timed = torch.hologram.Event(enable_timing=True)
    timed.record(torch.hologram.current_stream())
    assert end.elapsed_time(timed) >= 0


def test_times_that_nobody_kept_are_refused() -> None:
    kept, plain = torch.hologram.Event(enable_timing=True), torch.hologram.Event()
    plain.record()
    for a, b in ((kept, kept), (kept, plain)):
        with pytest.raises(ValueError, match="both events must be"):
            a.elapsed_time(b)
    torch.hologram.Event().synchronize()  # never recorded: nothing to wait for
    with pytest.raises(NotImplementedError, match="between processes"):
        torch.Event("hologram", interprocess=True)


def test_streams_are_the_queue() -> None:
    stream = torch.Stream(device="hologram")
    assert isinstance(stream, torch.hologram.Stream)
    assert isinstance(stream, torch.Stream)
    assert stream == torch.hologram.current_stream() == torch.accelerator.current_stream()
    with torch.hologram.stream(stream):
        x = torch.ones(1000, device="hologram") * 3
        event = stream.record_event()
    stream.wait_event(event)
    stream.wait_stream(torch.hologram.default_stream())
    stream.synchronize()
    assert stream.query()
    assert x.sum().item() == 3000


def test_a_stream_makes_its_device_the_current_one() -> None:
    with torch.hologram.Stream(f"hologram:{last}"):
        assert torch.hologram.current_device() == last
    with torch.hologram.stream(None):
        assert torch.hologram.current_device() == 0
    torch.accelerator.set_stream(torch.Stream(f"hologram:{last}"))
    assert torch.hologram.current_device() == last
    torch.hologram.set_device(0)


def test_what_waits_raises_what_the_queue_found() -> None:
    looked_up = torch.compile(lambda table, at: table[at], backend="hologram")
    table = torch.ones(4, device=f"hologram:{last}")

    def look_up_and_wait() -> None:
        looked_up(table, torch.tensor([9], device=table.device))
        torch.Stream(table.device).synchronize()

    with pytest.raises(IndexError):
        look_up_and_wait()


@pytest.mark.skipif(not last, reason="there is one device")
def test_names_without_a_number_mean_the_current_device() -> None:
    with torch.hologram.device(last):
        made = [
            torch.zeros(2).to("hologram"),
            torch.zeros(2, device="hologram"),
            torch.tensor([1.0], device="hologram"),
            torch.as_tensor([1.0], device="hologram"),
            torch.zeros(2).hologram(),
            next(torch.nn.Linear(2, 2).to("hologram").parameters()),
        ]
        with torch.device("hologram"):
            made += [torch.tensor([2]), torch.arange(3), torch.randn(3), torch.nn.Linear(2, 2).weight]
    assert [x.device.index for x in made] == [last] * len(made)
    assert torch.tensor([1.0], device="hologram").device.index == 0
    with torch.hologram.device(0):  # that another device is current changes no gradient
        made[0].requires_grad_().sum().backward()
    assert made[0].grad.device.index == last


def test_where_headers_say_otherwise_the_guard_is_left_alone() -> None:
    header = """
    struct C10_API DeviceGuardImplInterface {
      // virtual int comment() const;
      virtual DeviceType type() const = 0;
      virtual Stream getNewStream(Device /*unused*/, int priority = 0)
          const;
      virtual void* native(const Stream) const {
        TORCH_CHECK(false, "virtual");
      }
      virtual ~DeviceGuardImplInterface() = default;
    };
    """
    places = virtual.slots(header, "DeviceGuardImplInterface")
    assert places == {"type": 0, "getNewStream": 1, "native": 2, "~DeviceGuardImplInterface": 3}
    assert virtual.words(places) == 5


def test_a_device_says_what_it_can() -> None:
    assert torch.hologram.is_bf16_supported()
    assert torch.hologram.get_device_properties().name in torch.hologram.get_device_name()
    if torch.hologram.get_device_properties().limits.host_resident:
        free, total = torch.hologram.mem_get_info()
        assert 0 < free <= total
        assert torch.accelerator.get_memory_info()[1] == total
    else:
        with pytest.raises(NotImplementedError, match="hologram"):
            torch.hologram.mem_get_info()
    with torch.hologram.device_of(torch.ones(1, device=f"hologram:{last}")):
        assert torch.hologram.current_device() == last
    with torch.hologram.device_of(torch.ones(1)):
        assert torch.hologram.current_device() == 0
