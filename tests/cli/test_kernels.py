"""`hologram kernels`: every operation, with the kernels that a backend runs it as."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import hologram as hg
from hologram.cli.commands import app
from hologram.opset import OPERATIONS

runner = CliRunner()


def listed(*arguments: str) -> dict[str, dict[str, Any]]:
    result = runner.invoke(app, ["kernels", *arguments, "--json"])
    assert result.exit_code == 0, result.output
    return {operation["name"]: operation for operation in json.loads(result.stdout)["operations"]}


def test_every_operation_has_kernels_or_is_made_of_others(executor: Any) -> None:
    found = listed("--backend", executor.backend)
    assert found.keys() == OPERATIONS.keys()
    for name, operation in found.items():
        own = bool(operation["generated"] or operation["hand_written"])
        assert own != operation["composite"], name
        assert operation["composite"] == OPERATIONS[name].composite
        assert operation["dtype"] in operation["dtypes"]


def test_what_is_listed_is_what_runs(executor: Any) -> None:
    found = listed("exp", "softmax", "--backend", executor.backend)
    x = executor.tensor(np.ones((4, 8), np.float32))
    with executor.profile() as profile:
        hg.exp(x)
        hg.softmax(x, dim=-1)
    listed_kernels = {k for operation in found.values() for k in operation["generated"]}
    assert {t.subject.kernel for t in profile.launches} <= listed_kernels


@pytest.mark.parametrize(("name", "tiles"), [("cuda", "matmul_ahead matmul"), ("metal", "matmul_units")])
def test_a_backend_need_not_be_here(name: str, tiles: str) -> None:
    assert listed("matmul", "--backend", name)["matmul"]["hand_written"] == tiles.split()


def test_a_table_for_people() -> None:
    result = runner.invoke(app, ["kernels", "exp", "conv2d", "--backend", "cpu"])
    assert result.exit_code == 0
    title, header, *rows = result.stdout.splitlines()
    assert title == "What operations run as on cpu"
    assert header.split() == ["operation", "error,", "ULP", "kernels", "hand-written"]
    assert [row.split()[2] for row in rows if row.startswith("exp ")] == ["atlas_exp_f32"]


def test_an_unknown_operation_is_refused() -> None:
    result = runner.invoke(app, ["kernels", "abacus"])
    assert result.exit_code == 2
    assert "abacus" in result.output
