"""A report's pictures: rooflines, latency by size, and speed beside NumPy."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from hologram.benchmark.report.records import Adapter, Kind, Measurement, Report
from hologram.benchmark.report.tables import rate, speed_up, times
from hologram.benchmark.works import ALL_SIZES, ROWS
from hologram.foundation.frozen import frozen

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = "osD^vP"
COLOURS = (
    "#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2",
    "#9d755d", "#d4b106", "#ff9da6", "#8f8f8f", "#1f9e89", "#c44e9b",
)  # fmt: skip


INK, FAINT = "#24292f", "#d0d7de"  # of letters and lines, on a light page
ON_DARK = {INK: "#e6e6e6", FAINT: "#4a4f57"}
SETTINGS: dict[Any, Any] = dict.fromkeys(
    ("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), INK
) | {
    "axes.edgecolor": FAINT,
    "grid.color": FAINT,
    "axes.grid": True,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "font.size": 9,
    "svg.hashsalt": "hologram",  # the same picture for the same report
}  # fmt: skip


@frozen
class Look:
    """A size in inches."""

    width: float
    height: float

    @property
    def narrow(self) -> bool:
        return self.width < 5


WIDE, NARROW = Look(7.4, 4.2), Look(3.7, 5.2)


@frozen
class Plot:
    """A picture to be drawn: its file's stem, what it shows, and how tall it is beside a usual one."""

    stem: str
    title: str
    draw: Callable[[Axes, Look], None]
    tall: float = 1.0

    def svg(self, look: Look) -> str:
        """The picture for a light page, without a background."""
        return self._image(look, "svg", facecolor="none", metadata={"Date": None}).decode()

    def png(self) -> bytes:
        """The picture with a title and a background: it stands alone."""
        return self._image(WIDE, "png", self.title, facecolor="white", dpi=160)

    def _image(self, look: Look, kind: str, title: str = "", **options: Any) -> bytes:
        from matplotlib import rc_context
        from matplotlib.figure import Figure

        with rc_context(SETTINGS):
            figure = Figure(figsize=(look.width, look.height * self.tall), layout="constrained")
            if title:
                figure.suptitle(title, fontsize=10)
            self.draw(figure.subplots(), look)
            target = io.BytesIO()
            figure.savefig(target, format=kind, **options)
            return target.getvalue()


def dark(svg: str) -> str:
    """The same for a dark page."""
    for light, other in ON_DARK.items():
        svg = svg.replace(light, other)
    return svg


def plots(report: Report) -> Iterator[Plot]:
    """Those for which there is anything to show."""
    while_busy = ", while other work ran" if report.machine.get("busy") else ""
    for a in report.adapters:
        stem = f"{a.backend}-{a.index}"
        timed = [m for m in report.of(Kind.OPERATION, a.name) if m.turns]
        if timed and report.copy_peak(a.name) and report.arithmetic_peak(a.name):
            yield Plot(f"roofline-{stem}", f"Roofline of {a.title}{while_busy}", _Roofline(report, a, timed))
        if timed:
            yield Plot(f"latency-{stem}", f"Latency by size, {a.title}{while_busy}", _Latency(timed))
        bars = list(speeds(report, a))
        if bars:
            tall = max(0.6, (len(bars) + 3) / 17)
            yield Plot(f"speed-{stem}", f"Times as fast as NumPy, {a.title}{while_busy}", _Bars(bars), tall)


def speeds(report: Report, adapter: Adapter) -> Iterator[tuple[str, float]]:
    """NumPy's time over the adapter's: of every operation at the largest size that both have, and of the models."""
    largest: dict[str, tuple[str, float]] = {}
    for m in sorted(report.of(Kind.OPERATION, adapter.name), key=lambda m: list(ALL_SIZES).index(m.key.size)):
        ratio = speed_up(report, m)
        if ratio is not None:
            largest[m.key.row] = (f"{m.key.row} {m.key.size}", ratio)
    yield from largest.values()
    for kind, word in ((Kind.INFERENCE, "inference"), (Kind.TRAINING, "training")):
        for m in report.of(kind, adapter.name):
            ratio = speed_up(report, m)
            if m.key.who == "hologram jit" and ratio is not None:
                yield f"{m.key.row} {word}", ratio


def _look_of(name: str) -> dict[str, Any]:
    """An operation's colour and marker, the same in every picture."""
    number = list(ROWS).index(name)
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}


