"""A report as tables of words, which the terminal, Markdown and HTML show each in their way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from hologram.benchmark.report.records import (
    HOST,
    NOISE,
    STEP,
    TITLES,
    Adapter,
    Key,
    Kind,
    Measurement,
    Report,
)
from hologram.benchmark.works import ALL_SIZES
from hologram.foundation.display import duration
from hologram.foundation.frozen import frozen

MISSING = "–"
NOISY = "~"  # ahead of a figure whose turns differ
PREFIXES = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))


class Cell(str):
    """Words in a style that the terminal has."""

    style: str

    def __new__(cls, text: str, style: str = "") -> Cell:
        made = super().__new__(cls, text)
        made.style = style
        return made


@frozen
class Table:
    """A title, the columns' heads, and rows of as many cells; all columns but the first are numbers or `words`."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def tables(report: Report) -> Iterator[Table]:
    """All that a report has, in order."""
    yield adapters(report)
    for adapter in report.adapters:
        if report.of(Kind.OPERATION, adapter.name):
            yield operations(report, adapter)
    if report.of(Kind.OPERATION, HOST):
        yield _numpy(report)
    for kind in (Kind.LAUNCH, Kind.START):
        if report.of(kind):
            yield pivot(TITLES[kind], report.of(kind), lambda key: key.row, lambda key: key.adapter)
    for adapter in report.adapters:
        transfers = report.of(Kind.TRANSFER, adapter.name)
        if transfers:
            title = f"{TITLES[Kind.TRANSFER]}: {adapter.title}"
            yield _rated(pivot(title, transfers, lambda key: key.row, lambda key: key.size), transfers)
    for kind in (Kind.INFERENCE, Kind.TRAINING):
        if report.of(kind):
            yield pivot(
                TITLES[kind],
                report.of(kind),
                contender,
                lambda key: f"{key.row}, {key.size}",
                corner="who, where",
            )
    if report.of(Kind.PROGRAM):
        yield programs(report.of(Kind.PROGRAM))


def contender(key: Key) -> str:
    """Who computes, and where."""
    return key.who if key.adapter == HOST else f"{key.who}, {key.adapter}"


def programs(measurements: list[Measurement]) -> Table:
    """Whole programs by everyone, and what their medians hide: the first step, launches, the host's time, memory."""
    marks = sorted({int(mark) for m in measurements if m.course for mark in m.course.resident_mb})
    memory = f"MB after {', '.join(map('{:,}'.format, marks))}" if marks else "MB"
    columns = ("program", "by", "time", "ratio", "first", "launches", "host", memory)
    together: dict[str, list[Measurement]] = {}
    for m in measurements:
        together.setdefault(m.key.row, []).append(m)
    rows = tuple(row for own in together.values() for row in _program(own, marks))
    return Table(TITLES[Kind.PROGRAM], columns, rows, frozenset({"by"}), tuple(_remarks(together)))


def _program(measurements: list[Measurement], marks: list[int]) -> Iterator[tuple[str, ...]]:
    """A program's rows; ratios are to the first peer that has a time."""
    peer = next((m.seconds for m in measurements if m.seconds and m.key.adapter == HOST), None)
    for m in measurements:
        if m.seconds is None or m.course is None:
            continue
        ratio = times(m.seconds / peer if peer else None)
        launches = MISSING if m.course.launches is None else f"{m.course.launches:,.1f}".removesuffix(".0")
        host = MISSING if m.course.host_seconds is None else duration(m.course.host_seconds)
        memory = (m.course.resident_mb.get(str(mark)) for mark in marks)
        resident = ", ".join(MISSING if megabytes is None else f"{megabytes:,.0f}" for megabytes in memory)
        first = duration(m.course.first_seconds)
        yield (m.key.row, contender(m.key), time(m), ratio, first, launches, host, resident or MISSING)


def _remarks(programs: dict[str, list[Measurement]]) -> Iterator[str]:
    """What times are of, whom nobody checks, and why times are missing."""
    parts: dict[str, list[str]] = {}
    alone: list[str] = []
    missing: dict[str, list[Measurement]] = {}
    for name, measurements in programs.items():
        if measurements[0].key.size != STEP:
            parts.setdefault(measurements[0].key.size, []).append(name)
        timed = [m.key.adapter for m in measurements if m.seconds]
        if timed and HOST not in timed:
            alone.append(name)
        for m in measurements:
            missing.setdefault(contender(m.key), []).append(m)
    for size, names in parts.items():
        yield f"{', '.join(names)}: of a {size}, but for the first, which is a whole one"
    if alone:
        yield f"{', '.join(alone)}: no peer has a result that ours could be compared with"
    for who, measurements in missing.items():
        yield from (f"{who}: {reason}" for reason in reasons(measurements))


def adapters(report: Report) -> Table:
    """The adapters with their peaks."""
    columns = ("adapter", "device", "driver", "emulated by", "copies", "products")
    rows = tuple(
        (
            a.name,
            a.device,
            a.driver,
            "software" if a.software else "hardware",
            rate(report.copy_peak(a.name), "B/s"),
            rate(report.arithmetic_peak(a.name), "FLOP/s"),
        )
        for a in report.adapters
    )
    return Table("Adapters", columns, rows, frozenset(columns[:4]))


