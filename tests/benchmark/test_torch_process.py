"""PyTorch's part, in its own process, on the host and on an adapter."""

from __future__ import annotations

from pathlib import Path

import pytest

from hologram.benchmark import torch_process
from hologram.benchmark.pipelines import Pipeline
from hologram.benchmark.report.records import NOT_REACHED

SMALL = (Pipeline("small_mlp", 8),)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "adapter", "who"),
    [
        (torch_process.ON_HOST, "host", ("PyTorch",)),
        (torch_process.ON_ADAPTER, "cpu:0", ("hologram_torch eager", "hologram_torch compiled")),
    ],
)
def test_models_are_measured(
    module: str, adapter: str, who: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = list(torch_process.measure(module, (adapter,), who, SMALL, 60, share=0.05))
    assert [(m.key.who, m.why) for m in found] == [(name, "") for name in who for _ in torch_process.KINDS]
    assert all(m.seconds and m.key.adapter == adapter for m in found)


def test_what_takes_too_long_is_stopped() -> None:
    found = list(torch_process.measure(torch_process.ON_HOST, ("host",), ("PyTorch",), SMALL, 0.2))
    assert [m.why for m in found] == [NOT_REACHED] * 2


def test_what_fails_says_why() -> None:
    found = list(torch_process.measure("hologram.no_such_module", ("host",), ("PyTorch",), SMALL, 60))
    assert len(found) == 2
    assert all("no_such_module" in m.why for m in found)


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("import os, sys; sys.stderr.write('so much to say\\n' * 20_000); os.abort()", "so much to say"),
        ("import os; os.abort()", "it said nothing"),
    ],
)
def test_what_crashes_was_not_late(
    program: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "crashing.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = list(torch_process.measure("crashing", ("host",), ("PyTorch",), SMALL, 20))
    assert len(found) == 2
    assert all(m.why.startswith("its process failed: ") and why in m.why for m in found)
