"""`hologram explain`: functions and programs, and how their arguments are written."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import hologram as hg
from hologram.atlas.text import format_program, parse_program
from hologram.backends import registry
from hologram.cli.calls import TensorArgument, parse_arguments
from hologram.cli.commands import app
from hologram.compiler.pipeline import canonical_text, identity
from hologram.foundation.dtypes import bf16, f32, i8
from tests.compiler.recognition.test_recognise import GEMM
from tests.golden.programs import PROGRAMS

CODE = """
import hologram as hg

def step(x, weights, *, axis=-1):
    return hg.softmax(x @ weights["w"] + weights["b"], dim=axis)

@hg.jit
def jitted(x):
    return hg.exp(x)

class Model:
    @staticmethod
    def forward(x):
        return hg.sin(x)
"""
ARGUMENTS = 'f32[64,32], {"w": f32[32,16], "b": f32[16]}, axis=1'
runner = CliRunner()


def invoke(*arguments: str, status: int = 0) -> str:
    result = runner.invoke(app, ["explain", *arguments])
    assert result.exit_code == status, f"{result.output}\n{result.exception!r}"
    return result.output


@pytest.fixture(autouse=True)
def paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command adds a file's folder to the path, as Python does for a script."""
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "explained_model.py"
    path.write_text(CODE, encoding="utf-8")
    return str(path)


@pytest.fixture
def atlas(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.atlas"
    path.write_text(format_program(PROGRAMS["softmax_f32"]), encoding="utf-8")
    return path


def test_a_function(file: str, executor: Any) -> None:
    text = invoke(f"{file}:step", "--args", ARGUMENTS, "--backend", executor.backend)
    assert text.startswith(
        f"step on {executor.backend} ({executor.device.info.name}): 3 operations in 2 launches"
    )
    for said in ("apart because: ", "hand-written matmul", "canonical form ", "source"):
        assert said in text


def test_a_function_without_source(file: str, executor: Any) -> None:
    backend = ("--backend", executor.backend)
    brief = invoke(f"{file}:jitted", "--args", "f32[8]", *backend, "--no-source")
    assert "canonical form" in brief
    assert len(brief) < len(invoke(f"{file}:jitted", "--args", "f32[8]", *backend))


def test_a_function_as_json_for_backends_that_need_not_be_here(file: str) -> None:
    names = list(registry.discover())
    chosen = [part for name in names for part in ("--backend", name)]
    found = json.loads(invoke(f"{file}:Model.forward", "--args", "f32[8]", "--json", *chosen))
    assert [e["backend"] for e in found] == names
    for explanation in found:
        (group,) = explanation["groups"]
        (launch,) = group["launches"]
        assert launch["kernel"] in launch["source"]


def test_a_file_may_be_called_like_a_module(tmp_path: Path) -> None:
    path = tmp_path / "json.py"
    path.write_text(CODE, encoding="utf-8")
    assert "atlas_exp_f32" in invoke(f"{path}:jitted", "--args", "f32[8]", "--backend", "cpu", "--no-source")
    assert sys.modules["json"] is json


def test_a_function_of_a_module() -> None:
    assert "atlas_add_f32" in invoke(
        "hologram:add", "--args", "f32[8], f32[8]", "--backend", "cpu", "--no-source"
    )


def test_a_program(atlas: Path) -> None:
    text = invoke(str(atlas))
    program = parse_program(atlas.read_text())
    assert identity(program) in text
    assert canonical_text(program).splitlines()[0] in text
    for name in registry.discover():
        assert f"source for {name}\n" in text


def test_a_program_as_json_over_a_grid(atlas: Path) -> None:
    (found,) = json.loads(invoke(str(atlas), "--lanes", "4,96", "--backend", "cpu", "--json"))
    program = parse_program(atlas.read_text())
    assert found["lanes"] == [4, 96]
    assert found["identity"] == identity(program)
    assert found["canonical"] == canonical_text(program)
    assert list(found["sources"]) == ["cpu"]
    assert program.name in found["sources"]["cpu"]


def test_a_recognised_program_has_the_source_of_what_runs(tmp_path: Path) -> None:
    path = tmp_path / "product.atlas"
    path.write_text(GEMM)
    arguments = "f32[128,256], f32[64,256], f32[128,64], m=128, k=64"
    grid = ("--lanes", "128,256", "--backend", "cpu", "--backend", "cuda")
    (found,) = json.loads(invoke(str(path), "--args", arguments, *grid, "--json"))
    assert found["recognised"].startswith("matrix product 128 x 64 x 256 of f32")
    assert found["sources"]["cpu"].startswith("; atlas_matmul (matmul): ")
    assert "// matmul_ahead: " in found["sources"]["cuda"]
    (found,) = json.loads(invoke(str(path), "--args", arguments.replace("k=64", "k=63"), *grid, "--json"))
    assert found["recognised"] == "no tuned kernel computes this"
    assert "define void" in found["sources"]["cpu"]
    (found,) = json.loads(invoke(str(path), *grid, "--json"))
    assert "--args" in found["recognised"]


@pytest.mark.parametrize(
    "arguments", ["f32[8]", "f32[8], f32[8], i32[8], m=1, k=1", "f32[8], f32[8], f32[8], m=1"]
)
def test_a_programs_arguments_must_fit(tmp_path: Path, arguments: str) -> None:
    path = tmp_path / "product.atlas"
    path.write_text(GEMM)
    text = " ".join(invoke(str(path), "--args", arguments, status=2).replace("│", " ").split())
    assert "takes f32[...], f32[...], f32[...], m=..., k=..." in text


def test_a_program_that_a_language_cannot_spell(tmp_path: Path) -> None:
    path = tmp_path / "double.atlas"
    path.write_text(format_program(PROGRAMS["add_f32"]).replace("f32", "f64"))
    (found,) = json.loads(invoke(str(path), "--backend", "metal", "--json"))
    assert found["sources"]["metal"].startswith("none: ")
    assert "f64" in found["sources"]["metal"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere.atlas",), "neither a file nor"),
        (("nowhere.py:step",), "there is no file"),
        (("hologram.nowhere:step",), "there is no module"),
        (("hologram:nowhere",), "has no"),
        (("hologram:",), "which of its functions?"),
        ((":step",), "there is no module"),
        ((".relative:step",), "there is no module"),
        (("hologram:__version__",), "a function is needed"),
        (("hologram:exp", "--lanes", "4"), "--lanes is for the text"),
        (("hologram:exp", "--args", "{f32[2]: 1}"), "an argument must be"),
        (("hologram:exp", "--args", "f32[2])(f32[2]"), "arguments must read"),
    ],
)
def test_what_cannot_be_found(arguments: tuple[str, ...], said: str) -> None:
    assert said in " ".join(invoke(*arguments, status=2).replace("│", " ").split())


