"""What the documents say holds: the README's program runs as printed, links lead somewhere, examples work."""

from __future__ import annotations

import importlib.util
import inspect
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.foundation import stub
from hologram.frontend.numpy_names.aliases import ALIASES
from tests.llm import models

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def _programs(document: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)


def test_the_readme_runs_as_printed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch_program, *programs = _programs("README.md")
    exec(compile(torch_program, "README.md", "exec"), {"__name__": "pytorch"})
    assert " on " in capsys.readouterr().out
    expected = re.findall(r"print\(.*?\)\s+# (\[.*\])$", "".join(programs), re.MULTILINE)
    names = {"__name__": "quickstart"}  # the later programs go on where the first one ends
    for program in programs:
        exec(compile(program, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert len(expected) == 2
    assert [line for line in printed.splitlines() if line.startswith("[")] == expected
    assert len(programs) == 5
    assert "atlas_softmax_f32" in printed
    assert (tmp_path / "trace.json").exists()


def test_the_guide_for_numpys_users_runs_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    program = "".join(_programs("docs/numpy.md"))
    exec(compile(program, "docs/numpy.md", "exec"), {"__name__": "guide"})
    expected = re.findall(r"print\(.*\)\s+# (.*)$", program, re.MULTILINE)
    assert capsys.readouterr().out.splitlines() == expected
    assert len(expected) == 5


def _newcomers_rows() -> list[tuple[str, str]]:
    """The rows of the tables of docs/coming-from.md: there, here."""
    text = (ROOT / "docs/coming-from.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert {len(row) for row in rows} == {2}
    return [(there, here) for there, here in rows if there != "there"]


@pytest.mark.parametrize(("there", "here"), _newcomers_rows())
def test_what_newcomers_are_told_to_write_runs(there: str, here: str) -> None:
    """Code of the right column runs; where that says that names are the same, those of the left one are here."""
    codes = re.findall(r"`((?:(?:hg|ex|x|np|einops|hologram_torch)[.\[]|import )[^`]+)`", here)
    array, vector = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32), np.ones(3, np.float32)
    with hg.Executor("cpu") as ex, hg.use_executor(ex):
        x, i, y = ex.tensor(array), hg.asarray([0, 2]), hg.asarray([0, 2, 1, 1])
        names = {
            "hg": hg,
            "np": np,
            "ex": ex,
            "array": array,
            "a": array,
            "i": i,
            "y": y,
            "s": (2, 3),
            "v": 2.0,
        }
        names |= {"weight": ex.tensor(vector), "bias": ex.tensor(vector), "f": lambda x: hg.sum(x * x)}
        for module in ("einops", "hologram_torch"):
            if any(module in code for code in codes):
                names[module] = pytest.importorskip(module)
        if re.search("the same(?! numbers)", here):
            codes += re.findall(r"`(x\.[^`]+)`", there)
            others = [code.partition("(")[0] for code in re.findall("`([^`]+)`", there)]
            for name in (
                other.rpartition(".")[2] for other in others if not other.startswith(("x.", "einops"))
            ):
                assert hasattr(hg, name) or hasattr(hg.random, name), f"{name} is not here"
        for code in codes:
            whole = (
                code.replace("=...", "=1").replace("(...)", "(1, 0)").replace("(x, ...)", "(x, 'a b -> b a')")
            )
            try:
                exec(whole, names | {"x": x.copy(), "parameters": x})
            except hg.BackendUnavailable:
                assert "cuda" in code


def test_scipy_takes_tensors_as_the_guide_says() -> None:
    pytest.importorskip("scipy")
    (script,) = re.findall(r"```sh\n(.*?)```", (ROOT / "docs/numpy.md").read_text(), re.DOTALL)
    script = script.replace("python", shlex.quote(sys.executable), 1)
    run = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.splitlines() == re.findall(r"print\(.*\)\s+# (.*)$", script, re.MULTILINE)


def test_the_guide_for_numpys_users_names_every_function() -> None:
    named = set(re.findall(r"\w+", (ROOT / "docs/numpy.md").read_text()))
    functions = {
        name for name, listed in stub.listed(hg.__file__).items() if ".numpy_names." in listed.module
    }
    assert functions | set(ALIASES) <= named, (functions | set(ALIASES)) - named


@pytest.mark.parametrize("page", ["complex", "gradients", "loops", "random"])
def test_pages_on_numerics_run_as_printed(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    program = "".join(_programs(f"docs/{page}.md"))
    try:
        exec(compile(program, page, "exec"), {"__name__": page})
    finally:
        hg.set_default_executor(None)
    said = capsys.readouterr().out.splitlines()
    expected = re.findall(r"print\(.*\)\s+# (.*)$", program, re.MULTILINE)
    assert expected
    for line in expected:  # three dots stand for the rest
        assert any(all(part in printed for part in line.split(" ... ")) for printed in said), (line, said)


def test_the_page_on_linear_algebra_runs_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = _programs("docs/linalg.md")
    exec(compile(program, "docs/linalg.md", "exec"), {"__name__": "page"})
    assert capsys.readouterr().out.split() == ["True"] * program.count("# True")
    page = (ROOT / "docs/linalg.md").read_text()
    functions = {n for n in hg.linalg.__all__ if not n[0].isupper()}
    assert functions <= set(re.findall(r"\w+", page)), functions - set(re.findall(r"\w+", page))


def test_the_guide_for_pytorchs_users_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "guide"}
    for program in _programs("docs/pytorch.md"):
        exec(compile(program, "docs/pytorch.md", "exec"), names)
    expected = re.findall(r"print\(.*\)\s+# (tensor.*)$", "".join(_programs("docs/pytorch.md")), re.MULTILINE)
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("tensor")] == expected
    assert len(expected) == 2


def test_the_guide_to_jit_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "guide"}
    first, numbers, second = _programs("docs/jit.md")
    exec(compile(first, "docs/jit.md", "exec"), names)
    printed = capsys.readouterr().out
    assert printed.startswith("2\n")
    assert "apart because" in printed
    ex = names["ex"]
    exec(compile(numbers, "docs/jit.md", "exec"), names)
    state = (ex.ones((4,)), ex.zeros((4,)), ex.zeros((4,)), 1)
    before = ex.preparation_stats()["traced"]
    for _ in range(3):
        p, m, v, t = state
        state = names["adam_step"](p, m, v, p * 2.0, t, 0.1)
    assert (state[3], ex.preparation_stats()["traced"] - before) == (4, 1)
    exec(compile(second, "docs/jit.md", "exec"), names)
    lists = [[ex.ones((3, 4)), ex.ones((5,))] for _ in range(4)]
    parameter, _, _ = names["adam"](*lists)[1]
    assert parameter.shape == (5,)


