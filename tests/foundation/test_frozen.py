"""Frozen records behave as the standard library's frozen dataclasses do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from hologram.foundation.frozen import frozen


def _classes(decorate: Any) -> tuple[type, type, type]:
    """Two classes, one derived from the other, and one of its own equality."""

    @decorate
    class Point:
        x: float
        y: float = 1.0
        tags: list[str] = dataclasses.field(default_factory=list)
        note: str = dataclasses.field(default="", compare=False, repr=False)
        size: float = dataclasses.field(init=False, default=0.0)

        def __post_init__(self) -> None:
            object.__setattr__(self, "size", self.x * self.y)

    @decorate
    class Named(Point):
        name: str = "?"

    @decorate
    class Loose:
        x: int

        def __eq__(self, other: object) -> bool:
            return hash(self) == hash(other)

        def __hash__(self) -> int:
            return self.x % 2

        def __repr__(self) -> str:
            return "loose"

    return Point, Named, Loose


OURS, THEIRS = _classes(frozen), _classes(dataclasses.dataclass(frozen=True))


@pytest.mark.parametrize("place", [0, 1])
def test_construction_and_text(place: int) -> None:
    ours, theirs = OURS[place], THEIRS[place]
    for arguments, named in [((1,), {}), ((2, 3), {"note": "n"}), ((), {"x": 4, "tags": ["t"]})]:
        assert repr(ours(*arguments, **named)) == repr(theirs(*arguments, **named))
    for arguments, named in [((), {}), ((1, 2, [], "", 5, 6, 7), {}), ((1,), {"size": 2}), ((1,), {"z": 2})]:
        for cls in (ours, theirs):
            with pytest.raises(TypeError, match="__init__"):
                cls(*arguments, **named)
    assert ours(1).tags is not ours(1).tags


def test_equality_and_hashes() -> None:
    point, named, loose = OURS
    assert point(1, 2, note="a") == point(1, 2, note="b") != point(1, 3)
    assert point(1) != named(1)
    assert point(1).__eq__(1) is NotImplemented
    assert loose(1) == loose(3)
    assert hash(loose(3)) == 1
    assert repr(loose(1)) == "loose"
    with pytest.raises(TypeError, match="unhashable"):
        hash(point(1))

    @frozen
    class Pair:
        a: int
        b: tuple[int, ...]

    assert {Pair(1, (2,)): 3}[Pair(1, (2,))] == 3
    assert len({Pair(1, ()), Pair(1, ()), Pair(2, ())}) == 2


def test_assignment_is_refused() -> None:
    record = OURS[0](1)
    for change in (lambda: setattr(record, "x", 2), lambda: delattr(record, "x")):
        with pytest.raises(dataclasses.FrozenInstanceError, match="'x'"):
            change()
    assert record.x == 1


def test_identity_where_equality_is_not_asked_for() -> None:
    @frozen(eq=False, repr=False)
    class Apart:
        x: int

    assert Apart(1) != Apart(1)
    assert len({Apart(1), Apart(1)}) == 2
    assert "object at" in repr(Apart(1))


def test_the_standard_functions() -> None:
    record = OURS[1](2, name="n")
    assert dataclasses.replace(record, x=3).size == 3
    assert dataclasses.asdict(record) == dataclasses.asdict(THEIRS[1](2, name="n"))
    assert [f.name for f in dataclasses.fields(record)] == ["x", "y", "tags", "note", "size", "name"]
    assert OURS[1].__match_args__ == THEIRS[1].__match_args__


@frozen(slots=True)
class Slotted:
    x: int
    y: tuple[int, ...] = ()


def test_slots() -> None:
    record = Slotted(1, (2,))
    assert not hasattr(record, "__dict__")
    for made in (copy.copy(record), copy.deepcopy(record), pickle.loads(pickle.dumps(record))):
        assert made == record
        assert hash(made) == hash(record)
        assert made is not record
