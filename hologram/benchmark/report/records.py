"""What comes of measuring: the machine, its adapters and the measurements; written as JSON, and read again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, field, fields
from enum import Enum
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from hologram.records import frozen

FORMAT = 1
BESIDES = ("elements", "bytes", "flops", "why")  # what a measurement says beside its times
TOO_LONG = "a call takes longer than there is time for; give it more --seconds"
NOT_REACHED = "its process was stopped when its time was over; give it more --seconds"
FOR_WANT_OF_TIME = (TOO_LONG, NOT_REACHED)
HOST = "host"  # where NumPy and PyTorch compute


class BadReport(ValueError):
    """A file that holds no report, or none that this version reads."""


class Kind(str, Enum):
    """What a measurement is of."""

    PEAK = "peak"  # copies from buffer to buffer, and products of matrices
    OPERATION = "operation"
    LAUNCH = "launch"  # one of many small dispatches that wait for one another
    TRANSFER = "transfer"
    START = "start"  # the first result of a new process
    INFERENCE = "inference"
    TRAINING = "training"


TITLES = {
    Kind.PEAK: "Peaks: what the adapter itself can do",
    Kind.OPERATION: "Operations",
    Kind.LAUNCH: "Launch overhead: one of many dispatches that wait for one another",
    Kind.TRANSFER: "Transfers between host and adapter",
    Kind.START: "First result of a new process, beyond Python's start and NumPy's import",
    Kind.INFERENCE: "Pipelines: inference",
    Kind.TRAINING: "Pipelines: a training step",
}


@frozen
class Adapter:
    """A device of a backend; `name` is its identity within a report, as 'webgpu:0'."""

    backend: str
    index: int
    device: str
    driver: str
    software: bool

    @property
    def name(self) -> str:
        return f"{self.backend}:{self.index}"

    @property
    def title(self) -> str:
        return f"{self.name} {self.device}{' (software)' if self.software else ''}"


@frozen
class Key:
    """Which measurement it is: the same in every report of every machine."""

    kind: Kind
    row: str
    size: str
    who: str  # 'hologram', 'hologram jit', 'NumPy', ...
    adapter: str  # a backend and a number, or HOST


@frozen
class Measurement:
    """Seconds of a call, the median of each turn; without any, `why` says why."""

    key: Key
    turns: tuple[float, ...] = ()
    elements: int = 0
    bytes: int = 0  # that must move at the least; 0 where that is not asked
    flops: int = 0
    why: str = ""

    @property
    def seconds(self) -> float | None:
        return median(self.turns) if self.turns else None

    @property
    def bytes_per_second(self) -> float | None:
        return self.bytes / self.seconds if self.seconds and self.bytes else None

    @property
    def flops_per_second(self) -> float | None:
        return self.flops / self.seconds if self.seconds and self.flops else None


@frozen
class Report:
    """All that one run of the matrix found; `unfinished` says why a part of it is missing."""

    machine: dict[str, str]
    adapters: tuple[Adapter, ...]
    measurements: tuple[Measurement, ...]
    seconds: float = 0.0  # that measuring took
    unfinished: str = ""
    interrupted: bool = False
    absent: dict[str, str] = field(default_factory=dict)  # backends that are not here, and the reason

    @cached_property
    def by_key(self) -> dict[Key, Measurement]:
        return {m.key: m for m in self.measurements}

    def of(self, kind: Kind, adapter: str = "") -> list[Measurement]:
        """The measurements of a kind, those of an adapter where one is named."""
        return [m for m in self.measurements if m.key.kind is kind and adapter in ("", m.key.adapter)]

    def copy_peak(self, adapter: str) -> float | None:
        """Bytes a second that copies within the adapter move."""
        return max((m.bytes_per_second or 0.0 for m in self.of(Kind.PEAK, adapter)), default=0.0) or None

    def arithmetic_peak(self, adapter: str) -> float | None:
        """Operations a second of its fastest product of matrices."""
        products = (*self.of(Kind.PEAK, adapter), *self.of(Kind.OPERATION, adapter))
        return max((m.flops_per_second or 0.0 for m in products), default=0.0) or None

    def share(self, one: Measurement) -> float | None:
        """The fraction of the adapter's own peak: of products where it is bound by them, of copies elsewhere."""
        if one.flops_per_second:
            peak = self.arithmetic_peak(one.key.adapter)
            return one.flops_per_second / peak if peak else None
        peak = self.copy_peak(one.key.adapter)
        return one.bytes_per_second / peak if peak and one.bytes_per_second else None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        found = asdict(self)
        found["measurements"] = list(map(as_dict, self.measurements))
        return {"format": FORMAT, **found}

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(self.as_dict(), indent=1), encoding="utf-8")


def as_dict(one: Measurement) -> dict[str, Any]:
    """A measurement as plain values; what it does not say beside its key is left out."""
    return asdict(one.key) | {f.name: v for f in fields(one)[1:] if (v := getattr(one, f.name))}


def merged(measurements: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """One measurement for each key, with the turns of all."""
    found: dict[Key, Measurement] = {}
    for one in measurements:
        before = found.get(one.key)
        turns = (before.turns if before else ()) + one.turns
        found[one.key] = Measurement(
            one.key, turns, one.elements, one.bytes, one.flops, "" if turns else one.why
        )
    return tuple(found.values())


def load(path: Path) -> Report:
    """Reads a report. Raises BadReport, which says what is wrong with the file; OSError where there is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadReport(f"{path} is not a report of `hologram bench`: it is no JSON ({error})") from error
    if not isinstance(found, dict) or "format" not in found:
        raise BadReport(f"{path} is not a report of `hologram bench`: it has no format number")
    if found["format"] != FORMAT:
        raise BadReport(f"{path} has format {found['format']!r}, this version reads {FORMAT}: measure again")
    try:
        return from_dict(found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadReport(f"{path} is damaged: {type(error).__name__}: {error}") from error


def from_dict(found: dict[str, Any]) -> Report:
    """The report whose `as_dict` this is."""
    values = _checked(Report, {f.name: found[f.name] for f in fields(Report)})
    values["adapters"] = tuple(Adapter(**_checked(Adapter, a)) for a in values["adapters"])
    values["measurements"] = tuple(map(measurement, values["measurements"]))
    return Report(**values)


def measurement(found: dict[str, Any]) -> Measurement:
    """The measurement that `as_dict` made plain values of."""
    key = Key(**_checked(Key, {f.name: found[f.name] for f in fields(Key)}) | {"kind": Kind(found["kind"])})
    turns = tuple(map(float, found.get("turns", ())))
    besides = {name: found[name] for name in BESIDES if name in found}
    return Measurement(key, turns, **_checked(Measurement, besides))


_TYPES: dict[str, Any] = {"str": str, "bool": bool, "int": int, "float": (int, float), "dict[str, str]": dict}


def _checked(of: type, found: dict[str, Any]) -> dict[str, Any]:
    """Values by name of a record's fields, each of the plain type that the field says."""
    for f in fields(of):
        value, wanted = found.get(f.name), _TYPES.get(str(f.type))
        if f.name not in found or wanted is None:
            continue
        every = [value, *value.values()] if isinstance(value, dict) else [value]
        if not isinstance(value, wanted) or not all(isinstance(v, str) for v in every[1:]):
            raise TypeError(f"{of.__name__}.{f.name} must be {f.type}, got {value!r}")
    return found