def test_the_guide_to_atlas_runs_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "guide"}
    programs = _programs("docs/atlas.md")
    for program in programs:
        exec(compile(program, "docs/atlas.md", "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    expected = re.findall(r"print\(.*\)\s+# (\[.*\])$", "\n".join(programs), re.MULTILINE)
    assert [line for line in printed if line.startswith("[")] == expected
    assert len(expected) == 2
    assert "program swish rank 1 reduced 0" in printed
    assert any(line.startswith("axpy: line ") for line in printed), printed
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_allclose(names["y"].to_numpy(), x / (1 + np.exp(-x)), rtol=1e-6)


def test_the_guide_to_language_models_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    models.write(tmp_path / "MODEL.gguf", models.FAMILIES["llama"])
    names: dict[str, Any] = {"__name__": "guide"}
    for program in _programs("docs/llm.md"):
        exec(compile(program.replace("limit=50", "limit=5"), "docs/llm.md", "exec"), names)
    assert "tokens a second" in capsys.readouterr().out
    assert names["text"]
    assert all(names["answers"])


def test_the_guide_to_kernels_runs_as_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "guide.py"  # kernels are read from their file
    path.write_text("\n".join(_programs("docs/kernels.md")))
    spec = importlib.util.spec_from_file_location("guide", path)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    printed = capsys.readouterr().out.splitlines()
    expected = re.findall(r"print\(.*\)\s+# (\[.*\])$", path.read_text(), re.MULTILINE)
    assert [line for line in printed if line.startswith("[")] == expected
    said = [line for line in printed if not line.startswith("[")]
    assert len(said) == 2
    text = (ROOT / "docs/kernels.md").read_text()
    assert all(f"`{line}`" in text for line in said), said


OWN_TESTS = ("atlas", "jit", "kernels", "llm", "numpy", "pytorch")  # above, which look closer
PAGES = [
    p
    for p in DOCUMENTS
    if p.parent.name == "docs" and p.stem not in OWN_TESTS and "```python" in p.read_text()
]
PRINTED = re.compile(r"^\s*print\(.*\)\s+# ((?:[\[(\d]|True$|False$).*)$", re.MULTILINE)


@pytest.mark.parametrize("document", PAGES, ids=lambda path: path.stem)
def test_a_page_runs_as_printed(
    document: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    programs = _programs(str(document))
    names: dict[str, Any] = {"__name__": document.stem}
    for program in programs:
        exec(compile(program, document.name, "exec"), names)
    printed = iter(capsys.readouterr().out.splitlines())
    for line in PRINTED.findall("\n".join(programs)):
        assert line in printed, f"{document.name} prints no {line!r} (there)"


@pytest.mark.parametrize("document", [p for p in DOCUMENTS if "docs" in p.parts], ids=lambda path: path.stem)
def test_names_in_documents_are_there(document: Path) -> None:
    named = set(re.findall(r"\bhg\.([a-zA-Z_]\w*)", document.read_text()))
    assert [name for name in sorted(named) if not hasattr(hg, name)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    text = re.sub(
        r"```.*?```|`[^`\n]*`", "", document.read_text(), flags=re.DOTALL
    )  # kernel[grid](x) is no link
    links = re.findall(r"\]\((?!https?://)([^)#]+)", text)
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("listing", ["docs/README.md", "mkdocs.yml"])
def test_every_page_is_listed(listing: str) -> None:
    """Whoever reads the list of documents, or the site, finds each."""
    text = (ROOT / listing).read_text()
    pages = [
        p for p in DOCUMENTS if p.parent in (ROOT / "docs", ROOT / "docs" / "design") and p.stem != "README"
    ]
    names = [str(p.relative_to(ROOT / "docs")) for p in pages]
    assert len(names) > 30
    assert [n for n in names if not re.search(rf"[ (]{re.escape(n)}\b", text)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_stand_apart(document: Path) -> None:
    """Right below a paragraph they are read as a part of it."""
    lines = ["", *document.read_text().splitlines()]
    runs = [
        line
        for above, line in pairwise(lines)
        if re.match(r"    (hologram|make|pip|python) ", line) and above and not above.startswith("    ")
    ]
    assert runs == []


MADE = {  # by scripts of docs/
    "docs/operations.md": ("operations", "table"),
    "docs/matrix.md": ("matrix", "page"),
    "hologram/frontend/signatures.pyi": ("signatures", "functions"),
    "hologram/frontend/methods.pyi": ("signatures", "methods"),
}


@pytest.mark.parametrize("path", MADE)
def test_a_made_file_is_what_it_is_made_of(path: str) -> None:
    name, function = MADE[path]
    specification = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    made = getattr(module, function)()
    assert (ROOT / path).read_text() == made, f"run python docs/{name}.py"


CALL = re.compile(r"`[^`]*?\bhg\.(\w+)\(([^()`]*)\)[^`]*`")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_keywords_of_calls_are_those_of_the_functions(path: Path) -> None:
    for name, arguments in CALL.findall(path.read_text(encoding="utf-8")):
        if isinstance(getattr(hg, name), hg.dtypes.DType):  # a conversion in a kernel
            continue
        takes = inspect.signature(getattr(hg, name)).parameters
        if any(p.kind is p.VAR_KEYWORD for p in takes.values()):  # which says itself what it does not know
            continue
        named = set(re.findall(r"(\w+)=", arguments)) - {
            "device"
        }  # which operations without operands take too
        assert named <= takes.keys(), f"{path.name}: hg.{name}({arguments}) takes {', '.join(takes)}"


GUESS = re.compile(r"^\| `([^`]+)` \| (.+?) \|", re.MULTILINE)


def test_guesses_have_the_values_of_the_code() -> None:
    rows = GUESS.findall((ROOT / "docs" / "design" / "guesses.md").read_text())
    assert len(rows) > 20
    for where, value in rows:
        if ": " in where:
            file, name = where.split(": ")
            found = re.search(rf"\b{name} = ([\w.]+);", (ROOT / file).read_text())
            assert found is not None, where
            assert found[1] == value, where
            continue
        module, name, place = re.fullmatch(r"(.+)\.(\w+)(?:\[(\d+)\])?", where).groups()  # type: ignore[union-attr]
        has = getattr(importlib.import_module(module), name)
        assert str(has if place is None else has[int(place)]) == value, where


@pytest.mark.parametrize(
    "report", sorted(ROOT.glob("bench/results/*/report.json")), ids=lambda p: p.parent.name
)
def test_what_a_kept_report_has_measured_did_not_fail(report: Path) -> None:
    assert "failed: " not in report.read_text()
