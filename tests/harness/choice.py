"""The tests that a run takes: all that a change touches, and one in N of the others, with N such that they fit a time.

`tests/map.json` (`make map` writes it) holds what each test takes, the tests that touch each file of ours, and what
each file was like then: a file that is another one now is changed, whatever a repository knows of it. Each run of the
main line leaves other tests out, so that N runs show all of them.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import math
import subprocess
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hologram.opset import OPERATIONS

ROOT = Path(__file__).parents[2]
MAP = ROOT / "tests" / "map.json"
OURS = ("hologram", "hologram_torch", "tests")
# Beside these, which coverage does not look into: how the paths of their tests begin.
TESTED_BY = {
    "docs": ("tests/test_documents.py",),
    "README.md": ("tests/test_documents.py",),
    "bench": ("tests/bench/",),
    "examples": (
        "tests/test_documents.py",
        "tests/demo/",
        "tests/frontend/",
        "tests/kernels/test_gallery.py",
    ),
    "requirements": ("tests/test_requirements.py",),
    "shaders": ("tests/shaders/", "tests/opset/", "tests/packed/", "tests/compiler/"),
    "tests/golden": ("tests/compiler/", "tests/shaders/", "tests/packed/"),
}
UNKNOWN = 0.03  # seconds of a test that the map does not know
COMMON = 0.4  # a file that this share of the tests touches says nothing about which to take, and is left out
TOUCHED = 0.6  # of the time, at most, is for what a change touches


@dataclass(frozen=True)
class Choice:
    """One test in `every` of all, and one in `touched_every` of those in `groups`; the rest are other runs'."""

    every: int = 1
    residue: int = 0
    touched_every: int = 1
    groups: frozenset[str] = frozenset()
    only: bool = False  # none of those that no change touches

    def touched(self, test: str) -> bool:
        """Whether a change touches a test: its group, its whole file, or, where the map does not know it, itself."""
        group, totals = group_of(test), known().total
        return not self.groups.isdisjoint((group, group.partition("[")[0])) or bool(
            totals and group not in totals
        )

    def takes(self, test: str) -> bool:
        """Whether a test is run."""
        if self.touched(test):
            return _part(test, self.touched_every) == self.residue % self.touched_every
        return not self.only and _part(test, self.every) == self.residue % self.every

    def cost(self, test: str) -> tuple[bool, float]:
        """Whether a test comes first, and its seconds."""
        return self.touched(test), known().seconds(test)

    @property
    def turn(self) -> int:
        """Which part of marks that thin out is run: another one when each part of all tests had its turn."""
        return self.residue // self.every

    def __str__(self) -> str:
        touched = f"1 in {self.touched_every} of" if self.touched_every > 1 else "all of"
        parts = [f"{touched} the tests that changes touch ({len(self.groups)} groups)"] if self.groups else []
        if not self.only:
            left = f"1 in {self.every}, part {self.residue % self.every + 1}" if self.every > 1 else "all"
            parts.append(f"{left} of {'the others' if parts else 'the tests'}")
        return ", ".join(parts)

    def told(self) -> dict[str, Any]:
        """As a process is told it."""
        return asdict(self) | {"groups": sorted(self.groups)}

    @staticmethod
    def of(told: dict[str, Any]) -> Choice:
        """What `told` gave."""
        given: dict[str, Any] = told | {"groups": frozenset(told["groups"])}
        return Choice(**given)


def _part(test: str, parts: int) -> int:
    return zlib.crc32(test.encode()) % parts


def group_of(test: str) -> str:
    """What the map knows tests by: their file, and the operation that a case is about."""
    path, _, rest = test.partition("::")
    _, _, case = rest.partition("[")
    operation = next((word for word in case.rstrip("]").split("-") if word in OPERATIONS), None)
    return f"{path}[{operation}]" if operation else path


