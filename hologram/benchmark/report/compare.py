"""Reports beside one another: what became slower or faster beyond noise, and adapters side by side.

The ratio of two medians has an interval by the percentile bootstrap (Efron and Tibshirani 1993, An Introduction to the
Bootstrap, chapter 13): turns are drawn again with replacement, and so is the ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import Enum

import numpy as np

from hologram.benchmark.report.records import FOR_WANT_OF_TIME, HOST, TITLES, Key, Kind, Measurement, Report
from hologram.benchmark.report.tables import MISSING, Table, adapters, reasons, time, times
from hologram.foundation.frozen import frozen

RESAMPLES = 2000
CONFIDENCE = 0.99  # hundreds of rows are looked at: at 0.95, one in forty would seem slower by chance
THRESHOLD = 0.1  # of the time before: less is not told
LEAST_TURNS = 3  # that an interval can be had of


class Verdict(str, Enum):
    """What a comparison shows."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"  # within noise, or the threshold
    UNKNOWN = "too few turns"
    LOST = "without a time now"  # wrong or refused: the measurement says which


REGRESSIONS = (Verdict.SLOWER, Verdict.LOST)


@frozen
class Change:
    """One measurement in two reports: the time now over the time before, and the interval it lies in."""

    before: Measurement
    after: Measurement
    ratio: float
    low: float
    high: float
    verdict: Verdict


def changes(before: Report, after: Report, threshold: float = THRESHOLD) -> list[Change]:
    """Everything that both reports measured, and the first has times of."""
    rng = np.random.default_rng(0)
    return [
        _change(before.by_key[m.key], m, threshold, rng)
        for m in after.measurements
        if m.key in before.by_key and before.by_key[m.key].turns
    ]


def _change(before: Measurement, after: Measurement, threshold: float, rng: np.random.Generator) -> Change:
    if not after.turns:  # one that had no time says nothing
        verdict = Verdict.UNKNOWN if after.why in FOR_WANT_OF_TIME else Verdict.LOST
        return Change(before, after, float("inf"), float("inf"), float("inf"), verdict)
    ratio = float(np.median(after.turns) / np.median(before.turns))
    if min(len(before.turns), len(after.turns)) < LEAST_TURNS:
        return Change(before, after, ratio, 0.0, float("inf"), Verdict.UNKNOWN)
    ratios = _medians(after.turns, rng) / _medians(before.turns, rng)
    outside = (1 - CONFIDENCE) / 2
    low, high = (float(q) for q in np.quantile(ratios, (outside, 1 - outside)))
    verdict = Verdict.SAME
    if low > 1 + threshold:
        verdict = Verdict.SLOWER
    elif high < 1 / (1 + threshold):
        verdict = Verdict.FASTER
    return Change(before, after, ratio, low, high, verdict)


def _medians(turns: Sequence[float], rng: np.random.Generator) -> np.ndarray:
    return np.median(rng.choice(np.asarray(turns), (RESAMPLES, len(turns))), axis=1)


def regressions(before: Report, after: Report) -> tuple[tuple[Verdict, ...], str]:
    """The verdicts that count against the code, and why not all of REGRESSIONS do."""
    if not same_machine(before, after):
        return (), "not the same machine, nothing is a regression"
    busy = [word for word, report in (("before", before), ("after", after)) if report.machine.get("busy")]
    if busy:
        return (Verdict.LOST,), f"other work ran {' and '.join(busy)}, so that slower is no regression"
    return REGRESSIONS, ""


def same_machine(before: Report, after: Report) -> bool:
    """Whether two reports are of the same processors and devices."""

    def who(report: Report) -> tuple[object, ...]:
        devices = tuple((a.name, a.device) for a in report.adapters)
        return (report.machine.get("processor"), report.machine.get("cores"), devices)

    return who(before) == who(after)


def change_table(pairs: list[Change], title: str) -> Table:
    """Those beyond noise, the worst first."""
    told = sorted((c for c in pairs if c.verdict in (*REGRESSIONS, Verdict.FASTER)), key=lambda c: -c.ratio)
    rows = tuple(
        (
            f"{c.after.key.row} {c.after.key.size} ({c.after.key.kind.value})",
            f"{c.after.key.who}, {c.after.key.adapter}",
            time(c.before),
            time(c.after),
            *((times(c.ratio), f"{c.low:.3g} to {c.high:.3g}") if c.after.turns else (MISSING, MISSING)),
            c.verdict.value,
        )
        for c in told
    )
    columns = ("work", "by", "before", "after", "ratio", f"{CONFIDENCE:.0%} interval", "is")
    count = {verdict: sum(c.verdict is verdict for c in pairs) for verdict in Verdict}
    note = ", ".join(f"{number} {verdict.value}" for verdict, number in count.items())
    measured = [c.ratio for c in pairs if c.after.turns]
    middle = f"; the median of all ratios is {times(float(np.median(measured)))}" if measured else ""
    notes = (f"{len(pairs)} in both: {note}{middle}", *reasons([c.after for c in pairs]))
    return Table(title, columns, rows, frozenset({*columns[:2], "is"}), notes)


def side_by_side(reports: dict[str, Report]) -> list[Table]:
    """Adapters x work: a column for each adapter of each report, a table for each kind of work."""
    columns: dict[str, Callable[[Key], Measurement | None]] = {}
    where: list[tuple[str, ...]] = []
    for name, report in reports.items():
        where += [(f"{row[0]} [{name}]", *row[1:]) for row in adapters(report).rows]
        host = (report.machine.get("processor", ""), report.machine.get("system", ""))
        where.append((f"{HOST} [{name}]", *host, "", "", ""))
        for adapter in (*(a.name for a in report.adapters), HOST):
            columns[f"{adapter} [{name}]"] = _of(report, adapter)
    keys = dict.fromkeys(_work(m.key) for report in reports.values() for m in report.measurements if m.turns)
    tables = [replace(adapters(next(iter(reports.values()))), rows=tuple(where))]
    for kind in Kind:
        together: dict[tuple[str, str], list[Key]] = {}  # whoever does the same work
        for key in keys:
            if key.kind is kind:
                together.setdefault((key.row, key.size), []).append(key)
        rows = tuple(
            (f"{key.row} {key.size}", key.who, *(time(find(key)) for find in columns.values()))
            for alike in together.values()
            for key in alike
        )
        if rows:
            notes = [note for name, report in reports.items() for note in _missing(name, report, kind)]
            words = frozenset({"work", "who"})
            tables.append(Table(TITLES[kind], ("work", "who", *columns), rows, words, tuple(notes)))
    return tables


def _missing(name: str, report: Report, kind: Kind) -> Iterator[str]:
    """Why times of a kind are missing in a report, by adapter and by who had them to measure."""
    absent: dict[tuple[str, str], list[Measurement]] = {}
    for m in report.measurements:
        if m.key.kind is kind and not m.turns:
            absent.setdefault((m.key.adapter, m.key.who), []).append(m)
    for (adapter, who), measurements in absent.items():
        yield from (f"{who} on {adapter} [{name}]: {reason}" for reason in reasons(measurements))


def _work(key: Key) -> Key:
    """The same wherever it is done."""
    return Key(key.kind, key.row, key.size, key.who, "")


def _of(report: Report, adapter: str) -> Callable[[Key], Measurement | None]:
    return lambda key: report.by_key.get(Key(key.kind, key.row, key.size, key.who, adapter))
