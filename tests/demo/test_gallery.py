"""Every demo runs on every backend, and computes what its own functions compute on NumPy's arrays."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import hologram as hg
from hologram.cli.commands import app
from hologram.demo import gallery
from hologram.demo.race import race

ROOT = Path(__file__).parents[2]
# Options that make each one short. Races compute with NumPy as well.
RACES: dict[str, dict[str, int]] = {
    "image_pipeline": {"width": 80, "repeats": 2},
    "kmeans": {"points": 3000, "centres": 5, "rounds": 4},
    "life": {"size": 120, "frames": 3, "skip": 2},
    "nbody": {"bodies": 60, "frames": 3, "skip": 2},
    "ray_marching": {"width": 60, "height": 40},
    "reaction_diffusion": {"size": 40, "frames": 3, "skip": 5},
}
ALONE: dict[str, dict[str, int]] = {
    "basic_usage": {},
    "mandelbrot": {"width": 120, "height": 80},
    "simple_nn": {"points": 300, "steps": 400},
}
PYTORCH = {
    "torch_digits": ("--epochs", "1"),
    "torch_gpt": ("--steps=20", "--batch=4", "--places=16", "--width=32", "--blocks=1", "--write=20"),
    "torch_operator": ("--size", "1000"),
    "torch_sentences": (),
    "zero_copy": (),
}


def test_every_demo_is_tested_and_says_what_it_shows() -> None:
    assert gallery.demos().keys() == {*RACES, *ALONE, *PYTORCH, "llm", "page"}
    assert all(gallery.subject(path).endswith(".") for path in gallery.demos().values())


@pytest.mark.parametrize("name", RACES)
def test_a_demo_computes_what_numpy_computes(
    name: str, executor: hg.Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = gallery.load(gallery.demos()[name])
    seen: list[tuple[Callable[..., Any], Any, tuple[np.ndarray, ...], list[np.ndarray]]] = []

    def raced(play: Any, step: Any, *arrays: np.ndarray) -> list[np.ndarray]:
        seen.append((play, step, arrays, race(play, step, *arrays)))
        return seen[-1][3]

    monkeypatch.setattr(module, "race", raced)
    monkeypatch.chdir(tmp_path)
    with hg.use_executor(executor):
        module.main(**RACES[name])
    ((play, step, arrays, ours),) = seen
    theirs = list(play(step.__wrapped__, *arrays))
    assert len(ours) == len(theirs)
    for found, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=2e-3)
    (picture,) = tmp_path.iterdir()
    assert len(np.unique(np.asarray(Image.open(picture).convert("L")))) > 1  # it shows something


def test_the_set_of_mandelbrot_has_its_area(
    executor: hg.Executor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module: Any = gallery.load(gallery.demos()["mandelbrot"])
    corner = {"left": -2.35, "top": 1.1, "pixel": 2.2 / 80}
    with hg.use_executor(executor):
        module.main(**ALONE["mandelbrot"], output=tmp_path / "set.png")
        ours, theirs = (count((80, 120), **corner) for count in (module.on_device, module.by_numpy))
    assert np.mean(ours == theirs) > 0.97  # at the edge the last bit decides
    assert re.search(r"NumPy: .*, here: ", capsys.readouterr().out)
    picture = np.asarray(Image.open(tmp_path / "set.png"))
    assert picture.shape == (80, 120)
    assert 0.18 < np.mean(picture == 0) < 0.28  # the set's area is 1.5066 of the window's 7.26


def test_the_first_steps_give_what_they_say(
    executor: hg.Executor, capsys: pytest.CaptureFixture[str]
) -> None:
    module: Any = gallery.load(gallery.demos()["basic_usage"])
    with hg.use_executor(executor):
        module.main(**ALONE["basic_usage"])
    lines = capsys.readouterr().out.splitlines()
    assert "masks, in place: [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 0.0], [0.0, 0.0, 0.0, 0.0]]" in lines
    area, formula, slope = (
        float(word) for line in lines[-3:] for word in re.findall(r"-?[0-9]\.[0-9]+", line)
    )
    assert area == pytest.approx(formula, abs=2e-5) == pytest.approx(-slope, abs=2e-5)


def test_the_language_model_answers_and_is_drawn(
    executor: hg.Executor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module: Any = gallery.load(gallery.demos()["llm"])
    with hg.use_executor(executor):
        module.main(question="What is the capital of France?", limit=8, output=tmp_path / "llm.png")
    told = capsys.readouterr().out
    assert "The capital of France is Paris." in told
    assert re.search(rf"hologram, {executor.backend}: prompt [0-9.]+ tokens a second, answer [0-9.]+", told)
    picture = module.chart({"here": (10.0, 4.0), "there": (5.0, 8.0)})
    inked = [np.sum(np.asarray(picture)[row, 320:] == module.ACCENT[0]) for row in range(picture.height)]
    assert max(inked) > 400  # the longest bar
    assert np.asarray(Image.open(tmp_path / "llm.png")).shape[1] == module.WIDTH


def leaves(tree: Any) -> list[Any]:
    return [leaf for branch in tree for leaf in leaves(branch)] if isinstance(tree, (list, tuple)) else [tree]


def test_the_network_learns_the_spirals(
    executor: hg.Executor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module: Any = gallery.load(gallery.demos()["simple_nn"])
    with hg.use_executor(executor):
        module.main(**ALONE["simple_nn"], output=tmp_path / "spirals.png")
        places, arms = module.spirals(50)
        layers = module.paired([*module.start((2, 8, 2))])
        found = module.step(layers, layers, hg.asarray(places), hg.asarray(arms))
    for ours, theirs in zip(leaves(found), leaves(module.by_hand(layers, layers, places, arms)), strict=True):
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-4, atol=1e-5)
    told = capsys.readouterr().out
    assert re.search(r"NumPy: .*, here: ", told)
    found = re.search(r"([0-9.]+)% of the points", told)
    assert found is not None
    assert float(found[1]) > 95
    assert len(np.unique(np.asarray(Image.open(tmp_path / "spirals.png")))) > 100


@pytest.mark.parametrize("name", PYTORCH)
def test_a_demo_of_pytorch_runs_as_a_program(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    if name == "torch_sentences":
        pytest.importorskip("wordllama")
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), "--backend", "cpu", *PYTORCH[name]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("cpu on ")
    assert "False" not in done.stdout  # what a demo says of itself holds


def test_the_command_lists_the_demos_and_runs_one(tmp_path: Path) -> None:
    listed = CliRunner().invoke(app, ["demo", "--list"])
    assert listed.exit_code == 0, listed.output
    assert all(name in listed.output for name in gallery.demos())
    picture = tmp_path / "life.gif"
    options = [f"--{option}={value}" for option, value in RACES["life"].items()]
    done = CliRunner().invoke(app, ["demo", "life", "--backend=cpu", f"--output={picture}", *options])
    assert done.exit_code == 0, done.output
    assert re.search(r"times as (fast|slow)", done.output)
    assert getattr(Image.open(picture), "n_frames", 1) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["demo", "frobnicate"], "No such command 'frobnicate'"),
        (["demo", "--backend", "cpu", "life"], "options stand after the name"),
        (["demo", "life", "--size", "much"], "Invalid value for '--size'"),
        (["demo", "life", "--output", "life"], "a picture ends in .gif, .jpg, .png"),
        (["demo", "life", "--output", "nowhere/life.gif"], "there is no folder nowhere"),
    ],
)
def test_what_is_wrong_with_a_call_is_said(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())


def test_what_a_demo_lacks_is_named() -> None:
    assert (
        gallery.missing("life", "PIL")
        == "life needs PIL: pip install 'hologram[demo]' (in a checkout '.[demo]')"
    )
    assert gallery.missing("torch_gpt", "torch").endswith("(in a checkout '.[torch]')")
    assert gallery.missing("torch_sentences", "tokenizers").endswith("pip install wordllama")


def test_a_picture_that_is_none(tmp_path: Path) -> None:
    given = tmp_path / "notes.png"
    given.write_text("no picture")
    options = ["--backend=cpu", f"--picture={given}", f"--output={tmp_path / 'out.png'}"]
    done = CliRunner().invoke(app, ["demo", "image_pipeline", *options])
    assert done.exit_code == 1
    assert "cannot identify image file" in done.output
