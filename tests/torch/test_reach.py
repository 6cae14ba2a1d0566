"""Private parts of PyTorch's: each is checked, has a plain way beside it, and is told of."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from hologram.foundation.config import Config  # noqa: E402
from hologram_torch import reach, requirement  # noqa: E402
from hologram_torch.kernels.lists import compared  # noqa: E402
from hologram_torch.kernels.overlap import is_dense  # noqa: E402
from hologram_torch.wrapped import has_no_storage, is_wrapped  # noqa: E402

HERE = Path(__file__).parent
# Without these two, operators are refused by name; all other plain ways give the same results.
KEPT = "-decompositions,-core-decompositions"
# What an older PyTorch or Python lacks, whose plain way is taken then.
LACKED = {
    "views": torch.__version__ < "2.13",  # torch_new_stable_ivalue
    "fresh": sys.version_info < (3, 11),  # PyObject_CallOneArg, a macro there
}


def examined(**variables: str) -> dict[str, Any]:
    """What the doctor finds in a fresh interpreter."""
    environment = {**os.environ, "HOLOGRAM_BACKEND": "cpu", "PYTHONWARNINGS": "ignore", **variables}
    command = [sys.executable, "-m", "hologram_torch.doctor"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def none_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "REACHES", {})


@pytest.mark.usefixtures("none_made")
def test_what_does_not_fit_gives_the_plain_way() -> None:
    assert reach.reach("there", "a part", "slower", lambda: 1, 2) == 1
    assert reach.reach("moved", "a part", "slower", lambda: torch._C._no_such_function, 2) == 2  # noqa: SLF001  a part that is not there
    assert reach.reach("other", "a part", "slower", lambda: reach.expect(False, "one more argument"), 2) == 2
    assert not reach.REACHES["there"].problem
    assert "_no_such_function" in reach.REACHES["moved"].problem
    assert reach.REACHES["other"].problem == "one more argument"


@pytest.mark.usefixtures("none_made")
def test_other_errors_are_not_taken_for_another_version() -> None:
    with pytest.raises(ZeroDivisionError):
        reach.reach("wrong", "a part", "slower", lambda: 1 // 0, 2)


def test_reaches_are_left_out_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Config.torch_without.variable == reach.VARIABLE
    monkeypatch.setenv(reach.VARIABLE, "guards, Dlpack")
    assert [reach.left_out(name) for name in ("guards", "dlpack", "views")] == [True, True, False]
    monkeypatch.setenv(reach.VARIABLE, "all,-views")
    assert [reach.left_out(name) for name in ("guards", "views")] == [True, False]


def test_everything_fits_this_pytorch() -> None:
    found = examined()
    assert found["version"] == torch.__version__
    problems = {each["name"]: each["problem"] for each in found["reaches"] if each["problem"]}
    assert set(problems) == {name for name, lacked in LACKED.items() if lacked}, problems
    assert not [trial for trial in found["trials"] if trial["problem"]]


@pytest.mark.slow
def test_training_is_the_same_without_private_parts() -> None:
    found = examined(**{reach.VARIABLE: f"all,{KEPT}"})
    left = [each["name"] for each in found["reaches"] if each["problem"]]
    assert len(left) > 20
    assert [trial["problem"] for trial in found["trials"]] == ["", ""]


def test_loading_survives_operators_that_are_gone() -> None:
    command = [sys.executable, str(HERE / "lacking.py"), "200", "11"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith("tried; failed:"), done.stdout


@pytest.mark.parametrize(("version", "warned"), [("2.15.1", 0), ("2.16.0a0+git1", 1), ("3.0.0", 1)])
def test_a_newer_pytorch_is_warned_of_once(
    version: str, warned: int, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr(requirement, "__version__", version)
    requirement.warn_beyond()
    assert len(recwarn) == warned
    for said in recwarn:
        assert version in str(said.message)
        assert requirement.TESTED in str(said.message)


def test_plain_ways_decide_alike() -> None:
    x, y = torch.ones(2, 3), torch.ones(3, 2)
    same = compared(x, y)
    assert same(torch.zeros(2, 3), torch.zeros(3, 2))
    assert not same(torch.zeros(2, 3), torch.zeros(2, 3).T)
    assert not same(torch.zeros(2, 3, dtype=torch.float64), y)
    seen: list[tuple[bool, bool]] = []
    torch.vmap(lambda row: seen.append((is_wrapped(row), has_no_storage(row))) or row)(x)
    seen.append((is_wrapped(x), has_no_storage(x)))
    assert seen == [(True, True), (False, False)]


@pytest.mark.parametrize(
    ("view", "dense"),
    [
        (lambda x: x, True),
        (lambda x: x.permute(2, 0, 1), True),
        (lambda x: x[:, :, :1], False),
        (lambda x: x[1:], True),
        (lambda x: x[:, 1:], False),
        (lambda x: x[:1, :1, :1], True),
        (lambda x: x[0, 0, 0].expand(3), False),
    ],
)
def test_gaps_are_seen(view: Any, dense: bool) -> None:
    assert is_dense(view(torch.ones(2, 3, 4))) is dense
