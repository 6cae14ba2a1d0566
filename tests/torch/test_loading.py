"""Weights from safetensors go straight to the device: their own memory, and at most a shard's beside it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
import hologram_torch  # noqa: E402, F401
from tests.torch.test_models import transformers  # noqa: E402

ROOT = Path(__file__).parents[2]
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="Linux says what memory a process has")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A folder of shards in f32, and each weight."""
    library, folder = transformers(), tmp_path_factory.mktemp("model")
    config = library.LlamaConfig(
        vocab_size=8000, hidden_size=1024, intermediate_size=4096, num_hidden_layers=3, num_attention_heads=8
    )
    model = library.LlamaForCausalLM(config)
    model.save_pretrained(folder, max_shard_size="64MB")
    return folder, model.state_dict()


@LINUX
@pytest.mark.parametrize(
    ("way", "dtype"),
    [("from_pretrained", "float32"), ("load_file", "float32"), ("from_pretrained", "float16")],
)
def test_memory_while_loading(way: str, dtype: str, saved: tuple[Path, dict[str, Any]]) -> None:
    """As the file has it, and converted on the way."""
    folder, weights = saved
    weights = {name: weight.to(getattr(torch, dtype)) for name, weight in weights.items()}
    shards = [file.stat().st_size for file in folder.glob("*.safetensors")]
    assert len(shards) > 3
    assert sum(shards) > 200 << 20
    command = [sys.executable, "-m", "tests.torch.loading", str(folder), way, dtype]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    said = json.loads(result.stdout.splitlines()[-1])
    assert said["devices"] == ["hologram:0"]
    sums = {name: weight.double().sum().item() for name, weight in weights.items()}
    assert said["sums"] == pytest.approx(sums, rel=1e-6, abs=1e-3)
    assert said["grown"] < 1.1 * sum(weight.nbytes for weight in weights.values()) + max(shards)


def written(path: Path) -> Any:
    """Numbers of a file of 4 MB, mapped so that what is written stays in the process."""
    np.arange(1 << 20, dtype=np.float32).tofile(path)
    return torch.from_numpy(np.memmap(path, np.float32, "c"))


def test_what_was_written_over_a_file_stays(tmp_path: Path) -> None:
    for places in ((), (0,), (1 << 19,), ((1 << 20) - 1,), range(0, 1 << 20, 1 << 10)):
        x = written(tmp_path / "numbers")
        wanted = torch.arange(1 << 20, dtype=torch.float32)
        for place in places:
            x[place] = wanted[place] = -1.0
        assert x.to("hologram").cpu().equal(wanted)
        assert x.equal(wanted)
        assert x[3:].to("hologram").cpu().equal(wanted[3:])


@LINUX
def test_pages_of_a_file_are_let_go_of(tmp_path: Path) -> None:
    x = written(tmp_path / "numbers")
    assert x.sum() > 0  # all are in memory
    before = _of_files()
    y = x.to("hologram")
    assert before - _of_files() > 3 << 20
    assert y.cpu().equal(x)


def _of_files() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssFile:"))
