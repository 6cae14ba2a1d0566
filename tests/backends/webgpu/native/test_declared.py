"""The C types that are parsed together: they are what cffi makes of each alone, and no other is used."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from hologram.backends.webgpu.native import declared
from hologram.backends.webgpu.native.library import library

FOLDER = Path(declared.__file__).parents[1]
USE = re.compile(r'ffi\.(?:new|cast|callback)\(\s*"([^"]+)"')
TABLE = (*declared.VALUES, *declared.ARRAYS, *declared.FUNCTIONS)

# Counts what cffi parses from when the library is loaded until a kernel has run.
PARSES = """
import cffi.cparser
import wgpu.backends.wgpu_native

parsed = []
parse = cffi.cparser.Parser.parse_type
cffi.cparser.Parser.parse_type = lambda self, text: parsed.append(text) or parse(self, text)
import hologram as hg

with hg.Executor(backend="webgpu") as ex:
    x = ex.ones((64, 64))
    (hg.softmax(x, dim=-1) + hg.matmul(x, x)).to_numpy()
assert len(parsed) <= 1, parsed
"""


def test_the_table_is_what_the_backend_uses(index: int) -> None:
    used = {text for path in FOLDER.rglob("*.py") for text in USE.findall(path.read_text())}
    assert len(used) > 20
    assert used == set(TABLE)


def test_each_is_the_type_that_cffi_knows_by_that_text(index: int) -> None:
    ffi = library().ffi
    import wgpu.backends.wgpu_native as wgpu_native

    for text in (*declared.VALUES, *declared.ARRAYS):
        assert ffi.types[text] is wgpu_native.ffi.typeof(text)
    for text in declared.FUNCTIONS:
        assert ffi.types[text] is wgpu_native.ffi.typeof(text.replace("(", "(*)(", 1))


def test_a_start_parses_once(index: int) -> None:
    subprocess.run([sys.executable, "-c", PARSES], check=True, timeout=120)