def operations(report: Report, adapter: Adapter) -> Table:
    """Latency by size; and of the largest the rate, its share of the adapter's own peak, and NumPy's time over it."""
    measurements = report.of(Kind.OPERATION, adapter.name)
    sizes = tuple(size for size in ALL_SIZES if any(m.key.size == size for m in measurements))
    columns = ("operation", *sizes, "rate", "peak", "NumPy")
    rows = []
    for name in dict.fromkeys(m.key.row for m in measurements):
        own = {m.key.size: m for m in measurements if m.key.row == name}
        last = next((own[size] for size in reversed(sizes) if size in own and own[size].turns), None)
        ending = (MISSING,) * 3 if last is None else (best_rate(last), *_beside(report, last))
        rows.append((name, *(time(own.get(size)) for size in sizes), *ending))
    return Table(
        f"{TITLES[Kind.OPERATION]}: {adapter.title}", columns, tuple(rows), notes=reasons(measurements)
    )


def _beside(report: Report, one: Measurement) -> tuple[str, str]:
    return percent(report.share(one)), times(speed_up(report, one))


def speed_up(report: Report, one: Measurement) -> float | None:
    """NumPy's time over this one."""
    theirs = report.by_key.get(Key(one.key.kind, one.key.row, one.key.size, "NumPy", HOST))
    return theirs.seconds / one.seconds if theirs and theirs.seconds and one.seconds else None


def _numpy(report: Report) -> Table:
    return pivot(
        f"{TITLES[Kind.OPERATION]}: NumPy on the host",
        report.of(Kind.OPERATION, HOST),
        lambda key: key.row,
        lambda key: key.size,
        corner="operation",
    )


def pivot(
    title: str,
    measurements: list[Measurement],
    row: Callable[[Key], str],
    column: Callable[[Key], str],
    corner: str = "",
) -> Table:
    """A table of measurements by two words of their keys."""
    rows, columns = (tuple(dict.fromkeys(word(m.key) for m in measurements)) for word in (row, column))
    at = {(row(m.key), column(m.key)): m for m in measurements}
    shown = tuple((r, *(time(at.get((r, c))) for c in columns)) for r in rows)
    return Table(title, (corner, *columns), shown, notes=reasons(measurements))


def _rated(shown: Table, measurements: list[Measurement]) -> Table:
    """With the rate at the largest size behind each row."""
    last = {m.key.row: rate(m.bytes_per_second, "B/s") for m in measurements if m.turns}
    rows = tuple((*row, last.get(row[0], MISSING)) for row in shown.rows)
    return replace(shown, columns=(*shown.columns, "rate"), rows=rows)


def reasons(measurements: list[Measurement]) -> tuple[str, ...]:
    """Why times are missing: each reason once, with what it is about."""
    about: dict[str, dict[str, list[str]]] = {}
    for m in measurements:
        if m.why:
            about.setdefault(m.why, {}).setdefault(m.key.row, []).append(m.key.size)
    return tuple(f"{_rows(rows)}: {why}" for why, rows in about.items())


def _rows(sizes: dict[str, list[str]]) -> str:
    """Rows with the same sizes together."""
    together: dict[str, list[str]] = {}
    for row, own in sizes.items():
        together.setdefault(", ".join(dict.fromkeys(own)), []).append(row)
    return "; ".join(f"{', '.join(rows)} ({those})" for those, rows in together.items())


def time(one: Measurement | None) -> str:
    if one is None or not one.seconds:
        return MISSING
    return f"{NOISY if one.noisy else ''}{duration(one.seconds)}"


def noise(report: Report) -> str:
    """How many figures of a report are noisy, in words; nothing where none is."""
    timed = [m for m in report.measurements if m.turns]
    noisy = sum(m.noisy for m in timed)
    if not noisy:
        return ""
    return (
        f"{noisy} of {len(timed)} figures are noisy, those with {NOISY}: their slowest turn took over {NOISE} times "
        "their fastest, as other work on the machine makes it"
    )


def best_rate(one: Measurement) -> str:
    """GFLOP/s of what arithmetic bounds, GB/s elsewhere."""
    if one.flops:
        return rate(one.flops_per_second, "FLOP/s")
    return rate(one.bytes_per_second, "B/s")


def rate(value: float | None, unit: str) -> str:
    """With three digits and a decimal prefix."""
    if not value:
        return MISSING
    prefix, scale = next(((p, s) for p, s in PREFIXES if value >= s), ("", 1.0))
    return f"{value / scale:.3g} {prefix}{unit}"


def percent(share: float | None) -> str:
    return MISSING if share is None else f"{share:.0%}" if share >= 0.01 else "<1%"


def times(ratio: float | None) -> str:
    """With three digits, and none behind a point that need not be."""
    if ratio is None:
        return MISSING
    return f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.3g}x"