def packed(numbers: Iterable[int]) -> str:
    """Numbers as bits, in a word."""
    bits = sum(1 << k for k in numbers)
    return base64.b85encode(zlib.compress(bits.to_bytes(bits.bit_length() // 8 + 1, "little"), 9)).decode()


def unpacked(word: str) -> list[int]:
    """The numbers of `packed`, from the smallest on."""
    content = zlib.decompress(base64.b85decode(word))
    return [8 * k + bit for k, byte in enumerate(content) for bit in range(8) if byte >> bit & 1]


class Map:
    """What `make map` has found out."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.took: dict[str, float] = content["seconds"]  # a case of a test function, on average
        self.total: dict[str, float] = content["total"]  # all cases of a group
        self.hashes: dict[str, str] = content["hashes"]
        names: list[str] = content["groups"]
        self.touches = {path: [names[k] for k in unpacked(bits)] for path, bits in content["touches"].items()}

    def seconds(self, test: str) -> float:
        """What a test takes."""
        return self.took.get(test.partition("[")[0], UNKNOWN)

    def touching(self, paths: Iterable[str]) -> frozenset[str]:
        """The groups of tests that touch any of some files; a file of tests is a group of its own as well."""
        found: set[str] = set()
        for path in paths:
            begins = next((b for name, b in TESTED_BY.items() if f"{path}/".startswith(f"{name}/")), None)
            if begins is not None:
                found.update(group for group in self.total if group.startswith(begins))
                continue
            if path.startswith("tests/") and path.endswith(".py"):
                found.add(path)
            if path in self.hashes and path.endswith(".py"):
                found.update(self.touches.get(path, ()) or self._mirrored(path))
            else:
                found.update(self._beside(path) or self._mirrored(path))
        return frozenset(found)

    def _mirrored(self, path: str) -> list[str]:
        """Those in the folder that mirrors a file's, for one that too many tests touch to say which."""
        package, _, rest = path.rpartition("/")[0].partition("/")
        folder = "tests/torch/" if package == "hologram_torch" else f"tests/{rest}/"
        return [group for group in self.total if package in OURS[:2] and group.startswith(folder)]

    def _beside(self, path: str) -> list[str]:
        """Those of the files in the folder of one that is new, or that no interpreter goes through, a shader's say."""
        folder = path.rpartition("/")[0]
        beside = (groups for p, groups in self.touches.items() if p.rpartition("/")[0] == folder)
        return sorted({group for groups in beside for group in groups})

    def choice(self, changed: Sequence[str], seconds: float, residue: int, only: bool = False) -> Choice:
        """What fits some seconds of one processor."""
        groups = self.touching(changed)
        files = {group for group in groups if "[" not in group}
        counted = groups | {group for group in self.total if group.partition("[")[0] in files}
        touched = sum(self.total.get(group, UNKNOWN) for group in counted)
        others = sum(self.total.values()) - touched
        room = seconds if only else seconds * TOUCHED
        touched_every = max(1, math.ceil(touched / max(room, 1.0)))
        left = max(seconds - touched / touched_every, 1.0)
        return Choice(max(1, math.ceil(others / left)), residue, touched_every, groups, only)


@functools.cache
def known() -> Map:
    """The map of this checkout."""
    empty: dict[str, Any] = {"seconds": {}, "total": {}, "hashes": {}, "groups": [], "touches": {}}
    return Map(json.loads(MAP.read_text()) if MAP.exists() else empty)


def sources() -> Iterator[str]:
    """Our files, from the root of the repository."""
    for name in (*OURS, *(name for name in TESTED_BY if "/" not in name)):
        top = ROOT / name
        for path in top.rglob("*") if top.is_dir() else (top,):
            made = {"__pycache__", "node_modules", "results"}.intersection(path.parts)
            if path.is_file() and path != MAP and not made:
                yield path.relative_to(ROOT).as_posix()


def fingerprint(path: str) -> str:
    """A file's content, in a word."""
    return hashlib.blake2b((ROOT / path).read_bytes(), digest_size=6).hexdigest()


def changed() -> list[str]:
    """Our files that are not what they were when the map was made, or are gone."""
    before, now = known().hashes, {path: fingerprint(path) for path in sources()}
    return sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))


def part() -> int:
    """Which part a run takes by itself: the number of the commit, or the hour where there is no history."""
    command = ["git", "-C", str(ROOT), "rev-list", "--count", "HEAD"]
    counted = subprocess.run(command, capture_output=True, text=True, check=False)
    count = int(counted.stdout) if counted.returncode == 0 else 0
    return count if count > 1 else int(time.time() // 3600)


def choose(minutes: float, workers: int, residue: int | None = None, only: bool = False) -> Choice:
    """What a run of some minutes on some processors takes."""
    residue = part() if residue is None else residue
    if math.isinf(minutes):
        return Choice(residue=residue)
    return known().choice(changed(), minutes * 60 * workers, residue, only)
