"""What users install on other days than ours: fresh environments with the newest packages, and with the oldest.

`python requirements/newest.py FOLDER [NAME ...]` makes each environment of ENVIRONMENTS in the folder, one after
another, and tries in it: README's programs, `hologram doctor --torch`, one test of PyTorch's device in EVERY, and the
scripts of libraries that could be installed. It ends with a table of versions and counts, which it also writes to
out/newest.md; its status is 1 where something failed. `make newest` calls it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
EVERY = os.environ.get("EVERY", "8")
SHOWN = ("torch", "numpy", "wgpu", "llvmlite")
TOOLS = ["pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "expecttest", "scipy"]
# Beside those of libraries.txt, which need no other PyTorch than the newest.
LIBRARIES = ["transformers", "accelerate", "einops", "torchvision", "gguf", "tokenizers", "jinja2"]
SECONDS = 7200  # that one trial may take
COUNTS = re.compile(r"(\d+) (passed|failed|errors?|skipped)")


@dataclass(frozen=True)
class Environment:
    """Packages for one Python: the newest, as pip gives them, or the oldest that our bounds allow."""

    name: str
    python: str
    oldest: bool = False


ENVIRONMENTS = (
    Environment("newest-3.12", "3.12"),
    Environment("newest-3.13", "3.13"),
    Environment("oldest-3.10", "3.10", oldest=True),
    Environment("oldest-3.11", "3.11", oldest=True),
)


def interpreter(version: str, uv: str) -> str:
    """A Python of a version: one on the path, one of pyenv's, or one that uv installs."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for found in (shutil.which(f"python{version}"), *map(str, pyenv.glob(f"{version}.*/bin/python"))):
        if found and not subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode:
            return found
    subprocess.run([uv, "python", "install", "--quiet", version], check=True)
    command = [uv, "python", "find", "--managed-python", version]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def libraries() -> list[str]:
    """The names in libraries.txt, without the versions that `make libraries` pins, as far as a Python takes them."""
    lines = (ROOT / "requirements" / "libraries.txt").read_text().splitlines()
    return [re.sub(r"==[^;]*", "", line) for line in lines if line and not line.startswith("#")]


def install(environment: Environment, folder: Path, uv: str) -> Path:
    """Makes the environment; its Python."""
    python = folder / "bin" / "python"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([interpreter(environment.python, uv), "-m", "venv", folder], check=True)
    ours = ["--editable", f"{ROOT}[torch]"]
    if environment.oldest:
        command = [uv, "pip", "install", "--quiet", "--python", str(python)]
        subprocess.run([*command, "--resolution", "lowest-direct", *ours], check=True)
        subprocess.run([*command, *TOOLS], check=True)
    else:
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *ours, *TOOLS], check=True)
        subprocess.run(
            [*pip, *LIBRARIES, *libraries()], check=False
        )  # tests of those that are not there are skipped
    return python


def readme() -> list[str]:
    """The programs of README: the first is PyTorch's, the others go on where one before them ends."""
    first, *others = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return [first, "\n".join(others)]


def tried(what: str, python: Path, *command: str, folder: Path = ROOT) -> tuple[str, bool]:
    """Runs a command in an environment: what came of it in a few words, and whether it failed."""
    print(f"# {what}", flush=True)
    own = {**os.environ, "HOLOGRAM_BACKEND": "cpu", "CI": ""}
    try:
        run = subprocess.run(
            [str(python), *command],
            cwd=folder,
            env=own,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"not done in {SECONDS} s", True
    sys.stdout.write(run.stdout[-6000:])
    counts = COUNTS.findall(run.stdout.strip().rpartition("\n")[2])
    said = ", ".join(f"{number} {word}" for number, word in counts)
    return said or ("failed" if run.returncode else "works"), bool(run.returncode)


def versions(python: Path) -> list[str]:
    """Of the packages in the table; a dash for one that is not there."""
    code = (
        "import importlib.metadata as m, sys\n"
        "installed = {d.name.lower(): d.version for d in m.distributions()}\n"
        f"print(*(installed.get(name, '-') for name in {SHOWN}))"
    )
    return subprocess.run(
        [str(python), "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()


def main(folder: Path, names: list[str]) -> int:
    """Tries the environments of those names, or all; the status."""
    uv = shutil.which("uv", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    assert uv is not None, "uv is not installed: `make newest` brings it"
    columns = (
        "environment",
        *SHOWN,
        "README: PyTorch",
        "README: NumPy",
        "doctor",
        f"device, 1 test in {EVERY}",
        "libraries",
    )
    table = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    failed = False
    for environment in ENVIRONMENTS:
        if names and environment.name not in names:
            continue
        place = folder / environment.name
        python = install(environment, place, uv)
        pytest = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
        trials = [
            *(tried("README", python, "-c", program, folder=place) for program in readme()),
            tried("hologram doctor --torch", python, "-m", "hologram", "doctor", "--torch"),
            tried("PyTorch's device", python, *pytest, "tests/torch", "--every", EVERY),
        ]
        if not environment.oldest:
            trials.append(tried("libraries", python, *pytest, "tests/libraries"))
        failed = failed or any(wrong for _, wrong in trials)
        cells = [
            environment.name,
            *versions(python),
            *(said for said, _ in trials),
            *["-"] * (5 - len(trials)),
        ]
        table.append(f"| {' | '.join(cells)} |")
        if os.environ.get("KEEP", "") in ("", "0"):
            shutil.rmtree(place)
    text = "\n".join(table)
    (ROOT / "out").mkdir(exist_ok=True)
    (ROOT / "out" / "newest.md").write_text(f"{text}\n")
    print(text)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
