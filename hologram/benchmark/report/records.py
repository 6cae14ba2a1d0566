"""What comes of measuring: the machine, its adapters and the measurements; written as JSON, and read again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, field, fields, replace
from enum import Enum
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from hologram.benchmark.timing import GIVE_MORE, NOT_REACHED
from hologram.foundation.frozen import frozen

FORMAT = 1
BESIDES = ("elements", "bytes", "flops", "why")  # what a measurement says beside its times
TOO_LONG = f"a call takes longer than there is time for; {GIVE_MORE}"
FOR_WANT_OF_TIME = (TOO_LONG, NOT_REACHED)
HOST = "host"  # where NumPy and PyTorch compute
NOISE = 1.5  # times its fastest turn that the slowest of a measurement may take
STEP = "step"  # the size of a program whose times are of whole steps


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
    PROGRAM = "program"


TITLES = {
    Kind.PEAK: "Peaks: what the adapter itself can do",
    Kind.OPERATION: "Operations",
    Kind.LAUNCH: "Launch overhead: one of many dispatches that wait for one another",
    Kind.TRANSFER: "Transfers between host and adapter",
    Kind.START: "First result of a new process, beyond Python's start and NumPy's import",
    Kind.INFERENCE: "Pipelines: inference",
    Kind.TRAINING: "Pipelines: a training step",
    Kind.PROGRAM: "Whole programs: other inputs at every step",
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
class Course:
    """How a program went, which the median of its steps does not say; what nobody could tell is None."""

    steps: int
    first_seconds: float  # which compiles
    least_seconds: float
    launches: float | None = None
    host_seconds: float | None = None  # of a launch: what its kernel does not take, or its thread works
    resident_mb: dict[str, float] = field(default_factory=dict)  # memory after so many steps


@frozen
class Measurement:
    """Seconds of a call, the median of each turn; without any, `why` says why."""

    key: Key
    turns: tuple[float, ...] = ()
    elements: int = 0
    bytes: int = 0  # that must move at the least; 0 where that is not asked
    flops: int = 0
    why: str = ""
    course: Course | None = None

    @property
    def seconds(self) -> float | None:
        return median(self.turns) if self.turns else None

    @property
    def noisy(self) -> bool:
        """Whether its turns differ too much for a figure to be relied on."""
        return bool(self.turns) and max(self.turns) > NOISE * min(self.turns)

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
        values = asdict(self)
        values["measurements"] = list(map(as_dict, self.measurements))
        return {"format": FORMAT, **values}

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(self.as_dict(), indent=1), encoding="utf-8")


def as_dict(one: Measurement) -> dict[str, Any]:
    """A measurement as plain values; what it does not say beside its key is left out."""
    values = asdict(one)
    return values.pop("key") | {name: value for name, value in values.items() if value}


def merged(measurements: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """One measurement for each key, with the turns of all."""
    by_key: dict[Key, Measurement] = {}
    for one in measurements:
        before = by_key.get(one.key)
        turns = (before.turns if before else ()) + one.turns
        by_key[one.key] = replace(one, turns=turns, why="" if turns else one.why)
    return tuple(by_key.values())


def load(path: Path) -> Report:
    """Reads a report. Raises BadReport, which says what is wrong with the file; OSError where there is none."""
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadReport(f"{path} is not a report of `hologram bench`: it is no JSON ({error})") from error
    if not isinstance(plain, dict) or "format" not in plain:
        raise BadReport(f"{path} is not a report of `hologram bench`: it has no format number")
    if plain["format"] != FORMAT:
        raise BadReport(f"{path} has format {plain['format']!r}, this version reads {FORMAT}: measure again")
    try:
        return from_dict(plain)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadReport(f"{path} is damaged: {type(error).__name__}: {error}") from error


def from_dict(plain: dict[str, Any]) -> Report:
    """The report whose `as_dict` this is."""
    values = _checked(Report, {f.name: plain[f.name] for f in fields(Report)})
    values["adapters"] = tuple(Adapter(**_checked(Adapter, a)) for a in values["adapters"])
    values["measurements"] = tuple(map(measurement, values["measurements"]))
    return Report(**values)


def measurement(plain: dict[str, Any]) -> Measurement:
    """The measurement that `as_dict` made plain values of."""
    key = Key(**_checked(Key, {f.name: plain[f.name] for f in fields(Key)}) | {"kind": Kind(plain["kind"])})
    turns = tuple(map(float, plain.get("turns", ())))
    besides = {name: plain[name] for name in BESIDES if name in plain}
    course = Course(**_checked(Course, plain["course"])) if "course" in plain else None
    return Measurement(key, turns, **_checked(Measurement, besides), course=course)


_NUMBER = (int, float)
_TYPES: dict[str, Any] = {
    "str": str,
    "bool": bool,
    "int": int,
    "float": _NUMBER,
    "float | None": (*_NUMBER, type(None)),
}
_VALUES: dict[str, Any] = {"dict[str, str]": str, "dict[str, float]": _NUMBER}


def _checked(of: type, values: dict[str, Any]) -> dict[str, Any]:
    """Values by name of a record's fields, each of the plain type that the field says."""
    for f in fields(of):
        if f.name in values and not _is(str(f.type), value := values[f.name]):
            raise TypeError(f"{of.__name__}.{f.name} must be {f.type}, got {value!r}")
    return values


def _is(wanted: str, value: Any) -> bool:
    """Whether a value is of a type that is named; of those that are not plain, anything is."""
    if wanted in _VALUES:
        return isinstance(value, dict) and all(isinstance(v, _VALUES[wanted]) for v in value.values())
    return isinstance(value, _TYPES.get(wanted, object))
