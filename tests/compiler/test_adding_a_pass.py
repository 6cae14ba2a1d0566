"""A pass is a file and its name in a list: what CONTRIBUTING says, done."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """program twice rank 1 reduced 0
buffer x : f32 read
buffer out : f32 write
%0 = coordinate 0 : index
%1 = load x %0 : f32
%2 = constant 2.0 : f32
%3 = mul %1, %2 : f32
store out %0, %3
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the pass of CONTRIBUTING in it."""
    place = tmp_path_factory.mktemp("with_a_pass")
    shutil.copytree(ROOT / "hologram", place / "hologram", ignore=shutil.ignore_patterns("__pycache__"))
    (place / "twice.atlas").write_text(PROGRAM)
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("\n## A pass\n")[2].partition("\n## ")[0]
    (file,) = re.findall(r"`(hologram/\S+/doubling\.py)`", section)
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    (place / file).write_text(code)
    pipeline = place / "hologram/compiler/pipeline.py"
    text = pipeline.read_text()
    module = file.removesuffix(".py").replace("/", ".")
    text = text.replace("    SPELL_OUT,\n", "    SPELL_OUT,\n    DOUBLE,\n")
    pipeline.write_text(text.replace("\nPASSES:", f"\nfrom {module} import DOUBLE\n\nPASSES:"))
    return place


def explained(copy: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = "import sys; from hologram.cli import main; sys.argv[0] = 'hologram'; main()"
    arguments = ["explain", "twice.atlas", "--backend", "cpu", "--json"]
    return subprocess.run(
        [sys.executable, "-c", command, *arguments],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), "HOLOGRAM_CACHE_DIR": str(copy / "cache"), **environment},
        capture_output=True,
        text=True,
    )


def test_it_is_seen_in_explain(copy: Path) -> None:
    (found,) = json.loads(explained(copy).stdout)
    passes = {p["name"]: p for p in found["passes"]["cpu"]}
    assert next(iter(passes)) == "simplify and order"
    assert [*passes][-1] == "doubles as sums"
    assert passes["doubles as sums"]["law"] == "2 x and x + x are rounded alike"
    assert "fadd" in found["sources"]["cpu"]
    assert "fmul" not in found["sources"]["cpu"]


def test_a_check_finds_it_right(copy: Path) -> None:
    assert explained(copy, HOLOGRAM_CHECK="1").returncode == 0


def test_a_check_finds_it_wrong_where_it_is(copy: Path) -> None:
    file = copy / "hologram/compiler/lowering/doubling.py"
    right = file.read_text()
    file.write_text(right.replace("i.attribute == 2", "i.attribute in (2, 3)").replace("x + x\n", "x - x\n"))
    done = explained(copy, HOLOGRAM_CHECK="1")
    file.write_text(right)
    assert done.returncode != 0
    assert "the pass 'doubles as sums' changes the result" in done.stdout + done.stderr