def _legend(axes: Axes, look: Look, title: str = "") -> None:
    place: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)}
    if look.narrow:
        place = {"loc": "upper center", "bbox_to_anchor": (0.45, -0.16), "ncols": 3, "columnspacing": 0.8}
    axes.legend(frameon=False, handletextpad=0.4, title=title or None, title_fontsize="small", **place)


@frozen
class _Roofline:
    """Williams, Waterman and Patterson 2009, doi:10.1145/1498765.1498785. The roofs are measured, not looked up."""

    report: Report
    adapter: Adapter
    timed: list[Measurement]

    def __call__(self, axes: Axes, look: Look) -> None:
        memory = self.report.copy_peak(self.adapter.name) or 1.0
        arithmetic = self.report.arithmetic_peak(self.adapter.name) or 1.0
        last = {m.key.row: m for m in self.timed}
        places = {name: _place(m) for name, m in last.items()}
        left = min(x for x, _ in places.values()) / 2
        right = max(*(x for x, _ in places.values()), arithmetic / memory) * 2
        ridge = arithmetic / memory
        axes.loglog([left, ridge, right], [left * memory, arithmetic, arithmetic], color=INK, lw=1.2)
        for name, (x, y) in places.items():
            axes.plot([x], [y], ls="none", ms=6.5, label=name, **_look_of(name))
        axes.minorticks_off()
        axes.set_xlabel("arithmetic per byte that must move")
        axes.set_ylabel("operations a second")
        axes.margins(y=0.12)
        _legend(axes, look, f"copies {rate(memory, 'B/s')}\nproducts {rate(arithmetic, 'FLOP/s')}")


def _place(m: Measurement) -> tuple[float, float]:
    """Where an operation stands: arithmetic for a byte, and arithmetic a second."""
    arithmetic = m.flops or m.elements * ROWS[m.key.row].arithmetic
    return arithmetic / m.bytes, arithmetic / (m.seconds or 1.0)


@frozen
class _Latency:
    timed: list[Measurement]

    def __call__(self, axes: Axes, look: Look) -> None:
        for name in dict.fromkeys(m.key.row for m in self.timed):
            own = [m for m in self.timed if m.key.row == name]
            x, y = [ALL_SIZES[m.key.size] for m in own], [m.seconds or 0.0 for m in own]
            axes.loglog(x, y, ms=4, lw=1.3, label=name, **_look_of(name))
        sizes = [s for s in ALL_SIZES if any(m.key.size == s for m in self.timed)]
        axes.set_xticks([ALL_SIZES[s] for s in sizes], sizes)
        axes.minorticks_off()
        axes.set_yticks(*_times(axes.get_ylim()))
        axes.set_xlabel("elements of an operand")
        axes.set_ylabel("a call")
        _legend(axes, look)


def _times(limits: tuple[float, float]) -> tuple[list[float], list[str]]:
    """Ticks at powers of ten, as people say times."""
    names = {
        -9: "1 ns",
        -8: "10 ns",
        -7: "100 ns",
        -6: "1 µs",
        -5: "10 µs",
        -4: "100 µs",
        -3: "1 ms",
        -2: "10 ms",
    }
    names |= {-1: "100 ms", 0: "1 s", 1: "10 s", 2: "100 s"}
    chosen = [power for power in names if limits[0] <= 10.0**power <= limits[1]]
    return [10.0**power for power in chosen], [names[power] for power in chosen]


@frozen
class _Bars:
    bars: list[tuple[str, float]]

    def __call__(self, axes: Axes, look: Look) -> None:
        names, ratios = [name for name, _ in self.bars], [ratio for _, ratio in self.bars]
        places = range(len(names))
        colours = [COLOURS[0] if ratio >= 1 else COLOURS[1] for ratio in ratios]
        axes.barh(places, [ratio - 1 for ratio in ratios], left=1, color=colours, height=0.7)
        axes.set_xscale("log")
        axes.set_yticks(places, names)
        axes.minorticks_off()
        axes.xaxis.set_major_formatter(lambda value, _: times(value))
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.axvline(1, color=INK, lw=1)
        for place, ratio in zip(places, ratios, strict=True):
            beside = max(ratio, 1)  # where nothing else is
            axes.annotate(times(ratio), (beside, place), (4, 0), textcoords="offset points", va="center")
        axes.set_xlim(min(*ratios, 0.5) / 1.5, max(*ratios, 2) * 6)
        axes.set_xlabel("times as fast as NumPy")
