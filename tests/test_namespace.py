"""What `hologram` offers by name: what is public, to people and to checkers, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

import hologram as hg
from hologram.foundation import aliases, stub
from hologram.foundation.dtypes import ALL
from hologram.frontend.numpy_names.aliases import ALIASES
from hologram.opset import OPERATIONS

MODULES = {"backend", "backends", "distributed", "dtypes", "errors", "fft", "linalg", "ops", "random"}
STAR = set(vars(hg)["__all__"])
LISTED = stub.listed(hg.__file__)


def test_only_public_names_are_offered() -> None:
    offered = {name for name in dir(hg) if not name.startswith("_")}
    listed = {name for name in LISTED if not name.startswith("_")}
    assert offered == listed | MODULES | {*OPERATIONS, *ALIASES, "newaxis"}
    assert STAR < listed - {"map", "bool", "float32", "pi"}
    for name in offered - MODULES:
        assert not isinstance(getattr(hg, name), ModuleType), name
        assert getattr(hg, name).__class__.__module__ != "typing", name
    assert {name for name in offered if isinstance(getattr(hg, name), ModuleType)} == MODULES


@pytest.mark.parametrize(
    "name", ["Any", "annotations", "find_spec", "import_module", "TYPE_CHECKING", "demo", "nothing"]
)
def test_what_is_not_public_is_not_there(name: str) -> None:
    code = f"import hologram\ntry: hologram.{name}\nexcept AttributeError as error: print(error)"
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout.startswith(f"module 'hologram' has no attribute '{name}'")


def test_a_name_that_an_executor_has_is_told() -> None:
    with pytest.raises(AttributeError, match=r"'tensor'; hologram.asarray makes tensors"):
        hg.tensor([1.0])  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(
        AttributeError, match=r"'allocate'; an executor has it: hologram.default_executor\(\).allo"
    ):
        hg.allocate(3)  # pyright: ignore[reportAttributeAccessIssue]


def test_a_star_brings_what_is_public() -> None:
    names: dict[str, object] = {}
    exec("from hologram import *", names)
    assert set(names) - {"__builtins__"} == STAR


def test_modules_can_be_imported() -> None:
    code = """
import hologram, hologram.foundation.store, hologram.foundation.config as c
print(hologram.foundation.store.shared.__name__, c.config.tune)
"""
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout == "shared False\n"


# A third party's door opens where that is installed.
DOORS = {"hologram.einops": "einops"}
HERE = {n: p for n, p in aliases.ALIASES.items() if n not in DOORS or find_spec(DOORS[n])}


def test_what_is_not_installed_is_named() -> None:
    assert DOORS.keys() <= aliases.ALIASES.keys()
    for name in aliases.ALIASES.keys() - HERE.keys():
        with pytest.raises(ModuleNotFoundError, match=DOORS[name]):
            import_module(name)


@pytest.mark.parametrize(("name", "place"), HERE.items())
def test_public_modules_have_short_names(name: str, place: str) -> None:
    code = f"""
import importlib, sys
module = importlib.import_module({name!r})
assert module is importlib.import_module({place!r}) is sys.modules[{name!r}]
assert module.__spec__.name == module.__name__ == {place!r}
assert importlib.reload(module) is module
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_what_the_stub_lists_is_what_comes() -> None:
    for name, listed in LISTED.items():
        if name in MODULES:
            assert getattr(hg, name).__name__ == f"{listed.module}.{listed.name}"
        else:
            assert getattr(hg, name) is getattr(import_module(listed.module), listed.name), name


def test_every_dtype_is_listed_by_both_names_and_every_error() -> None:
    for dtype in ALL:
        for name in (dtype.name, dtype.numpy_name):
            assert name in LISTED or f"{name}_" in LISTED, name
            assert getattr(hg, name) is dtype
    defined = {name for name, value in vars(hg.errors).items() if isinstance(value, type)}
    assert {name for name in defined if not name.startswith("_")} <= STAR


@pytest.mark.slow
def test_pyright_knows_the_types_of_a_users_names(tmp_path: Path) -> None:
    names = ("Executor", "Tensor", "jit", "Program", "ShapeError", "f32", "BackendType", "explain_selection")
    (tmp_path / "user.py").write_text(
        "import hologram as hg\n"
        + "".join(f"reveal_type(hg.{name})\n" for name in names)
        + "hg.ops.vector_add\nhg.softmax\nhg.backends()\n"
    )
    root = Path(hg.__file__).parent.parent
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps({"extraPaths": [str(root)], "typeCheckingMode": "standard"})
    )
    command = [
        sys.executable,
        "-m",
        "pyright",
        "--outputjson",
        "--pythonpath",
        sys.executable,
        "-p",
        str(tmp_path),
    ]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=200).stdout)
    said = found["generalDiagnostics"]
    assert [d for d in said if d["severity"] == "error"] == []
    revealed = [d["message"] for d in said if d["severity"] == "information"]
    assert len(revealed) == len(names)
    assert [m for m in revealed if '"Any"' in m or "Unknown" in m] == []