def test_a_file_without_a_function_is_asked_for_one(file: str) -> None:
    assert "which of its functions?" in " ".join(invoke(file, status=2).replace("│", " ").split())


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kernel.atlas"
    path.write_bytes(b"\xff\xfe\x00")
    assert "no text of an Atlas program" in " ".join(invoke(str(path), status=2).replace("│", " ").split())


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "def step(x):\n    raise KeyError('gone')",
            ("step raised KeyError: 'gone'", "line 2: raise KeyError"),
        ),
        ("def step(x):\n    return x @ x", ("step raised ShapeError: matmul", "line 2: return x @ x")),
        ("def step(x, y):\n    return x", ("step raised TypeError", "'y'")),
        ("import nowhere", ("raised ModuleNotFoundError", "line 1: import nowhere")),
        ("def step(:", ("raised SyntaxError", "line 1")),
    ],
    ids=["function", "operation", "signature", "import", "syntax"],
)
@pytest.mark.parametrize("where", ["cpu", "metal"])
def test_what_a_function_raises_is_told_with_its_line(
    tmp_path: Path, code: str, said: tuple[str, str], where: str
) -> None:
    path = tmp_path / "raises.py"
    path.write_text(code)
    text = invoke(f"{path}:step", "--args", "f32[2,3]", "--backend", where, status=1)
    assert all(part in text for part in said), text
    assert "Traceback" not in text
    assert len(text.strip().splitlines()) <= 2


def test_lanes_must_fit_the_program(atlas: Path) -> None:
    text = " ".join(invoke(str(atlas), "--lanes", "3", status=2).replace("│", " ").split())
    assert "has 2 axes" in text


def test_arguments_are_read_as_python_reads_them() -> None:
    found = parse_arguments("f32[2,3], bf16, [i8[4], (1, -2.5)], {'a': True}, axis=None")
    assert found.positional == (
        TensorArgument(f32, (2, 3)),
        TensorArgument(bf16, ()),
        [TensorArgument(i8, (4,)), (1, -2.5)],
        {"a": True},
    )
    assert found.named == {"axis": None}
    filled, named = found.filled(lambda t: t.size)
    assert filled == (6, 1, [4, (1, -2.5)], {"a": True})
    assert named == {"axis": None}


@pytest.mark.parametrize(
    "text", ["f32[", "f99[3]", "f32[-1]", "f32[n]", "open('x')", "*x", "x := 1", "f32[1.5]"]
)
def test_arguments_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="got"):
        parse_arguments(text)


def test_a_saved_program(tmp_path: Path) -> None:
    path = tmp_path / "step.holo"
    with hg.Executor(backend="cpu") as ex:
        w = ex.ones((8, 4))
        hg.save_program(path, lambda x: hg.softmax(x @ w, dim=-1), ex.ones((3, 8)))
    told = runner.invoke(app, ["explain", str(path), "--backend", "cpu", "--backend", "cuda", "--no-source"])
    assert told.exit_code == 0, told.output
    assert f"saved by hologram {hg.__version__}" in told.output
    assert "(x: f32[3,8]) -> f32[3,4], 2 operations" in told.output
    assert "<lambda> on cpu" in told.output
    assert "<lambda> on cuda" in told.output
    found = json.loads(runner.invoke(app, ["explain", str(path), "--backend", "cpu", "--json"]).output)
    assert (found[0]["weights"], found[0]["weights_bytes"]) == (["f32[32]"], 128)
    assert len(found[0]["explanations"][0]["groups"]) >= 1
    refused = runner.invoke(app, ["explain", str(path), "--args", "f32[3]"])
    assert refused.exit_code == 2
    path.write_bytes(path.read_bytes()[:200])
    assert isinstance(runner.invoke(app, ["explain", str(path)]).exception, hg.FormatError)
