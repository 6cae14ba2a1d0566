"""A new dtype is a line: what CONTRIBUTING says of it is done to a copy of the package, and runs there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import hologram as hg

ROOT = Path(__file__).parents[1]

SCRIPT = """
import sys
import ml_dtypes
import numpy as np
import hologram as hg

toy, theirs = hg.float8_e3m4, ml_dtypes.float8_e3m4
codes = np.arange(256, dtype=np.uint8)
halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
halves = halves[~np.isnan(halves)]
with hg.Executor(sys.argv[1]) as ex:
    x = ex.tensor(codes.view(theirs))
    assert x.dtype is toy and x.buffer.nbytes == 256
    np.testing.assert_array_equal(x.astype("f32").to_numpy(), codes.view(theirs).astype(np.float32))
    np.testing.assert_array_equal(x[::-1].clone().to_numpy().view(np.uint8), codes[::-1])
    for source in (np.float16, np.float32, np.int32):
        with np.errstate(all="ignore"):
            numbers = halves.astype(source) if source is not np.int32 else np.arange(-40, 40, dtype=source)
            want = numbers.astype(np.float32).astype(theirs).view(np.uint8)
        np.testing.assert_array_equal(ex.tensor(numbers).astype(toy).to_numpy().view(np.uint8), want)
    assert ex.tensor(np.float32([np.nan])).astype(toy).to_numpy().view(np.uint8).tolist() == [0x7F]
    assert hg.concat([x[3:5], hg.full((2,), 1.5, dtype="f8e3m4", device=ex)]).astype("f32").tolist()[2:] == [1.5, 1.5]
    assert hg.finfo(toy).max == float(ml_dtypes.finfo(theirs).max) == 15.5
    try:
        x + x
    except hg.UnsupportedDType as error:
        print(error)
"""


def test_the_line_of_contributing_makes_a_dtype(executor: hg.Executor, tmp_path: Path) -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text().split("\n## A dtype\n")[1].split("\n## ")[0]
    (line,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    for folder in ("hologram", "shaders"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    table = tmp_path / "hologram" / "foundation" / "dtypes.py"
    before, after = table.read_text().split("\nALL = ")
    table.write_text(f"{before}{line}\nALL = {after}")
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, executor.backend],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("add: f8e3m4 is for storage and conversion")
