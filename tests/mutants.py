"""How many errors the suite finds: `python -m tests.mutants --count 20 --seed S` plants some, one at a time.

Errors are those of cosmic-ray's operators (`requirements/mutants.txt`) that replace an operator, a comparison, a number
or a condition. Each is drawn at random from the code of a backend, the operations and the frontend, planted in a copy
of the checkout, and sought by the tests that the change touches, until one fails; that one has to pass without the
error. The end prints the errors that were not found, as differences, and the share that was.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cosmic_ray.plugins  # pyright: ignore[reportMissingImports]
import pytest
from cosmic_ray.ast import ast_nodes, get_ast  # pyright: ignore[reportMissingImports]
from cosmic_ray.mutating import mutate_code  # pyright: ignore[reportMissingImports]

from tests.harness.choice import MAP, ROOT, fingerprint, sources

PLANTED_IN = ("hologram/backends/cpu", "hologram/backends/webgpu", "hologram/opset", "hologram/frontend")
KINDS = ("ReplaceBinary", "ReplaceComparison", "ReplaceUnary", "ReplaceTrue", "ReplaceFalse", "ReplaceAnd", "ReplaceOr",
         "AddNot", "NumberReplacer", "ZeroIteration")  # fmt: skip

FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Mutant:
    """A file's text with one error."""

    path: str
    before: str
    after: str

    def __str__(self) -> str:
        lines = difflib.unified_diff(
            self.before.splitlines(), self.after.splitlines(), self.path, self.path, lineterm="", n=1
        )
        return "\n".join(lines)


class _Running(ast.NodeTransformer):
    """Leaves what runs: no annotations, no docstrings, nothing for checkers of types."""

    def visit(self, node: ast.AST) -> ast.AST:
        for name in ("annotation", "returns"):
            if getattr(node, name, None) is not None:
                setattr(node, name, ast.Constant(None))
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return ast.Pass()
        return self.generic_visit(node)


def runs_as(before: str, after: str) -> bool:
    """Whether two texts are the same program."""
    try:
        return ast.dump(_Running().visit(ast.parse(before))) == ast.dump(_Running().visit(ast.parse(after)))
    except SyntaxError:
        return True


def drawn(seed: int) -> Iterator[Mutant]:
    """Mutants without end; each file is as likely as it is long."""
    draw = random.Random(seed)
    files = sorted(path for folder in PLANTED_IN for path in (ROOT / folder).rglob("*.py"))
    lengths = [path.stat().st_size for path in files]
    operators = {n: cosmic_ray.plugins.get_operator(n)() for n in cosmic_ray.plugins.operator_names()
                 if n.removeprefix("core/").startswith(KINDS)}  # fmt: skip
    while True:
        path = draw.choices(files, lengths)[0]
        before = path.read_text()
        nodes = list(ast_nodes(get_ast(before)))
        places = {n: sum(len(list(o.mutation_positions(x))) for x in nodes) for n, o in operators.items()}
        chosen = draw.choice([n for n in sorted(places) if places[n]] or [None])
        if chosen is None:
            continue
        after = mutate_code(before, operators[chosen], draw.randrange(places[chosen]))
        if after is not None and not runs_as(before, after):
            yield Mutant(path.relative_to(ROOT).as_posix(), before, after)


def copied(folder: Path) -> None:
    """Fills a folder with the files of the checkout."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    content = json.loads(MAP.read_text())
    content["hashes"] = {path: fingerprint(path) for path in sources()}  # so that the error alone is a change
    (folder / MAP.relative_to(ROOT)).write_text(json.dumps(content))
    modules = ROOT / "tests" / "npm" / "node_modules"
    if modules.exists():
        (folder / "tests" / "npm" / "node_modules").symlink_to(modules)


def ran(folder: Path, minutes: float, *asked: str) -> tuple[int, str]:
    """Runs tests in a folder until one fails: pytest's status, and the first test that failed."""
    environment = os.environ | {"PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--kinds=unoptimised,as-users",
               "--pool=2", *asked]  # fmt: skip
    limit = 60 * (3 * minutes + 5)
    try:
        run = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return pytest.ExitCode.TESTS_FAILED, f"no end in {limit:.0f} s"
    failed = FAILED.search(run.stdout)
    return run.returncode, failed[1] if failed else f"pytest ended with {run.returncode}"


def found(folder: Path, minutes: float, mutant: Mutant) -> str:
    """The first test that fails with an error planted, and passes without it; nothing if none does."""
    touched = ("--touched", f"--minutes={minutes}")
    (folder / mutant.path).write_text(mutant.after)
    status, test = ran(folder, minutes, *touched)
    (folder / mutant.path).write_text(mutant.before)
    if status == pytest.ExitCode.OK:
        return ""
    again, why = ran(folder, minutes, *(("--whole", test) if "::" in test else touched))
    if again != pytest.ExitCode.OK:
        raise SystemExit(f"{test}: the suite fails without any error planted: {why}")
    return test


def main() -> int:
    """Plants errors; the status is 1 where fewer than 95 % are found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20, choices=range(1, 10_000), metavar="N")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--minutes", type=float, default=4.0, help="of tests, for each")
    asked = parser.parse_args()
    print(f"seed {asked.seed}")
    survivors: list[Mutant] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copied(folder)
        for _, mutant in zip(range(asked.count), drawn(asked.seed), strict=False):
            start = time.monotonic()
            by = found(folder, asked.minutes, mutant)
            print(f"{mutant}\n  {by or 'NOT FOUND'} ({time.monotonic() - start:.0f} s)", flush=True)
            survivors += [] if by else [mutant]
    share = 1 - len(survivors) / asked.count
    print("\n".join(f"NOT FOUND\n{mutant}" for mutant in survivors))
    print(f"found {asked.count - len(survivors)} of {asked.count} ({share:.0%}), seed {asked.seed}")
    return int(share < 0.95)


if __name__ == "__main__":
    sys.exit(main())
