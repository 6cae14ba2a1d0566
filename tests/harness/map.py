"""What the choice of tests goes by: `python -m tests.harness.map PROFILE COVERAGE` writes tests/map.json.

PROFILE is the file of a run with `--profile`, COVERAGE the folder of one with
`-p tests.harness.covering`, in which each process has noted the lines of ours that each group of tests went through.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.harness.choice import COMMON, MAP, ROOT, UNKNOWN, fingerprint, group_of, packed, sources


def touched(folder: Path) -> dict[str, set[str]]:
    """The groups that went through each file; importing a file is no group's."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in folder.glob("*.sqlite"):
        with sqlite3.connect(path) as database:
            rows = database.execute(
                "select distinct file.path, context.context from line_bits "
                "join file on file.id = line_bits.file_id join context on context.id = line_bits.context_id"
            )
            for file, context in rows:
                if context and Path(file).is_relative_to(ROOT):
                    found[Path(file).relative_to(ROOT).as_posix()].add(context)
    return found


def contexts(folder: Path) -> set[str]:
    """The groups that coverage has seen."""
    found: set[str] = set()
    for path in folder.glob("*.sqlite"):
        with sqlite3.connect(path) as database:
            found.update(name for (name,) in database.execute("select context from context"))
    return found


def took(path: Path) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds of a case of each function, on average, and of all cases of each group."""
    functions: dict[str, list[float]] = defaultdict(list)
    total: dict[str, float] = defaultdict(float)
    for line in path.read_text().splitlines():
        spent: dict[str, Any] = json.loads(line)
        seconds = spent.get("cpu", 0.0) + spent.get("children", 0.0)
        if "::" in spent["test"]:
            functions[spent["test"].partition("[")[0]].append(seconds)
            total[group_of(spent["test"])] += seconds
    means = {name: round(sum(all_) / len(all_), 2) for name, all_ in sorted(functions.items())}
    return {k: v for k, v in means.items() if v > 2 * UNKNOWN}, {
        k: round(v, 2) for k, v in sorted(total.items())
    }


def write(profile: Path, folder: Path) -> None:
    """Writes the map."""
    seconds, total = took(profile)
    missing = total.keys() - contexts(folder)
    if sum(total[group] for group in missing) > 0.02 * sum(total.values()):
        raise SystemExit(
            f"coverage lacks {len(missing)} of {len(total)} groups of tests: {sorted(missing)[:5]} ..."
        )
    enough = COMMON * sum(total.values())
    touches = {
        path: groups
        for path, groups in touched(folder).items()
        if sum(total.get(group, 0.0) for group in groups) < enough
    }
    groups = sorted({group for found in touches.values() for group in found})
    numbers = {group: k for k, group in enumerate(groups)}
    content = {
        "seconds": seconds,
        "total": total,
        "hashes": {path: fingerprint(path) for path in sorted(sources())},
        "groups": groups,
        "touches": {path: packed({numbers[g] for g in found}) for path, found in sorted(touches.items())},
    }
    lines = (f"{json.dumps(name)}: {json.dumps(part, indent=0)}" for name, part in content.items())
    MAP.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
